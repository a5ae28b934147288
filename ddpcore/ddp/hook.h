/* Communication hooks: what becomes of a full bucket, in place of the plain all-reduce. The
 * counterpart of PyTorch's register_comm_hook; ddpcore/hook has the built-in ones, and a user's own
 * is one more table of the kind below.
 *
 * A hook works in rounds. In each it prepares one collective, which the core posts, waits for and
 * records; once the last one is done it leaves the averages in the bucket. Rounds come in the same
 * order on all ranks, whatever the timing: round 0 of each bucket as soon as the bucket and all
 * before it are full; behind the last gradient round 1 of every bucket that wants one, in order,
 * then round 2, and so on. So a hook never waits, and collectives of ranks cannot get out of step
 * (PyTorch chains them in futures, whose order is a matter of threads). */
#ifndef DDPCORE_DDP_HOOK_H
#define DDPCORE_DDP_HOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/param.h"
#include "ddpcore/collective/collective.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp;

/* A bucket as hooks see it: PyTorch's GradBucket. Borrowed for the call. */
struct ddp_grad_bucket {
    size_t index;
    bool is_last; /* no bucket comes behind it in this pass */
    enum ddp_dtype dtype;
    size_t elem_count;
    void *data; /* gradients of this rank, not divided; in the end the averages. The device's */
    /* Its parameters: numbers in the model's table, and where each begins, in elements. */
    const size_t *params;
    const size_t *offsets;
    size_t param_count;
    uint32_t divisor; /* ranks over which is averaged; under join those that ddp_join_config says */
};

/* Where a hook works, from open to close. */
struct ddp_hook_site {
    struct ddp *ddp; /* for ddp_hook_alloc */
    struct ddp_device *device;
    struct ddp_mem *mem; /* for bookkeeping on the host */
    uint32_t member, member_count;
    const struct ddp_param *params; /* the model's table */
    size_t param_count;
    const struct ddp_grad_bucket *buckets; /* [bucket_count]; data of each stays where it is */
    size_t bucket_count;
};

struct ddp_hook;

struct ddp_hook_ops {
    const char *name; /* "fp16"; shown where ranks have different ones */
    /* What must be equal on all ranks, as a hash; not 0. Strict verification compares it. */
    uint64_t (*identity)(const struct ddp_hook *hook);
    /* The buckets are known: allocate what they need, since rounds allocate nothing. Called again,
     * after close, when buckets were rebuilt. site: borrowed until close. */
    ddp_status (*open)(struct ddp_hook *hook, const struct ddp_hook_site *site);
    /* Release what open has allocated, also after it failed. */
    void (*close)(struct ddp_hook *hook);
    /* Prepare round `round` of a bucket. out: kind all_reduce, redop sum and dtype, input, output
     * and elem_count of the bucket; the hook changes what it wants otherwise (role and index are
     * the core's). Buffers stay as they are until the next round of the bucket. *out_is_over =
     * true: there is no further collective, and bucket->data holds the averages. Work on the device
     * goes to its default stream. Every rank must come to the same number of rounds and the same
     * arguments. Errors end the pass. */
    ddp_status (*round)(struct ddp_hook *hook, const struct ddp_grad_bucket *bucket, uint32_t round,
                        struct ddp_coll_args *out, bool *out_is_over);
    /* Tensors that a checkpoint must hold so that training goes on with the same bits: named, on
     * the device, `grad` unused. Borrowed until close. NULL: there are none. */
    const struct ddp_param *(*state)(struct ddp_hook *hook, size_t *out_count);
    void (*destroy)(struct ddp_hook *hook); /* after close */
    /* Whether state tensor `index` differs from rank to rank, so that a checkpoint needs each
     * rank's; the same answer on all ranks. NULL: none does. */
    bool (*is_state_own)(const struct ddp_hook *hook, size_t index);
    /* What open refuses to do without (E_UNSUPPORTED), for who reads the error. NULL: nothing. */
    const char *needs;
};

/* Base of every hook; a hook's own state lies behind it. */
struct ddp_hook {
    const struct ddp_hook_ops *ops;
};

/* Rounds of one bucket in one pass; a hook that wants more is stopped with E_STATE. */
#define DDP_HOOK_ROUNDS_MAX 64u

/* Memory for collectives: the group's if it has enough, else the device's (then sends copy). */
struct ddp_block {
    void *data;
    enum ddp_space space;
    bool is_coll;
};

/* Memory of the device that a hook hands to collectives, for bucket `bucket`; zeroed. out: zeroed,
 * or freed. Errors: E_NOMEM, E_DEVICE_MEMORY. */
DDP_MUST_USE ddp_status ddp_hook_alloc(const struct ddp_hook_site *site, size_t bucket,
                                       size_t size_bytes, struct ddp_block *out);
void ddp_hook_free(const struct ddp_hook_site *site, struct ddp_block *block);
/* The hook's state, none without a hook: ddp_hook_ops.state. */
const struct ddp_param *ddp_hook_state(struct ddp *ddp, size_t *out_count);
/* ddp_hook_ops.is_state_own of one of these tensors. */
bool ddp_hook_state_is_own(struct ddp *ddp, size_t index);
/* State tensor `index` of all ranks, for a checkpoint that one of them writes: one all-gather (role
 * HOOK_STATE). block: of the device, for member_count + 1 such tensors: a copy of this rank's, then
 * that of rank 0, 1, and so on. All ranks call it, outside of passes. Errors: E_STATE, and the
 * group's and device's. */
DDP_MUST_USE ddp_status ddp_hook_state_gather(struct ddp *ddp, size_t index, void *block);

/* Takes the hook down; NULL is allowed. Behind ddp_destroy. */
void ddp_hook_destroy(struct ddp_hook *hook);

#ifdef __cplusplus
}
#endif
#endif
