/* What communication hooks send of a bucket, from the plan alone: the collectives of a step, round
 * by round, with this layer's own bookkeeping. */
#ifndef HARNESS_PLAN_HOOK_ROUND_H
#define HARNESS_PLAN_HOOK_ROUND_H

#include "harness/plan/program.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HARNESS_HOOK_ROUNDS_MAX = 3 };

struct harness_hook_round {
    enum ddp_coll_kind kind;
    enum ddp_dtype dtype;
    uint64_t elem_count; /* of one rank */
};

/* The rounds of a bucket in a step, into out[HARNESS_HOOK_ROUNDS_MAX]; returns how many. params:
 * the model's table. */
size_t harness_hook_rounds(const struct harness_job *job, const struct ddp_param *params,
                           const struct harness_bucket *bucket, int64_t step,
                           struct harness_hook_round *out);
/* A parameter as PowerSGD's matrix; returns how many columns its P and Q have, 0: it travels whole.
 */
size_t harness_hook_matrix(const struct harness_job *job, const struct ddp_param *param,
                           size_t *out_rows, size_t *out_columns);
/* Whether a step's buckets are sent otherwise than as one all-reduce of all gradients. */
bool harness_hook_is_lossy(const struct harness_job *job, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
