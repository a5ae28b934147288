/* The dict itself: entries in order, a hash table of their names, metadata. The meaning of names is
 * in prefix.c.
 *
 * The table is open addressing over entry numbers. A renamed entry leaves its old slot behind:
 * lookups compare names, so a stale slot only makes a probe longer until the next rebuild. */
#include "ddpcore/checkpoint/state_dict.h"

#include <inttypes.h>
#include <string.h>

#include "ddpcore/base/text.h"
#include "ddpcore/checkpoint/names.h"

#define DDP_NAME_HASH_START  UINT64_C(0xcbf29ce484222325)
#define DDP_NAME_HASH_FACTOR UINT64_C(0x100000001b3)

/* FNV-1a, because "module." * depth + name is hashed piece by piece without being built. */
static uint64_t name_hash_add(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * DDP_NAME_HASH_FACTOR;
    }
    return hash;
}

void ddp_state_dict_init(struct ddp_state_dict *dict, struct ddp_mem *mem)
{
    memset(dict, 0, sizeof(*dict));
    dict->mem = mem;
}

void ddp_state_dict_fini(struct ddp_state_dict *dict)
{
    for (size_t i = 0; i < dict->entry_count; i++) {
        ddp_mem_free(dict->mem, dict->entries[i].name);
    }
    for (size_t i = 0; i < dict->meta_count; i++) {
        ddp_mem_free(dict->mem, dict->meta[i].key);
        ddp_mem_free(dict->mem, dict->meta[i].value);
    }
    ddp_mem_free(dict->mem, dict->entries);
    ddp_mem_free(dict->mem, dict->meta);
    ddp_mem_free(dict->mem, dict->slots);
    ddp_mem_free(dict->mem, dict->block);
    ddp_state_dict_init(dict, dict->mem);
}

static void slot_insert(struct ddp_state_dict *dict, size_t entry_index)
{
    const size_t mask = dict->slot_count - 1;
    const uint64_t hash = name_hash_add(DDP_NAME_HASH_START, dict->entries[entry_index].name);
    size_t slot = (size_t)(hash ^ (hash >> 32)) & mask;

    while (dict->slots[slot] != 0) {
        slot = (slot + 1) & mask;
    }
    dict->slots[slot] = (uint32_t)(entry_index + 1);
    dict->slot_used_count++;
}

ddp_status ddp_state_dict_reserve(struct ddp_state_dict *dict, size_t count)
{
    size_t slot_count = 16;
    uint32_t *slots = NULL;

    DDP_ASSERT(count <= UINT32_MAX / 4 && dict->entry_count <= UINT32_MAX / 4);
    /* At most half full, so that probes stay short. */
    while (slot_count < 2 * (dict->entry_count + count)) {
        slot_count *= 2;
    }
    if (slot_count > dict->slot_count) {
        slots = ddp_mem_array(dict->mem, slot_count, sizeof(*slots));
        if (slots == NULL) {
            return DDP_E_NOMEM;
        }
        ddp_mem_free(dict->mem, dict->slots);
        dict->slots = slots;
        dict->slot_count = slot_count;
    }
    memset(dict->slots, 0, dict->slot_count * sizeof(*dict->slots));
    dict->slot_used_count = 0;
    for (size_t i = 0; i < dict->entry_count; i++) {
        slot_insert(dict, i);
    }
    return DDP_OK;
}

void ddp_state_dict_rename(struct ddp_state_dict *dict, size_t entry_index, char *name)
{
    DDP_ASSERT(2 * dict->slot_used_count < dict->slot_count + 2);
    ddp_mem_free(dict->mem, dict->entries[entry_index].name);
    dict->entries[entry_index].name = name;
    slot_insert(dict, entry_index);
}

/* Is name "module." * depth + tail? */
static bool name_is(const char *name, uint32_t depth, const char *tail)
{
    const size_t prefix_length = strlen(DDP_PREFIX_MODULE);

    for (uint32_t i = 0; i < depth; i++) {
        if (strncmp(name, DDP_PREFIX_MODULE, prefix_length) != 0) {
            return false;
        }
        name += prefix_length;
    }
    return strcmp(name, tail) == 0;
}

const struct ddp_tensor_entry *ddp_state_dict_find_prefixed(const struct ddp_state_dict *dict,
                                                            uint32_t depth, const char *name)
{
    uint64_t hash = DDP_NAME_HASH_START;
    size_t mask, slot;

    if (dict->slot_count == 0) {
        return NULL;
    }
    for (uint32_t i = 0; i < depth; i++) {
        hash = name_hash_add(hash, DDP_PREFIX_MODULE);
    }
    hash = name_hash_add(hash, name);
    mask = dict->slot_count - 1;
    slot = (size_t)(hash ^ (hash >> 32)) & mask;
    for (; dict->slots[slot] != 0; slot = (slot + 1) & mask) {
        const struct ddp_tensor_entry *entry = &dict->entries[dict->slots[slot] - 1];

        if (entry->name != NULL && name_is(entry->name, depth, name)) {
            return entry;
        }
    }
    return NULL;
}

const struct ddp_tensor_entry *ddp_state_dict_find(const struct ddp_state_dict *dict,
                                                   const char *name)
{
    return ddp_state_dict_find_prefixed(dict, 0, name);
}

/* Bytes of a tensor; false if the product does not fit. */
static bool tensor_size_bytes(enum ddp_dtype dtype, uint32_t ndim, const uint64_t *shape,
                              size_t *out_size_bytes)
{
    size_t size_bytes = ddp_dtype_size_bytes(dtype);

    for (uint32_t i = 0; i < ndim; i++) {
        if (__builtin_mul_overflow(size_bytes, shape[i], &size_bytes)) {
            return false;
        }
    }
    *out_size_bytes = size_bytes;
    return true;
}

static ddp_status entries_grow(struct ddp_state_dict *dict)
{
    struct ddp_tensor_entry *entries = ddp_mem_grow(dict->mem, dict->entries, dict->entry_count,
                                                    &dict->entry_capacity, sizeof(*entries));

    if (entries == NULL) {
        return DDP_E_NOMEM;
    }
    dict->entries = entries;
    return DDP_OK;
}

ddp_status ddp_state_dict_add(struct ddp_state_dict *dict, const char *name, enum ddp_dtype dtype,
                              uint32_t ndim, const uint64_t *shape, const void *data)
{
    struct ddp_tensor_entry entry = {0};

    if (ndim > DDP_TENSOR_NDIM_MAX || !tensor_size_bytes(dtype, ndim, shape, &entry.size_bytes)) {
        return DDP_E_INVALID;
    }
    if (name[0] == '\0' || ddp_state_dict_find(dict, name) != NULL) {
        return DDP_E_KEYS;
    }
    DDP_TRY(entries_grow(dict));
    if (2 * (dict->slot_used_count + 1) > dict->slot_count) {
        DDP_TRY(ddp_state_dict_reserve(dict, dict->entry_count + 8));
    }
    entry.name = ddp_mem_strdup(dict->mem, name);
    if (entry.name == NULL) {
        return DDP_E_NOMEM;
    }
    entry.dtype = dtype;
    entry.ndim = ndim;
    for (uint32_t i = 0; i < ndim; i++) {
        entry.shape[i] = shape[i];
    }
    entry.data = data;
    dict->entries[dict->entry_count] = entry;
    slot_insert(dict, dict->entry_count++);
    return DDP_OK;
}

static ddp_status meta_grow(struct ddp_state_dict *dict)
{
    struct ddp_meta_entry *meta =
        ddp_mem_grow(dict->mem, dict->meta, dict->meta_count, &dict->meta_capacity, sizeof(*meta));

    if (meta == NULL) {
        return DDP_E_NOMEM;
    }
    dict->meta = meta;
    return DDP_OK;
}

static struct ddp_meta_entry *meta_find(const struct ddp_state_dict *dict, const char *key)
{
    for (size_t i = 0; i < dict->meta_count; i++) {
        if (strcmp(dict->meta[i].key, key) == 0) {
            return &dict->meta[i];
        }
    }
    return NULL;
}

ddp_status ddp_state_dict_set_meta(struct ddp_state_dict *dict, const char *key, const char *value)
{
    struct ddp_meta_entry *present = meta_find(dict, key);
    struct ddp_meta_entry added = {0};

    added.value = ddp_mem_strdup(dict->mem, value);
    if (added.value == NULL) {
        return DDP_E_NOMEM;
    }
    if (present != NULL) {
        ddp_mem_free(dict->mem, present->value);
        present->value = added.value;
        return DDP_OK;
    }
    added.key = ddp_mem_strdup(dict->mem, key);
    if (added.key == NULL || meta_grow(dict) != DDP_OK) {
        ddp_mem_free(dict->mem, added.key);
        ddp_mem_free(dict->mem, added.value);
        return DDP_E_NOMEM;
    }
    dict->meta[dict->meta_count++] = added;
    return DDP_OK;
}

const char *ddp_state_dict_meta(const struct ddp_state_dict *dict, const char *key)
{
    const struct ddp_meta_entry *present = meta_find(dict, key);

    return present != NULL ? present->value : NULL;
}

/* `f32 [32,64]` */
static void say_shape(struct ddp_text *text, enum ddp_dtype dtype, uint32_t ndim,
                      const uint64_t *shape)
{
    ddp_text_add(text, "%s [", ddp_dtype_name(dtype));
    for (uint32_t i = 0; i < ndim; i++) {
        ddp_text_add(text, "%s%" PRIu64, i == 0 ? "" : ",", shape[i]);
    }
    ddp_text_add(text, "]");
}

ddp_status ddp_tensor_entry_check(const struct ddp_tensor_entry *entry, enum ddp_dtype dtype,
                                  uint32_t ndim, const uint64_t *shape, struct ddp_mem *mem,
                                  struct ddp_err *err)
{
    bool is_same = entry->dtype == dtype && entry->ndim == ndim;
    struct ddp_text text;

    for (uint32_t i = 0; is_same && i < ndim; i++) {
        is_same = entry->shape[i] == shape[i];
    }
    if (is_same) {
        return DDP_OK;
    }
    ddp_text_init(&text, mem);
    ddp_text_add(&text, "tensor \"%s\" is ", entry->name);
    say_shape(&text, entry->dtype, entry->ndim, entry->shape);
    ddp_text_add(&text, " in the checkpoint, and must be ");
    say_shape(&text, dtype, ndim, shape);
    (void)ddp_err_set(err, DDP_E_SHAPE, "%s", ddp_text_str(&text));
    ddp_text_fini(&text);
    return DDP_E_SHAPE;
}
