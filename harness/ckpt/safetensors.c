/* Reading safetensors: 8 bytes little-endian with the header's length, the header as JSON, then the
 * data, of which each byte belongs to one tensor.
 * Source: the safetensors format description (huggingface/safetensors README). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/checkpoint/safetensors_keys.h"
#include "harness/ckpt/parts.h"

#define FAULT(ckpt, ...) \
    (harness_ckpt_say((ckpt)->mem, &(ckpt)->faults, __VA_ARGS__) ? DDP_OK : DDP_E_NOMEM)

static bool number_of(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* *out_is_sound: the claim could be read; if not, that was said. */
static ddp_status read_shape(struct harness_ckpt *ckpt, const char *name, const json_t *shape,
                             uint64_t *out, uint32_t *out_ndim, bool *out_is_sound)
{
    *out_is_sound = false;
    if (!json_is_array(shape)) {
        return FAULT(ckpt, "header: tensor \"%s\": no shape array", name);
    }
    if (json_array_size(shape) > HARNESS_CKPT_NDIM_MAX) {
        return FAULT(ckpt, "header: tensor \"%s\": %zu dimensions, at most %d are known", name,
                     json_array_size(shape), HARNESS_CKPT_NDIM_MAX);
    }
    *out_ndim = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < *out_ndim; i++) {
        if (!number_of(json_array_get(shape, i), &out[i])) {
            return FAULT(ckpt, "header: tensor \"%s\": dimension %u is not a size", name, i);
        }
    }
    *out_is_sound = true;
    return DDP_OK;
}

static ddp_status place_tensor(struct harness_ckpt *ckpt, struct harness_ckpt_tensor *tensor,
                               uint64_t begin, uint64_t end)
{
    ddp_status status;

    if (begin > end || end > ckpt->data_bytes) {
        return FAULT(ckpt,
                     "tensor \"%s\": offsets %" PRIu64 "..%" PRIu64
                     " lie outside the %zu data bytes (truncated file?)",
                     tensor->name, begin, end, ckpt->data_bytes);
    }
    tensor->begin = (size_t)begin;
    tensor->data = ckpt->data + begin;
    status = harness_ckpt_add(ckpt, false, tensor);
    if (status == DDP_E_OVERFLOW) {
        return FAULT(ckpt, "tensor \"%s\": its shape overflows", tensor->name);
    }
    DDP_TRY(status);
    tensor = &ckpt->tensors[ckpt->tensor_count - 1];
    if (tensor->size_bytes != end - begin) {
        status = FAULT(ckpt,
                       "tensor \"%s\": offsets %" PRIu64 "..%" PRIu64 " hold %" PRIu64
                       " bytes, its shape needs %zu",
                       tensor->name, begin, end, end - begin, tensor->size_bytes);
        ckpt->tensor_count--;
    }
    return status;
}

static ddp_status read_tensor(struct harness_ckpt *ckpt, const char *name, const json_t *object)
{
    const json_t *dtype = json_object_get(object, "dtype");
    const json_t *offsets = json_object_get(object, "data_offsets");
    uint64_t shape[HARNESS_CKPT_NDIM_MAX];
    struct harness_ckpt_tensor tensor = {.name = name, .shape = shape};
    uint64_t begin = 0, end = 0;
    bool is_sound = false;

    if (name[0] == '\0') {
        return FAULT(ckpt, "header: a tensor without name");
    }
    if (json_object_size(object) != 3) { /* 0, if it is none */
        return FAULT(ckpt, "header: tensor \"%s\": needs exactly dtype, shape and data_offsets",
                     name);
    }
    if (!json_is_string(dtype)) {
        return FAULT(ckpt, "header: tensor \"%s\": no dtype string", name);
    }
    if (!harness_ckpt_dtype_find(json_string_value(dtype), &tensor.dtype)) {
        return FAULT(ckpt, "header: tensor \"%s\": dtype \"%.32s\" is not known", name,
                     json_string_value(dtype));
    }
    DDP_TRY(
        read_shape(ckpt, name, json_object_get(object, "shape"), shape, &tensor.ndim, &is_sound));
    if (!is_sound) {
        return DDP_OK;
    }
    if (json_array_size(offsets) != 2 || /* 0, if it is none */
        !number_of(json_array_get(offsets, 0), &begin) ||
        !number_of(json_array_get(offsets, 1), &end)) {
        return FAULT(ckpt, "header: tensor \"%s\": data_offsets is not a pair of offsets", name);
    }
    return place_tensor(ckpt, &tensor, begin, end);
}

static ddp_status read_metadata(struct harness_ckpt *ckpt, json_t *object)
{
    const char *key;
    json_t *value;

    if (!json_is_object(object)) {
        return FAULT(ckpt, "header: " DDP_ST_METADATA " is not an object");
    }
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value)) {
            DDP_TRY(FAULT(ckpt, "header: metadata \"%s\" is not a string", key));
        } else if (strcmp(key, DDP_ST_CHECKSUM) == 0) {
            ckpt->checksum_text = ddp_mem_strdup(ckpt->mem, json_string_value(value));
            DDP_TRY(ckpt->checksum_text != NULL ? DDP_OK : DDP_E_NOMEM);
        } else if (strcmp(key, DDP_ST_TENSOR_CHECKSUMS) == 0) {
            ckpt->tensor_checksums_text = ddp_mem_strdup(ckpt->mem, json_string_value(value));
            DDP_TRY(ckpt->tensor_checksums_text != NULL ? DDP_OK : DDP_E_NOMEM);
        } else {
            DDP_TRY(harness_ckpt_add_meta(ckpt, key, json_string_value(value)));
        }
    }
    return DDP_OK;
}

static int compare_by_place(const void *a, const void *b)
{
    const struct harness_ckpt_tensor *left = *(const struct harness_ckpt_tensor *const *)a;
    const struct harness_ckpt_tensor *right = *(const struct harness_ckpt_tensor *const *)b;

    if (left->begin != right->begin) {
        return left->begin < right->begin ? -1 : 1;
    }
    /* An empty tensor comes before the one that begins at the same offset. */
    return (left->size_bytes > right->size_bytes) - (left->size_bytes < right->size_bytes);
}

/* The tensors in the order of their data. NULL: no memory. */
static const struct harness_ckpt_tensor **sort_tensors(const struct harness_ckpt *ckpt)
{
    const struct harness_ckpt_tensor **sorted =
        ddp_mem_array(ckpt->mem, ckpt->tensor_count, sizeof *sorted);

    for (size_t i = 0; sorted != NULL && i < ckpt->tensor_count; i++) {
        sorted[i] = &ckpt->tensors[i];
    }
    if (sorted != NULL) {
        qsort(sorted, ckpt->tensor_count, sizeof *sorted, compare_by_place);
    }
    return sorted;
}

/* Every data byte belongs to one tensor. */
static ddp_status check_cover(struct harness_ckpt *ckpt,
                              const struct harness_ckpt_tensor *const *sorted)
{
    size_t covered = 0;

    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        const struct harness_ckpt_tensor *tensor = sorted[i];
        const size_t end = tensor->begin + tensor->size_bytes;

        if (tensor->begin != covered) {
            DDP_TRY(FAULT(ckpt, "tensor \"%s\": begins at data byte %zu, %s byte %zu", tensor->name,
                          tensor->begin,
                          tensor->begin < covered ? "overlapping the one before it up to"
                                                  : "leaving a gap after",
                          covered));
        }
        covered = end > covered ? end : covered;
    }
    if (covered != ckpt->data_bytes) {
        return FAULT(ckpt, "%zu bytes follow the last tensor, which ends at data byte %zu",
                     ckpt->data_bytes - covered, covered);
    }
    return DDP_OK;
}

/* Each tensor's own checksum says which one is damaged. ddpcore lists them in the order of the
 * data; another program may have written the header in another order since. */
static ddp_status check_each(struct harness_ckpt *ckpt,
                             const struct harness_ckpt_tensor *const *sorted, const char *list)
{
    const size_t length = strlen(list);
    char own[17];

    if (length + 1 != 17 * ckpt->tensor_count && (length > 0 || ckpt->tensor_count > 0)) {
        return FAULT(ckpt, "checksum: the list for %zu tensors has %zu bytes, not 17 for each",
                     ckpt->tensor_count, length + 1);
    }
    for (size_t i = 0; i < ckpt->tensor_count; i++) {
        const struct harness_ckpt_tensor *tensor = sorted[i];

        (void)snprintf(own, sizeof own, "%016" PRIx64,
                       ddp_hash_bytes(tensor->data, tensor->size_bytes, 0));
        if (strncmp(list + 17 * i, own, 16) != 0) {
            DDP_TRY(FAULT(ckpt, "checksum: tensor \"%s\", data bytes %zu..%zu, are damaged",
                          tensor->name, tensor->begin, tensor->begin + tensor->size_bytes));
        }
    }
    return DDP_OK;
}

static ddp_status check_checksum(struct harness_ckpt *ckpt,
                                 const struct harness_ckpt_tensor *const *sorted)
{
    const char *stored = ckpt->checksum_text;
    char text[17];

    if (stored == NULL && ckpt->tensor_checksums_text == NULL) {
        return DDP_OK;
    }
    if (ckpt->tensor_checksums_text != NULL) {
        DDP_TRY(check_each(ckpt, sorted, ckpt->tensor_checksums_text));
    }
    (void)snprintf(text, sizeof text, "%016" PRIx64,
                   ddp_hash_bytes(ckpt->data, ckpt->data_bytes, 0));
    if (ckpt->faults.count == 0 && stored != NULL && strcmp(stored, text) != 0) {
        DDP_TRY(FAULT(ckpt, "checksum: data hashes to %s, the header says %.32s", text, stored));
    }
    ckpt->checksum =
        ckpt->faults.count == 0 ? HARNESS_CKPT_CHECKSUM_HOLDS : HARNESS_CKPT_CHECKSUM_BROKEN;
    return DDP_OK;
}

static ddp_status read_header(struct harness_ckpt *ckpt, json_t *root)
{
    const struct harness_ckpt_tensor **sorted;
    const char *name;
    json_t *value;

    json_object_foreach(root, name, value)
    {
        DDP_TRY(strcmp(name, DDP_ST_METADATA) == 0 ? read_metadata(ckpt, value)
                                                   : read_tensor(ckpt, name, value));
    }
    if (ckpt->faults.count > 0) {
        return DDP_OK; /* of a header that cannot be believed the rest would only be said twice */
    }
    sorted = sort_tensors(ckpt);
    DDP_TRY(sorted != NULL ? DDP_OK : DDP_E_NOMEM);
    DDP_TRY(check_cover(ckpt, sorted));
    ckpt->is_whole = ckpt->faults.count == 0;
    return ckpt->is_whole ? check_checksum(ckpt, sorted) : DDP_OK;
}

ddp_status harness_ckpt_read_safetensors(struct harness_ckpt *ckpt, const uint8_t *data,
                                         size_t size_bytes)
{
    uint64_t header_bytes = 0;
    json_error_t error;
    json_t *root;
    ddp_status status;

    if (size_bytes < 8) {
        return FAULT(ckpt, "header length: the file has only %zu bytes", size_bytes);
    }
    for (unsigned i = 0; i < 8; i++) {
        header_bytes |= (uint64_t)data[i] << (8 * i);
    }
    if (header_bytes > size_bytes - 8 || header_bytes > DDP_ST_HEADER_BYTES_MAX) {
        return FAULT(ckpt,
                     "header length: %" PRIu64
                     " bytes claimed, the file has %zu and the format allows %u",
                     header_bytes, size_bytes - 8, DDP_ST_HEADER_BYTES_MAX);
    }
    ckpt->data = data + 8 + header_bytes;
    ckpt->data_bytes = size_bytes - 8 - (size_t)header_bytes;
    root =
        json_loadb((const char *)(data + 8), (size_t)header_bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL) {
        return FAULT(ckpt, "header: line %d:%d: %s", error.line, error.column, error.text);
    }
    status =
        json_is_object(root) ? read_header(ckpt, root) : FAULT(ckpt, "header: not a JSON object");
    json_decref(root);
    return status;
}
