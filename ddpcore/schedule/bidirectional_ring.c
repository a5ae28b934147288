/* Bidirectional ring: the first half of the elements goes around upwards, the second downwards, at
 * the same time, so that both directions of every link are busy. 2(n-1) rounds, each of half the
 * bytes of a ring's. */
#include "ddpcore/schedule/fold.h"
#include "ddpcore/schedule/ring_pass.h"

void ddp_emit_bidirectional_ring(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    struct ddp_ring_pass up, down;

    if (params->size == 1) {
        ddp_fold_alone(schedule);
        return;
    }
    ddp_ring_pass_init(&up, schedule, ddp_emit_split(params->elem_count, 2, 0), false, 0);
    ddp_ring_pass_init(&down, schedule, ddp_emit_split(params->elem_count, 2, 1), true, 0);
    for (uint32_t round = 0;
         schedule->status == DDP_OK && round < ddp_ring_pass_round_count(params->size); round++) {
        ddp_ring_pass_emit(&up, round);
        ddp_ring_pass_emit(&down, round);
    }
    ddp_ring_pass_fini(&up);
    ddp_ring_pass_fini(&down);
}
