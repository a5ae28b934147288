/* From what was pickled to tensors: which map is the state dict, and where each tensor's elements
 * lie in its storage. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "harness/ckpt/torch.h"

#define FAULT(ckpt, ...) \
    (harness_ckpt_say((ckpt)->mem, &(ckpt)->faults, __VA_ARGS__) ? DDP_OK : DDP_E_NOMEM)

/* Tensors may share storages, and have strides of 0: all together they may have so many times the
 * file's bytes, and some. */
enum { UNFOLD_TIMES = 16, UNFOLD_MORE = 1 << 20 };

struct taking {
    struct harness_ckpt *ckpt;
    const struct harness_ckpt_pickle *pickle;
    const struct harness_ckpt_entries *entries;
    const char *folder;
    const json_t *dict; /* the state dict */
    size_t total_bytes; /* of all tensors so far */
};

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct harness_ckpt_entry *)a)->name,
                  ((const struct harness_ckpt_entry *)b)->name);
}

bool harness_ckpt_entries_sort(struct harness_ckpt_entries *entries, const char **out_twice)
{
    if (entries->count > 0) {
        qsort(entries->entry, entries->count, sizeof *entries->entry, compare_entries);
    }
    for (size_t i = 1; i < entries->count; i++) {
        if (compare_entries(&entries->entry[i - 1], &entries->entry[i]) == 0) {
            *out_twice = entries->entry[i].name;
            return false;
        }
    }
    return true;
}

const struct harness_ckpt_entry *harness_ckpt_entry_find(const struct harness_ckpt_entries *entries,
                                                         const char *name)
{
    const struct harness_ckpt_entry key = {.name = name};

    return entries->count == 0 ? NULL
                               : bsearch(&key, entries->entry, entries->count,
                                         sizeof *entries->entry, compare_entries);
}

/* The storage's bytes; NULL: they are not there, or not as many as the pickle says, which was said
 * unless there was no memory for it (*out_status). */
static const struct harness_ckpt_entry *storage_of(struct taking *taking, const char *name,
                                                   const struct harness_ckpt_view *view,
                                                   ddp_status *out_status)
{
    const struct harness_ckpt_storage *storage = &taking->pickle->storages[view->storage];
    const size_t elem_bytes = harness_ckpt_dtype_bytes(storage->dtype);
    const struct harness_ckpt_entry *entry;
    struct ddp_text path;

    ddp_text_init(&path, taking->ckpt->mem);
    ddp_text_add(&path, "%s%s", taking->folder, storage->key);
    entry = path.is_failed ? NULL : harness_ckpt_entry_find(taking->entries, ddp_text_str(&path));
    *out_status = path.is_failed ? DDP_E_NOMEM : DDP_OK;
    if (entry == NULL && !path.is_failed) {
        *out_status = FAULT(taking->ckpt, "tensor \"%s\": its storage \"%s\" is not in the file",
                            name, storage->key);
    } else if (entry != NULL && (entry->size_bytes % elem_bytes != 0 ||
                                 entry->size_bytes / elem_bytes != storage->elem_count)) {
        *out_status = FAULT(taking->ckpt,
                            "tensor \"%s\": its storage \"%s\" has %zu bytes, the pickle says "
                            "%" PRIu64 " elements of %zu",
                            name, storage->key, entry->size_bytes, storage->elem_count, elem_bytes);
        entry = NULL;
    }
    ddp_text_fini(&path);
    return entry;
}

/* One behind the last element that the tensor has of its storage; UINT64_MAX: beyond all bounds. */
static uint64_t view_end(const struct harness_ckpt_view *view)
{
    uint64_t last = view->offset, step;

    for (uint32_t i = 0; i < view->ndim; i++) {
        if (view->shape[i] == 0) {
            return view->offset;
        }
        if (__builtin_mul_overflow(view->shape[i] - 1, view->stride[i], &step) ||
            __builtin_add_overflow(last, step, &last)) {
            return UINT64_MAX;
        }
    }
    return last == UINT64_MAX ? last : last + 1;
}

/* Whether the elements lie one behind the other, in order: each stride is the product of the sizes
 * behind it, where there is more than one to step to. */
static bool is_contiguous(const struct harness_ckpt_view *view)
{
    uint64_t step = 1;

    for (uint32_t i = view->ndim; i > 0; i--) {
        if (view->shape[i - 1] != 1 && view->stride[i - 1] != step) {
            return false;
        }
        step *= view->shape[i - 1];
    }
    return true;
}

/* Copies the elements in order. index counts like an odometer, its last place first; at is the sum
 * of index * stride. */
static void gather(const struct harness_ckpt_view *view, const uint8_t *storage, size_t elem_bytes,
                   size_t elem_count, uint8_t *out)
{
    uint64_t index[HARNESS_CKPT_NDIM_MAX] = {0};
    uint64_t at = view->offset;

    for (size_t n = 0; n < elem_count; n++) {
        memcpy(out + n * elem_bytes, storage + at * elem_bytes, elem_bytes);
        for (uint32_t i = view->ndim; i > 0; i--) {
            at += view->stride[i - 1];
            if (++index[i - 1] < view->shape[i - 1]) {
                break;
            }
            at -= view->shape[i - 1] * view->stride[i - 1];
            index[i - 1] = 0;
        }
    }
}

/* The last tensor of the list gets its data. */
static ddp_status place(struct taking *taking, struct harness_ckpt_tensor *tensor,
                        const struct harness_ckpt_view *view,
                        const struct harness_ckpt_entry *storage)
{
    const size_t elem_bytes = harness_ckpt_dtype_bytes(view->dtype);
    uint8_t *copy;

    tensor->data = storage->data;
    if (tensor->elem_count == 0) {
        return DDP_OK;
    }
    if (is_contiguous(view)) {
        tensor->data = storage->data + view->offset * elem_bytes;
        return DDP_OK;
    }
    copy = ddp_mem_array(taking->ckpt->mem, tensor->size_bytes, 1);
    if (copy == NULL) {
        return DDP_E_NOMEM;
    }
    gather(view, storage->data, elem_bytes, tensor->elem_count, copy);
    tensor->data = copy;
    return DDP_OK;
}

/* A tensor of the file that is called so. */
static ddp_status take_tensor(struct taking *taking, bool is_other, const char *name,
                              const struct harness_ckpt_view *view)
{
    struct harness_ckpt *ckpt = taking->ckpt;
    struct harness_ckpt_tensor tensor = {
        .name = name, .dtype = view->dtype, .ndim = view->ndim, .shape = view->shape};
    const struct harness_ckpt_entry *storage;
    struct harness_ckpt_tensor *added;
    ddp_status status;
    uint64_t end = view_end(view);

    if (name[0] == '\0') {
        return FAULT(ckpt, "a tensor without name");
    }
    storage = storage_of(taking, name, view, &status);
    if (storage == NULL) {
        return status;
    }
    if (end > storage->size_bytes / harness_ckpt_dtype_bytes(view->dtype)) {
        return FAULT(ckpt, "tensor \"%s\": reaches beyond its storage \"%s\" of %zu bytes", name,
                     taking->pickle->storages[view->storage].key, storage->size_bytes);
    }
    status = harness_ckpt_add(ckpt, is_other, &tensor);
    if (status == DDP_E_OVERFLOW) {
        return FAULT(ckpt, "tensor \"%s\": its shape overflows", name);
    }
    DDP_TRY(status);
    added =
        is_other ? &ckpt->others[ckpt->other_count - 1] : &ckpt->tensors[ckpt->tensor_count - 1];
    if (__builtin_add_overflow(taking->total_bytes, added->size_bytes, &taking->total_bytes) ||
        taking->total_bytes / UNFOLD_TIMES > ckpt->file_bytes + UNFOLD_MORE) {
        *(is_other ? &ckpt->other_count : &ckpt->tensor_count) -= 1;
        return ckpt->faults.count > 0
                   ? DDP_OK
                   : FAULT(ckpt, "tensor \"%s\": up to it, tensors unfold to many times the file",
                           name);
    }
    return place(taking, added, view, storage);
}

/* All tensors in a value that are not of the state dict, called by the way to them. */
static ddp_status take_others(struct taking *taking, const char *path, json_t *value)
{
    const struct harness_ckpt_view *view = harness_ckpt_view_of(taking->pickle, value);
    const bool is_list = json_is_array(value);
    ddp_status status = DDP_OK;
    const char *key;
    json_t *member;
    struct ddp_text name;

    if (view != NULL) {
        return take_tensor(taking, true, path, view);
    }
    for (size_t i = 0; is_list && status == DDP_OK && i < json_array_size(value); i++) {
        ddp_text_init(&name, taking->ckpt->mem);
        ddp_text_add(&name, "%s[%zu]", path, i);
        status = name.is_failed
                     ? DDP_E_NOMEM
                     : take_others(taking, ddp_text_str(&name), json_array_get(value, i));
        ddp_text_fini(&name);
    }
    if (is_list || !harness_ckpt_is_map(value)) {
        return status;
    }
    json_object_foreach(value, key, member)
    {
        if (value == taking->dict && harness_ckpt_view_of(taking->pickle, member) != NULL) {
            continue;
        }
        ddp_text_init(&name, taking->ckpt->mem);
        ddp_text_add(&name, "%s%s%s", path, path[0] != '\0' ? "." : "",
                     key[0] == '\xff' ? key + 1 : key);
        status = name.is_failed ? DDP_E_NOMEM : take_others(taking, ddp_text_str(&name), member);
        ddp_text_fini(&name);
        DDP_TRY(status);
    }
    return status;
}

/* A map with a tensor in it, as a state dict is. */
static bool has_tensors(const struct harness_ckpt_pickle *pickle, json_t *value)
{
    const char *key;
    json_t *member;

    if (!harness_ckpt_is_map(value)) {
        return false;
    }
    json_object_foreach(value, key, member)
    {
        if (harness_ckpt_view_of(pickle, member) != NULL) {
            return true;
        }
    }
    return false;
}

/* "epoch, optimizer": members of a map but those that are tensors of the state dict. */
static void list_members(struct taking *taking, json_t *map, const json_t *without,
                         struct ddp_text *out)
{
    const char *key;
    json_t *member;
    size_t count = 0;

    json_object_foreach(map, key, member)
    {
        if (member == without ||
            (map == taking->dict && harness_ckpt_view_of(taking->pickle, member) != NULL)) {
            continue;
        }
        if (count++ < 8) {
            ddp_text_add(out, "%s%.60s", out->size_bytes > 0 ? ", " : "",
                         key[0] == '\xff' ? key + 1 : key);
        }
    }
    if (count > 8) {
        ddp_text_add(out, " and %zu more", count - 8);
    }
}

/* "a.b": the map b of the map a; a name with dots in it comes first. NULL: there is none. */
static json_t *find_map(json_t *map, const char *key)
{
    json_t *found = json_object_get(map, key);
    const char *dot = strchr(key, '.');
    char name[256];

    if (found != NULL || dot == NULL || (size_t)(dot - key) >= sizeof name) {
        return harness_ckpt_is_map(found) ? found : NULL;
    }
    memcpy(name, key, (size_t)(dot - key));
    name[dot - key] = '\0';
    found = json_object_get(map, name);
    return harness_ckpt_is_map(found) ? find_map(found, dot + 1) : NULL;
}

/* Of the usual names the one that is there; else the whole, if it is a state dict by itself.
 * *out: NULL, if it is not known which; that became a fault. */
static ddp_status choose(struct taking *taking, json_t **out)
{
    static const char *const usual[] = {"model_state_dict", "state_dict", "model"};
    json_t *root = taking->pickle->root;
    const char *first = NULL;
    struct ddp_text members;
    ddp_status status;

    *out = NULL;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++) {
        if (!harness_ckpt_is_map(root) ||
            !has_tensors(taking->pickle, json_object_get(root, usual[i]))) {
            continue;
        }
        if (first != NULL) {
            *out = NULL;
            return FAULT(taking->ckpt, "it holds a \"%s\" and a \"%s\"; say which, with --key",
                         first, usual[i]);
        }
        first = usual[i];
        taking->ckpt->taken = first;
        *out = json_object_get(root, first);
    }
    if (*out != NULL || has_tensors(taking->pickle, root) ||
        (harness_ckpt_is_map(root) && json_object_size(root) == 0)) {
        *out = *out != NULL ? *out : root;
        return DDP_OK;
    }
    if (!harness_ckpt_is_map(root)) {
        return FAULT(taking->ckpt, "it holds no state dict, but %s",
                     harness_ckpt_view_of(taking->pickle, root) != NULL ? "one tensor"
                     : json_is_array(root)                              ? "a list"
                                                                        : "one value");
    }
    ddp_text_init(&members, taking->ckpt->mem);
    list_members(taking, root, NULL, &members);
    status = members.is_failed ? DDP_E_NOMEM
                               : FAULT(taking->ckpt,
                                       "it holds no state dict of a usual name, but %s; say "
                                       "which, with --key",
                                       ddp_text_str(&members));
    ddp_text_fini(&members);
    return status;
}

static ddp_status take_dict(struct taking *taking, json_t *dict)
{
    const struct harness_ckpt_view *view;
    struct ddp_text left_out;
    const char *key;
    json_t *member;

    taking->dict = dict;
    json_object_foreach(dict, key, member)
    {
        view = harness_ckpt_view_of(taking->pickle, member);
        if (view != NULL && key[0] == '\xff') {
            DDP_TRY(FAULT(taking->ckpt, "the key %s of a tensor is no text", key + 1));
        } else if (view != NULL) {
            DDP_TRY(take_tensor(taking, false, key, view));
        }
    }
    DDP_TRY(take_others(taking, "", taking->pickle->root));
    ddp_text_init(&left_out, taking->ckpt->mem);
    if (dict != taking->pickle->root) {
        list_members(taking, taking->pickle->root, dict, &left_out);
    }
    list_members(taking, dict, NULL, &left_out);
    if (left_out.is_failed) {
        return DDP_E_NOMEM;
    }
    if (left_out.data != NULL) {
        harness_ckpt_clean(left_out.data);
    }
    taking->ckpt->left_out = left_out.data; /* of the file's pool; NULL: nothing */
    return DDP_OK;
}

ddp_status harness_ckpt_take(struct harness_ckpt *ckpt, const struct harness_ckpt_pickle *pickle,
                             const struct harness_ckpt_entries *entries, const char *folder,
                             const char *key, struct ddp_err *err)
{
    struct taking taking = {.ckpt = ckpt, .pickle = pickle, .entries = entries, .folder = folder};
    const size_t damaged_count = ckpt->faults.count;
    json_t *dict = NULL;

    if (key == NULL) {
        DDP_TRY(choose(&taking, &dict));
    } else {
        dict = harness_ckpt_is_map(pickle->root) ? find_map(pickle->root, key) : NULL;
        ckpt->taken = ddp_mem_strdup(ckpt->mem, key);
        if (dict == NULL || ckpt->taken == NULL) {
            return ddp_err_set(err, dict == NULL ? DDP_E_KEYS : DDP_E_NOMEM,
                               "--key: there is no map \"%s\" in it", key);
        }
    }
    if (dict != NULL) {
        DDP_TRY(take_dict(&taking, dict));
    }
    if (dict != NULL && key != NULL && !has_tensors(pickle, dict)) {
        DDP_TRY(FAULT(ckpt, "the map \"%s\" is no state dict: it has no tensors of its own", key));
    }
    ckpt->is_whole = dict != NULL && ckpt->faults.count == damaged_count;
    return DDP_OK;
}
