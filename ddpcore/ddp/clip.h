/* Gradient clipping by the norm over all parameters (torch.nn.utils.clip_grad_norm_).
 *
 * After ddp_backward_end, when all ranks hold the same averages: so each rank finds the same norm
 * and the same factor, without a collective. Before it, ranks would scale their parts differently,
 * and the average would be neither the clipped gradient nor any other one's. */
#ifndef DDPCORE_DDP_CLIP_H
#define DDPCORE_DDP_CLIP_H

#include "ddpcore/ddp/ddp.h"
#include "ddpcore/device/transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* norm = sqrt(sum of squares), in fp64, over the defined gradients: parameter by parameter in the
 * table's order, element by element. If max_norm / (norm + 1e-6) < 1, each gradient is multiplied
 * by it, rounded once to fp32 (ddp_device_ops.scale). A norm that is NaN makes all gradients NaN,
 * one that is infinite makes them zeros and NaN, as in PyTorch: ask *out_norm (may be NULL).
 * max_norm > 0. Gradients of f32, f16, bf16 and f64. Errors: E_STATE (inside a forward or backward
 * pass), E_INVALID, E_UNSUPPORTED, and those of the device. */
DDP_MUST_USE ddp_status ddp_clip_grad_norm(struct ddp *ddp, double max_norm, double *out_norm);

/* The same for any table of parameters of a device; transfer: to see them. */
DDP_MUST_USE ddp_status ddp_clip_params(struct ddp_device *device, struct ddp_transfer *transfer,
                                        const struct ddp_param *params, size_t param_count,
                                        double max_norm, double *out_norm);

#ifdef __cplusplus
}
#endif
#endif
