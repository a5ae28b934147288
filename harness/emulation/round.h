/* Collectives of a step beside the plain all-reduce of a bucket: the rounds of hooks that send
 * something else, and averages of parameters. What went into and came out of each is compared with
 * what the rank recorded, and replaced by it. Internal. */
#ifndef HARNESS_EMULATION_ROUND_H
#define HARNESS_EMULATION_ROUND_H

#include "harness/emulation/internal.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_round {
    uint32_t step;
    enum ddp_coll_role role;
    uint32_t index, number; /* of its role and index, the one of that number in the step, from 0 */
    enum ddp_coll_kind kind;
    enum ddp_dtype dtype;
    size_t elem_count;     /* as it is posted */
    int32_t bucket, param; /* that findings name; -1: none */
    const char *what;      /* what travels, for `describe`; borrowed */
    /* Says what a recorded tensor is instead of the expected one. */
    ddp_status (*describe)(struct harness_emulation *emulation, const struct harness_round *round,
                           uint32_t rank, const struct harness_tensor *expected, const void *got,
                           struct harness_description *out);
};

/* What a rank put in (event COLL_POST) or got out (COLL_DONE). tensor: as it should be if
 * *inout_known; afterwards, as it was recorded. *inout_known = false: that is not at hand. */
DDP_MUST_USE ddp_status harness_round_rebase(struct harness_emulation *emulation,
                                             const struct harness_round *round, uint32_t rank,
                                             enum ddp_event event,
                                             const struct harness_tensor *tensor,
                                             bool *inout_known);

/* --- local_sgd.c ------------------------------------------------------------------------------ */

DDP_MUST_USE ddp_status harness_local_create(struct harness_emulation *emulation);
/* Behind the update of a step: the averages of parameters, if they are due. E_NOT_FOUND: in which
 * order they were added is not known. */
DDP_MUST_USE ddp_status harness_local_average(struct harness_emulation *emulation, uint32_t step);

#ifdef __cplusplus
}
#endif
#endif
