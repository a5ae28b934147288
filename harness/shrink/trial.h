/* One run of a candidate, in a process of its own. Internal to harness/shrink. */
#ifndef HARNESS_SHRINK_TRIAL_H
#define HARNESS_SHRINK_TRIAL_H

#include "harness/shrink/shrink.h"

/* What a run showed: its signature, and what a plan that expects it says. */
struct harness_shrink_trial {
    struct harness_shrink_signature signature;
    int64_t step, bucket;
    bool has_bucket;
    uint32_t culprits[16];
    uint32_t culprit_count;
    bool is_passed;      /* by the plan's own expectation, or the model's */
    bool has_unexpected; /* beside it something was found that should not be there */
    uint64_t unfired;    /* bit i: fault i never fired (of the first 64) */
    uint32_t unfired_count;
};

static inline bool harness_shrink_is_unfired(const struct harness_shrink_trial *trial,
                                             uint32_t fault)
{
    return fault < 64 && (trial->unfired >> fault & 1) != 0;
}

/* Run a plan. is_modelled: judged by the model's answers; else by plan->expect. */
DDP_MUST_USE ddp_status harness_shrink_try(const struct harness_plan *plan,
                                           const struct harness_shrink_config *config,
                                           bool is_modelled, struct harness_shrink_trial *out,
                                           struct ddp_err *err);
bool harness_shrink_is_same(const struct harness_shrink_signature *a,
                            const struct harness_shrink_signature *b);

#endif
