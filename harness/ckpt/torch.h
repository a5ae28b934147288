/* Files of torch.save: a zip archive with a pickle and an entry for each storage, or, from before
 * PyTorch 1.6, pickles one after the other and the storages behind them.
 * Source: torch/serialization.py (_save, _legacy_save) and torch/_utils.py (_rebuild_tensor_v2) of
 * PyTorch 2.15. */
#ifndef HARNESS_CKPT_TORCH_H
#define HARNESS_CKPT_TORCH_H

#include <jansson.h>

#include "harness/ckpt/parts.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the file that have a name: an entry of the archive, or a storage. */
struct harness_ckpt_entry {
    const char *name;
    const uint8_t *data;
    size_t size_bytes;
};
struct harness_ckpt_entries {
    struct harness_ckpt_entry *entry; /* sorted by name, each name once */
    size_t count, capacity;
};
/* NULL: there is none of that name. */
const struct harness_ckpt_entry *harness_ckpt_entry_find(const struct harness_ckpt_entries *entries,
                                                         const char *name);
/* Sort them. False: a name is there twice; *out_twice is one that is. */
bool harness_ckpt_entries_sort(struct harness_ckpt_entries *entries, const char **out_twice);

/* What a pickle says of a storage, and of a tensor in one. */
struct harness_ckpt_storage {
    const char *key;
    enum harness_ckpt_dtype dtype;
    uint64_t elem_count;
};
struct harness_ckpt_view {
    size_t storage; /* its number */
    enum harness_ckpt_dtype dtype;
    uint64_t offset; /* in elements */
    uint32_t ndim;
    const uint64_t *shape, *stride; /* in elements */
};
struct harness_ckpt_pickle {
    struct ddp_mem *mem;
    struct harness_ckpt_storage *storages;
    size_t storage_count, storage_capacity;
    struct harness_ckpt_view *views;
    size_t view_count, view_capacity;
    json_t *root; /* what was saved; owned */
};
/* Read a pickle of torch.save, of which nothing is run: only names of a table are known, and a
 * tensor becomes an object that harness_ckpt_view_of knows. *out_used: its bytes. out needs _fini.
 * Errors: E_PARSE, E_UNSUPPORTED (a name that is not in the table, an opcode), E_NOMEM. */
DDP_MUST_USE ddp_status harness_ckpt_unpickle(struct ddp_mem *mem, const uint8_t *data,
                                              size_t size_bytes, struct harness_ckpt_pickle *out,
                                              size_t *out_used, struct ddp_err *err);
void harness_ckpt_pickle_fini(struct harness_ckpt_pickle *pickle);
/* NULL: the value is no tensor. */
const struct harness_ckpt_view *harness_ckpt_view_of(const struct harness_ckpt_pickle *pickle,
                                                     const json_t *value);
/* Whether it is a map of the file, and nothing that was built here. */
bool harness_ckpt_is_map(const json_t *value);

/* All entries of a zip archive, each read whole. What is wrong becomes a fault of ckpt;
 * *out_is_read: the entries are there, though the checksums of some may not hold. Errors: E_NOMEM,
 * E_UNSUPPORTED (built without libzip). */
DDP_MUST_USE ddp_status harness_ckpt_unzip(struct harness_ckpt *ckpt, const uint8_t *data,
                                           size_t size_bytes, struct harness_ckpt_entries *out,
                                           bool *out_is_read, struct ddp_err *err);

/* Fill ckpt's tensors from the state dict that is in the pickle; storages are entries called
 * `folder` and their keys. key: as for harness_ckpt_load. What is wrong becomes a fault.
 * Errors: E_KEYS (no map of that key), E_NOMEM. */
DDP_MUST_USE ddp_status harness_ckpt_take(struct harness_ckpt *ckpt,
                                          const struct harness_ckpt_pickle *pickle,
                                          const struct harness_ckpt_entries *entries,
                                          const char *folder, const char *key, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
