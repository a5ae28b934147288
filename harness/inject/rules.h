/* Trigger matching: which fault fires at a point. Private to inject. */
#ifndef HARNESS_INJECT_RULES_H
#define HARNESS_INJECT_RULES_H

#include "ddpcore/seam/recorder.h"
#include "harness/plan/plan.h"

/* Where a rank is when it passes a point. */
struct harness_place {
    uint32_t step, micro;
    int32_t phase; /* enum ddp_phase */
};

/* Everything but the hit number. A trigger with a step matches only inside the step loop, unless
 * it names the phase outside it: set-up and teardown belong to no step. */
bool harness_trigger_matches(const struct harness_trigger *trigger,
                             const struct harness_place *place,
                             const struct ddp_fault_context *context);
/* Whether match number hit (from 1) fires. */
bool harness_trigger_is_hit(const struct harness_trigger *trigger, uint64_t hit);

#endif
