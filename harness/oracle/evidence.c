/* Purpose: a run without findings recorded everything that had to be judged.
 * Idea: the other oracles compare only what was recorded. A rank that recorded parameters after a
 * step must have recorded that step's gradients, losses, states and buffers as well; if not, and
 * nothing else was found, the run proves nothing. */
#include <stdio.h>

#include "harness/oracle/subject.h"

/* Events of a kind in (rank, step); only those about `subject` and, if it is given, `slot`. */
struct wanted {
    enum ddp_event event;
    uint32_t rank, step;
    int64_t subject, slot; /* -1: any */
};

static size_t count_events(const struct harness_emulation *e, const struct wanted *wanted)
{
    size_t found = 0;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, wanted->rank, wanted->event, wanted->step, &count);

    for (size_t i = 0; i < count; i++) {
        const uint64_t *arg = list[i]->entry.arg;

        found += (wanted->subject < 0 || (uint64_t)wanted->subject == arg[0]) &&
                 (wanted->slot < 0 || (uint64_t)wanted->slot == arg[2]);
    }
    return found;
}

/* The kind of which something is missing, or DDP_EVENT_COUNT. */
static enum ddp_event missing_in(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    size_t k = step - e->start_step;
    struct wanted wanted = {DDP_EVENT_LOSS, rank, step, -1, -1};

    if (count_events(e, &wanted) < e->input->job->micro_batches) {
        return DDP_EVENT_LOSS;
    }
    for (size_t p = 0; p < e->params.count; p++) {
        wanted = (struct wanted){DDP_EVENT_GRAD_FINAL, rank, step, (int64_t)p, -1};
        if (count_events(e, &wanted) == 0) {
            return wanted.event;
        }
        wanted.event = DDP_EVENT_GRAD_READY;
        if (e->expected.has_grad[(k * e->world + rank) * e->params.count + p] &&
            count_events(e, &wanted) == 0) {
            return wanted.event;
        }
        wanted.event = DDP_EVENT_OPTIMIZER_STATE;
        for (wanted.slot = 0; wanted.slot < (int64_t)e->slot_count; wanted.slot++) {
            if (count_events(e, &wanted) == 0) {
                return wanted.event;
            }
        }
    }
    wanted = (struct wanted){DDP_EVENT_BUFFER_SYNCED, rank, step, 0, -1};
    for (; e->input->plan->job.broadcast_buffers && wanted.subject < (int64_t)e->buffers.count;
         wanted.subject++) {
        if (count_events(e, &wanted) == 0) {
            return wanted.event;
        }
    }
    return DDP_EVENT_COUNT;
}

static bool is_step_done(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    const struct wanted params = {DDP_EVENT_PARAM_UPDATED, rank, step, -1, -1};

    return count_events(e, &params) > 0;
}

ddp_status harness_check_evidence(const struct harness_emulation *e, struct harness_findings *out,
                                  struct ddp_err *err)
{
    (void)err;
    for (uint32_t step = e->start_step; out->count == 0 && step < e->end_step; step++) {
        size_t k = step - e->start_step;

        for (uint32_t r = 0; r < e->world && !out->is_evidence_lost; r++) {
            enum ddp_event missing = DDP_EVENT_COUNT;

            if (e->expected.predicted[k] >= HARNESS_PREDICTED_UPDATE &&
                e->expected.is_active[k * e->world + r] && is_step_done(e, r, step)) {
                missing = missing_in(e, r, step);
            }
            if (missing != DDP_EVENT_COUNT) {
                out->is_evidence_lost = true;
                (void)snprintf(out->lost_text, sizeof(out->lost_text),
                               "rank %u completed step %u without recording %s", r, step,
                               ddp_event_name(missing));
            }
        }
    }
    return DDP_OK;
}
