/* Purpose: find tensors by their hashes.
 * Idea: files were named by hashes, so that equal tensors of many ranks are one file. */
#include "harness/tensor/kept.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "ddpcore/base/hash.h"

/* --- lists of hashes -------------------------------------------------------------------------- */

void harness_hashes_add(struct harness_hashes *hashes, uint64_t hash)
{
    uint64_t *items =
        ddp_mem_grow(hashes->mem, hashes->items, hashes->count, &hashes->capacity, sizeof(*items));

    if (items == NULL) {
        hashes->is_failed = true;
        return;
    }
    hashes->items = items;
    hashes->items[hashes->count++] = hash;
}

static int compare(const void *a, const void *b)
{
    uint64_t x, y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? -1 : x > y;
}

void harness_hashes_sort(struct harness_hashes *hashes)
{
    size_t kept = 0;

    if (hashes->count == 0) {
        return;
    }
    qsort(hashes->items, hashes->count, sizeof(*hashes->items), compare);
    for (size_t i = 1; i < hashes->count; i++) {
        if (hashes->items[i] != hashes->items[kept]) {
            hashes->items[++kept] = hashes->items[i];
        }
    }
    hashes->count = kept + 1;
}

bool harness_hashes_has(const struct harness_hashes *hashes, uint64_t hash)
{
    return hashes->count > 0 &&
           bsearch(&hash, hashes->items, hashes->count, sizeof(hash), compare) != NULL;
}

void harness_hashes_fini(struct harness_hashes *hashes)
{
    ddp_mem_free(hashes->mem, hashes->items);
    hashes->items = NULL;
    hashes->count = hashes->capacity = 0;
}

/* --- tensors ---------------------------------------------------------------------------------- */

struct tensor {
    uint64_t hash; /* first: tensors are compared by it */
    void *data;
    size_t size_bytes;
};

struct harness_kept {
    struct ddp_mem *mem;
    struct tensor *tensors; /* rising hashes */
    size_t count;
};

static ddp_status load(struct harness_kept *kept, struct ddp_files *files, const char *folder,
                       uint64_t hash, struct ddp_err *err)
{
    struct tensor tensor = {.hash = hash};
    char path[4096];
    ddp_status status;

    if ((size_t)snprintf(path, sizeof(path), "%s/%016llx", folder, (unsigned long long)hash) >=
        sizeof(path)) {
        return ddp_err_set(err, DDP_E_OVERFLOW, "%s: path too long", folder);
    }
    status = files->ops->read_all(files, path, kept->mem, &tensor.data, &tensor.size_bytes, err);
    if (status == DDP_OK) {
        kept->tensors[kept->count++] = tensor;
    }
    return status == DDP_E_NOT_FOUND ? DDP_OK : status; /* the replay did not come that far */
}

ddp_status harness_kept_load(struct ddp_mem *mem, struct ddp_files *files, const char *folder,
                             const struct harness_hashes *hashes, struct harness_kept **out,
                             struct ddp_err *err)
{
    struct harness_kept *kept = ddp_mem_array(mem, 1, sizeof(*kept));
    ddp_status status = DDP_OK;

    *out = NULL;
    if (kept == NULL) {
        return DDP_E_NOMEM;
    }
    kept->mem = mem;
    kept->tensors = ddp_mem_array(mem, hashes->count, sizeof(*kept->tensors));
    if (kept->tensors == NULL) {
        ddp_mem_free(mem, kept);
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; status == DDP_OK && i < hashes->count; i++) {
        DDP_ASSERT(i == 0 || hashes->items[i - 1] < hashes->items[i]);
        status = load(kept, files, folder, hashes->items[i], err);
    }
    if (status != DDP_OK) {
        harness_kept_destroy(kept);
        return status;
    }
    *out = kept;
    return DDP_OK;
}

void harness_kept_destroy(struct harness_kept *kept)
{
    if (kept == NULL) {
        return;
    }
    for (size_t i = 0; i < kept->count; i++) {
        ddp_mem_free(kept->mem, kept->tensors[i].data);
    }
    ddp_mem_free(kept->mem, kept->tensors);
    ddp_mem_free(kept->mem, kept);
}

const void *harness_kept_find(const struct harness_kept *kept, uint64_t hash, size_t size_bytes,
                              uint64_t salt)
{
    const struct tensor *found =
        kept == NULL || kept->count == 0
            ? NULL
            : bsearch(&hash, kept->tensors, kept->count, sizeof(*kept->tensors), compare);

    return found != NULL && found->size_bytes == size_bytes &&
                   ddp_hash_tensor(found->data, size_bytes, salt, NULL) == hash
               ? found->data
               : NULL;
}
