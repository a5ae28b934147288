/* Where each rank was at a moment, from the trace alone. Internal to harness/cell. */
#ifndef HARNESS_CELL_RANK_TABLE_H
#define HARNESS_CELL_RANK_TABLE_H

#include <jansson.h>

#include "harness/trace/trace.h"

#define HARNESS_VIEW_EVENTS 4

/* One rank up to the moment. */
struct harness_rank_view {
    const struct harness_trace_event *last[HARNESS_VIEW_EVENTS]; /* a ring of the latest */
    size_t event_count;
    uint64_t posted_seq, done_seq; /* highest */
    bool is_gone;
};

void harness_rank_view_init(struct harness_rank_view *view, const struct harness_trace *trace,
                            uint32_t rank, uint64_t moment_ns);
/* A line a rank: its part in the verdict, its state, its place, what it posted and completed last,
 * whom its open operation needs. Beyond 8 ranks, those of the same line share one. verdict: names
 * culprits and victims. views: [world_size]. */
DDP_MUST_USE ddp_status harness_rank_table_print(const struct harness_trace *trace,
                                                 const struct harness_rank_view *views,
                                                 const json_t *verdict, struct ddp_mem *mem,
                                                 struct ddp_text *out);

#endif
