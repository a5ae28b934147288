/* Ring reduce-scatter: the sum of block b begins at rank b + 1 and goes once around the ring; each
 * rank adds its own part, rank b the last one. n-1 rounds. A sum on its way lies in one of two
 * places by turns: one is sent while the other is filled. Segments of a block travel
 * independently. */
#include "ddpcore/schedule/emit.h"

enum { PLACES = 2 };

struct ring {
    struct ddp_schedule *schedule;
    const struct ddp_schedule_params *params;
    size_t segment_count;
    uint32_t scratch[PLACES];
    uint32_t *summed;       /* [segment] the step that made the sum that leaves next */
    uint32_t *lent[PLACES]; /* [segment] the send of what lies there */
};

/* The rank's own part of a block. */
static struct ddp_range input_of(const struct ring *ring, uint32_t block, struct ddp_part part)
{
    DDP_ASSERT(block < ring->params->size);
    part.first += block * ring->params->elem_count;
    return ddp_emit_range(DDP_BUFFER_INPUT, part);
}

/* Round r: block rank - 1 - r leaves, block rank - 2 - r arrives; the last one is the own. */
static void emit_round(const struct ring *ring, uint32_t round, size_t segment)
{
    const struct ddp_schedule_params *params = ring->params;
    const struct ddp_part block = {0, params->elem_count};
    struct ddp_part part = ddp_emit_segment(block, params->segment_elem_count, segment);
    uint32_t next = (params->rank + 1) % params->size;
    uint32_t prev = (params->rank + params->size - 1) % params->size;
    uint32_t leaving = (params->rank + params->size - 1 - round) % params->size;
    uint32_t arriving = (params->rank + 2 * params->size - 2 - round) % params->size;
    bool is_last = round + 2 == params->size;
    uint32_t place = round % PLACES;
    struct ddp_range from = round == 0 ? input_of(ring, leaving, part)
                                       : ddp_emit_scratch(ring->scratch[1 - place], part);
    struct ddp_range sum = is_last ? ddp_emit_range(DDP_BUFFER_OUTPUT, part)
                                   : ddp_emit_scratch(ring->scratch[place], part);
    uint32_t dep[2] = {ring->summed[segment], DDP_STEP_NONE};
    uint32_t sent = ddp_emit_send(ring->schedule, round, next, from, dep);

    DDP_ASSERT(is_last == (arriving == params->rank));
    dep[0] = is_last ? DDP_STEP_NONE : ring->lent[place][segment];
    if (!is_last || !params->is_in_place) {
        dep[0] = ddp_emit_copy(ring->schedule, round, sum, input_of(ring, arriving, part), dep);
    }
    ring->summed[segment] =
        ddp_emit_recv(ring->schedule, DDP_STEP_RECV_REDUCE, round, prev, sum, dep);
    ring->lent[1 - place][segment] = round == 0 ? DDP_STEP_NONE : sent;
}

static void emit_rounds(const struct ring *ring)
{
    for (uint32_t round = 0; round + 1 < ring->params->size; round++) {
        for (size_t segment = 0; segment < ring->segment_count; segment++) {
            emit_round(ring, round, segment);
        }
    }
}

void ddp_emit_ring_reduce_scatter(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part block = {0, params->elem_count};
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    struct ring ring = {.schedule = schedule, .params = params};

    if (params->size == 1 && !params->is_in_place) {
        (void)ddp_emit_copy(schedule, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, block),
                            ddp_emit_range(DDP_BUFFER_INPUT, block), none);
    }
    for (uint32_t place = 0; place < PLACES && place + 2 < params->size; place++) {
        ring.scratch[place] = ddp_schedule_add_scratch(schedule, params->dtype, params->elem_count);
    }
    ring.segment_count = ddp_emit_segment_count(params->elem_count, params->segment_elem_count);
    ring.summed = ddp_emit_step_array(schedule, ring.segment_count);
    for (uint32_t place = 0; place < PLACES; place++) {
        ring.lent[place] = ddp_emit_step_array(schedule, ring.segment_count);
    }
    if (schedule->status == DDP_OK) {
        emit_rounds(&ring);
    }
    ddp_mem_free(schedule->mem, ring.summed);
    for (uint32_t place = 0; place < PLACES; place++) {
        ddp_mem_free(schedule->mem, ring.lent[place]);
    }
}
