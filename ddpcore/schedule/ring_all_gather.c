/* Ring all-gather: each member's block goes once around the ring, n-1 rounds. In place, the own
 * block already lies at its place in the output. Segments of a block travel independently. */
#include "ddpcore/schedule/emit.h"

/* Round r: the block r before the own one leaves, the one before that arrives. arrived: [segment]
 * the step that brought what leaves now. */
static void emit_round(struct ddp_schedule *schedule, uint32_t round, uint32_t *arrived)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part block = {0, params->elem_count};
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    size_t segment_count = ddp_emit_segment_count(params->elem_count, params->segment_elem_count);
    uint32_t next = (params->rank + 1) % params->size;
    uint32_t prev = (params->rank + params->size - 1) % params->size;
    uint32_t leaving = (params->rank + params->size - round) % params->size;
    uint32_t arriving = (params->rank + params->size - round - 1) % params->size;
    bool is_from_input = round == 0 && !params->is_in_place;

    DDP_ASSERT(leaving != arriving && arriving != params->rank);
    for (size_t segment = 0; segment < segment_count; segment++) {
        struct ddp_part part = ddp_emit_segment(block, params->segment_elem_count, segment);
        struct ddp_part source = {leaving * params->elem_count + part.first, part.elem_count};
        struct ddp_part target = {arriving * params->elem_count + part.first, part.elem_count};
        const uint32_t dep[2] = {arrived[segment], DDP_STEP_NONE};

        (void)ddp_emit_send(schedule, round, next,
                            is_from_input ? ddp_emit_range(DDP_BUFFER_INPUT, part)
                                          : ddp_emit_range(DDP_BUFFER_OUTPUT, source),
                            dep);
        arrived[segment] = ddp_emit_recv(schedule, DDP_STEP_RECV, round, prev,
                                         ddp_emit_range(DDP_BUFFER_OUTPUT, target), none);
    }
}

void ddp_emit_ring_all_gather(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part block = {0, params->elem_count};
    const struct ddp_part own = {params->rank * params->elem_count, params->elem_count};
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    uint32_t *arrived = ddp_emit_step_array(
        schedule, ddp_emit_segment_count(params->elem_count, params->segment_elem_count));

    if (!params->is_in_place) {
        (void)ddp_emit_copy(schedule, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, own),
                            ddp_emit_range(DDP_BUFFER_INPUT, block), none);
    }
    for (uint32_t round = 0; arrived != NULL && round + 1 < params->size; round++) {
        emit_round(schedule, round, arrived);
    }
    ddp_mem_free(schedule->mem, arrived);
}
