/* The trace in memory: collected from rings, merged into one order, searched. */
#include "harness/trace/trace.h"

#include <stdlib.h>
#include <string.h>

#include "harness/trace/event_format.h"

void harness_trace_init(struct harness_trace *trace, struct ddp_mem *mem, uint32_t world_size,
                        const char *driver)
{
    memset(trace, 0, sizeof *trace);
    trace->mem = mem;
    trace->world_size = world_size;
    trace->driver = driver;
    trace->launcher = "own";
    trace->ends = ddp_mem_array(mem, world_size, sizeof *trace->ends);
    DDP_ASSERT(trace->ends != NULL);
    harness_findings_init(&trace->diagnoses, mem);
    ddp_text_init(&trace->graph, mem);
}

void harness_trace_fini(struct harness_trace *trace)
{
    if (trace->mem == NULL) {
        return;
    }
    ddp_mem_free(trace->mem, trace->events);
    ddp_mem_free(trace->mem, trace->ends);
    ddp_mem_free(trace->mem, trace->diagnosis_time_ns);
    harness_findings_fini(&trace->diagnoses);
    ddp_text_fini(&trace->graph);
    memset(trace, 0, sizeof *trace);
}

static ddp_status reserve(struct harness_trace *trace, size_t extra)
{
    size_t capacity = trace->event_capacity == 0 ? 256 : trace->event_capacity;
    struct harness_trace_event *events;

    while (capacity < trace->event_count + extra) {
        capacity *= 2;
    }
    if (capacity == trace->event_capacity) {
        return DDP_OK;
    }
    events = ddp_mem_array(trace->mem, capacity, sizeof *events);
    if (events == NULL) {
        return DDP_E_NOMEM;
    }
    if (trace->events != NULL) {
        memcpy(events, trace->events, trace->event_count * sizeof *events);
    }
    ddp_mem_free(trace->mem, trace->events);
    trace->events = events;
    trace->event_capacity = capacity;
    return DDP_OK;
}

/* Each argument is in its range; what an event has none for is 0: else something was recorded that
 * is printed nowhere. */
static bool is_in_form(const struct ddp_event_entry *entry)
{
    for (unsigned i = 0; i < DDP_EVENT_ARG_COUNT; i++) {
        const char *format = ddp_event_arg((enum ddp_event)entry->event, i);

        if (format[0] == '\0' ? entry->arg[i] != 0
                              : !harness_event_arg_is_possible(format, entry->arg[i])) {
            return false;
        }
    }
    return true;
}

ddp_status harness_trace_add_ring(struct harness_trace *trace, uint32_t rank,
                                  const struct ddp_event_entry *ring, uint64_t ring_entry_count,
                                  uint64_t event_count)
{
    DDP_ASSERT(rank < trace->world_size);
    DDP_TRY(reserve(trace, event_count));
    DDP_ASSERT(trace->event_count + event_count <= trace->event_capacity);
    for (uint64_t index = 1; index <= event_count; index++) {
        struct harness_trace_event *event = &trace->events[trace->event_count];

        /* A rank may write anything into its memory. */
        if (ddp_ring_read(ring, ring_entry_count, index, &event->entry) == DDP_OK &&
            event->entry.event < DDP_EVENT_COUNT && event->entry.phase < DDP_PHASE_COUNT &&
            is_in_form(&event->entry)) {
            event->rank = rank;
            trace->event_count++;
        } else {
            trace->lost_count++;
        }
    }
    return DDP_OK;
}

ddp_status harness_trace_add_diagnosis(struct harness_trace *trace, uint64_t time_ns,
                                       const struct harness_finding *finding)
{
    size_t count = trace->diagnoses.count;
    uint64_t *times = ddp_mem_array(trace->mem, count + 1, sizeof *times);

    if (times == NULL) {
        return DDP_E_NOMEM;
    }
    if (count > 0) {
        memcpy(times, trace->diagnosis_time_ns, count * sizeof *times);
    }
    times[count] = time_ns;
    ddp_mem_free(trace->mem, trace->diagnosis_time_ns);
    trace->diagnosis_time_ns = times;
    harness_findings_add(&trace->diagnoses, finding);
    return trace->diagnoses.is_failed ? DDP_E_NOMEM : DDP_OK;
}

static bool is_refuted(const struct harness_trace *trace, const struct harness_finding *finding)
{
    for (uint32_t i = 0; i < harness_rank_set_count(&finding->culprits); i++) {
        const uint32_t rank = harness_rank_set_at(&finding->culprits, i);
        const enum harness_end_how how = trace->ends[rank].how;

        DDP_ASSERT(rank < trace->world_size);
        if ((finding->verdict == HARNESS_VERDICT_CRASH_SIGNALED && how <= HARNESS_END_EXITED) ||
            (finding->verdict == HARNESS_VERDICT_CRASH_EXITED && how != HARNESS_END_EXITED)) {
            return true;
        }
    }
    return false;
}

void harness_trace_refute(struct harness_trace *trace)
{
    struct harness_findings *diagnoses = &trace->diagnoses;
    size_t kept = 0;

    for (size_t i = 0; i < diagnoses->count; i++) {
        struct harness_finding *finding = &diagnoses->items[i];

        if (is_refuted(trace, finding)) {
            harness_finding_free(finding);
            trace->refuted_count++;
            continue;
        }
        trace->diagnosis_time_ns[kept] = trace->diagnosis_time_ns[i];
        diagnoses->items[kept++] = *finding;
    }
    diagnoses->count = kept;
}

int harness_trace_compare(const struct harness_trace_event *a, const struct harness_trace_event *b)
{
    if (a->entry.time_ns != b->entry.time_ns) {
        return a->entry.time_ns < b->entry.time_ns ? -1 : 1;
    }
    if (a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    return a->entry.index < b->entry.index ? -1 : a->entry.index > b->entry.index;
}

static int compare_events(const void *left, const void *right)
{
    return harness_trace_compare(left, right);
}

void harness_trace_merge(struct harness_trace *trace)
{
    if (trace->event_count > 0) {
        qsort(trace->events, trace->event_count, sizeof *trace->events, compare_events);
    }
    for (uint32_t rank = 0; rank < trace->world_size; rank++) {
        trace->ends[rank].event_count = 0;
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        trace->events[i].entry.index = ++trace->ends[trace->events[i].rank].event_count;
    }
}

const struct harness_trace_event *harness_trace_next(const struct harness_trace *trace,
                                                     size_t *cursor, int64_t rank,
                                                     enum ddp_event event)
{
    DDP_ASSERT(*cursor <= trace->event_count && event < DDP_EVENT_COUNT);
    while (*cursor < trace->event_count) {
        const struct harness_trace_event *candidate = &trace->events[(*cursor)++];

        if (candidate->entry.event == (uint8_t)event &&
            (rank < 0 || candidate->rank == (uint64_t)rank)) {
            return candidate;
        }
    }
    return NULL;
}

uint64_t harness_trace_fired_ns(const struct harness_trace *trace, uint32_t fault,
                                uint32_t *out_count)
{
    const struct harness_trace_event *event;
    uint64_t first_ns = 0;
    size_t cursor = 0;

    *out_count = 0;
    while ((event = harness_trace_next(trace, &cursor, -1, DDP_EVENT_FAULT_FIRED)) != NULL) {
        if (event->entry.arg[0] != fault) {
            continue;
        }
        if ((*out_count)++ == 0) {
            first_ns = event->entry.time_ns;
        }
    }
    return first_ns;
}
