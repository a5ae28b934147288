/* A file of torch.save: its parts are found, then its pickle is read, then the tensors are taken.
 */
#include "harness/ckpt/torch.h"

#include <inttypes.h>
#include <string.h>

#define FAULT(ckpt, ...) \
    (harness_ckpt_say((ckpt)->mem, &(ckpt)->faults, __VA_ARGS__) ? DDP_OK : DDP_E_NOMEM)

/* A pickle of 0x1950a86a20f9469cfc6c, with which _legacy_save begins. */
static const uint8_t legacy_magic[] = {0x80, 0x02, 0x8a, 0x0a, 0x6c, 0xfc, 0x9c, 0x46,
                                       0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, 0x2e};

/* What cannot be read of a pickle is a fault of the file. */
static ddp_status say_unread(struct harness_ckpt *ckpt, ddp_status status, const char *what,
                             const struct ddp_err *err)
{
    return status == DDP_E_NOMEM ? status : FAULT(ckpt, "%s: %s", what, err->text);
}

/* "archive/", whose data.pkl is the only one; NULL: there is none, or several. */
static const char *find_folder(struct ddp_mem *mem, const struct harness_ckpt_entries *entries)
{
    static const char ending[] = "/data.pkl";
    char *folder = NULL;

    for (size_t i = 0; i < entries->count; i++) {
        const char *name = entries->entry[i].name, *slash = strchr(name, '/');

        if (slash != NULL && strcmp(slash, ending) == 0) {
            if (folder != NULL) {
                return NULL;
            }
            folder = ddp_mem_strdup(mem, name);
            if (folder != NULL) {
                folder[slash - name + 1] = '\0';
            }
        }
    }
    return folder;
}

static const struct harness_ckpt_entry *find_part(struct harness_ckpt *ckpt,
                                                  const struct harness_ckpt_entries *entries,
                                                  const char *folder, const char *name)
{
    const struct harness_ckpt_entry *found = NULL;
    struct ddp_text path;

    ddp_text_init(&path, ckpt->mem);
    ddp_text_add(&path, "%s%s", folder, name);
    if (!path.is_failed) {
        found = harness_ckpt_entry_find(entries, ddp_text_str(&path));
    }
    ddp_text_fini(&path);
    return found;
}

/* Entries of an archive have been read. */
static ddp_status read_archive(struct harness_ckpt *ckpt,
                               const struct harness_ckpt_entries *entries, const char *key,
                               struct ddp_err *err)
{
    const char *folder = find_folder(ckpt->mem, entries);
    const struct harness_ckpt_entry *part;
    struct harness_ckpt_pickle pickle;
    struct ddp_text data;
    size_t used = 0;
    ddp_status status;

    if (folder == NULL) {
        return FAULT(ckpt, "archive: it is a zip file, but none of torch.save: it has no data.pkl");
    }
    part = find_part(ckpt, entries, folder, "constants.pkl");
    if (part != NULL) {
        return FAULT(ckpt, "archive: it is a TorchScript program; save the state_dict() of the "
                           "module with torch.save");
    }
    part = find_part(ckpt, entries, folder, "byteorder");
    if (part != NULL && (part->size_bytes != 6 || memcmp(part->data, "little", 6) != 0)) {
        return FAULT(ckpt, "archive: its byteorder is not little; save it on a machine of this "
                           "kind");
    }
    part = find_part(ckpt, entries, folder, "data.pkl");
    DDP_TRY(part != NULL ? DDP_OK : DDP_E_NOMEM); /* it was there */
    status = harness_ckpt_unpickle(ckpt->mem, part->data, part->size_bytes, &pickle, &used, err);
    if (status == DDP_OK && used != part->size_bytes) {
        status = ddp_err_set(err, DDP_E_PARSE, "%zu bytes follow its end", part->size_bytes - used);
    }
    if (status != DDP_OK) {
        status = say_unread(ckpt, status, "data.pkl", err);
    } else {
        ddp_text_init(&data, ckpt->mem);
        ddp_text_add(&data, "%sdata/", folder);
        status = data.is_failed
                     ? DDP_E_NOMEM
                     : harness_ckpt_take(ckpt, &pickle, entries, ddp_text_str(&data), key, err);
    }
    harness_ckpt_pickle_fini(&pickle);
    return status;
}

/* The type of the storage of that key; false: no tensor has one. */
static bool storage_bytes(const struct harness_ckpt_pickle *pickle, const char *key, size_t *out)
{
    for (size_t i = 0; i < pickle->storage_count; i++) {
        if (strcmp(pickle->storages[i].key, key) == 0) {
            *out = harness_ckpt_dtype_bytes(pickle->storages[i].dtype);
            return true;
        }
    }
    return false;
}

/* Behind the pickles, in the order of `keys`: 8 bytes with the number of elements, the elements. */
static ddp_status read_storages(struct harness_ckpt *ckpt, const json_t *keys,
                                const struct harness_ckpt_pickle *pickle, const uint8_t *data,
                                size_t size_bytes, struct harness_ckpt_entries *out)
{
    const char *twice = NULL;

    for (size_t i = 0; i < json_array_size(keys); i++) {
        const char *key = json_string_value(json_array_get(keys, i));
        struct harness_ckpt_entry *grown =
            ddp_mem_grow(ckpt->mem, out->entry, out->count, &out->capacity, sizeof *grown);
        uint64_t count = 0;
        size_t elem_bytes = 0;

        DDP_TRY(grown != NULL ? DDP_OK : DDP_E_NOMEM);
        out->entry = grown;
        if (key == NULL || !storage_bytes(pickle, key, &elem_bytes)) {
            return FAULT(ckpt, "storages: number %zu is of no tensor", i);
        }
        if (size_bytes >= 8) {
            memcpy(&count, data, 8);
        }
        if (size_bytes < 8 || count > (size_bytes - 8) / elem_bytes) {
            return FAULT(ckpt, "storages: \"%s\" lies outside of the file (truncated file?)", key);
        }
        grown[out->count] = (struct harness_ckpt_entry){ddp_mem_strdup(ckpt->mem, key), data + 8,
                                                        (size_t)count * elem_bytes};
        DDP_TRY(grown[out->count].name != NULL ? DDP_OK : DDP_E_NOMEM);
        data += 8 + count * elem_bytes;
        size_bytes -= 8 + (size_t)count * elem_bytes;
        out->count++;
    }
    if (!harness_ckpt_entries_sort(out, &twice)) {
        return FAULT(ckpt, "storages: \"%s\" is in it twice", twice);
    }
    return size_bytes == 0 ? DDP_OK
                           : FAULT(ckpt, "storages: %zu bytes follow the last one", size_bytes);
}

/* One of the pickles that follow each other; *data and *size_bytes move behind it. */
static ddp_status read_next(struct harness_ckpt *ckpt, const uint8_t **data, size_t *size_bytes,
                            struct harness_ckpt_pickle *out, struct ddp_err *err)
{
    size_t used = 0;
    const ddp_status status = harness_ckpt_unpickle(ckpt->mem, *data, *size_bytes, out, &used, err);

    *data += used;
    *size_bytes -= used;
    return status;
}

/* Magic number, protocol version, what the machine is like, the object, the keys of storages. */
static ddp_status read_legacy(struct harness_ckpt *ckpt, const uint8_t *data, size_t size_bytes,
                              const char *key, struct ddp_err *err)
{
    static const char *const names[] = {"version", "machine", "object", "storage keys"};
    struct harness_ckpt_pickle pickles[4] = {{0}};
    struct harness_ckpt_entries entries = {0};
    size_t count = 0;
    ddp_status status = DDP_OK;

    while (count < 4 && status == DDP_OK) {
        status = read_next(ckpt, &data, &size_bytes, &pickles[count++], err);
    }
    if (status != DDP_OK) {
        status = say_unread(ckpt, status, names[count - 1], err);
    } else if (!json_is_true(json_object_get(pickles[1].root, "little_endian"))) {
        status = FAULT(ckpt, "machine: it is not little-endian; save it on a machine of this kind");
    } else if (!json_is_array(pickles[3].root)) {
        status = FAULT(ckpt, "storage keys: they are no list");
    } else {
        status = read_storages(ckpt, pickles[3].root, &pickles[2], data, size_bytes, &entries);
        if (status == DDP_OK && ckpt->faults.count == 0) {
            status = harness_ckpt_take(ckpt, &pickles[2], &entries, "", key, err);
        }
    }
    for (size_t i = 0; i < count; i++) {
        harness_ckpt_pickle_fini(&pickles[i]);
    }
    return status;
}

ddp_status harness_ckpt_read_torch(struct harness_ckpt *ckpt, const uint8_t *data,
                                   size_t size_bytes, const char *key, struct ddp_err *err)
{
    struct harness_ckpt_entries entries = {0};
    bool is_read = false;

    if (data[0] == 'P') {
        DDP_TRY(harness_ckpt_unzip(ckpt, data, size_bytes, &entries, &is_read, err));
        return is_read ? read_archive(ckpt, &entries, key, err) : DDP_OK;
    }
    if (size_bytes < sizeof legacy_magic || memcmp(data, legacy_magic, sizeof legacy_magic) != 0) {
        return FAULT(ckpt, "it is a pickle, but none of torch.save");
    }
    return read_legacy(ckpt, data + sizeof legacy_magic, size_bytes - sizeof legacy_magic, key,
                       err);
}
