/* Writing safetensors, in the layout of ddpcore's own writer: metadata first, tensors in order, the
 * header padded with spaces to a multiple of 8. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/checkpoint/safetensors_keys.h"
#include "harness/ckpt/parts.h"

/* Where each tensor goes: a file that was safetensors keeps its order, in the header and of the
 * data; what comes from elsewhere is the same in both. */
struct layout {
    const struct harness_ckpt *ckpt;
    const struct harness_ckpt_tensor **sorted; /* in the order of the header */
    size_t *begin;                             /* of each of them, in the data */
    size_t data_bytes;
};

static void add_json_string(struct ddp_text *out, const char *text)
{
    ddp_text_add(out, "\"");
    for (; *text != '\0'; text++) {
        const uint8_t byte = (uint8_t)*text;

        if (byte == '"' || byte == '\\') {
            ddp_text_add(out, "\\%c", byte);
        } else if (byte < 0x20) {
            ddp_text_add(out, "\\u%04x", byte);
        } else {
            ddp_text_add_bytes(out, text, 1);
        }
    }
    ddp_text_add(out, "\"");
}

/* Large types first, so that each begins on a multiple of its size: loaders map the file and look
 * at it as these types. Tensors of one size keep their order. */
static int compare_for_alignment(const void *a, const void *b)
{
    const struct harness_ckpt_tensor *left = *(const struct harness_ckpt_tensor *const *)a;
    const struct harness_ckpt_tensor *right = *(const struct harness_ckpt_tensor *const *)b;
    const size_t left_bytes = harness_ckpt_dtype_bytes(left->dtype);
    const size_t right_bytes = harness_ckpt_dtype_bytes(right->dtype);

    if (left_bytes != right_bytes) {
        return left_bytes > right_bytes ? -1 : 1;
    }
    return (left > right) - (left < right);
}

static ddp_status lay_out(struct layout *layout, struct ddp_err *err)
{
    const struct harness_ckpt *ckpt = layout->ckpt;

    layout->sorted = ddp_mem_array(ckpt->mem, ckpt->tensor_count, sizeof *layout->sorted);
    layout->begin = ddp_mem_array(ckpt->mem, ckpt->tensor_count, sizeof *layout->begin);
    if (layout->sorted == NULL || layout->begin == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory to lay out %zu tensors",
                           ckpt->tensor_count);
    }
    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        layout->sorted[i] = &ckpt->tensors[i];
    }
    if (ckpt->kind == HARNESS_CKPT_SAFETENSORS) {
        layout->data_bytes = ckpt->data_bytes;
        for (size_t i = 0; i < ckpt->tensor_count; i++) {
            layout->begin[i] = ckpt->tensors[i].begin;
        }
        return DDP_OK;
    }
    qsort(layout->sorted, ckpt->tensor_count, sizeof *layout->sorted, compare_for_alignment);
    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        const struct harness_ckpt_tensor *tensor = layout->sorted[i];

        layout->begin[i] = layout->data_bytes;
        if (__builtin_add_overflow(layout->data_bytes, tensor->size_bytes, &layout->data_bytes)) {
            return ddp_err_set(err, DDP_E_OVERFLOW, "its tensors have more bytes than memory can");
        }
    }
    return DDP_OK;
}

static void copy_data(const struct layout *layout, uint8_t *out)
{
    for (size_t i = 0; i < layout->ckpt->tensor_count; i++) {
        const struct harness_ckpt_tensor *tensor = layout->sorted[i];

        if (tensor->size_bytes > 0) {
            memcpy(out + layout->begin[i], tensor->data, tensor->size_bytes);
        }
    }
}

/* data: NULL, as long as only the length counts. */
static void add_checksums(struct ddp_text *out, const struct layout *layout, const uint8_t *data)
{
    const struct harness_ckpt *ckpt = layout->ckpt;

    ddp_text_add(out, "\"" DDP_ST_CHECKSUM "\":\"%016" PRIx64 "\"",
                 data != NULL ? ddp_hash_bytes(data, layout->data_bytes, 0) : 0);
    ddp_text_add(out, ",\"" DDP_ST_TENSOR_CHECKSUMS "\":\"");
    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        const struct harness_ckpt_tensor *tensor = layout->sorted[i];

        ddp_text_add(out, "%s%016" PRIx64, i == 0 ? "" : " ",
                     data != NULL ? ddp_hash_bytes(tensor->data, tensor->size_bytes, 0) : 0);
    }
    ddp_text_add(out, "\"");
}

/* The checksums that a safetensors file has go with it: they are of the data, which stay. */
static void add_metadata(struct ddp_text *out, const struct layout *layout, const uint8_t *data)
{
    const struct harness_ckpt *ckpt = layout->ckpt;
    const char *sums[][2] = {{DDP_ST_CHECKSUM, ckpt->checksum_text},
                             {DDP_ST_TENSOR_CHECKSUMS, ckpt->tensor_checksums_text}};
    const char *between = "";

    ddp_text_add(out, "\"" DDP_ST_METADATA "\":{");
    if (ckpt->kind == HARNESS_CKPT_TORCH) { /* loaders of others ask for it */
        ddp_text_add(out, "\"format\":\"pt\",");
    }
    for (size_t i = 0; i < ckpt->meta_count; i++) {
        ddp_text_add(out, "%s", between);
        add_json_string(out, ckpt->meta[i].key);
        ddp_text_add(out, ":");
        add_json_string(out, ckpt->meta[i].value);
        between = ",";
    }
    for (size_t i = 0; i < 2; i++) {
        if (sums[i][1] != NULL) {
            ddp_text_add(out, "%s\"%s\":", between, sums[i][0]);
            add_json_string(out, sums[i][1]);
            between = ",";
        }
    }
    if (ckpt->kind == HARNESS_CKPT_TORCH) { /* there is nothing but the format before them */
        add_checksums(out, layout, data);
    }
    ddp_text_add(out, "}");
}

static void add_tensors(struct ddp_text *out, const struct layout *layout, const char *between)
{
    for (size_t i = 0; i < layout->ckpt->tensor_count; i++) {
        const struct harness_ckpt_tensor *tensor = layout->sorted[i];

        ddp_text_add(out, "%s", between);
        add_json_string(out, tensor->name);
        ddp_text_add(out, ":{\"dtype\":\"%s\",\"shape\":[", harness_ckpt_dtype_name(tensor->dtype));
        for (uint32_t k = 0; k < tensor->ndim; k++) {
            ddp_text_add(out, "%s%" PRIu64, k == 0 ? "" : ",", tensor->shape[k]);
        }
        ddp_text_add(out, "],\"data_offsets\":[%zu,%zu]}", layout->begin[i],
                     layout->begin[i] + tensor->size_bytes);
        between = ",";
    }
}

static void build_header(struct ddp_text *out, const struct layout *layout, const uint8_t *data)
{
    const struct harness_ckpt *ckpt = layout->ckpt;
    const bool has_metadata = ckpt->kind == HARNESS_CKPT_TORCH || ckpt->meta_count > 0 ||
                              ckpt->checksum_text != NULL || ckpt->tensor_checksums_text != NULL;

    ddp_text_add(out, "{");
    if (has_metadata) {
        add_metadata(out, layout, data);
    }
    add_tensors(out, layout, has_metadata ? "," : "");
    ddp_text_add(out, "}");
    while (!out->is_failed && out->size_bytes % 8 != 0) {
        ddp_text_add(out, " ");
    }
}

static ddp_status check_names(const struct harness_ckpt *ckpt, struct ddp_err *err)
{
    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        const char *name = ckpt->tensors[i].name;

        if (name[0] == '\0' || strcmp(name, DDP_ST_METADATA) == 0) {
            return ddp_err_set(err, DDP_E_KEYS,
                               "safetensors cannot hold a tensor called \"%s\"; rename it", name);
        }
    }
    return DDP_OK;
}

/* The file in memory: 8 bytes with the header's length, the header, the data. Checksums are of the
 * data, and have the same length whatever they are: so the header is built twice, and the data
 * copied once. *out_image: NULL, if there is no memory. */
static ddp_status build_image(const struct layout *layout, struct ddp_text *header,
                              uint8_t **out_image, size_t *out_bytes, struct ddp_err *err)
{
    struct ddp_mem *mem = layout->ckpt->mem;
    uint8_t *data;
    size_t header_bytes;

    build_header(header, layout, NULL);
    header_bytes = header->size_bytes;
    if (header_bytes > DDP_ST_HEADER_BYTES_MAX) {
        return ddp_err_set(err, DDP_E_OVERFLOW, "a header of %zu bytes; the format allows %u",
                           header_bytes, DDP_ST_HEADER_BYTES_MAX);
    }
    if (!header->is_failed &&
        !__builtin_add_overflow(8 + header_bytes, layout->data_bytes, out_bytes)) {
        *out_image = ddp_mem_array(mem, *out_bytes, 1);
    }
    if (*out_image == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a file of %zu bytes",
                           layout->data_bytes);
    }
    data = *out_image + 8 + header_bytes;
    copy_data(layout, data);
    ddp_text_fini(header);
    ddp_text_init(header, mem);
    build_header(header, layout, data);
    if (header->is_failed) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the header");
    }
    DDP_ASSERT(header->size_bytes == header_bytes);
    for (unsigned i = 0; i < 8; i++) {
        (*out_image)[i] = (uint8_t)((uint64_t)header_bytes >> (8 * i));
    }
    memcpy(*out_image + 8, header->data, header_bytes);
    return DDP_OK;
}

ddp_status harness_ckpt_write(struct ddp_files *files, const char *path,
                              const struct harness_ckpt *ckpt, struct ddp_err *err)
{
    struct layout layout = {.ckpt = ckpt};
    struct ddp_text header;
    uint8_t *image = NULL;
    size_t image_bytes = 0;
    ddp_status status = check_names(ckpt, err);

    DDP_ASSERT(ckpt->is_whole);
    ddp_text_init(&header, ckpt->mem);
    if (status == DDP_OK) {
        status = lay_out(&layout, err);
    }
    if (status == DDP_OK) {
        status = build_image(&layout, &header, &image, &image_bytes, err);
    }
    if (status == DDP_OK) {
        status = ddp_files_write_atomic(files, path, image, image_bytes, err);
    }
    ddp_mem_free(ckpt->mem, image);
    ddp_text_fini(&header);
    ddp_mem_free(ckpt->mem, layout.begin);
    ddp_mem_free(ckpt->mem, layout.sorted);
    return status;
}
