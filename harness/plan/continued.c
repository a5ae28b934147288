/* From the plan of a job to that of its survivors. */
#include "harness/plan/continued.h"

/* What each rank had, for those that go on. */
static ddp_status take(struct ddp_mem *mem, const struct harness_continuation *who, size_t **inout)
{
    size_t *taken;

    if (*inout == NULL) {
        return DDP_OK;
    }
    taken = ddp_mem_array(mem, who->rank_count, sizeof(*taken));
    for (uint32_t m = 0; taken != NULL && m < who->rank_count; m++) {
        taken[m] = (*inout)[who->ranks[m]];
    }
    *inout = taken;
    return taken != NULL ? DDP_OK : DDP_E_NOMEM;
}

static uint32_t member_of(const struct harness_continuation *who, uint32_t rank)
{
    for (uint32_t m = 0; m < who->rank_count; m++) {
        if (who->ranks[m] == rank) {
            return m;
        }
    }
    return UINT32_MAX;
}

static ddp_status take_faults(struct ddp_mem *mem, const struct harness_continuation *who,
                              struct harness_plan *plan)
{
    const struct harness_fault *given = plan->faults;

    if (plan->fault_count == 0) {
        return DDP_OK;
    }
    plan->faults = ddp_mem_array(mem, plan->fault_count, sizeof(*plan->faults));
    for (uint32_t i = 0; plan->faults != NULL && i < plan->fault_count; i++) {
        plan->faults[i] = given[i];
        plan->faults[i].at.rank = member_of(who, given[i].at.rank);
        if (plan->faults[i].at.rank == UINT32_MAX) {
            plan->faults[i].action.kind = HARNESS_ACTION_NONE;
        }
    }
    return plan->faults != NULL ? DDP_OK : DDP_E_NOMEM;
}

ddp_status harness_plan_continue(struct ddp_mem *mem, const struct harness_plan *plan,
                                 const struct harness_continuation *who, struct harness_plan *out)
{
    ddp_status status;

    *out = *plan;
    out->job.ranks = who->rank_count;
    out->job.start_step = who->first_step;
    out->job.is_continued = true;
    out->job.source = who->source;
    out->job.on_loss = HARNESS_ON_LOSS_END; /* it is done once */
    status = take(mem, who, &out->job.batch_per_rank);
    status = status == DDP_OK ? take(mem, who, &out->job.nodes) : status;
    status = status == DDP_OK ? take_faults(mem, who, out) : status;
    if (status != DDP_OK) {
        harness_plan_continued_fini(mem, plan, out);
    }
    return status;
}

void harness_plan_continued_fini(struct ddp_mem *mem, const struct harness_plan *first,
                                 struct harness_plan *continued)
{
    if (continued->job.batch_per_rank != first->job.batch_per_rank) {
        ddp_mem_free(mem, continued->job.batch_per_rank);
    }
    if (continued->job.nodes != first->job.nodes) {
        ddp_mem_free(mem, continued->job.nodes);
    }
    if (continued->faults != first->faults) {
        ddp_mem_free(mem, continued->faults);
    }
    *continued = *first;
}
