/* State dicts: named tensors in order, and the rules for DDP's "module." prefix.
 * Source: torch/nn/modules/utils.py consume_prefix_in_state_dict_if_present (PyTorch 2.7), whose
 * traps (double prefix, mixed keys, a real child called "module", collisions) are refused here
 * instead of silently mishandled. */
#ifndef DDPCORE_CHECKPOINT_STATE_DICT_H
#define DDPCORE_CHECKPOINT_STATE_DICT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_TENSOR_NDIM_MAX 8

struct ddp_tensor_entry {
    char *name; /* owned */
    enum ddp_dtype dtype;
    uint32_t ndim;
    uint64_t shape[DDP_TENSOR_NDIM_MAX];
    const void *data; /* host memory, borrowed, or owned by the dict's block; in a file that mixes
                       * dtypes it may be unaligned for its dtype: copy, do not cast */
    size_t size_bytes;
};

struct ddp_meta_entry {
    char *key;
    char *value;
};

struct ddp_state_dict {
    struct ddp_mem *mem;
    struct ddp_tensor_entry *entries;
    size_t entry_count, entry_capacity;
    struct ddp_meta_entry *meta; /* free-form text, e.g. "steps_done" */
    size_t meta_count, meta_capacity;
    void *block;     /* file contents that entries point into, owned; NULL if borrowed */
    uint32_t *slots; /* hash table over names: entry number + 1, 0 = empty; slot_count is 2^n */
    size_t slot_count, slot_used_count;
};

void ddp_state_dict_init(struct ddp_state_dict *dict, struct ddp_mem *mem);
void ddp_state_dict_fini(struct ddp_state_dict *dict);
/* Borrows data. Errors: E_KEYS (name present already, or empty), E_NOMEM. */
DDP_MUST_USE ddp_status ddp_state_dict_add(struct ddp_state_dict *dict, const char *name,
                                           enum ddp_dtype dtype, uint32_t ndim,
                                           const uint64_t *shape, const void *data);
DDP_MUST_USE ddp_status ddp_state_dict_set_meta(struct ddp_state_dict *dict, const char *key,
                                                const char *value);
/* NULL if absent. */
const char *ddp_state_dict_meta(const struct ddp_state_dict *dict, const char *key);
const struct ddp_tensor_entry *ddp_state_dict_find(const struct ddp_state_dict *dict,
                                                   const char *name);

/* Is the entry of this type and shape? Errors: E_SHAPE, with both. mem: for the words. */
DDP_MUST_USE ddp_status ddp_tensor_entry_check(const struct ddp_tensor_entry *entry,
                                               enum ddp_dtype dtype, uint32_t ndim,
                                               const uint64_t *shape, struct ddp_mem *mem,
                                               struct ddp_err *err);

/* Put prefix before every name ("module." makes the keys of a wrapped model). */
DDP_MUST_USE ddp_status ddp_state_dict_add_prefix(struct ddp_state_dict *dict, const char *prefix);

#define DDP_PREFIX_MODULE "module."

/* How the keys of a dict relate to those a model expects, if prefixes may be removed or added. A
 * uniform reading removes or adds the same number of prefixes on every key. If one makes the sets
 * equal, the relation is SAME, STRIP or ADD. Otherwise each key is matched with the expected key
 * that it reaches with the fewest prefixes changed: if two keys reach the same one, AMBIGUOUS; if
 * keys need different numbers, MIXED. If two uniform readings match equally many keys, AMBIGUOUS;
 * else UNRELATED. */
enum ddp_prefix_relation {
    DDP_PREFIX_SAME,      /* equal key sets */
    DDP_PREFIX_STRIP,     /* removing "module." * depth from every key makes them equal */
    DDP_PREFIX_ADD,       /* adding "module." * depth to every key makes them equal */
    DDP_PREFIX_MIXED,     /* some keys carry the prefix, some do not: refused */
    DDP_PREFIX_AMBIGUOUS, /* two ways would fit, or keys would collide: refused */
    DDP_PREFIX_UNRELATED  /* keys are missing or unexpected whatever the prefix */
};
struct ddp_prefix_finding {
    enum ddp_prefix_relation relation;
    uint32_t depth;                         /* of STRIP, ADD */
    size_t with_prefix_count;               /* keys of the dict that start with "module." */
    size_t matched_count;                   /* expected keys found under the best reading */
    size_t missing_count, unexpected_count; /* under the best reading */
    int32_t best_shift; /* the best reading: prefixes taken away (> 0) or put before (< 0) */
};
/* expected: distinct names the loading model has. Under a reading, a key that has not as many
 * prefixes matches nothing: only one that is common to all keys makes the sets equal, so a model
 * with a real child called "module" keeps its keys. */
void ddp_prefix_analyse(const struct ddp_state_dict *dict, const char *const *expected,
                        size_t expected_count, struct ddp_prefix_finding *out);

enum ddp_prefix_policy {
    DDP_PREFIX_POLICY_EXACT, /* keys must be equal as they are */
    DDP_PREFIX_POLICY_AUTO /* strip or add a common prefix when that is the one reading that fits */
};
/* Rename dict's keys to the expected ones, or refuse and leave it unchanged.
 * Errors: E_PREFIX (MIXED, AMBIGUOUS, or EXACT with a prefix in the way: err says that a strip or
 * add would match n/n), E_KEYS (missing and unexpected keys, the first few named). */
DDP_MUST_USE ddp_status ddp_state_dict_resolve(struct ddp_state_dict *dict,
                                               const char *const *expected, size_t expected_count,
                                               enum ddp_prefix_policy policy, struct ddp_err *err);
/* PyTorch's helper, exactly: strip one leading `prefix` from the keys that have it; a collision
 * silently overwrites; renamed keys move to the end. For pytorch semantics. After E_NOMEM some keys
 * may be without it already. */
DDP_MUST_USE ddp_status ddp_state_dict_consume_prefix(struct ddp_state_dict *dict,
                                                      const char *prefix);

#ifdef __cplusplus
}
#endif
#endif
