/* Datasets: digits (embedded), dyadic and synthetic (drawn from the seed), text. Which rank gets
 * which sample is shard.c's.
 *
 * Dyadic data keeps exact_linear exact; see the bit budget in model_exact_linear.c. */
#include "reference/data.h"

#include <string.h>

#include "ddpcore/base/file.h"
#include "ddpcore/base/prng.h"
#include "ddpcore/base/text.h"
#include "reference/data_file.h"
#include "reference/digits.h"
#include "reference/text.h"

enum {
    DYADIC_SAMPLES = 1024, /* a power of two, so that batches of a power of two never end short */
    DYADIC_FEATURES = 8,
    DYADIC_TARGETS = 2,
    SYNTHETIC_SAMPLES = 2048,
    SYNTHETIC_FEATURES = 64,
    SYNTHETIC_CLASSES = 10,
    TEXT_WINDOW = 64,
    TEXT_CLASSES = 256,
};

enum data_kind {
    DATA_DIGITS,
    DATA_DYADIC,
    DATA_SYNTHETIC,
    DATA_TEXT,
    DATA_IDX,
    DATA_CSV,
    DATA_KIND_COUNT
};

static const char *const data_names[DATA_KIND_COUNT + 1] = {
    [DATA_DIGITS] = "digits", [DATA_DYADIC] = "dyadic", [DATA_SYNTHETIC] = "synthetic",
    [DATA_TEXT] = "text",     [DATA_IDX] = "idx",       [DATA_CSV] = "csv",
};

const char *const *ref_data_names(void)
{
    return data_names;
}

/* Arrays for the counts already in data. */
static ddp_status data_alloc(struct ref_data *data)
{
    data->features =
        (float *)ddp_mem_array(data->mem, data->sample_count * data->feature_count, sizeof(float));
    if (data->class_count > 0) {
        data->labels = (int32_t *)ddp_mem_array(data->mem, data->sample_count * data->label_count,
                                                sizeof(int32_t));
    } else {
        data->targets = (float *)ddp_mem_array(data->mem, data->sample_count * data->target_count,
                                               sizeof(float));
    }
    if (data->features == NULL || (data->labels == NULL && data->targets == NULL)) {
        ref_data_close(data);
        return DDP_E_NOMEM;
    }
    return DDP_OK;
}

static ddp_status open_digits(struct ref_data *data)
{
    DDP_TRY(data_alloc(data));
    for (size_t s = 0; s < data->sample_count; s++) {
        for (size_t i = 0; i < REF_DIGITS_PIXELS; i++) {
            data->features[s * REF_DIGITS_PIXELS + i] = (float)ref_digits[s][i] / 16.0F;
        }
        data->labels[s] = ref_digits[s][REF_DIGITS_PIXELS];
    }
    return DDP_OK;
}

/* Uniform in {-1, 0, 1}. */
static float draw_trit(struct ddp_prng *prng)
{
    return (float)ddp_prng_below(prng, 3) - 1.0F;
}

/* Two features of a sample are +-1, the others 0; the target is a fixed integer map of them plus
 * -1, 0 or 1. */
static ddp_status open_dyadic(const struct ref_data_config *config, struct ref_data *data)
{
    struct ddp_prng prng = ddp_prng_make(config->seed, "data/dyadic");
    float map[DYADIC_TARGETS][DYADIC_FEATURES];

    DDP_TRY(data_alloc(data));
    for (size_t o = 0; o < DYADIC_TARGETS; o++) {
        for (size_t i = 0; i < DYADIC_FEATURES; i++) {
            map[o][i] = draw_trit(&prng);
        }
    }
    for (size_t s = 0; s < data->sample_count; s++) {
        float *x = data->features + s * DYADIC_FEATURES;
        size_t first = (size_t)ddp_prng_below(&prng, DYADIC_FEATURES);
        /* 1 to 7 places further on, modulo 8: never the same place */
        size_t second =
            (first + 1 + (size_t)ddp_prng_below(&prng, DYADIC_FEATURES - 1)) % DYADIC_FEATURES;

        x[first] = ddp_prng_below(&prng, 2) == 0 ? -1.0F : 1.0F;
        x[second] = ddp_prng_below(&prng, 2) == 0 ? -1.0F : 1.0F;
        for (size_t o = 0; o < DYADIC_TARGETS; o++) {
            data->targets[s * DYADIC_TARGETS + o] =
                map[o][first] * x[first] + map[o][second] * x[second] + draw_trit(&prng);
        }
    }
    return DDP_OK;
}

/* A centre a class in [-1, 1) and noise of half that width around it. */
static ddp_status open_synthetic(const struct ref_data_config *config, struct ref_data *data)
{
    struct ddp_prng centre_prng = ddp_prng_make(config->seed, "data/synthetic/centre");
    struct ddp_prng prng = ddp_prng_make(config->seed, "data/synthetic/sample");
    size_t features = data->feature_count;
    float *centre;

    DDP_TRY(data_alloc(data));
    centre = (float *)ddp_mem_array(data->mem, SYNTHETIC_CLASSES * features, sizeof(float));
    if (centre == NULL) {
        ref_data_close(data);
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < SYNTHETIC_CLASSES * features; i++) {
        centre[i] = 2.0F * ddp_prng_uniform(&centre_prng) - 1.0F;
    }
    for (size_t s = 0; s < data->sample_count; s++) {
        size_t label = (size_t)ddp_prng_below(&prng, SYNTHETIC_CLASSES);

        data->labels[s] = (int32_t)label;
        for (size_t i = 0; i < features; i++) {
            data->features[s * features + i] =
                centre[label * features + i] + (ddp_prng_uniform(&prng) - 0.5F);
        }
    }
    ddp_mem_free(data->mem, centre);
    return DDP_OK;
}

/* The bytes of a text: the embedded one's, or a file's, which is read. */
struct text {
    const unsigned char *bytes;
    size_t size_bytes;
    void *read; /* to be given back */
};

static ddp_status read_text(struct ddp_mem *mem, const char *path, struct text *out,
                            struct ddp_err *err)
{
    struct ddp_files *files = ddp_files_system();

    *out = (struct text){.bytes = ref_text, .size_bytes = ref_text_size_bytes};
    if (path == NULL) {
        return DDP_OK;
    }
    DDP_TRY(files->ops->read_all(files, path, mem, &out->read, &out->size_bytes, err));
    out->bytes = (const unsigned char *)out->read;
    return DDP_OK;
}

/* Windows that lie one behind the other; the last byte of all is only a label. */
static size_t count_windows(const struct text *text, size_t window)
{
    return text->size_bytes > 0 ? (text->size_bytes - 1) / window : 0;
}

static ddp_status open_text(const struct ref_data_config *config, struct ref_data *data,
                            struct ddp_err *err)
{
    struct ddp_mem *mem = data->mem;
    const size_t window = data->feature_count;
    struct text text;
    ddp_status status;

    DDP_TRY(read_text(mem, config->path, &text, err));
    status = data_alloc(data);
    if (status == DDP_OK && data->sample_count > count_windows(&text, window)) {
        ref_data_close(data); /* the file has become shorter since it was described */
        status = ddp_err_set(err, DDP_E_INVALID, "%s has changed", config->path);
    }
    for (size_t i = 0; status == DDP_OK && i < data->sample_count * window; i++) {
        data->features[i] = (float)text.bytes[i];
        data->labels[i] = text.bytes[i + 1];
    }
    ddp_mem_free(mem, text.read);
    return status;
}

/* The files of idx or csv, in memory. */
struct files {
    void *read[2];
    struct ref_bytes bytes[2];
};

static ddp_status read_files(struct ddp_mem *mem, const struct ref_data_config *config,
                             size_t file_count, struct files *out, struct ddp_err *err)
{
    const char *const paths[2] = {config->path, config->label_path};
    struct ddp_files *files = ddp_files_system();

    *out = (struct files){0};
    for (size_t i = 0; i < file_count; i++) {
        if (paths[i] == NULL) {
            return ddp_err_set(err, DDP_E_INVALID, "dataset %s needs %s", config->name,
                               i == 0 ? "a data_file" : "a label_file beside its data_file");
        }
        DDP_TRY(files->ops->read_all(files, paths[i], mem, &out->read[i], &out->bytes[i].size_bytes,
                                     err));
        out->bytes[i].data = (const unsigned char *)out->read[i];
    }
    return DDP_OK;
}

/* data NULL: sizes only. */
static ddp_status parse_files(const struct ref_data_config *config, bool is_idx,
                              struct ref_data_sizes *sizes, struct ref_data *data,
                              struct ddp_err *err)
{
    struct ddp_mem *mem = ddp_mem_system();
    float *features = data != NULL ? data->features : NULL;
    int32_t *labels = data != NULL ? data->labels : NULL;
    struct files files;
    ddp_status status = read_files(mem, config, is_idx ? 2 : 1, &files, err);

    if (status == DDP_OK) {
        status = is_idx ? ref_data_read_idx(&files.bytes[0], &files.bytes[1], sizes, features,
                                            labels, err)
                        : ref_data_read_csv(&files.bytes[0], sizes, features, labels, err);
        status = status == DDP_OK ? DDP_OK : ddp_err_wrap(err, status, "%s", config->path);
    }
    ddp_mem_free(mem, files.read[0]);
    ddp_mem_free(mem, files.read[1]);
    return status;
}

static ddp_status open_files(const struct ref_data_config *config, bool is_idx,
                             struct ref_data_sizes *sizes, struct ref_data *data,
                             struct ddp_err *err)
{
    ddp_status status;

    DDP_TRY(data_alloc(data));
    status = parse_files(config, is_idx, sizes, data, err);
    if (status != DDP_OK) {
        ref_data_close(data);
    }
    return status;
}

static ddp_status find_kind(const char *name, enum data_kind *out, struct ddp_err *err)
{
    const char *nearest;

    for (unsigned kind = 0; kind < DATA_KIND_COUNT; kind++) {
        if (strcmp(name, data_names[kind]) == 0) {
            *out = (enum data_kind)kind;
            return DDP_OK;
        }
    }
    nearest = ddp_text_nearest(name, data_names, DATA_KIND_COUNT);
    return ddp_err_set(err, DDP_E_NOT_FOUND, "there is no dataset %s%s%s", name,
                       nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "");
}

/* Of a text: windows of the size that is asked for. */
static ddp_status describe_text(const struct ref_data_config *config, struct ref_data_sizes *out,
                                struct ddp_err *err)
{
    struct ddp_mem *mem = ddp_mem_system();
    struct text text;

    out->feature_count = config->feature_count > 0 ? config->feature_count : TEXT_WINDOW;
    out->label_count = out->feature_count;
    DDP_TRY(read_text(mem, config->path, &text, err));
    out->sample_count = count_windows(&text, out->feature_count);
    ddp_mem_free(mem, text.read);
    if (out->sample_count == 0) {
        return ddp_err_set(err, DDP_E_INVALID, "%s is shorter than a sample of %zu bytes",
                           config->path != NULL ? config->path : "the text", out->feature_count);
    }
    return DDP_OK;
}

static const struct ref_data_sizes defaults[DATA_KIND_COUNT] = {
    [DATA_DIGITS] = {REF_DIGITS_COUNT, REF_DIGITS_PIXELS, 10, 0, 1, REF_DATA_LABELS},
    [DATA_DYADIC] = {DYADIC_SAMPLES, DYADIC_FEATURES, 0, DYADIC_TARGETS, 0, REF_DATA_TARGETS},
    [DATA_SYNTHETIC] = {SYNTHETIC_SAMPLES, SYNTHETIC_FEATURES, SYNTHETIC_CLASSES, 0, 1,
                        REF_DATA_LABELS},
    [DATA_TEXT] = {0, TEXT_WINDOW, TEXT_CLASSES, 0, TEXT_WINDOW, REF_DATA_TOKENS},
    [DATA_IDX] = {.learned = REF_DATA_LABELS},
    [DATA_CSV] = {.learned = REF_DATA_LABELS},
};

enum ref_data_learned ref_data_learned(size_t index)
{
    DDP_ASSERT(index < DATA_KIND_COUNT);
    return defaults[index].learned;
}

/* What each dataset is by itself, and of files by what they hold. */
static ddp_status describe_kind(enum data_kind kind, const struct ref_data_config *config,
                                struct ref_data_sizes *out, struct ddp_err *err)
{
    const bool is_file = kind == DATA_TEXT || kind == DATA_IDX || kind == DATA_CSV;

    *out = defaults[kind];
    if ((config->path != NULL && !is_file) || (config->label_path != NULL && kind != DATA_IDX)) {
        return ddp_err_set(err, DDP_E_INVALID, "dataset %s is not read from %s", config->name,
                           config->label_path != NULL ? "a label_file" : "a file");
    }
    switch (kind) {
    case DATA_TEXT:
        return describe_text(config, out, err);
    case DATA_IDX:
    case DATA_CSV:
        return parse_files(config, kind == DATA_IDX, out, NULL, err);
    case DATA_SYNTHETIC:
        out->feature_count = config->feature_count > 0 ? config->feature_count : out->feature_count;
        return DDP_OK;
    case DATA_DIGITS:
    case DATA_DYADIC:
    case DATA_KIND_COUNT:
        break;
    }
    return DDP_OK;
}

ddp_status ref_data_describe(const struct ref_data_config *config, struct ref_data_sizes *out,
                             struct ddp_err *err)
{
    enum data_kind kind = DATA_DIGITS;
    bool is_drawn;

    DDP_TRY(find_kind(config->name, &kind, err));
    DDP_TRY(describe_kind(kind, config, out, err));
    is_drawn = kind == DATA_DYADIC || kind == DATA_SYNTHETIC; /* as many as are asked for */
    if (!is_drawn && config->sample_count > out->sample_count) {
        return ddp_err_set(err, DDP_E_INVALID, "%s has %zu samples, not %zu", config->name,
                           out->sample_count, config->sample_count);
    }
    out->sample_count = config->sample_count > 0 ? config->sample_count : out->sample_count;
    return DDP_OK;
}

ddp_status ref_data_open(struct ddp_mem *mem, const struct ref_data_config *config,
                         struct ref_data *out, struct ddp_err *err)
{
    struct ref_data_sizes sizes;
    enum data_kind kind = DATA_DIGITS;

    *out = (struct ref_data){0};
    DDP_TRY(find_kind(config->name, &kind, err));
    DDP_TRY(ref_data_describe(config, &sizes, err));
    *out = (struct ref_data){.mem = mem,
                             .name = data_names[kind],
                             .sample_count = sizes.sample_count,
                             .feature_count = sizes.feature_count,
                             .class_count = sizes.class_count,
                             .target_count = sizes.target_count,
                             .label_count = sizes.label_count};
    switch (kind) {
    case DATA_DIGITS:
        return open_digits(out);
    case DATA_DYADIC:
        return open_dyadic(config, out);
    case DATA_SYNTHETIC:
        return open_synthetic(config, out);
    case DATA_TEXT:
        return open_text(config, out, err);
    case DATA_IDX:
    case DATA_CSV:
        return open_files(config, kind == DATA_IDX, &sizes, out, err);
    case DATA_KIND_COUNT:
        break;
    }
    return DDP_E_INVALID;
}

void ref_data_close(struct ref_data *data)
{
    if (data->mem != NULL) {
        ddp_mem_free(data->mem, data->features);
        ddp_mem_free(data->mem, data->labels);
        ddp_mem_free(data->mem, data->targets);
    }
    *data = (struct ref_data){0};
}

void ref_data_gather(const struct ref_data *data, const uint32_t *samples, size_t rows,
                     float *features, int32_t *labels, float *targets)
{
    for (size_t b = 0; b < rows; b++) {
        size_t s = samples[b];

        memcpy(features + b * data->feature_count, data->features + s * data->feature_count,
               data->feature_count * sizeof(float));
        if (data->labels != NULL && labels != NULL) {
            memcpy(labels + b * data->label_count, data->labels + s * data->label_count,
                   data->label_count * sizeof(int32_t));
        }
        if (data->targets != NULL && targets != NULL) {
            memcpy(targets + b * data->target_count, data->targets + s * data->target_count,
                   data->target_count * sizeof(float));
        }
    }
}
