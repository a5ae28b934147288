/* Tensors that a repeated run kept, found by the hashes that the judged run recorded. A tensor of
 * that hash is the recorded one, whatever run it comes from; so what is kept is checked against its
 * hash before it is used. */
#ifndef HARNESS_TENSOR_KEPT_H
#define HARNESS_TENSOR_KEPT_H

#include <stdbool.h>

#include "ddpcore/base/mem.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_files;

/* Hashes, in no order until they are sorted. Zero-initialise but for mem. */
struct harness_hashes {
    struct ddp_mem *mem;
    uint64_t *items;
    size_t count, capacity;
    bool is_failed; /* out of memory */
};
void harness_hashes_add(struct harness_hashes *hashes, uint64_t hash);
/* Rising, each once. */
void harness_hashes_sort(struct harness_hashes *hashes);
/* Of a sorted list. */
bool harness_hashes_has(const struct harness_hashes *hashes, uint64_t hash);
void harness_hashes_fini(struct harness_hashes *hashes);

struct harness_kept;
/* Those of `hashes` (sorted) for which the folder has a file named by 16 hexadecimal digits.
 * Errors: E_IO, E_NOMEM. */
DDP_MUST_USE ddp_status harness_kept_load(struct ddp_mem *mem, struct ddp_files *files,
                                          const char *folder, const struct harness_hashes *hashes,
                                          struct harness_kept **out, struct ddp_err *err);
void harness_kept_destroy(struct harness_kept *kept);
/* The tensor of that hash; NULL if it was not kept, or is not what its hash says. kept: may be
 * NULL. */
const void *harness_kept_find(const struct harness_kept *kept, uint64_t hash, size_t size_bytes,
                              uint64_t salt);

#ifdef __cplusplus
}
#endif
#endif
