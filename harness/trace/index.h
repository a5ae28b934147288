/* A trace by rank and kind of event, so that oracles read only the events that they judge. */
#ifndef HARNESS_TRACE_INDEX_H
#define HARNESS_TRACE_INDEX_H

#include "harness/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_index {
    struct ddp_mem *mem;
    uint32_t world_size;
    /* events of (rank, kind) are event[first[c]..first[c + 1]), c = rank * DDP_EVENT_COUNT + kind,
     * in the rank's own order */
    size_t *first;
    const struct harness_trace_event **event;
    /* the same cells, those about collectives in the order of their sequence numbers */
    const struct harness_trace_event **by_seq;
};

/* Borrows the trace. */
DDP_MUST_USE ddp_status harness_index_build(struct ddp_mem *mem, const struct harness_trace *trace,
                                            struct harness_index *out);
void harness_index_fini(struct harness_index *index);
const struct harness_trace_event *const *harness_index_list(const struct harness_index *index,
                                                            uint32_t rank, enum ddp_event event,
                                                            size_t *out_count);
/* Those of one step; a rank's steps never go back. */
const struct harness_trace_event *const *harness_index_in_step(const struct harness_index *index,
                                                               uint32_t rank, enum ddp_event event,
                                                               uint32_t step, size_t *out_count);
/* The first event about collective number seq, or NULL, in whatever order they came. For kinds
 * coll.*, whose argument 0 is that number. */
const struct harness_trace_event *harness_index_with_seq(const struct harness_index *index,
                                                         uint32_t rank, enum ddp_event event,
                                                         uint64_t seq);
/* The rank's rank.end, or NULL. */
const struct harness_trace_event *harness_index_end(const struct harness_index *index,
                                                    uint32_t rank);
/* A status from an event's argument, which may be sign-extended or not. */
ddp_status harness_index_status(uint64_t word);
/* The rank recorded its end, with status OK. */
bool harness_index_is_ended_ok(const struct harness_index *index, uint32_t rank);
/* The rank was told that its world has another size than `world`: it is in a group of its own. */
bool harness_index_is_apart(const struct harness_index *index, uint32_t rank, uint32_t world);

#ifdef __cplusplus
}
#endif
#endif
