/* Pairwise reduce-scatter: in round k every rank sends the block of the rank k after it straight
 * there, and adds what the rank k before it sends. n-1 rounds, for any number of ranks; the sum of
 * block r is made by rank r, in the order r, r - 1, r - 2, ... */
#include "ddpcore/schedule/emit.h"

void ddp_emit_pairwise_reduce_scatter(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part block = {0, params->elem_count};
    size_t segment_count = ddp_emit_segment_count(params->elem_count, params->segment_elem_count);

    for (size_t segment = 0; segment < segment_count; segment++) {
        struct ddp_part part = ddp_emit_segment(block, params->segment_elem_count, segment);
        struct ddp_range sum = ddp_emit_range(DDP_BUFFER_OUTPUT, part);
        struct ddp_part own = {params->rank * params->elem_count + part.first, part.elem_count};
        const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
        uint32_t last[2] = {DDP_STEP_NONE, DDP_STEP_NONE};

        if (!params->is_in_place) {
            last[0] = ddp_emit_copy(schedule, 0, sum, ddp_emit_range(DDP_BUFFER_INPUT, own), none);
        }
        for (uint32_t distance = 1; distance < params->size; distance++) {
            uint32_t after = (params->rank + distance) % params->size;
            uint32_t before = (params->rank + params->size - distance) % params->size;
            struct ddp_part theirs = {after * params->elem_count + part.first, part.elem_count};

            DDP_ASSERT(after != params->rank && before != params->rank);
            DDP_ASSERT(theirs.first + theirs.elem_count <= params->size * params->elem_count);
            (void)ddp_emit_send(schedule, distance - 1, after,
                                ddp_emit_range(DDP_BUFFER_INPUT, theirs), none);
            last[0] =
                ddp_emit_recv(schedule, DDP_STEP_RECV_REDUCE, distance - 1, before, sum, last);
        }
    }
}
