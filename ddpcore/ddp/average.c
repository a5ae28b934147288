/* Averages of parameters. */
#include "ddpcore/ddp/average.h"

#include "ddpcore/ddp/core.h"

bool ddp_average_due(uint64_t step, uint64_t warmup_steps, uint64_t period)
{
    DDP_ASSERT(period > 0);
    return step >= warmup_steps && (step - warmup_steps) % period == 0;
}

static ddp_status average(struct ddp *ddp, size_t index)
{
    struct ddp_device *device = ddp->device;
    const struct ddp_param *param = &ddp->params[index];
    const struct ddp_coll_args args = {
        .kind = DDP_COLL_ALL_REDUCE,
        .redop = DDP_REDOP_SUM,
        .dtype = param->dtype,
        .role = DDP_ROLE_AVERAGE,
        .index = (uint32_t)index,
        .input = param->data,
        .output = param->data,
        .elem_count = param->elem_count,
    };
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    bool is_skipped;
    ddp_status status =
        param->elem_count == 0
            ? DDP_OK
            : device->ops->scale(device, NULL, param->data, param->dtype, param->data, param->dtype,
                                 param->elem_count, 1.0 / (double)ddp->group->coll->member_count);

    if (status != DDP_OK) {
        return ddp_core_fail(ddp, status, 0);
    }
    context.param = (int32_t)index;
    context.data = param->data;
    context.elem_count = param->elem_count;
    context.dtype = param->dtype;
    DDP_TRY(ddp_core_point(ddp, DDP_FAULT_POINT_AVERAGE, &context, &is_skipped));
    return is_skipped ? DDP_OK : ddp_group_run(ddp->group, &args);
}

ddp_status ddp_average_params(struct ddp *ddp)
{
    if (ddp->group->failure.status != DDP_OK) {
        return ddp->group->failure.status;
    }
    if (ddp->pass != DDP_PASS_IDLE) {
        return ddp_core_fail_state(ddp);
    }
    for (size_t i = 0; i < ddp->param_count; i++) {
        DDP_TRY(average(ddp, i));
    }
    return DDP_OK;
}
