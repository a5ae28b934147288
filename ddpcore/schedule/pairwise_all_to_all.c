/* Pairwise all-to-all: in round k every rank sends the block of the rank k after it straight there,
 * and takes its own from the rank k before it. n-1 rounds, each block moved once. In place the
 * blocks are set aside first: a block that waits to be taken must not keep another one from being
 * replaced, or all would wait in a circle. */
#include "ddpcore/schedule/emit.h"

static void emit_segment(struct ddp_schedule *schedule, uint32_t scratch, uint32_t *set_aside,
                         struct ddp_part part)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};

    for (uint32_t rank = 0; rank < params->size; rank++) {
        struct ddp_part block = {rank * params->elem_count + part.first, part.elem_count};
        struct ddp_range input = ddp_emit_range(DDP_BUFFER_INPUT, block);

        if (rank == params->rank && !params->is_in_place) {
            (void)ddp_emit_copy(schedule, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, block), input, none);
        } else if (rank != params->rank && params->is_in_place) {
            set_aside[rank] =
                ddp_emit_copy(schedule, 0, ddp_emit_scratch(scratch, block), input, none);
        }
    }
    for (uint32_t distance = 1; distance < params->size; distance++) {
        uint32_t after = (params->rank + distance) % params->size;
        uint32_t before = (params->rank + params->size - distance) % params->size;
        struct ddp_part leaving = {after * params->elem_count + part.first, part.elem_count};
        struct ddp_part arriving = {before * params->elem_count + part.first, part.elem_count};
        const uint32_t is_set_aside[2] = {set_aside[after], DDP_STEP_NONE};
        const uint32_t is_free[2] = {set_aside[before], DDP_STEP_NONE};

        DDP_ASSERT(after != params->rank && before != params->rank);
        (void)ddp_emit_send(schedule, distance - 1, after,
                            params->is_in_place ? ddp_emit_scratch(scratch, leaving)
                                                : ddp_emit_range(DDP_BUFFER_INPUT, leaving),
                            is_set_aside);
        (void)ddp_emit_recv(schedule, DDP_STEP_RECV, distance - 1, before,
                            ddp_emit_range(DDP_BUFFER_OUTPUT, arriving), is_free);
    }
}

void ddp_emit_pairwise_all_to_all(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part block = {0, params->elem_count};
    size_t segment_count = ddp_emit_segment_count(params->elem_count, params->segment_elem_count);
    uint32_t *set_aside = ddp_emit_step_array(schedule, params->size);
    uint32_t scratch = 0;

    if (params->is_in_place && params->size > 1) {
        scratch =
            ddp_schedule_add_scratch(schedule, params->dtype, params->size * params->elem_count);
    }
    for (size_t segment = 0; schedule->status == DDP_OK && segment < segment_count; segment++) {
        emit_segment(schedule, scratch, set_aside,
                     ddp_emit_segment(block, params->segment_elem_count, segment));
    }
    ddp_mem_free(schedule->mem, set_aside);
}
