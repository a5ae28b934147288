/* Purpose: read a safetensors file as its format description says: 8 bytes of header length, a JSON
 * object, tensor bytes without gaps or overlaps.
 * Idea: damage is a result, not an error; a file shorter than its header promises is torn, any
 * other contradiction is corruption, and so are data that are not those of the checksum in the
 * metadata, if there is one. It compares nothing with a model. */
#include "harness/tensor/checkpoint_file.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "ddpcore/base/hash.h"
#include "ddpcore/base/text.h"

#define HEADER_BYTES_MAX (UINT64_C(100) * 1000 * 1000)

static void damage(struct harness_checkpoint *out, enum harness_verdict verdict, const char *what,
                   const char *name)
{
    if (out->damage == HARNESS_VERDICT_NONE) {
        out->damage = verdict;
        (void)snprintf(out->text, sizeof(out->text), "%s%s%.120s", what,
                       name[0] == '\0' ? "" : ": ", name);
    }
}

static bool parse_dtype(const char *name, enum ddp_dtype *out)
{
    for (int d = 0; d < DDP_DTYPE_COUNT; d++) {
        if (strcmp(name, ddp_dtype_safetensors_name((enum ddp_dtype)d)) == 0) {
            *out = (enum ddp_dtype)d;
            return true;
        }
    }
    return false;
}

static bool read_shape(const json_t *shape, struct harness_checkpoint_tensor *tensor)
{
    tensor->elem_count = 1;
    if (!json_is_array(shape) || json_array_size(shape) > HARNESS_CHECKPOINT_NDIM_MAX) {
        return false;
    }
    tensor->ndim = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < tensor->ndim; i++) {
        const json_t *length = json_array_get(shape, i);

        if (!json_is_integer(length) || json_integer_value(length) < 0) {
            return false;
        }
        tensor->shape[i] = (uint64_t)json_integer_value(length);
        if (__builtin_mul_overflow(tensor->elem_count, (size_t)tensor->shape[i],
                                   &tensor->elem_count)) {
            return false;
        }
    }
    return true;
}

static bool read_offsets(const json_t *offsets, struct harness_checkpoint_tensor *tensor)
{
    const json_t *begin = json_array_get(offsets, 0);
    const json_t *end = json_array_get(offsets, 1);

    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin)) {
        return false;
    }
    tensor->begin = (size_t)json_integer_value(begin);
    tensor->end = (size_t)json_integer_value(end);
    return true;
}

static void read_tensor(const json_t *entry, struct harness_checkpoint *out,
                        struct harness_checkpoint_tensor *tensor)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    size_t size_bytes = 0;

    if (dtype == NULL || !parse_dtype(dtype, &tensor->dtype)) {
        damage(out, HARNESS_VERDICT_CHECKPOINT_DTYPE, "unknown dtype", tensor->name);
    } else if (!read_shape(json_object_get(entry, "shape"), tensor)) {
        damage(out, HARNESS_VERDICT_CHECKPOINT_CORRUPTED, "bad shape", tensor->name);
    } else if (!read_offsets(json_object_get(entry, "data_offsets"), tensor)) {
        damage(out, HARNESS_VERDICT_CHECKPOINT_CORRUPTED, "bad offsets", tensor->name);
    } else if (__builtin_mul_overflow(tensor->elem_count, ddp_dtype_size_bytes(tensor->dtype),
                                      &size_bytes) ||
               size_bytes != tensor->end - tensor->begin) {
        damage(out, HARNESS_VERDICT_CHECKPOINT_CORRUPTED, "shape and offsets disagree",
               tensor->name);
    }
}

static void read_meta(const json_t *meta, struct harness_checkpoint *out)
{
    const char *steps = json_string_value(json_object_get(meta, "steps_done"));
    uint64_t value = 0;

    if (steps != NULL && ddp_text_parse_u64(steps, &value) == DDP_OK && value <= UINT32_MAX) {
        out->steps_done = (int64_t)value;
    }
}

/* As it is written: sixteen digits. */
static void check_data(const json_t *header, struct harness_checkpoint *out, size_t data_bytes)
{
    const char *stated =
        json_string_value(json_object_get(json_object_get(header, "__metadata__"), "ddprove.xxh3"));
    const uint64_t hash =
        ddp_hash_bytes(out->bytes + (out->size_bytes - data_bytes), data_bytes, 0);
    char text[17];

    (void)snprintf(text, sizeof text, "%016" PRIx64, hash);
    if (stated != NULL && strcmp(stated, text) != 0) {
        damage(out, HARNESS_VERDICT_CHECKPOINT_CORRUPTED, "the data are not those of the checksum",
               stated);
    }
}

static ddp_status read_header(json_t *header, struct harness_checkpoint *out)
{
    const char *key;
    json_t *entry;

    out->tensors = ddp_mem_array(out->mem, json_object_size(header), sizeof(*out->tensors));
    if (out->tensors == NULL) {
        return DDP_E_NOMEM;
    }
    json_object_foreach(header, key, entry)
    {
        struct harness_checkpoint_tensor *tensor = &out->tensors[out->tensor_count];

        if (strcmp(key, "__metadata__") == 0) {
            read_meta(entry, out);
            continue;
        }
        tensor->name = ddp_mem_strdup(out->mem, key);
        if (tensor->name == NULL) {
            return DDP_E_NOMEM;
        }
        out->tensor_count++;
        read_tensor(entry, out, tensor);
    }
    return DDP_OK;
}

/* Tensors must tile the data exactly: each begins where another ends. */
static void check_tiling(struct harness_checkpoint *out, size_t data_bytes)
{
    size_t at = 0;
    size_t left = out->tensor_count;

    while (left > 0 && out->damage == HARNESS_VERDICT_NONE) {
        bool is_any = false;

        for (size_t i = 0; i < out->tensor_count; i++) {
            const struct harness_checkpoint_tensor *tensor = &out->tensors[i];

            if (tensor->begin == at && tensor->data == NULL) {
                out->tensors[i].data = out->bytes + (out->size_bytes - data_bytes) + at;
                at = tensor->end;
                left--;
                is_any = true;
            }
        }
        if (!is_any) {
            damage(out, HARNESS_VERDICT_CHECKPOINT_CORRUPTED, "tensors overlap or leave a gap", "");
        }
    }
    if (at > data_bytes) {
        damage(out, HARNESS_VERDICT_CHECKPOINT_TORN, "the file ends before its tensors do", "");
    } else if (at < data_bytes) {
        damage(out, HARNESS_VERDICT_CHECKPOINT_CORRUPTED, "bytes behind the last tensor", "");
    }
}

ddp_status harness_checkpoint_parse(struct ddp_mem *mem, unsigned char *bytes, size_t size_bytes,
                                    struct harness_checkpoint *out)
{
    uint64_t header_bytes = 0;
    json_error_t error;
    json_t *header;
    ddp_status status;

    *out = (struct harness_checkpoint){
        .mem = mem, .bytes = bytes, .size_bytes = size_bytes, .steps_done = -1, .is_found = true};
    if (size_bytes < 8) {
        damage(out, HARNESS_VERDICT_CHECKPOINT_TORN, "shorter than its header's length", "");
        return DDP_OK;
    }
    for (int i = 0; i < 8; i++) {
        header_bytes |= (uint64_t)bytes[i] << (8 * i);
    }
    if (header_bytes > HEADER_BYTES_MAX) {
        damage(out, HARNESS_VERDICT_CHECKPOINT_CORRUPTED, "absurd header length", "");
        return DDP_OK;
    }
    if (header_bytes > size_bytes - 8) {
        damage(out, HARNESS_VERDICT_CHECKPOINT_TORN, "the file ends inside its header", "");
        return DDP_OK;
    }
    header =
        json_loadb((const char *)bytes + 8, (size_t)header_bytes, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(header)) {
        damage(out, HARNESS_VERDICT_CHECKPOINT_CORRUPTED, "the header is no JSON object",
               header == NULL ? error.text : "");
        json_decref(header);
        return DDP_OK;
    }
    status = read_header(header, out);
    if (status == DDP_OK && out->damage == HARNESS_VERDICT_NONE) {
        check_tiling(out, size_bytes - 8 - (size_t)header_bytes);
        check_data(header, out, size_bytes - 8 - (size_t)header_bytes);
    }
    json_decref(header);
    if (status != DDP_OK) {
        harness_checkpoint_close(out);
    }
    return status;
}

ddp_status harness_checkpoint_open(struct ddp_mem *mem, struct ddp_files *files, const char *path,
                                   struct harness_checkpoint *out, struct ddp_err *err)
{
    void *data = NULL;
    size_t size_bytes = 0;
    ddp_status status = files->ops->read_all(files, path, mem, &data, &size_bytes, err);

    *out = (struct harness_checkpoint){.mem = mem, .steps_done = -1};
    if (status == DDP_E_NOT_FOUND) {
        return DDP_OK;
    }
    DDP_TRY(status);
    return harness_checkpoint_parse(mem, data, size_bytes, out);
}

void harness_checkpoint_close(struct harness_checkpoint *checkpoint)
{
    for (size_t i = 0; checkpoint->tensors != NULL && i < checkpoint->tensor_count; i++) {
        ddp_mem_free(checkpoint->mem, checkpoint->tensors[i].name);
    }
    ddp_mem_free(checkpoint->mem, checkpoint->tensors);
    ddp_mem_free(checkpoint->mem, checkpoint->bytes);
    *checkpoint = (struct harness_checkpoint){.mem = checkpoint->mem, .steps_done = -1};
}

const struct harness_checkpoint_tensor *
harness_checkpoint_find(const struct harness_checkpoint *checkpoint, const char *name)
{
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        if (strcmp(checkpoint->tensors[i].name, name) == 0) {
            return &checkpoint->tensors[i];
        }
    }
    return NULL;
}

void harness_checkpoint_read(const struct harness_checkpoint_tensor *tensor, size_t elem, void *out)
{
    size_t size_bytes = ddp_dtype_size_bytes(tensor->dtype);
    const unsigned char *at = tensor->data + size_bytes * elem;
    uint64_t bits = 0;

    for (size_t i = 0; i < size_bytes; i++) {
        bits |= (uint64_t)at[i] << (8 * i);
    }
    if (size_bytes == 8) {
        memcpy(out, &bits, 8);
    } else if (size_bytes == 4) {
        memcpy(out, &(uint32_t){(uint32_t)bits}, 4);
    } else if (size_bytes == 2) {
        memcpy(out, &(uint16_t){(uint16_t)bits}, 2);
    } else {
        memcpy(out, at, 1);
    }
}

bool harness_checkpoint_path(const char *run_dir, char *path, size_t size_bytes)
{
    return run_dir != NULL &&
           (size_t)snprintf(path, size_bytes, "%s/checkpoint.safetensors", run_dir) < size_bytes;
}

/* A key without any leading "module.". */
static const char *strip(const char *key)
{
    while (strncmp(key, "module.", 7) == 0) {
        key += 7;
    }
    return key;
}

const struct harness_checkpoint_tensor *
harness_checkpoint_find_bare(const struct harness_checkpoint *checkpoint, const char *key)
{
    for (size_t i = 0; i < checkpoint->tensor_count; i++) {
        if (strcmp(strip(checkpoint->tensors[i].name), strip(key)) == 0) {
            return &checkpoint->tensors[i];
        }
    }
    return NULL;
}
