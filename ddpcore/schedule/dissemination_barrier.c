/* Dissemination barrier: in round k every rank signals the rank 2^k after it and waits for the one
 * 2^k before it; after ceil(log2(n)) rounds everyone has heard, indirectly, from everyone. A signal
 * is one byte of scratch. */
#include "ddpcore/schedule/emit.h"

#define ROUNDS_MAX 32

void ddp_emit_dissemination_barrier(struct ddp_schedule *schedule)
{
    const struct ddp_schedule_params *params = &schedule->params;
    const struct ddp_part signal = {0, 1};
    uint32_t outgoing, incoming;
    uint32_t heard[2] = {DDP_STEP_NONE, DDP_STEP_NONE};
    uint32_t round = 0;

    if (params->size == 1) {
        return;
    }
    outgoing = ddp_schedule_add_scratch(schedule, DDP_DTYPE_U8, 1);
    incoming = ddp_schedule_add_scratch(schedule, DDP_DTYPE_U8, ROUNDS_MAX);
    for (uint64_t distance = 1; distance < params->size; distance *= 2, round++) {
        const struct ddp_part place = {round, 1};
        uint32_t after = (uint32_t)((params->rank + distance) % params->size);
        uint32_t before = (uint32_t)((params->rank + params->size - distance) % params->size);

        DDP_ASSERT(round < ROUNDS_MAX);
        /* heard: the last round's signal, which depended on the one before it, and so on. */
        (void)ddp_emit_send(schedule, round, after, ddp_emit_scratch(outgoing, signal), heard);
        heard[0] = ddp_emit_recv(schedule, DDP_STEP_RECV, round, before,
                                 ddp_emit_scratch(incoming, place), heard);
    }
}
