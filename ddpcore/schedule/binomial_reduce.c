/* Binomial-tree reduction to any root, the broadcast's tree the other way. Ranks are renumbered so
 * that the root is 0; in round k, ranks whose lowest set bit is 2^k give their sum to the rank
 * without that bit. Sums are made in the root's output and in scratch elsewhere; a rank that adds
 * nothing sends its input. Segments go up the tree independently. */
#include "ddpcore/schedule/emit.h"

static void emit_segment(struct ddp_schedule *schedule, uint32_t scratch, uint32_t child_count,
                         struct ddp_part part)
{
    const struct ddp_schedule_params *params = &schedule->params;
    uint32_t number = (params->rank + params->size - params->root) % params->size;
    bool is_root = number == 0;
    struct ddp_range input = ddp_emit_range(DDP_BUFFER_INPUT, part);
    struct ddp_range sum =
        is_root ? ddp_emit_range(DDP_BUFFER_OUTPUT, part) : ddp_emit_scratch(scratch, part);
    uint32_t last[2] = {DDP_STEP_NONE, DDP_STEP_NONE};

    if ((is_root && !params->is_in_place) || (!is_root && child_count > 0)) {
        last[0] = ddp_emit_copy(schedule, 0, sum, input, last);
    }
    for (uint32_t child = 0; child < child_count; child++) {
        uint32_t rank = (number + (1u << child) + params->root) % params->size;

        DDP_ASSERT(number + (1u << child) < params->size);
        last[0] = ddp_emit_recv(schedule, DDP_STEP_RECV_REDUCE, child, rank, sum, last);
    }
    if (!is_root) {
        uint32_t parent = ((number & (number - 1)) + params->root) % params->size;
        uint32_t round = 0;

        while ((number >> round & 1) == 0) {
            round++;
        }
        (void)ddp_emit_send(schedule, round, parent, child_count > 0 ? sum : input, last);
    }
}

void ddp_emit_binomial_reduce(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part whole = {0, params->elem_count};
    size_t segment_count = ddp_emit_segment_count(params->elem_count, params->segment_elem_count);
    uint32_t number = (params->rank + params->size - params->root) % params->size;
    uint32_t child_count = 0;
    uint32_t scratch = 0;

    /* A child's number has one more bit set, below the lowest one of this number. */
    while ((number >> child_count & 1) == 0 &&
           (UINT64_C(1) << child_count) + number < params->size) {
        child_count++;
    }
    if (number != 0 && child_count > 0) {
        scratch = ddp_schedule_add_scratch(schedule, params->dtype, params->elem_count);
    }
    for (size_t segment = 0; segment < segment_count; segment++) {
        emit_segment(schedule, scratch, child_count,
                     ddp_emit_segment(whole, params->segment_elem_count, segment));
    }
}
