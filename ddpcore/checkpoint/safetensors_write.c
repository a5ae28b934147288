/* Writing safetensors files: the image's three parts are built in memory, hashed, then written to
 * "<path>.tmp" and renamed, with fault points in between. Reading is safetensors_read.c. */
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/base/text.h"
#include "ddpcore/checkpoint/safetensors.h"
#include "ddpcore/checkpoint/safetensors_keys.h"

/* jansson makes strings of UTF-8 alone. As in safetensors_read.c, nothing of it lives across a
 * fault point. */
static bool is_utf8(const char *text)
{
    json_t *string = json_string(text);
    const bool is_made = string != NULL;

    json_decref(string);
    return is_made;
}

static void add_json_string(struct ddp_text *header, const char *text)
{
    ddp_text_add(header, "\"");
    for (; *text != '\0'; text++) {
        const uint8_t byte = (uint8_t)*text;

        if (byte == '"' || byte == '\\') {
            ddp_text_add(header, "\\%c", byte);
        } else if (byte < 0x20) {
            ddp_text_add(header, "\\u%04x", byte);
        } else {
            ddp_text_add_bytes(header, text, 1);
        }
    }
    ddp_text_add(header, "\"");
}

static ddp_status check_names(const struct ddp_state_dict *dict, struct ddp_err *err)
{
    for (size_t i = 0; i < dict->entry_count; i++) {
        const char *name = dict->entries[i].name;

        if (!is_utf8(name)) {
            return ddp_err_set(err, DDP_E_INVALID, "the name of tensor %zu is not UTF-8", i);
        }
        if (strcmp(name, DDP_ST_METADATA) == 0) {
            return ddp_err_set(err, DDP_E_KEYS,
                               "a tensor cannot be called \"%s\": the format reserves it", name);
        }
    }
    for (size_t i = 0; i < dict->meta_count; i++) {
        const struct ddp_meta_entry *meta = &dict->meta[i];

        if (!is_utf8(meta->key) || !is_utf8(meta->value)) {
            return ddp_err_set(err, DDP_E_INVALID, "metadata entry %zu is not UTF-8", i);
        }
        if (strcmp(meta->key, DDP_ST_CHECKSUM) == 0 ||
            strcmp(meta->key, DDP_ST_TENSOR_CHECKSUMS) == 0) {
            return ddp_err_set(err, DDP_E_KEYS, "metadata key \"%s\" is reserved for the checksum",
                               meta->key);
        }
    }
    return DDP_OK;
}

static void add_metadata(struct ddp_text *header, const struct ddp_state_dict *dict,
                         uint64_t checksum)
{
    add_json_string(header, DDP_ST_METADATA);
    ddp_text_add(header, ":{");
    for (size_t i = 0; i < dict->meta_count; i++) {
        add_json_string(header, dict->meta[i].key);
        ddp_text_add(header, ":");
        add_json_string(header, dict->meta[i].value);
        ddp_text_add(header, ",");
    }
    ddp_text_add(header, "\"" DDP_ST_CHECKSUM "\":\"%016" PRIx64 "\"", checksum);
    ddp_text_add(header, ",\"" DDP_ST_TENSOR_CHECKSUMS "\":\"");
    for (size_t i = 0; i < dict->entry_count; i++) {
        const struct ddp_tensor_entry *entry = &dict->entries[i];

        ddp_text_add(header, "%s%016" PRIx64, i == 0 ? "" : " ",
                     ddp_hash_bytes(entry->data, entry->size_bytes, 0));
    }
    ddp_text_add(header, "\"}");
}

/* The header: JSON padded with spaces to a multiple of 8, so that the tensor bytes are aligned. */
static ddp_status build_header(struct ddp_text *header, const struct ddp_state_dict *dict,
                               uint64_t checksum)
{
    size_t offset = 0;

    ddp_text_add(header, "{");
    add_metadata(header, dict, checksum);
    for (size_t i = 0; i < dict->entry_count; i++) {
        const struct ddp_tensor_entry *entry = &dict->entries[i];

        ddp_text_add(header, ",");
        add_json_string(header, entry->name);
        ddp_text_add(header, ":{\"dtype\":\"%s\",\"shape\":[",
                     ddp_dtype_safetensors_name(entry->dtype));
        for (uint32_t k = 0; k < entry->ndim; k++) {
            ddp_text_add(header, "%s%" PRIu64, k == 0 ? "" : ",", entry->shape[k]);
        }
        ddp_text_add(header, "],\"data_offsets\":[%zu,%zu]}", offset, offset + entry->size_bytes);
        offset += entry->size_bytes;
    }
    ddp_text_add(header, "}");
    while (!header->is_failed && header->size_bytes % 8 != 0) {
        ddp_text_add(header, " ");
    }
    return header->is_failed ? DDP_E_NOMEM : DDP_OK;
}

/* The whole file in one block of dict's memory: data first, since the header holds its hash. */
struct image {
    uint8_t *data; /* tensor bytes, one after the other */
    size_t data_size_bytes;
    uint64_t checksum;
    struct ddp_text header; /* 8-byte length, then JSON */
};

static ddp_status build_image(struct image *image, struct ddp_mem *mem,
                              const struct ddp_state_dict *dict)
{
    struct ddp_text json;
    uint8_t length[8];
    size_t offset = 0;
    ddp_status status = DDP_E_NOMEM;

    ddp_text_init(&json, mem);
    for (size_t i = 0; i < dict->entry_count; i++) {
        if (__builtin_add_overflow(image->data_size_bytes, dict->entries[i].size_bytes,
                                   &image->data_size_bytes)) {
            return DDP_E_OVERFLOW;
        }
    }
    image->data = ddp_mem_array(mem, image->data_size_bytes, 1);
    if (image->data == NULL) {
        goto out;
    }
    for (size_t i = 0; i < dict->entry_count; i++) {
        const struct ddp_tensor_entry *entry = &dict->entries[i];

        if (entry->size_bytes > 0) {
            memcpy(image->data + offset, entry->data, entry->size_bytes);
        }
        offset += entry->size_bytes;
    }
    image->checksum = ddp_hash_bytes(image->data, image->data_size_bytes, 0);
    status = build_header(&json, dict, image->checksum);
    if (status != DDP_OK) {
        goto out;
    }
    for (unsigned i = 0; i < 8; i++) {
        length[i] = (uint8_t)((uint64_t)json.size_bytes >> (8 * i));
    }
    ddp_text_add_bytes(&image->header, length, sizeof(length));
    ddp_text_add_bytes(&image->header, json.data, json.size_bytes);
    status = image->header.is_failed ? DDP_E_NOMEM : DDP_OK;
out:
    ddp_text_fini(&json);
    return status;
}

/* Bytes [first, last) of the file, which is header followed by data. */
static ddp_status write_range(struct ddp_files *files, int handle, const struct image *image,
                              size_t first, size_t last, struct ddp_err *err)
{
    const size_t header_size_bytes = image->header.size_bytes;

    while (first < last) {
        const bool is_header = first < header_size_bytes;
        const void *source = is_header ? (const void *)(image->header.data + first)
                                       : (const void *)(image->data + first - header_size_bytes);
        const size_t end = is_header && last > header_size_bytes ? header_size_bytes : last;
        size_t written = 0;

        DDP_TRY(files->ops->write(files, handle, source, end - first, &written, err));
        if (written == 0) {
            return ddp_err_set(err, DDP_E_IO, "the file takes no more bytes");
        }
        first += written;
    }
    return DDP_OK;
}

/* Pass a point; *out_is_skipped says that the next operation is to be left out. */
static ddp_status pass_point(struct ddp_env *env, enum ddp_fault_point point, bool *out_is_skipped,
                             struct ddp_err *err)
{
    const enum ddp_fault_action action = ddp_fault_point_plain(env->faults, point);

    *out_is_skipped = action == DDP_FAULT_SKIP;
    if (action == DDP_FAULT_FAIL) {
        return ddp_err_set(err, DDP_E_INJECTED, "fault point %s failed",
                           ddp_fault_point_name(point));
    }
    return DDP_OK;
}

static ddp_status write_temporary(struct ddp_env *env, const char *temporary,
                                  const struct image *image, struct ddp_err *err)
{
    const size_t size_bytes = image->header.size_bytes + image->data_size_bytes;
    struct ddp_files *files = env->files;
    bool is_skipped = false;
    int handle = -1;
    ddp_status status = files->ops->create(files, temporary, &handle, err);
    ddp_status close_status;

    if (status != DDP_OK) {
        return status;
    }
    status = write_range(files, handle, image, 0, size_bytes / 2, err);
    if (status == DDP_OK) {
        status = pass_point(env, DDP_FAULT_POINT_CHECKPOINT_WRITE, &is_skipped, err);
    }
    if (status == DDP_OK && !is_skipped) {
        status = write_range(files, handle, image, size_bytes / 2, size_bytes, err);
    }
    if (status == DDP_OK) {
        status = pass_point(env, DDP_FAULT_POINT_CHECKPOINT_FSYNC, &is_skipped, err);
    }
    if (status == DDP_OK && !is_skipped) {
        status = files->ops->sync(files, handle, err);
    }
    close_status = files->ops->close(files, handle, status == DDP_OK ? err : NULL);
    return status == DDP_OK ? close_status : status;
}

static void record_save(struct ddp_env *env, const struct ddp_state_dict *dict,
                        const struct image *image)
{
    const char *text = ddp_state_dict_meta(dict, "steps_done");
    uint64_t steps_done = 0;

    if (text != NULL && ddp_text_parse_u64(text, &steps_done) != DDP_OK) {
        steps_done = 0;
    }
    ddp_recorder_event(env->recorder, DDP_EVENT_CHECKPOINT_SAVED, steps_done, image->checksum,
                       image->header.size_bytes + image->data_size_bytes, 0, 0);
}

ddp_status ddp_safetensors_save(struct ddp_env *env, const char *path,
                                const struct ddp_state_dict *dict, struct ddp_err *err)
{
    struct image image = {0};
    struct ddp_text temporary;
    bool is_skipped = false;
    ddp_status status = check_names(dict, err);

    ddp_text_init(&temporary, env->mem);
    ddp_text_init(&image.header, env->mem);
    if (status != DDP_OK) {
        goto out;
    }
    ddp_text_add(&temporary, "%s.tmp", path);
    status = temporary.is_failed ? DDP_E_NOMEM : build_image(&image, env->mem, dict);
    if (status != DDP_OK) {
        (void)ddp_err_set(err, status, "no memory to lay out %zu tensors", dict->entry_count);
        goto out;
    }
    status = write_temporary(env, ddp_text_str(&temporary), &image, err);
    if (status == DDP_OK) {
        status = pass_point(env, DDP_FAULT_POINT_CHECKPOINT_RENAME, &is_skipped, err);
    }
    if (status == DDP_OK && !is_skipped) {
        status = env->files->ops->rename(env->files, ddp_text_str(&temporary), path, err);
    }
    if (status == DDP_OK) {
        record_save(env, dict, &image);
    } else {
        /* The first error is reported. A temporary file that is left behind does no harm. */
        const ddp_status removed =
            env->files->ops->remove(env->files, ddp_text_str(&temporary), NULL);

        (void)removed;
    }
out:
    ddp_mem_free(env->mem, image.data);
    ddp_text_fini(&image.header);
    ddp_text_fini(&temporary);
    return status == DDP_OK ? DDP_OK : ddp_err_wrap(err, status, "checkpoint %s", path);
}
