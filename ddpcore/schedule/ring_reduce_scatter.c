/* Ring reduce-scatter: the sum of block b begins at rank b + 1 and goes once around the ring; each
 * rank adds its own part, rank b the last one. n-1 rounds. A sum on its way lies in one of two
 * places by turns: one is sent while the other is filled. Segments of a block travel
 * independently. */
#include "ddpcore/schedule/emit.h"

enum { PLACES = 2 };

struct ring {
    struct ddp_schedule *schedule;
    const struct ddp_schedule_params *params;
    uint32_t scratch[PLACES];
};

/* The rank's own part of a block. */
static struct ddp_range input_of(const struct ring *ring, uint32_t block, struct ddp_part part)
{
    DDP_ASSERT(block < ring->params->size);
    part.first += block * ring->params->elem_count;
    return ddp_emit_range(DDP_BUFFER_INPUT, part);
}

static void emit_segment(const struct ring *ring, struct ddp_part part)
{
    const struct ddp_schedule_params *params = ring->params;
    uint32_t next = (params->rank + 1) % params->size;
    uint32_t prev = (params->rank + params->size - 1) % params->size;
    uint32_t lent[PLACES] = {DDP_STEP_NONE, DDP_STEP_NONE};
    uint32_t summed = DDP_STEP_NONE;

    for (uint32_t round = 0; round + 1 < params->size; round++) {
        /* Round r: block rank - 1 - r leaves, block rank - 2 - r arrives; the last one is the own.
         */
        uint32_t leaving = (params->rank + params->size - 1 - round) % params->size;
        uint32_t arriving = (params->rank + 2 * params->size - 2 - round) % params->size;
        bool is_last = round + 2 == params->size;
        uint32_t place = round % PLACES;
        struct ddp_range from = round == 0 ? input_of(ring, leaving, part)
                                           : ddp_emit_scratch(ring->scratch[1 - place], part);
        struct ddp_range sum = is_last ? ddp_emit_range(DDP_BUFFER_OUTPUT, part)
                                       : ddp_emit_scratch(ring->scratch[place], part);
        uint32_t dep[2] = {summed, DDP_STEP_NONE};
        uint32_t sent = ddp_emit_send(ring->schedule, round, next, from, dep);

        DDP_ASSERT(is_last == (arriving == params->rank));
        dep[0] = is_last ? DDP_STEP_NONE : lent[place];
        if (!is_last || !params->is_in_place) {
            dep[0] = ddp_emit_copy(ring->schedule, round, sum, input_of(ring, arriving, part), dep);
        }
        summed = ddp_emit_recv(ring->schedule, DDP_STEP_RECV_REDUCE, round, prev, sum, dep);
        lent[1 - place] = round == 0 ? DDP_STEP_NONE : sent;
    }
}

void ddp_emit_ring_reduce_scatter(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part block = {0, params->elem_count};
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    struct ring ring = {.schedule = schedule, .params = params};
    size_t segment_count = ddp_emit_segment_count(params->elem_count, params->segment_elem_count);

    if (params->size == 1 && !params->is_in_place) {
        (void)ddp_emit_copy(schedule, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, block),
                            ddp_emit_range(DDP_BUFFER_INPUT, block), none);
    }
    for (uint32_t place = 0; place < PLACES && place + 2 < params->size; place++) {
        ring.scratch[place] = ddp_schedule_add_scratch(schedule, params->dtype, params->elem_count);
    }
    for (size_t segment = 0; params->size > 1 && segment < segment_count; segment++) {
        emit_segment(&ring, ddp_emit_segment(block, params->segment_elem_count, segment));
    }
}
