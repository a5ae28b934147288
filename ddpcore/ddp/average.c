/* Averages of parameters. */
#include "ddpcore/ddp/average.h"

#include "ddpcore/ddp/core.h"

bool ddp_average_due(uint64_t step, uint64_t warmup_steps, uint64_t period)
{
    DDP_ASSERT(period > 0);
    return step >= warmup_steps && (step - warmup_steps) % period == 0;
}

ddp_status ddp_average_params(struct ddp *ddp)
{
    struct ddp_device *device = ddp->device;

    if (ddp->group->failure.status != DDP_OK) {
        return ddp->group->failure.status;
    }
    if (ddp->pass != DDP_PASS_IDLE) {
        return ddp_core_fail_state(ddp);
    }
    for (size_t i = 0; i < ddp->param_count; i++) {
        const struct ddp_param *param = &ddp->params[i];
        const struct ddp_coll_args args = {
            .kind = DDP_COLL_ALL_REDUCE,
            .redop = DDP_REDOP_SUM,
            .dtype = param->dtype,
            .role = DDP_ROLE_USER,
            .index = (uint32_t)i,
            .input = param->data,
            .output = param->data,
            .elem_count = param->elem_count,
        };
        const ddp_status status =
            param->elem_count == 0
                ? DDP_OK
                : device->ops->scale(device, NULL, param->data, param->dtype, param->data,
                                     param->dtype, param->elem_count,
                                     1.0 / (double)ddp->group->coll->member_count);

        if (status != DDP_OK) {
            return ddp_core_fail(ddp, status, 0);
        }
        DDP_TRY(ddp_group_run(ddp->group, &args));
    }
    return DDP_OK;
}
