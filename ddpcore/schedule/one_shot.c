/* One-shot all-reduce: everybody sends everything to everybody and adds all of it. One round, n-1
 * messages of the whole count: for small counts. Each rank adds in the order of ranks, from rank 0
 * on, wherever it stands itself: had each begun with its own, ranks would differ in their last
 * bits. In place, what is sent is a copy, since the sum replaces the rank's own data. */
#include "ddpcore/schedule/fold.h"

static void emit_segment(struct ddp_schedule *schedule, struct ddp_part part, uint32_t scratch)
{
    const struct ddp_schedule_params *params = &schedule->params;
    struct ddp_range output = ddp_emit_range(DDP_BUFFER_OUTPUT, part);
    struct ddp_range own = ddp_emit_range(DDP_BUFFER_INPUT, part);
    uint32_t dep[2] = {DDP_STEP_NONE, DDP_STEP_NONE};

    if (params->is_in_place) {
        own = ddp_emit_scratch(scratch, part);
        dep[0] = ddp_emit_copy(schedule, 0, own, output, dep);
    }
    for (uint32_t rank = 0; rank < params->size; rank++) {
        if (rank != params->rank) {
            (void)ddp_emit_send(schedule, 0, rank, own, dep);
        }
    }
    (void)ddp_fold_emit(schedule, 0, output,
                        params->is_in_place && params->rank == 0 ? output : own, dep[0]);
}

void ddp_emit_one_shot(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part whole = {0, params->elem_count};
    size_t segment_count = ddp_emit_segment_count(params->elem_count, params->segment_elem_count);
    uint32_t scratch = 0;

    if (params->size == 1) {
        ddp_fold_alone(schedule);
        return;
    }
    if (params->is_in_place) {
        scratch = ddp_schedule_add_scratch(schedule, params->dtype, params->elem_count);
    }
    for (size_t s = 0; s < segment_count; s++) {
        emit_segment(schedule, ddp_emit_segment(whole, params->segment_elem_count, s), scratch);
    }
}
