/* Entries of a zip archive, by libzip, which checks each one's CRC-32 as it is read to its end. */
#include <string.h>
#include <zip.h>

#include "harness/ckpt/torch.h"

#define FAULT(ckpt, ...) \
    (harness_ckpt_say((ckpt)->mem, &(ckpt)->faults, __VA_ARGS__) ? DDP_OK : DDP_E_NOMEM)

bool harness_ckpt_reads_torch(void)
{
    return true;
}

/* Reads one entry into data. False: it could not be read, or its checksum does not hold, as
 * *out_why says. That is found out behind the last byte. */
static bool read_entry(zip_t *archive, zip_uint64_t index, uint8_t *data, size_t size_bytes,
                       const char **out_why, bool *out_is_whole)
{
    zip_file_t *file = zip_fopen_index(archive, index, 0);
    size_t done = 0;
    zip_int64_t got = 1;
    uint8_t more;

    *out_is_whole = false;
    if (file == NULL) {
        *out_why = zip_strerror(archive);
        return false;
    }
    while (done < size_bytes && got > 0) {
        got = zip_fread(file, data + done, size_bytes - done);
        done += got > 0 ? (size_t)got : 0;
    }
    *out_is_whole = done == size_bytes;
    if (*out_is_whole) {
        got = zip_fread(file, &more, 1);
    }
    /* Its text goes with the file. */
    *out_why = got > 0 ? "it is longer than it says"
               : got < 0 && zip_error_code_zip(zip_file_get_error(file)) == ZIP_ER_CRC
                   ? "its CRC-32 does not hold"
                   : "it cannot be read";
    (void)zip_fclose(file);
    return *out_is_whole && got == 0;
}

static ddp_status add_entry(struct harness_ckpt *ckpt, struct harness_ckpt_entries *out,
                            const zip_stat_t *stat, const uint8_t *data)
{
    struct harness_ckpt_entry added = {ddp_mem_strdup(ckpt->mem, stat->name), data,
                                       (size_t)stat->size};
    struct harness_ckpt_entry *grown =
        ddp_mem_grow(ckpt->mem, out->entry, out->count, &out->capacity, sizeof *grown);

    if (added.name == NULL || grown == NULL) {
        return DDP_E_NOMEM;
    }
    out->entry = grown;
    grown[out->count++] = added;
    return DDP_OK;
}

/* *left_bytes: what entries may still have, all together: torch.save stores them as they are, so
 * they are no more than the file. */
static ddp_status take_entry(struct harness_ckpt *ckpt, zip_t *archive, zip_uint64_t index,
                             size_t *left_bytes, struct harness_ckpt_entries *out,
                             bool *out_is_read)
{
    const zip_uint64_t needed =
        ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    zip_stat_t stat;
    const char *why = NULL;
    uint8_t *data;
    bool is_whole = false;

    zip_stat_init(&stat);
    if (zip_stat_index(archive, index, 0, &stat) != 0 || (stat.valid & needed) != needed) {
        *out_is_read = false;
        return FAULT(ckpt, "archive: entry %llu cannot be read", (unsigned long long)index);
    }
    if (stat.comp_method != ZIP_CM_STORE || stat.encryption_method != ZIP_EM_NONE) {
        *out_is_read = false;
        return FAULT(ckpt, "archive: %s is compressed or encrypted, which torch.save does not do",
                     stat.name);
    }
    if (stat.size > *left_bytes) {
        *out_is_read = false;
        return FAULT(ckpt, "archive: up to %s its entries have more bytes than the file",
                     stat.name);
    }
    *left_bytes -= (size_t)stat.size;
    data = ddp_mem_array(ckpt->mem, (size_t)stat.size, 1);
    if (data == NULL) {
        return DDP_E_NOMEM;
    }
    if (!read_entry(archive, index, data, (size_t)stat.size, &why, &is_whole)) {
        /* Values of a storage may be damaged, and all else be understood. */
        if (!is_whole || strstr(stat.name, "/data/") == NULL) {
            *out_is_read = false;
        }
        ckpt->checksum = HARNESS_CKPT_CHECKSUM_BROKEN;
        DDP_TRY(FAULT(ckpt, "archive: %s: %s", stat.name, why));
    }
    return add_entry(ckpt, out, &stat, data);
}

static ddp_status take_entries(struct harness_ckpt *ckpt, zip_t *archive, size_t size_bytes,
                               struct harness_ckpt_entries *out, bool *out_is_read)
{
    const zip_int64_t count = zip_get_num_entries(archive, 0);
    size_t left_bytes = size_bytes;
    const char *twice = NULL;

    for (zip_int64_t i = 0; i < count; i++) {
        DDP_TRY(take_entry(ckpt, archive, (zip_uint64_t)i, &left_bytes, out, out_is_read));
    }
    if (!harness_ckpt_entries_sort(out, &twice)) {
        *out_is_read = false;
        return FAULT(ckpt, "archive: %s is in it twice", twice);
    }
    return DDP_OK;
}

ddp_status harness_ckpt_unzip(struct harness_ckpt *ckpt, const uint8_t *data, size_t size_bytes,
                              struct harness_ckpt_entries *out, bool *out_is_read,
                              struct ddp_err *err)
{
    zip_error_t error;
    zip_source_t *source;
    zip_t *archive = NULL;
    ddp_status status = DDP_OK;

    (void)err;
    *out_is_read = true;
    ckpt->checksum = HARNESS_CKPT_CHECKSUM_HOLDS;
    zip_error_init(&error);
    source = zip_source_buffer_create(data, size_bytes, 0, &error);
    if (source != NULL) {
        archive = zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error);
    }
    if (archive == NULL) {
        *out_is_read = false;
        status = FAULT(ckpt, "archive: %s (truncated file?)", zip_error_strerror(&error));
        zip_source_free(source);
    } else {
        status = take_entries(ckpt, archive, size_bytes, out, out_is_read);
        zip_discard(archive);
    }
    zip_error_fini(&error);
    return status;
}
