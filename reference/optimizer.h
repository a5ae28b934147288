/* Optimizers over a parameter table: torch.optim.SGD and torch.optim.AdamW. Parameters without a
 * defined gradient are left alone, state and step count included, as PyTorch does. */
#ifndef REFERENCE_OPTIMIZER_H
#define REFERENCE_OPTIMIZER_H

#include "ddpcore/base/param.h"
#include "ddpcore/device/device.h"
#include "ddpcore/device/math.h"

#ifdef __cplusplus
extern "C" {
#endif

enum ref_optimizer_kind { REF_OPTIMIZER_SGD, REF_OPTIMIZER_ADAMW };
struct ref_optimizer_config {
    enum ref_optimizer_kind kind;
    float lr;
    float momentum, dampening; /* sgd */
    bool nesterov;             /* sgd */
    float weight_decay;
    float beta1, beta2, eps; /* adamw */
};
/* PyTorch's defaults: sgd lr 0.01, momentum 0; adamw lr 1e-3, betas 0.9/0.999, eps 1e-8, decay
 * 0.01. */
void ref_optimizer_defaults(struct ref_optimizer_config *config, enum ref_optimizer_kind kind);

struct ref_optimizer;
DDP_MUST_USE ddp_status ref_optimizer_create(struct ddp_device *device, struct ddp_param *params,
                                             size_t param_count,
                                             const struct ref_optimizer_config *config,
                                             struct ref_optimizer **out);
void ref_optimizer_destroy(struct ref_optimizer *optimizer);
/* The learning rate of the steps that follow. */
void ref_optimizer_set_lr(struct ref_optimizer *optimizer, float lr);
/* One step over all parameters with defined gradients. updated (optional) is told after each. */
DDP_MUST_USE ddp_status ref_optimizer_step(struct ref_optimizer *optimizer,
                                           ddp_status (*updated)(void *context, size_t param),
                                           void *context);
/* State tensors for checkpoints: slot 0 = momentum or exp_avg, slot 1 = exp_avg_sq. NULL if the
 * optimizer has no such slot. float[params[i].elem_count] on the device. */
size_t ref_optimizer_slot_count(const struct ref_optimizer *optimizer);
const char *ref_optimizer_slot_name(const struct ref_optimizer *optimizer, size_t slot);
float *ref_optimizer_slot(struct ref_optimizer *optimizer, size_t slot, size_t param);
/* Steps this parameter has taken: part of a checkpoint too. */
uint64_t *ref_optimizer_step_count(struct ref_optimizer *optimizer, size_t param);

#ifdef __cplusplus
}
#endif
#endif
