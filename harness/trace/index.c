/* Purpose: sort a trace's events by (rank, kind) with one counting pass.
 * Idea: a counting sort keeps each rank's own order. Completions have a second order, by sequence
 * number: a rank that looks for an end late records it behind later ones. */
#include "harness/trace/index.h"

#include <stdlib.h>
#include <string.h>

static size_t cell_of(const struct harness_trace_event *event)
{
    return (size_t)event->rank * DDP_EVENT_COUNT + event->entry.event;
}

static bool is_known(const struct harness_index *index, const struct harness_trace_event *event)
{
    return event->rank < index->world_size && event->entry.event < DDP_EVENT_COUNT;
}

static uint64_t seq_of(const struct harness_trace_event *event)
{
    return event->entry.arg[0];
}

static int compare_seq(const void *a, const void *b)
{
    const struct harness_trace_event *const *left = a;
    const struct harness_trace_event *const *right = b;

    if (seq_of(*left) != seq_of(*right)) {
        return seq_of(*left) < seq_of(*right) ? -1 : 1;
    }
    /* Events of one trace: of two with the same number, the one that was recorded first. */
    return *left < *right ? -1 : *left > *right;
}

static bool is_about_collective(size_t event)
{
    return event == DDP_EVENT_COLL_POST || event == DDP_EVENT_COLL_DONE ||
           event == DDP_EVENT_COLL_QUEUED || event == DDP_EVENT_COLL_WAITED ||
           event == DDP_EVENT_COLL_TAKEN;
}

static void order_by_seq(struct harness_index *index)
{
    const size_t cell_count = (size_t)index->world_size * DDP_EVENT_COUNT;

    for (size_t cell = 0; cell < cell_count; cell++) {
        const size_t first = index->first[cell];
        const size_t count = index->first[cell + 1] - first;

        if (count > 0 && is_about_collective(cell % DDP_EVENT_COUNT)) {
            memcpy(index->by_seq + first, index->event + first, count * sizeof(*index->event));
            qsort(index->by_seq + first, count, sizeof(*index->by_seq), compare_seq);
        }
    }
}

ddp_status harness_index_build(struct ddp_mem *mem, const struct harness_trace *trace,
                               struct harness_index *out)
{
    size_t cell_count = (size_t)trace->world_size * DDP_EVENT_COUNT;
    size_t *next;

    *out = (struct harness_index){.mem = mem, .world_size = trace->world_size};
    out->first = ddp_mem_array(mem, cell_count + 1, sizeof(*out->first));
    out->event = ddp_mem_array(mem, trace->event_count, sizeof(*out->event));
    out->by_seq = ddp_mem_array(mem, trace->event_count, sizeof(*out->by_seq));
    next = ddp_mem_array(mem, cell_count + 1, sizeof(*next));
    if (out->first == NULL || out->event == NULL || out->by_seq == NULL || next == NULL) {
        ddp_mem_free(mem, next);
        harness_index_fini(out);
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        if (is_known(out, &trace->events[i])) {
            out->first[cell_of(&trace->events[i]) + 1]++;
        }
    }
    for (size_t c = 0; c < cell_count; c++) {
        out->first[c + 1] += out->first[c];
        next[c] = out->first[c];
    }
    for (size_t i = 0; i < trace->event_count; i++) {
        if (is_known(out, &trace->events[i])) {
            out->event[next[cell_of(&trace->events[i])]++] = &trace->events[i];
        }
    }
    DDP_ASSERT(cell_count == 0 || next[cell_count - 1] == out->first[cell_count]); /* all entered */
    ddp_mem_free(mem, next);
    order_by_seq(out);
    return DDP_OK;
}

void harness_index_fini(struct harness_index *index)
{
    ddp_mem_free(index->mem, index->first);
    ddp_mem_free(index->mem, index->event);
    ddp_mem_free(index->mem, index->by_seq);
    index->first = NULL;
    index->event = NULL;
    index->by_seq = NULL;
}

const struct harness_trace_event *const *harness_index_list(const struct harness_index *index,
                                                            uint32_t rank, enum ddp_event event,
                                                            size_t *out_count)
{
    size_t cell = (size_t)rank * DDP_EVENT_COUNT + event;

    DDP_ASSERT(rank < index->world_size && event < DDP_EVENT_COUNT);
    DDP_ASSERT(index->first[cell] <= index->first[cell + 1]);
    *out_count = index->first[cell + 1] - index->first[cell];
    return index->event + index->first[cell];
}

static uint64_t step_of(const struct harness_trace_event *event)
{
    return event->entry.step;
}

/* Number of the first event whose key, which never falls along the list, is at least `key`. */
static size_t find_first(const struct harness_trace_event *const *list, size_t count,
                         uint64_t (*key_of)(const struct harness_trace_event *event), uint64_t key)
{
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (key_of(list[middle]) < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct harness_trace_event *const *harness_index_in_step(const struct harness_index *index,
                                                               uint32_t rank, enum ddp_event event,
                                                               uint32_t step, size_t *out_count)
{
    size_t count = 0;
    const struct harness_trace_event *const *list = harness_index_list(index, rank, event, &count);
    size_t first = find_first(list, count, step_of, step);

    *out_count = find_first(list, count, step_of, (uint64_t)step + 1) - first;
    return list + first;
}

const struct harness_trace_event *harness_index_with_seq(const struct harness_index *index,
                                                         uint32_t rank, enum ddp_event event,
                                                         uint64_t seq)
{
    const size_t cell = (size_t)rank * DDP_EVENT_COUNT + event;
    const size_t count = index->first[cell + 1] - index->first[cell];
    const struct harness_trace_event *const *list = index->by_seq + index->first[cell];
    size_t first;

    DDP_ASSERT(rank < index->world_size && is_about_collective(event));
    first = find_first(list, count, seq_of, seq);
    return first < count && seq_of(list[first]) == seq ? list[first] : NULL;
}

const struct harness_trace_event *harness_index_end(const struct harness_index *index,
                                                    uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(index, rank, DDP_EVENT_RANK_END, &count);

    return count == 0 ? NULL : list[count - 1];
}

ddp_status harness_index_status(uint64_t word)
{
    return (ddp_status)(int32_t)(uint32_t)word;
}

bool harness_index_is_ended_ok(const struct harness_index *index, uint32_t rank)
{
    const struct harness_trace_event *end = harness_index_end(index, rank);

    return end != NULL && harness_index_status(end->entry.arg[0]) == DDP_OK;
}

bool harness_index_is_apart(const struct harness_index *index, uint32_t rank, uint32_t world)
{
    size_t count = 0;
    const struct harness_trace_event *const *told =
        harness_index_list(index, rank, DDP_EVENT_RANK_TOLD, &count);

    return count > 0 && told[0]->entry.arg[1] != world;
}
