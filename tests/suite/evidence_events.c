/* Every kind of event, damaged before it is numbered and sealed, as by a recorder that forgets,
 * repeats or errs. */
#include <stdio.h>
#include <string.h>

#include "tests/suite/evidence.h"

/* Damages of what a recorder wrote that no verdict depends on. how: as in evidence_ways, NULL: any;
 * argument -1: any. */
static const struct {
    enum ddp_event event;
    const char *how;
    int argument;
    const char *why;
} harmless[] = {
    {DDP_EVENT_RANK_BEGIN, "altered", 0, "a process id is not printed"},
    {DDP_EVENT_PHASE, "altered", 1, "a duration: these runs are not judged by time"},
    {DDP_EVENT_PHASE, "altered", 2, "a duration: these runs are not judged by time"},
    {DDP_EVENT_LINK_LOST, NULL, -1, "peer.died and rank.error say the same of who is lost"},
    {DDP_EVENT_RANK_ERROR, NULL, -1, "an error of a victim: the culprit has evidence of its own"},
};

static uint32_t last_micro_of(const struct harness_trace *trace)
{
    uint32_t last = 0;

    for (size_t i = 0; i < trace->event_count; i++) {
        last = trace->events[i].entry.micro > last ? trace->events[i].entry.micro : last;
    }
    return last;
}

static bool is_harmless(const struct ddp_event_entry *entry, uint32_t last_micro, enum way way,
                        int argument)
{
    enum ddp_event event = (enum ddp_event)entry->event;

    if (way == ALTER_ONE && argument == 1 &&
        ((event == DDP_EVENT_GRAD_READY && entry->micro < last_micro) ||
         (event == DDP_EVENT_GRAD_FINAL && entry->arg[2] == 0))) {
        return true; /* more is added to the gradient before it is judged; there is none */
    }
    for (size_t i = 0; i < sizeof harmless / sizeof harmless[0]; i++) {
        if (harmless[i].event == event &&
            (harmless[i].how == NULL || strcmp(harmless[i].how, evidence_ways[way]) == 0) &&
            (harmless[i].argument < 0 || harmless[i].argument == argument)) {
            return true;
        }
    }
    return false;
}

static void delete_at(struct harness_trace *trace, size_t at)
{
    memmove(&trace->events[at], &trace->events[at + 1],
            (trace->event_count - at - 1) * sizeof trace->events[0]);
    trace->event_count--;
}

static void damage_events(struct harness_trace *trace, size_t at, enum way way, int argument)
{
    struct harness_trace_event *event = &trace->events[at];
    uint8_t kind = event->entry.event;

    if (way == DELETE_ALL) {
        for (size_t i = trace->event_count; i > 0; i--) {
            if (trace->events[i - 1].entry.event == kind) {
                delete_at(trace, i - 1);
            }
        }
    } else if (way == DELETE_ONE) {
        delete_at(trace, at);
    } else if (way == DOUBLE_ONE) {
        DDP_ASSERT(trace->event_count < trace->event_capacity);
        trace->events[trace->event_count] = *event;
        trace->events[trace->event_count++].entry.index++;
    } else {
        event->entry.arg[argument] ^= 1;
    }
}

/* What a rank holds after an error, and how many messages it came to, is not judged. */
static bool is_ended_ok(const struct harness_trace *trace, uint32_t rank)
{
    size_t cursor = 0;
    const struct harness_trace_event *end =
        harness_trace_next(trace, &cursor, rank, DDP_EVENT_RANK_END);

    return end != NULL && end->entry.arg[0] == (uint64_t)DDP_OK;
}

/* What a checkpoint held that a later one has replaced: its file is not there to be compared. */
static bool is_replaced(const struct harness_trace *trace, size_t at)
{
    for (size_t i = at + 1; i < trace->event_count; i++) {
        if (trace->events[i].entry.event == (uint8_t)DDP_EVENT_CHECKPOINT_SAVED) {
            return trace->events[at].entry.event == (uint8_t)DDP_EVENT_CHECKPOINT_SAVED;
        }
    }
    return false;
}

static void try_events(struct sweep *sweep, size_t at, enum way way, int argument)
{
    struct harness_trace trace;
    enum ddp_event event;
    char what[192];
    bool is_skipped;

    evidence_parse(sweep, &trace);
    event = (enum ddp_event)trace.events[at].entry.event;
    is_skipped = (event == DDP_EVENT_RANK_HOLDS ||
                  (event == DDP_EVENT_RANK_END && way == ALTER_ONE && argument == 2)) &&
                 !is_ended_ok(&trace, trace.events[at].rank);
    is_skipped =
        is_skipped || is_harmless(&trace.events[at].entry, last_micro_of(&trace), way, argument);
    is_skipped = is_skipped || (way == ALTER_ONE && argument > 0 && is_replaced(&trace, at));
    (void)snprintf(what, sizeof what, "event %s of rank %u, step %u, %s%s%s", ddp_event_name(event),
                   trace.events[at].rank, trace.events[at].entry.step, evidence_ways[way],
                   way == ALTER_ONE ? ", " : "",
                   way == ALTER_ONE ? ddp_event_arg(event, (unsigned)argument) : "");
    damage_events(&trace, at, way, argument);
    if (!is_skipped) {
        evidence_reseal(sweep, &trace);
        evidence_expect(sweep, what, false);
    }
    harness_trace_fini(&trace);
}

/* A step that all ranks went through before a fault acted; UINT32_MAX: none did. What ranks record
 * from then on may end anywhere. */
static uint32_t disturbed_step(const struct harness_trace *trace)
{
    size_t cursor = 0;
    const struct harness_trace_event *fired =
        harness_trace_next(trace, &cursor, -1, DDP_EVENT_FAULT_FIRED);
    uint32_t end = fired != NULL ? fired->entry.step : UINT32_MAX;

    for (uint32_t rank = 0; fired != NULL && rank < trace->world_size; rank++) {
        uint32_t last = 0;

        for (size_t i = 0; i < trace->event_count; i++) {
            last = trace->events[i].rank == rank ? trace->events[i].entry.step : last;
        }
        end = last < end ? last : end;
    }
    return end;
}

/* Where events of a kind are: in steps before any fault, else all. */
static size_t find_places(const struct harness_trace *trace, enum ddp_event event, size_t *places)
{
    uint32_t end = disturbed_step(trace);
    size_t count = 0;

    for (int all = 0; all < 2 && count == 0; all++) {
        for (size_t i = 0; i < trace->event_count; i++) {
            if (trace->events[i].entry.event == (uint8_t)event &&
                (all || trace->events[i].entry.step < end)) {
                places[count++] = i;
            }
        }
    }
    return count;
}

static void sweep_kind(struct sweep *sweep, const struct harness_trace *trace, enum ddp_event event)
{
    size_t *places = ddp_mem_array(sweep->mem, trace->event_count, sizeof *places);
    size_t count = find_places(trace, event, places);

    if (count > 0) {
        try_events(sweep, places[0], DELETE_ALL, 0);
    }
    for (int n = 0; n < PICKS && count > 0; n++) {
        try_events(sweep, places[evidence_pick(sweep, count)], DELETE_ONE, 0);
        try_events(sweep, places[evidence_pick(sweep, count)], DOUBLE_ONE, 0);
        for (int a = 0; ddp_event_arg(event, (unsigned)a)[0] != '\0'; a++) {
            try_events(sweep, places[evidence_pick(sweep, count)], ALTER_ONE, a);
        }
    }
    ddp_mem_free(sweep->mem, places);
}

void evidence_sweep_events(struct sweep *sweep)
{
    struct harness_trace trace;

    evidence_parse(sweep, &trace);
    for (unsigned event = 0; event < DDP_EVENT_COUNT; event++) {
        sweep_kind(sweep, &trace, (enum ddp_event)event);
    }
    harness_trace_fini(&trace);
    evidence_write(sweep, "trace.txt", sweep->text, strlen(sweep->text));
}

/* A rank's end as the launcher saw it. */
void evidence_sweep_ends(struct sweep *sweep)
{
    for (unsigned n = 0; n < 3; n++) {
        static const char *const what[] = {"exit code 9", "ended by a signal", "never started"};
        struct harness_trace trace;
        struct harness_rank_end *end;

        evidence_parse(sweep, &trace);
        end = &trace.ends[trace.world_size - 1];
        end->how = n == 0 ? HARNESS_END_EXITED : n == 1 ? HARNESS_END_SIGNALED : HARNESS_END_NONE;
        end->code = n == 0 ? 9 : n == 1 ? 11 : 0;
        evidence_reseal(sweep, &trace);
        evidence_expect(sweep, what[n], false);
        harness_trace_fini(&trace);
    }
    evidence_write(sweep, "trace.txt", sweep->text, strlen(sweep->text));
}
