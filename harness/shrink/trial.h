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
};

/* Run a plan. is_modelled: judged by the model's answers; else by plan->expect. */
DDP_MUST_USE ddp_status harness_shrink_try(const struct harness_plan *plan,
                                           const struct harness_shrink_config *config,
                                           bool is_modelled, struct harness_shrink_trial *out,
                                           struct ddp_err *err);
bool harness_shrink_is_same(const struct harness_shrink_signature *a,
                            const struct harness_shrink_signature *b);

#endif
