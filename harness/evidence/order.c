/* Purpose: the events of each rank follow each other as steps and phases do.
 * Idea: every event says the step and the phase that the rank is in; so a missing, moved or altered
 * line contradicts its neighbours. */
#include "harness/evidence/internal.h"

/* Phases that are entered from certain others only. is_same: in the same step. */
static bool is_next(uint8_t from, uint64_t to, bool is_same)
{
    switch (to) {
    case DDP_PHASE_INIT:
        return from == DDP_PHASE_RENDEZVOUS || from == DDP_PHASE_CHECKPOINT ||
               from == DDP_PHASE_RECOVERY;
    case DDP_PHASE_BUFFER:
        return from == DDP_PHASE_FORWARD || from == DDP_PHASE_JOIN;
    case DDP_PHASE_LOSS:
        return from == DDP_PHASE_FORWARD;
    case DDP_PHASE_BACKWARD:
        return from == DDP_PHASE_LOSS;
    case DDP_PHASE_JOIN:
        return from == DDP_PHASE_DATA || from == DDP_PHASE_BUFFER || is_same;
    default:
        return true;
    }
}

/* What is remembered of a rank while its events are walked over. */
struct walk {
    uint8_t phase;                  /* the one entered last; zeroed: SPAWN */
    uint32_t step;                  /* in which it was entered */
    uint64_t waited_ns, starved_ns; /* until then */
    uint64_t first; /* the sample that its batch begins with, + 1; 0: no batch was announced */
};

static void check_change(const struct walk *walk, const struct harness_trace_event *event,
                         struct harness_gap *out)
{
    const struct ddp_event_entry *entry = &event->entry;

    if (entry->arg[0] == walk->phase) {
        harness_gap_set(out, "rank %u entered phase %s twice, in step %u", event->rank,
                        ddp_phase_name((enum ddp_phase)entry->phase), entry->step);
    }
    if (!is_next(walk->phase, entry->arg[0], entry->step == walk->step)) {
        harness_gap_set(out, "rank %u, step %u: phase %s cannot follow %s", event->rank,
                        entry->step, ddp_phase_name((enum ddp_phase)entry->phase),
                        ddp_phase_name((enum ddp_phase)walk->phase));
    }
}

/* What a rank has waited since the job began grows. */
static void check_times(const struct walk *walk, const struct harness_trace *trace,
                        const struct harness_trace_event *event, struct harness_gap *out)
{
    const struct ddp_event_entry *entry = &event->entry;

    if (entry->arg[1] < walk->waited_ns || entry->arg[2] < walk->starved_ns ||
        entry->arg[1] > entry->time_ns - trace->start_ns) {
        harness_gap_set(out, "rank %u, step %u: it waited less than before, or longer than it ran",
                        event->rank, entry->step);
    }
}

static void check_event(struct walk *walk, const struct harness_trace *trace,
                        const struct harness_trace_event *event, struct harness_gap *out)
{
    const struct ddp_event_entry *entry = &event->entry;

    if (entry->event == DDP_EVENT_PHASE) {
        check_change(walk, event, out);
        check_times(walk, trace, event, out);
        walk->phase = (uint8_t)entry->arg[0];
        walk->waited_ns = entry->arg[1];
        walk->starved_ns = entry->arg[2];
        walk->step = entry->step;
    }
    if (entry->event == DDP_EVENT_DATA_SAMPLE && walk->first != 0) {
        if (entry->arg[0] + 1 != walk->first) {
            harness_gap_set(out,
                            "rank %u, step %u: its batch begins with another sample than "
                            "it says",
                            event->rank, entry->step);
        }
        walk->first = 0;
    }
    if (entry->event == DDP_EVENT_DATA_BATCH) {
        walk->first = entry->arg[2] + 1;
    }
    if (entry->phase != walk->phase) {
        harness_gap_set(out, "rank %u recorded %s in phase %s, step %u, and never entered it",
                        event->rank, ddp_event_name((enum ddp_event)entry->event),
                        ddp_phase_name((enum ddp_phase)entry->phase), entry->step);
    }
}

/* One walk over all ranks' events: the phase that each event names is the one that was entered
 * last. */
static ddp_status check_phases(const struct harness_emulation *e, struct harness_gap *out)
{
    const struct harness_trace *trace = e->input->trace;
    struct walk *walks = ddp_mem_array(e->mem, e->world, sizeof(*walks));

    if (walks == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < trace->event_count && !out->is_set; i++) {
        check_event(&walks[trace->events[i].rank], trace, &trace->events[i], out);
    }
    ddp_mem_free(e->mem, walks);
    return DDP_OK;
}

/* A rank's steps never go back, and none has more micro-batches than planned. */
static ddp_status check_places(const struct harness_emulation *e, struct harness_gap *out)
{
    const struct harness_trace *trace = e->input->trace;
    uint32_t *last = ddp_mem_array(e->mem, e->world, sizeof(*last));

    if (last == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        const struct harness_trace_event *event = &trace->events[i];
        const uint32_t step = event->entry.step;

        const bool is_end = event->entry.event == DDP_EVENT_RANK_END;

        /* A rank ends in the step in which it was. */
        if (step < last[event->rank] || (is_end && step != last[event->rank]) ||
            event->entry.micro >= e->input->job->micro_batches) {
            harness_gap_set(out, "rank %u recorded %s in step %u.%u, behind step %u", event->rank,
                            ddp_event_name((enum ddp_event)event->entry.event), step,
                            event->entry.micro, last[event->rank]);
            break;
        }
        last[event->rank] = step;
    }
    ddp_mem_free(e->mem, last);
    return DDP_OK;
}

ddp_status harness_evidence_order(const struct harness_emulation *e, struct harness_gap *out)
{
    DDP_TRY(check_places(e, out));
    return out->is_set ? DDP_OK : check_phases(e, out);
}
