/* What the built-in algorithms share: their emit functions, how a count is split, functions that
 * append one step. Counts and places are in elements; errors stay in schedule->status. */
#ifndef DDPCORE_SCHEDULE_EMIT_H
#define DDPCORE_SCHEDULE_EMIT_H

#include "ddpcore/schedule/schedule.h"

#define DDP_STEP_NONE UINT32_MAX

/* The emit function of each row. */
#define X(id, kind, name, emit, segment_bytes, meaning) void emit(struct ddp_schedule *schedule);
#include "ddpcore/schedule/algorithm.def"
#undef X

/* A contiguous part of a buffer. */
struct ddp_part {
    size_t first;
    size_t elem_count;
};

/* Part `index` of elem_count elements split into part_count parts as evenly as possible: the first
 * elem_count % part_count parts are one element longer. */
struct ddp_part ddp_emit_split(size_t elem_count, uint32_t part_count, uint32_t index);
/* Number of messages that elem_count elements need; segment_elem_count 0 means one. */
size_t ddp_emit_segment_count(size_t elem_count, size_t segment_elem_count);
/* Segment `index` of a part: [first + index * segment, ...), the last one shorter. */
struct ddp_part ddp_emit_segment(struct ddp_part part, size_t segment_elem_count, size_t index);
/* What two parts have in common; no elements if nothing. */
struct ddp_part ddp_emit_overlap(struct ddp_part a, struct ddp_part b);

/* The part as a range of the input or output, or of a scratch buffer by its number. */
struct ddp_range ddp_emit_range(enum ddp_buffer_kind buffer, struct ddp_part part);
struct ddp_range ddp_emit_scratch(uint32_t scratch, struct ddp_part part);

/* Append a step with up to two dependencies (DDP_STEP_NONE: none). Each returns the step's index,
 * DDP_STEP_NONE if the range is empty. peer: member number; round: see schedule.h. */
uint32_t ddp_emit_send(struct ddp_schedule *schedule, uint32_t round, uint32_t peer,
                       struct ddp_range src, const uint32_t dep[2]);
/* kind: DDP_STEP_RECV or DDP_STEP_RECV_REDUCE. */
uint32_t ddp_emit_recv(struct ddp_schedule *schedule, enum ddp_step_kind kind, uint32_t round,
                       uint32_t peer, struct ddp_range dst, const uint32_t dep[2]);
uint32_t ddp_emit_copy(struct ddp_schedule *schedule, uint32_t round, struct ddp_range dst,
                       struct ddp_range src, const uint32_t dep[2]);
/* uint32_t[count] set to DDP_STEP_NONE, from the schedule's memory, or NULL with the schedule's
 * status set. Free with ddp_mem_free(schedule->mem). */
uint32_t *ddp_emit_step_array(struct ddp_schedule *schedule, size_t count);

#endif
