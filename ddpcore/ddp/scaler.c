/* GradScaler. The host looks at the gradients, in pieces where they lie on a device. */
#include "ddpcore/ddp/scaler.h"

#include <math.h>
#include <string.h>

#include "ddpcore/ddp/core.h"

void ddp_scaler_init(struct ddp_scaler *scaler)
{
    *scaler = (struct ddp_scaler){
        .scale = 65536.0F, .growth_factor = 2.0, .backoff_factor = 0.5, .growth_interval = 2000};
}

static bool is_all_finite(const void *data, size_t elem_count, enum ddp_dtype dtype)
{
    for (size_t i = 0; i < elem_count; i++) {
        const bool is_finite = dtype == DDP_DTYPE_F32 ? isfinite(((const float *)data)[i])
                               : dtype == DDP_DTYPE_F64
                                   ? isfinite(((const double *)data)[i])
                                   : isfinite(ddp_bf16_to_f32(((const uint16_t *)data)[i]));

        if (!is_finite) {
            return false;
        }
    }
    return true;
}

enum { PIECE_BYTES = 1 << 16 };

static ddp_status look(struct ddp *ddp, const struct ddp_param *param, void *piece,
                       bool *inout_is_found)
{
    const size_t elem_bytes = ddp_dtype_size_bytes(param->dtype);
    const size_t piece_count = PIECE_BYTES / elem_bytes;

    if (ddp->device->ops->is_host_memory) {
        *inout_is_found =
            *inout_is_found || !is_all_finite(param->grad, param->elem_count, param->dtype);
        return DDP_OK;
    }
    for (size_t at = 0; at < param->elem_count; at += piece_count) {
        const size_t left = param->elem_count - at;
        const size_t count = left < piece_count ? left : piece_count;

        DDP_TRY(ddp_transfer_to_host(&ddp->transfer, piece,
                                     (const char *)param->grad + at * elem_bytes,
                                     count * elem_bytes));
        *inout_is_found = *inout_is_found || !is_all_finite(piece, count, param->dtype);
    }
    return DDP_OK;
}

static ddp_status unscale_all(struct ddp *ddp, float scale, bool *out_is_found)
{
    struct ddp_device *device = ddp->device;
    const double inverse = (double)(float)(1.0 / (double)scale);
    void *piece = NULL;
    ddp_status status = DDP_OK;

    if (!device->ops->is_host_memory) {
        piece = ddp_mem_array(device->mem, PIECE_BYTES, 1);
        status = piece == NULL ? DDP_E_NOMEM : DDP_OK;
    }
    for (size_t p = 0; p < ddp->param_count && status == DDP_OK; p++) {
        const struct ddp_param *param = &ddp->params[p];

        if (!param->is_grad_defined || param->elem_count == 0) {
            continue;
        }
        status = param->dtype == DDP_DTYPE_F16 ? DDP_E_UNSUPPORTED
                                               : look(ddp, param, piece, out_is_found);
        if (status == DDP_OK) {
            status = device->ops->scale(device, NULL, param->grad, param->dtype, param->grad,
                                        param->dtype, param->elem_count, inverse);
        }
    }
    ddp_mem_free(device->mem, piece);
    return status;
}

/* The largest of all ranks' flags. */
static ddp_status agree(struct ddp *ddp, bool *inout_is_found)
{
    float flag = *inout_is_found ? 1.0F : 0.0F;
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    bool is_skipped;
    const struct ddp_coll_args args = {
        .kind = DDP_COLL_ALL_REDUCE,
        .redop = DDP_REDOP_MAX,
        .dtype = DDP_DTYPE_F32,
        .role = DDP_ROLE_FOUND_INF,
        .input = ddp->control.data,
        .output = ddp->control.data,
        .elem_count = 1,
    };

    context.data = &flag;
    context.elem_count = 1;
    context.dtype = DDP_DTYPE_F32;
    DDP_TRY(ddp_core_point(ddp, DDP_FAULT_POINT_FOUND_INF, &context, &is_skipped));
    if (ddp->group->semantics == DDP_SEMANTICS_STRICT) {
        ddp->device->hints->host_access(ddp->device, ddp->control.data, sizeof(flag), true);
        memcpy(ddp->control.data, &flag, sizeof(flag));
        DDP_TRY(ddp_group_run(ddp->group, &args));
        ddp->device->hints->host_access(ddp->device, ddp->control.data, sizeof(flag), false);
        memcpy(&flag, ddp->control.data, sizeof(flag));
    }
    *inout_is_found = !(flag <= 0.0F); /* also a damaged one */
    return DDP_OK;
}

ddp_status ddp_scaler_unscale(struct ddp_scaler *scaler, struct ddp *ddp)
{
    bool is_found = false;
    ddp_status status;

    DDP_ASSERT(scaler->scale > 0.0F);
    if (ddp->group->failure.status != DDP_OK) {
        return ddp->group->failure.status;
    }
    if (ddp->pass != DDP_PASS_IDLE || scaler->is_unscaled) {
        return ddp_core_fail_state(ddp);
    }
    DDP_TRY(ddp_core_needs_all(ddp));
    status = unscale_all(ddp, scaler->scale, &is_found);
    if (status != DDP_OK) {
        return ddp_core_fail(ddp, status, 0);
    }
    DDP_TRY(agree(ddp, &is_found));
    scaler->is_found = is_found;
    scaler->is_unscaled = true;
    return DDP_OK;
}

/* Neither 0 nor so small that what is divided by it is infinite. */
static bool is_divisor(float scale)
{
    return scale > 0.0F && isfinite((float)(1.0 / (double)scale));
}

void ddp_scaler_update(struct ddp_scaler *scaler)
{
    const float shrunk = (float)((double)scaler->scale * scaler->backoff_factor);
    const float grown = (float)((double)scaler->scale * scaler->growth_factor);

    DDP_ASSERT(scaler->growth_interval > 0);
    scaler->is_unscaled = false;
    if (scaler->is_found) {
        scaler->scale = is_divisor(shrunk) ? shrunk : scaler->scale;
        scaler->growth_tracker = 0;
    } else if (++scaler->growth_tracker == scaler->growth_interval) {
        scaler->scale = isfinite(grown) ? grown : scaler->scale;
        scaler->growth_tracker = 0;
    }
    scaler->is_found = false;
}
