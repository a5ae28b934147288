/* Purpose: how many batches a rank took. */
#include "harness/trace/taken.h"

enum { JOIN_ENDED = 1 }; /* as the core records it: enum ddp_join_event */

const struct harness_trace_event *harness_taken_ended(const struct harness_index *index,
                                                      uint32_t rank)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(index, rank, DDP_EVENT_JOIN, &count);

    for (size_t i = 0; i < count; i++) {
        if (list[i]->entry.arg[0] == JOIN_ENDED) {
            return list[i];
        }
    }
    return NULL;
}

uint64_t harness_taken_in_turn(const struct harness_index *index, uint32_t rank, uint64_t first,
                               uint64_t micro_batches)
{
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(index, rank, DDP_EVENT_DATA_BATCH, &count);
    uint64_t got = 0;

    while (got < count &&
           list[got]->entry.step * micro_batches + list[got]->entry.micro == first + got) {
        got++;
    }
    return first + got;
}

uint64_t harness_taken_count(const struct harness_index *index, uint32_t rank, uint64_t first,
                             uint64_t micro_batches, uint64_t due)
{
    size_t count = 0;
    uint64_t taken;

    (void)harness_index_list(index, rank, DDP_EVENT_DATA_BATCH, &count);
    taken = first + count;
    if ((count == 0 && due <= first) || taken == due ||
        harness_taken_in_turn(index, rank, first, micro_batches) != taken) {
        return due;
    }
    return taken > due || harness_taken_ended(index, rank) != NULL ? taken : due;
}
