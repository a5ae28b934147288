/* Reading safetensors files. Nothing in a file is trusted: the header must be strict JSON, the
 * tensors must cover the data without gap or overlap, and the checksums must hold.
 *
 * jansson allocates from the process heap, not from a rank's memory. Its objects live only inside
 * ddp_safetensors_parse, which neither waits nor passes a fault point, so a simulated rank that is
 * killed never leaks them. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/checkpoint/safetensors.h"
#include "ddpcore/checkpoint/safetensors_keys.h"

struct image {
    const uint8_t *data; /* after the header */
    size_t data_size_bytes;
    struct ddp_state_dict *dict;
    struct ddp_err *err;
};

static bool parse_dtype(const char *name, enum ddp_dtype *out)
{
    for (int i = 0; i < (int)DDP_DTYPE_COUNT; i++) {
        if (strcmp(name, ddp_dtype_safetensors_name((enum ddp_dtype)i)) == 0) {
            *out = (enum ddp_dtype)i;
            return true;
        }
    }
    return false;
}

static bool parse_unsigned(const json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return false;
    }
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* Shape and offsets of one tensor, as the header claims them. */
struct claim {
    enum ddp_dtype dtype;
    uint32_t ndim;
    uint64_t shape[DDP_TENSOR_NDIM_MAX];
    uint64_t begin, end;
};

static ddp_status parse_shape(const json_t *shape, const char *name, struct claim *out,
                              struct ddp_err *err)
{
    if (!json_is_array(shape)) {
        return ddp_err_set(err, DDP_E_CORRUPT, "header: tensor \"%s\": no shape array", name);
    }
    if (json_array_size(shape) > DDP_TENSOR_NDIM_MAX) {
        return ddp_err_set(err, DDP_E_SHAPE,
                           "header: tensor \"%s\": %zu dimensions, at most %d are supported", name,
                           json_array_size(shape), DDP_TENSOR_NDIM_MAX);
    }
    out->ndim = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < out->ndim; i++) {
        if (!parse_unsigned(json_array_get(shape, i), &out->shape[i])) {
            return ddp_err_set(err, DDP_E_CORRUPT,
                               "header: tensor \"%s\": dimension %u is not a size", name, i);
        }
    }
    return DDP_OK;
}

static ddp_status parse_claim(const json_t *object, const char *name, struct claim *out,
                              struct ddp_err *err)
{
    const json_t *dtype = json_object_get(object, "dtype");
    const json_t *offsets = json_object_get(object, "data_offsets");

    if (json_object_size(object) != 3) { /* 0, if it is none */
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "header: tensor \"%s\": needs exactly dtype, shape and data_offsets",
                           name);
    }
    if (!json_is_string(dtype)) {
        return ddp_err_set(err, DDP_E_CORRUPT, "header: tensor \"%s\": no dtype string", name);
    }
    if (!parse_dtype(json_string_value(dtype), &out->dtype)) {
        return ddp_err_set(err, DDP_E_SHAPE,
                           "header: tensor \"%s\": dtype \"%.32s\" is not supported", name,
                           json_string_value(dtype));
    }
    DDP_TRY(parse_shape(json_object_get(object, "shape"), name, out, err));
    if (json_array_size(offsets) != 2 || /* 0, if it is none */
        !parse_unsigned(json_array_get(offsets, 0), &out->begin) ||
        !parse_unsigned(json_array_get(offsets, 1), &out->end)) {
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "header: tensor \"%s\": data_offsets is not a pair of offsets", name);
    }
    return DDP_OK;
}

static ddp_status add_tensor(struct image *image, const char *name, const json_t *object)
{
    struct claim claim = {.dtype = DDP_DTYPE_F32};
    const struct ddp_tensor_entry *entry;
    ddp_status status;

    DDP_TRY(parse_claim(object, name, &claim, image->err));
    if (claim.begin > claim.end || claim.end > image->data_size_bytes) {
        return ddp_err_set(image->err, DDP_E_CORRUPT,
                           "tensor \"%s\": offsets %" PRIu64 "..%" PRIu64
                           " lie outside the %zu data bytes (truncated file?)",
                           name, claim.begin, claim.end, image->data_size_bytes);
    }
    status = ddp_state_dict_add(image->dict, name, claim.dtype, claim.ndim, claim.shape,
                                image->data + claim.begin);
    if (status == DDP_E_INVALID) {
        return ddp_err_set(image->err, DDP_E_CORRUPT, "tensor \"%s\": its shape overflows", name);
    }
    if (status == DDP_E_KEYS) {
        return ddp_err_set(image->err, DDP_E_CORRUPT, "header: a tensor without name");
    }
    if (status != DDP_OK) {
        return ddp_err_set(image->err, status, "tensor \"%s\": no memory", name);
    }
    entry = &image->dict->entries[image->dict->entry_count - 1];
    if (entry->size_bytes != claim.end - claim.begin) {
        return ddp_err_set(image->err, DDP_E_CORRUPT,
                           "tensor \"%s\": offsets %" PRIu64 "..%" PRIu64 " hold %" PRIu64
                           " bytes, its shape needs %zu",
                           name, claim.begin, claim.end, claim.end - claim.begin,
                           entry->size_bytes);
    }
    return DDP_OK;
}

static ddp_status add_metadata(struct image *image, json_t *object)
{
    const char *key;
    json_t *value;

    if (!json_is_object(object)) {
        return ddp_err_set(image->err, DDP_E_CORRUPT,
                           "header: " DDP_ST_METADATA " is not an object");
    }
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value)) {
            return ddp_err_set(image->err, DDP_E_CORRUPT,
                               "header: " DDP_ST_METADATA " \"%s\" is not a string", key);
        }
        if (strcmp(key, DDP_ST_CHECKSUM) == 0 || strcmp(key, DDP_ST_TENSOR_CHECKSUMS) == 0) {
            continue;
        }
        if (ddp_state_dict_set_meta(image->dict, key, json_string_value(value)) != DDP_OK) {
            return ddp_err_set(image->err, DDP_E_NOMEM, "metadata \"%s\": no memory", key);
        }
    }
    return DDP_OK;
}

static int compare_by_place(const void *a, const void *b)
{
    const struct ddp_tensor_entry *left = *(const struct ddp_tensor_entry *const *)a;
    const struct ddp_tensor_entry *right = *(const struct ddp_tensor_entry *const *)b;
    const uintptr_t left_begin = (uintptr_t)left->data, right_begin = (uintptr_t)right->data;

    if (left_begin != right_begin) {
        return left_begin < right_begin ? -1 : 1;
    }
    /* An empty tensor sorts before the tensor that begins at the same offset. */
    return (left->size_bytes > right->size_bytes) - (left->size_bytes < right->size_bytes);
}

/* Every data byte belongs to exactly one tensor. */
static ddp_status check_cover(const struct image *image)
{
    const size_t count = image->dict->entry_count;
    const struct ddp_tensor_entry **sorted =
        ddp_mem_array(image->dict->mem, count, sizeof(*sorted));
    size_t covered = 0;
    ddp_status status = DDP_OK;

    if (sorted == NULL) {
        return ddp_err_set(image->err, DDP_E_NOMEM, "no memory for %zu tensors", count);
    }
    for (size_t i = 0; i < count; i++) {
        sorted[i] = &image->dict->entries[i];
    }
    qsort(sorted, count, sizeof(*sorted), compare_by_place);
    for (size_t i = 0; i < count && status == DDP_OK; i++) {
        const size_t begin = (size_t)((const uint8_t *)sorted[i]->data - image->data);

        if (begin != covered) {
            status = ddp_err_set(
                image->err, DDP_E_CORRUPT, "tensor \"%s\": begins at data byte %zu, %s byte %zu",
                sorted[i]->name, begin,
                begin < covered ? "overlapping the one before it up to" : "leaving a gap after",
                covered);
        }
        covered = begin + sorted[i]->size_bytes;
    }
    if (status == DDP_OK && covered != image->data_size_bytes) {
        status = ddp_err_set(image->err, DDP_E_CORRUPT,
                             "%zu bytes follow the last tensor, which ends at data byte %zu",
                             image->data_size_bytes - covered, covered);
    }
    ddp_mem_free(image->dict->mem, sorted);
    return status;
}

/* The i-th of the space-separated tensor checksums, or NULL. */
static const char *tensor_checksum(const char *list, size_t index)
{
    const size_t offset = 17 * index;

    return list != NULL && strlen(list) >= offset + 16 ? list + offset : NULL;
}

static ddp_status check_checksum(const struct image *image, const json_t *metadata)
{
    const char *stored = json_string_value(json_object_get(metadata, DDP_ST_CHECKSUM));
    const char *list = json_string_value(json_object_get(metadata, DDP_ST_TENSOR_CHECKSUMS));
    const uint64_t hash = ddp_hash_bytes(image->data, image->data_size_bytes, 0);
    char text[17];

    (void)snprintf(text, sizeof(text), "%016" PRIx64, hash);
    if (stored == NULL || strcmp(stored, text) == 0) {
        return DDP_OK;
    }
    for (size_t i = 0; i < image->dict->entry_count; i++) {
        const struct ddp_tensor_entry *entry = &image->dict->entries[i];
        const char *expected = tensor_checksum(list, i);

        (void)snprintf(text, sizeof(text), "%016" PRIx64,
                       ddp_hash_bytes(entry->data, entry->size_bytes, 0));
        if (expected != NULL && strncmp(expected, text, strlen(text)) != 0) {
            const size_t begin = (size_t)((const uint8_t *)entry->data - image->data);

            return ddp_err_set(image->err, DDP_E_CORRUPT,
                               "checksum: tensor \"%s\", data bytes %zu..%zu, are damaged",
                               entry->name, begin, begin + entry->size_bytes);
        }
    }
    return ddp_err_set(image->err, DDP_E_CORRUPT,
                       "checksum: data hashes to %016" PRIx64 ", the header says %.32s", hash,
                       stored);
}

static ddp_status read_header(struct image *image, const char *header, size_t header_size_bytes)
{
    json_error_t json_error;
    json_t *root;
    const char *name;
    json_t *value;
    ddp_status status = DDP_OK;

    root = json_loadb(header, header_size_bytes, JSON_REJECT_DUPLICATES, &json_error);
    if (root == NULL) {
        return ddp_err_set(image->err, DDP_E_CORRUPT, "header: line %d:%d: %s", json_error.line,
                           json_error.column, json_error.text);
    }
    if (!json_is_object(root)) {
        status = ddp_err_set(image->err, DDP_E_CORRUPT, "header: not a JSON object");
    }
    json_object_foreach(root, name, value)
    {
        if (status == DDP_OK && strcmp(name, DDP_ST_METADATA) == 0) {
            status = add_metadata(image, value);
        } else if (status == DDP_OK) {
            status = add_tensor(image, name, value);
        }
    }
    if (status == DDP_OK) {
        status = check_cover(image);
    }
    if (status == DDP_OK) {
        status = check_checksum(image, json_object_get(root, DDP_ST_METADATA));
    }
    json_decref(root);
    return status;
}

ddp_status ddp_safetensors_parse(const void *data, size_t size_bytes, struct ddp_state_dict *dict,
                                 struct ddp_err *err)
{
    const uint8_t *bytes = data;
    uint64_t header_size_bytes = 0;
    struct image image = {.dict = dict, .err = err};
    ddp_status status;

    DDP_ASSERT(dict->entry_count == 0 && dict->meta_count == 0 && dict->block == NULL);
    if (size_bytes < 8) {
        return ddp_err_set(err, DDP_E_CORRUPT, "header length: the file has only %zu bytes",
                           size_bytes);
    }
    for (unsigned i = 0; i < 8; i++) {
        header_size_bytes |= (uint64_t)bytes[i] << (8 * i);
    }
    if (header_size_bytes > size_bytes - 8 || header_size_bytes > DDP_ST_HEADER_BYTES_MAX) {
        return ddp_err_set(err, DDP_E_CORRUPT,
                           "header length: %" PRIu64 " bytes claimed, the file has %zu and the "
                           "format allows %u",
                           header_size_bytes, size_bytes - 8, DDP_ST_HEADER_BYTES_MAX);
    }
    image.data = bytes + 8 + header_size_bytes;
    image.data_size_bytes = size_bytes - 8 - (size_t)header_size_bytes;
    status = read_header(&image, (const char *)(bytes + 8), (size_t)header_size_bytes);
    if (status != DDP_OK) {
        ddp_state_dict_fini(dict);
    }
    return status;
}

ddp_status ddp_safetensors_load(struct ddp_files *files, const char *path,
                                struct ddp_state_dict *dict, struct ddp_err *err)
{
    void *block = NULL;
    size_t size_bytes = 0;
    ddp_status status = files->ops->read_all(files, path, dict->mem, &block, &size_bytes, err);

    if (status != DDP_OK) {
        return ddp_err_wrap(err, status, "checkpoint %s", path);
    }
    status = ddp_safetensors_parse(block, size_bytes, dict, err);
    if (status != DDP_OK) {
        ddp_mem_free(dict->mem, block);
        if (status == DDP_E_CORRUPT && err != NULL) {
            const size_t length = strlen(err->text);

            (void)snprintf(err->text + length, sizeof(err->text) - length,
                           "; restore an intact copy or an earlier checkpoint");
        }
        return ddp_err_wrap(err, status, "checkpoint %s", path);
    }
    dict->block = block;
    return DDP_OK;
}
