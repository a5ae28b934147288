/* See the header. */
#include "ddpcore/schedule/fold.h"

static bool is_same(const struct ddp_range *a, const struct ddp_range *b)
{
    return a->buffer == b->buffer && a->scratch == b->scratch && a->first == b->first;
}

/* The rank's own turn. */
static uint32_t add_own(struct ddp_schedule *schedule, uint32_t round, struct ddp_range sum,
                        struct ddp_range own, uint32_t last)
{
    struct ddp_step step = {.kind = schedule->params.rank == 0 ? DDP_STEP_COPY : DDP_STEP_REDUCE,
                            .round = round,
                            .src = own,
                            .dst = sum,
                            .dep_count = 1,
                            .dep = {last}};

    if (is_same(&sum, &own)) {
        DDP_ASSERT(schedule->params.rank == 0);
        return last;
    }
    return ddp_schedule_add(schedule, &step);
}

uint32_t ddp_fold_emit(struct ddp_schedule *schedule, uint32_t round, struct ddp_range sum,
                       struct ddp_range own, uint32_t before)
{
    const struct ddp_schedule_params *params = &schedule->params;
    uint32_t last = before;

    for (uint32_t rank = 0; rank < params->size; rank++) {
        const uint32_t dep[2] = {last, DDP_STEP_NONE};

        if (rank == params->rank) {
            last = add_own(schedule, round, sum, own, last);
        } else {
            last = ddp_emit_recv(schedule, rank == 0 ? DDP_STEP_RECV : DDP_STEP_RECV_REDUCE, round,
                                 rank, sum, dep);
        }
    }
    return last;
}

void ddp_fold_alone(struct ddp_schedule *schedule)
{
    const struct ddp_part whole = {0, schedule->params.elem_count};
    const uint32_t none[2] = {DDP_STEP_NONE, DDP_STEP_NONE};

    DDP_ASSERT(schedule->params.size == 1);
    if (!schedule->params.is_in_place) {
        (void)ddp_emit_copy(schedule, 0, ddp_emit_range(DDP_BUFFER_OUTPUT, whole),
                            ddp_emit_range(DDP_BUFFER_INPUT, whole), none);
    }
}
