/* A part of the elements that is all-reduced around a ring, a round at a time: for algorithms that
 * send several parts around, one after the other or in both directions. */
#ifndef DDPCORE_SCHEDULE_RING_PASS_H
#define DDPCORE_SCHEDULE_RING_PASS_H

#include "ddpcore/schedule/emit.h"

struct ddp_ring_pass {
    struct ddp_schedule *schedule;
    struct ddp_part part;
    uint32_t place;      /* of this rank on the ring, in the pass's direction */
    uint32_t next, prev; /* ranks */
    uint32_t first_round;
    size_t segment_max; /* segments of the longest chunk */
    uint32_t *written;  /* [size * segment_max]: last step that wrote the segment */
    uint32_t *lent;     /* same: the send that lent the segment of the output */
};

/* is_backward: to lower ranks. first_round: number of the pass's round 0. For two ranks or more.
 * An error is in schedule->status; _fini is right after both. */
void ddp_ring_pass_init(struct ddp_ring_pass *pass, struct ddp_schedule *schedule,
                        struct ddp_part part, bool is_backward, uint32_t first_round);
void ddp_ring_pass_fini(struct ddp_ring_pass *pass);
/* Emits round `round` of ddp_ring_pass_round_count. */
void ddp_ring_pass_emit(const struct ddp_ring_pass *pass, uint32_t round);
static inline uint32_t ddp_ring_pass_round_count(uint32_t size)
{
    return 2 * (size - 1);
}

#endif
