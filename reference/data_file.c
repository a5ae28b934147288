/* Readers of idx and CSV. Nothing of a file is believed before it is counted. */
#include "reference/data_file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IDX_U8 = 8, IDX_DIMS_MAX = 4, LABEL_MAX = 65535 };

/* An idx file's header: two zeros, the type, the number of dimensions, their sizes in big-endian.
 */
struct idx {
    size_t count;      /* size of the first dimension */
    size_t each_bytes; /* product of the others */
    const unsigned char *data;
};

static size_t big_endian(const unsigned char *bytes)
{
    return (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
}

static ddp_status read_header(const struct ref_bytes *file, const char *what, size_t least_dims,
                              struct idx *out, struct ddp_err *err)
{
    const unsigned char *bytes = file->data;
    size_t dims = file->size_bytes >= 4 ? bytes[3] : 0;
    size_t header_bytes = 4 + 4 * dims;

    if (dims < least_dims || dims > IDX_DIMS_MAX || file->size_bytes < header_bytes ||
        bytes[0] != 0 || bytes[1] != 0 || bytes[2] != IDX_U8) {
        return ddp_err_set(err, DDP_E_CORRUPT, "the %s are no idx file of bytes", what);
    }
    *out = (struct idx){big_endian(bytes + 4), 1, bytes + header_bytes};
    for (size_t d = 1; d < dims; d++) {
        size_t size = big_endian(bytes + 4 + 4 * d);

        if (size == 0 || size > 65536 || out->each_bytes > (size_t)1 << 24) {
            return ddp_err_set(err, DDP_E_CORRUPT, "the %s have a dimension of %zu", what, size);
        }
        out->each_bytes *= size;
    }
    if (out->count != (file->size_bytes - header_bytes) / out->each_bytes ||
        out->count * out->each_bytes != file->size_bytes - header_bytes) {
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "the %s are said to be %zu of %zu bytes, but %zu bytes follow", what,
                           out->count, out->each_bytes, file->size_bytes - header_bytes);
    }
    return DDP_OK;
}

ddp_status ref_data_read_idx(const struct ref_bytes *images, const struct ref_bytes *labels,
                             struct ref_data_sizes *sizes, float *out_features, int32_t *out_labels,
                             struct ddp_err *err)
{
    struct idx image = {0};
    struct idx label = {0};
    size_t top = 0;

    DDP_TRY(read_header(images, "images", 2, &image, err));
    DDP_TRY(read_header(labels, "labels", 1, &label, err));
    if (label.each_bytes != 1 || label.count != image.count || image.count == 0) {
        return ddp_err_set(err, DDP_E_CORRUPT, "there are %zu images and %zu labels", image.count,
                           label.count);
    }
    for (size_t i = 0; i < label.count; i++) {
        top = label.data[i] > top ? label.data[i] : top;
    }
    if (out_features == NULL) {
        *sizes = (struct ref_data_sizes){.sample_count = image.count,
                                         .feature_count = image.each_bytes,
                                         .class_count = top + 1,
                                         .label_count = 1};
        return DDP_OK;
    }
    if (sizes->sample_count > image.count || sizes->feature_count != image.each_bytes) {
        return ddp_err_set(err, DDP_E_CORRUPT, "the images have changed");
    }
    for (size_t i = 0; i < sizes->sample_count * image.each_bytes; i++) {
        out_features[i] = (float)image.data[i] / 255.0F;
    }
    for (size_t i = 0; i < sizes->sample_count; i++) {
        out_labels[i] = label.data[i];
    }
    return DDP_OK;
}

/* The lines of a text that need not end in a NUL. */
struct lines {
    const char *at, *end;
    size_t number; /* of the last line that was given, from 1 */
};

/* The next line that is not empty; false: there is none. */
static bool next_line(struct lines *lines, const char **out_begin, const char **out_end)
{
    while (lines->at < lines->end) {
        const char *begin = lines->at;
        const char *newline = memchr(begin, '\n', (size_t)(lines->end - begin));
        const char *end = newline != NULL ? newline : lines->end;

        lines->at = newline != NULL ? newline + 1 : lines->end;
        lines->number++;
        while (end > begin && (end[-1] == '\r' || end[-1] == ' ')) {
            end--;
        }
        if (end > begin) {
            *out_begin = begin;
            *out_end = end;
            return true;
        }
    }
    return false;
}

/* One number, which ends at a comma or the end of the line. false: it is none, or not finite. */
static bool read_number(const char **inout, const char *end, double *out)
{
    char word[64];
    const char *comma = memchr(*inout, ',', (size_t)(end - *inout));
    size_t length = (size_t)((comma != NULL ? comma : end) - *inout);
    char *rest;

    if (length == 0 || length >= sizeof(word)) {
        return false;
    }
    memcpy(word, *inout, length);
    word[length] = '\0';
    *out = strtod(word, &rest);
    while (*rest == ' ') {
        rest++;
    }
    *inout = comma != NULL ? comma + 1 : end;
    return rest != word && *rest == '\0' && isfinite(*out) && fabs(*out) <= 1e30 &&
           !(comma != NULL && comma + 1 == end);
}

/* Of a line: its numbers, of which the last is the label. row: for *inout_count - 1 features, or
 * NULL. *inout_count: numbers of the lines before, 0 at first. */
static ddp_status read_line(const char *begin, const char *end, size_t line, size_t *inout_count,
                            float *row, int32_t *out_label, struct ddp_err *err)
{
    const char *at = begin;
    double value = 0.0;
    size_t count = 0;

    while (at < end) {
        if (!read_number(&at, end, &value)) {
            return ddp_err_set(err, DDP_E_CORRUPT, "line %zu: entry %zu is no number", line,
                               count + 1);
        }
        count++;
        if (row != NULL && at < end && count < *inout_count) {
            row[count - 1] = (float)value;
        }
    }
    if (count < 2 || (*inout_count != 0 && count != *inout_count)) {
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "line %zu has %zu entries; each needs as many as the first, and at "
                           "least a feature and a label",
                           line, count);
    }
    if (value < 0.0 || value > LABEL_MAX || floor(value) < value) {
        return ddp_err_set(err, DDP_E_CORRUPT, "line %zu ends in %g, which is no label", line,
                           value);
    }
    *inout_count = count;
    *out_label = (int32_t)value;
    return DDP_OK;
}

static bool is_heading(const char *begin, const char *end)
{
    double value;

    return !read_number(&begin, end, &value);
}

ddp_status ref_data_read_csv(const struct ref_bytes *text, struct ref_data_sizes *sizes,
                             float *out_features, int32_t *out_labels, struct ddp_err *err)
{
    struct lines lines = {(const char *)text->data, (const char *)text->data + text->size_bytes, 0};
    const size_t wanted = out_features != NULL ? sizes->sample_count : SIZE_MAX;
    size_t count = out_features != NULL ? sizes->feature_count + 1 : 0;
    size_t samples = 0;
    int32_t top = 0;
    bool is_first = true;
    const char *begin;
    const char *end;

    while (samples < wanted && next_line(&lines, &begin, &end)) {
        float *row = out_features != NULL ? out_features + samples * (count - 1) : NULL;
        int32_t label = 0;

        if (!(is_first && is_heading(begin, end))) {
            DDP_TRY(read_line(begin, end, lines.number, &count, row, &label, err));
            if (out_labels != NULL) {
                out_labels[samples] = label;
            }
            top = label > top ? label : top;
            samples++;
        }
        is_first = false;
    }
    if (samples == 0 || (out_features != NULL && samples != wanted)) {
        return ddp_err_set(err, DDP_E_CORRUPT, "it has %zu samples", samples);
    }
    if (out_features == NULL) {
        *sizes = (struct ref_data_sizes){.sample_count = samples,
                                         .feature_count = count - 1,
                                         .class_count = (size_t)top + 1,
                                         .label_count = 1};
    }
    return DDP_OK;
}
