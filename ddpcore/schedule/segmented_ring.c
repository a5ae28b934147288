/* Segmented ring: the elements are cut into phases of n segments, and each phase goes around a ring
 * of its own, a segment a rank. What a rank works on at a time stays small enough for its caches,
 * and a phase need not wait for the one before. As Open MPI's algorithm 5 (coll/base,
 * allreduce_intra_ring_segmented).
 *
 * Phase p: elements [p n s, (p + 1) n s) with segments of s elements; the last one may be shorter,
 * and is then cut into n shorter chunks. */
#include "ddpcore/schedule/fold.h"
#include "ddpcore/schedule/ring_pass.h"

void ddp_emit_segmented_ring(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part whole = {0, params->elem_count};
    size_t phase_elem_count = params->size * params->segment_elem_count; /* 0: one phase */
    size_t phase_count = ddp_emit_segment_count(params->elem_count, phase_elem_count);
    uint32_t round_count;

    if (params->size == 1) {
        ddp_fold_alone(schedule);
        return;
    }
    round_count = ddp_ring_pass_round_count(params->size);
    for (size_t phase = 0; phase < phase_count && schedule->status == DDP_OK; phase++) {
        struct ddp_ring_pass pass;

        ddp_ring_pass_init(&pass, schedule, ddp_emit_segment(whole, phase_elem_count, phase), false,
                           (uint32_t)phase * round_count);
        for (uint32_t round = 0; schedule->status == DDP_OK && round < round_count; round++) {
            ddp_ring_pass_emit(&pass, round);
        }
        ddp_ring_pass_fini(&pass);
    }
}
