/* Direct barrier: every rank signals every other one and waits for all of them, in one round of n-1
 * messages. Nothing waits for anything else, so that whoever is still waited for has not come. */
#include "ddpcore/schedule/emit.h"

void ddp_emit_direct_barrier(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part signal = {0, 1};
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    uint32_t outgoing, incoming;

    DDP_ASSERT(params->rank < params->size);
    if (params->size == 1) {
        return;
    }
    outgoing = ddp_schedule_add_scratch(schedule, DDP_DTYPE_U8, 1);
    incoming = ddp_schedule_add_scratch(schedule, DDP_DTYPE_U8, params->size);
    for (uint32_t peer = 0; peer < params->size; peer++) {
        const struct ddp_part place = {peer, 1};

        if (peer == params->rank) {
            continue;
        }
        (void)ddp_emit_send(schedule, 0, peer, ddp_emit_scratch(outgoing, signal), none);
        (void)ddp_emit_recv(schedule, DDP_STEP_RECV, 0, peer, ddp_emit_scratch(incoming, place),
                            none);
    }
}
