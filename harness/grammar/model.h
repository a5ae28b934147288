/* What a plan must be found to do: the planner's own model of jobs and faults, worked out from the
 * plan alone. It shares nothing with the judge, whose answers it is compared with: fault, place and
 * configuration give the set of right answers, each with its verdict, culprits, step and operation.
 * Several answers are right where the plan leaves open which of several consequences is seen
 * first; then each is as exact as the others. */
#ifndef HARNESS_GRAMMAR_MODEL_H
#define HARNESS_GRAMMAR_MODEL_H

#include "harness/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HARNESS_MODEL_ANSWERS_MAX = 16 };

struct harness_model {
    /* The first is the plan's `expect`. */
    struct harness_expect accepted[HARNESS_MODEL_ANSWERS_MAX];
    size_t accepted_count; /* at least 1 */
};

/* mem: a pool; keeps the answers' lists. Errors: E_NOMEM; a model or dataset of unknown name. */
DDP_MUST_USE ddp_status harness_model_of(const struct harness_plan *plan, struct ddp_mem *mem,
                                         struct harness_model *out, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
