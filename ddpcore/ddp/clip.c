/* Gradient clipping. The host adds up the squares, so the norm has the same bits on every device.
 */
#include "ddpcore/ddp/clip.h"

#include <math.h>

#include "ddpcore/ddp/core.h"

/* As torch.nn.utils.clip_grad_norm_. */
#define CLIP_EPS 1e-6

static ddp_status add_squares(const void *data, size_t elem_count, enum ddp_dtype dtype,
                              double *sum)
{
    switch (dtype) {
    case DDP_DTYPE_F32:
        for (size_t i = 0; i < elem_count; i++) {
            const double value = (double)((const float *)data)[i];

            *sum += value * value;
        }
        return DDP_OK;
    case DDP_DTYPE_F64:
        for (size_t i = 0; i < elem_count; i++) {
            const double value = ((const double *)data)[i];

            *sum += value * value;
        }
        return DDP_OK;
    case DDP_DTYPE_F16:
    case DDP_DTYPE_BF16:
        for (size_t i = 0; i < elem_count; i++) {
            const uint16_t bits = ((const uint16_t *)data)[i];
            const double value =
                (double)(dtype == DDP_DTYPE_F16 ? ddp_f16_to_f32(bits) : ddp_bf16_to_f32(bits));

            *sum += value * value;
        }
        return DDP_OK;
    default:
        return DDP_E_UNSUPPORTED;
    }
}

/* A gradient on a device comes in pieces: a step allocates nothing. */
static ddp_status add_pieces(struct ddp_transfer *transfer, const struct ddp_param *param,
                             double *sum)
{
    double piece[1 << 13]; /* aligned for every type */
    const size_t elem_bytes = ddp_dtype_size_bytes(param->dtype);
    const size_t piece_count = sizeof(piece) / elem_bytes;

    for (size_t at = 0; at < param->elem_count; at += piece_count) {
        const size_t left = param->elem_count - at;
        const size_t count = left < piece_count ? left : piece_count;

        DDP_TRY(ddp_transfer_to_host(transfer, piece, (const char *)param->grad + at * elem_bytes,
                                     count * elem_bytes));
        DDP_TRY(add_squares(piece, count, param->dtype, sum));
    }
    return DDP_OK;
}

static ddp_status add_gradients(const struct ddp_device *device, struct ddp_transfer *transfer,
                                const struct ddp_param *params, size_t param_count, double *sum)
{
    for (size_t p = 0; p < param_count; p++) {
        const struct ddp_param *param = &params[p];

        if (param->is_grad_defined) {
            DDP_TRY(device->ops->is_host_memory
                        ? add_squares(param->grad, param->elem_count, param->dtype, sum)
                        : add_pieces(transfer, param, sum));
        }
    }
    return DDP_OK;
}

ddp_status ddp_clip_params(struct ddp_device *device, struct ddp_transfer *transfer,
                           const struct ddp_param *params, size_t param_count, double max_norm,
                           double *out_norm)
{
    double sum = 0;
    double factor;

    if (!(max_norm > 0)) {
        return DDP_E_INVALID;
    }
    DDP_ASSERT(transfer->device == device);
    DDP_TRY(add_gradients(device, transfer, params, param_count, &sum));
    DDP_ASSERT(!(sum < 0));
    factor = max_norm / (sqrt(sum) + CLIP_EPS);
    if (out_norm != NULL) {
        *out_norm = sqrt(sum);
    }
    if (factor >= 1) { /* a NaN is not */
        return DDP_OK;
    }
    DDP_ASSERT(!(factor < 0));
    for (size_t p = 0; p < param_count; p++) {
        if (params[p].is_grad_defined) {
            DDP_TRY(device->ops->scale(device, NULL, params[p].grad, params[p].dtype,
                                       params[p].grad, params[p].dtype, params[p].elem_count,
                                       factor));
        }
    }
    return DDP_OK;
}

ddp_status ddp_clip_grad_norm(struct ddp *ddp, double max_norm, double *out_norm)
{
    if (ddp->pass != DDP_PASS_IDLE) {
        return ddp_core_fail_state(ddp);
    }
    return ddp_clip_params(ddp->device, &ddp->transfer, ddp->params, ddp->param_count, max_norm,
                           out_norm);
}
