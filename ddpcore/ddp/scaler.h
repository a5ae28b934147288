/* Gradient scaling for reduced precision: torch.amp.GradScaler, whose decision to leave a step out
 * is the same on all ranks.
 *
 *   backward pass of loss * scaler.scale    (small gradients do not vanish in 16 bits)
 *   ddp_scaler_unscale                      (behind ddp_backward_end; then ddp_clip_grad_norm)
 *   caller's optimizer step, unless scaler.is_found
 *   ddp_scaler_update
 *
 * A checkpoint holds scale and growth_tracker. */
#ifndef DDPCORE_DDP_SCALER_H
#define DDPCORE_DDP_SCALER_H

#include "ddpcore/ddp/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_scaler {
    float scale; /* > 0 */
    double growth_factor, backoff_factor;
    uint64_t growth_interval; /* steps in a row that were taken, after which the scale grows */
    uint64_t growth_tracker;  /* so many are behind us */
    bool is_found;            /* a gradient of this step is not finite, on some rank */
    bool is_unscaled;         /* between unscale and update */
};

/* PyTorch's defaults: scale 65536, growth 2, backoff 0.5, interval 2000. */
void ddp_scaler_init(struct ddp_scaler *scaler);
/* Multiply all defined gradients by 1/scale (worked out in fp64, rounded to fp32), and set is_found
 * if one of them was not finite. Strict semantics: ranks agree on it by an all-reduce (role
 * FOUND_INF), so that a rank whose gradients were damaged cannot step alone; all must call it, so
 * it does not go with join, where PyTorch's ranks end up with scales of their own. Gradients of
 * f32, bf16 and f64. Errors: E_STATE (in a pass, or the second time in a step), E_UNSUPPORTED (f16,
 * which PyTorch refuses, too; join without throw_on_early_termination), and the group's and
 * device's. */
DDP_MUST_USE ddp_status ddp_scaler_unscale(struct ddp_scaler *scaler, struct ddp *ddp);
/* At the end of a step. is_found: scale * backoff_factor, unless that has no finite inverse (with
 * gradients that are never finite PyTorch's scale ends at 0, and makes all others NaN). Else, after
 * growth_interval steps in a row, scale * growth_factor, unless that is infinite. */
void ddp_scaler_update(struct ddp_scaler *scaler);

#ifdef __cplusplus
}
#endif
#endif
