/* Trigger matching. A field that is -1 matches anything; a field that is set matches only a point
 * that knows it (a bucket trigger never matches a point without a bucket). Pure functions. */
#include "harness/inject/rules.h"

static bool is_index_match(int64_t wanted, int64_t actual)
{
    return wanted < 0 || wanted == actual;
}

static bool is_phase_outside_steps(int32_t phase)
{
    return phase == DDP_PHASE_SPAWN || phase == DDP_PHASE_RENDEZVOUS || phase == DDP_PHASE_INIT ||
           phase == DDP_PHASE_PROBE || phase == DDP_PHASE_TEARDOWN || phase == DDP_PHASE_END;
}

bool harness_trigger_matches(const struct harness_trigger *trigger,
                             const struct harness_place *place,
                             const struct ddp_fault_context *context)
{
    bool is_step_bound = trigger->step >= 0 || trigger->micro >= 0;

    if (trigger->phase >= 0 && trigger->phase != place->phase) {
        return false;
    }
    if (is_step_bound && trigger->phase < 0 && is_phase_outside_steps(place->phase)) {
        return false;
    }
    return is_index_match(trigger->step, place->step) &&
           is_index_match(trigger->micro, place->micro) &&
           is_index_match(trigger->bucket, context->bucket) &&
           is_index_match(trigger->param, context->param) &&
           is_index_match(trigger->layer, context->layer) &&
           (trigger->seq < 0 || (uint64_t)trigger->seq == context->seq);
}

bool harness_trigger_is_hit(const struct harness_trigger *trigger, uint64_t hit)
{
    DDP_ASSERT(trigger->hit > 0);
    if (hit < trigger->hit) {
        return false;
    }
    return trigger->times == 0 || hit - trigger->hit < trigger->times;
}
