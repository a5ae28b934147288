/* Whether a plug-in that moves the data itself can do what a plan asks it for. */
#include "harness/launch/mover.h"

#include "harness/plan/program.h"
#include "harness/plugin/plugin.h"

/* The type that buckets are added in. */
static enum ddp_dtype dtype_of(const struct harness_job *job)
{
    return harness_program_wire(job, DDP_DTYPE_F32);
}

static ddp_status refuse_call(const struct harness_plan *plan, enum ddp_redop op,
                              enum ddp_dtype dtype, struct ddp_err *err)
{
    const char *plugin = plan->job.collective.plugin;

    return harness_plugin_refuses("/proc/self/exe", plugin, (uint32_t)op, (uint32_t)dtype + 1)
               ? ddp_err_set(err, DDP_E_UNSUPPORTED, "%s says that it cannot do this: %s of %s",
                             plugin, ddp_redop_name(op), ddp_dtype_name(dtype))
               : DDP_OK;
}

/* What a fault makes of a call. In strict semantics ranks compare before it is made. */
static ddp_status check_fault(const struct harness_plan *plan, const struct harness_fault *fault,
                              uint32_t number, struct ddp_err *err)
{
    const struct harness_action *action = &fault->action;
    bool is_call =
        action->kind == HARNESS_ACTION_ARG && plan->job.semantics != HARNESS_SEMANTICS_STRICT;

    if (fault->point == DDP_FAULT_POINT_COLLECTIVE_SCHEDULE) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "fault %u is in a schedule, and %s adds without schedules", number,
                           plan->job.collective.plugin);
    }
    if (is_call && action->arg == HARNESS_ARG_REDOP) {
        return refuse_call(plan, (enum ddp_redop)action->arg_value, dtype_of(&plan->job), err);
    }
    if (is_call && action->arg == HARNESS_ARG_DTYPE) {
        return refuse_call(plan, DDP_REDOP_SUM, (enum ddp_dtype)action->arg_value, err);
    }
    return DDP_OK;
}

ddp_status harness_mover_check(const struct harness_plan *plan, struct ddp_err *err)
{
    if (plan->job.collective.engine != HARNESS_ENGINE_OPAQUE) {
        return DDP_OK;
    }
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        DDP_TRY(check_fault(plan, &plan->faults[i], i, err));
    }
    return refuse_call(plan, DDP_REDOP_SUM, dtype_of(&plan->job), err);
}
