/* torch.optim.SGD and torch.optim.AdamW over a parameter table. The arithmetic is the device's
 * (math.h states its order); here are the state tensors and the step counts, one of each for every
 * parameter, because a parameter without a gradient takes no step. */
#include "reference/optimizer.h"

#include <math.h>
#include <string.h>

enum { SLOTS_MAX = 2, ALIGN_ELEMS = DDP_CACHE_LINE_BYTES / sizeof(float) };

struct ref_optimizer {
    struct ddp_device *device;
    struct ref_optimizer_config config;
    struct ddp_param *params;
    size_t param_count;
    size_t slot_count;
    float *slot_block[SLOTS_MAX]; /* on the device, parameters on cache lines */
    size_t *offset;               /* of each parameter in a slot's block */
    uint64_t *step_count;
};

static const char *const slot_names[][SLOTS_MAX] = {
    {"momentum_buffer", NULL},
    {"exp_avg", "exp_avg_sq"},
};

void ref_optimizer_defaults(struct ref_optimizer_config *config, enum ref_optimizer_kind kind)
{
    *config = (struct ref_optimizer_config){.kind = kind, .lr = 0.01F};
    if (kind == REF_OPTIMIZER_ADAMW) {
        config->lr = 1e-3F;
        config->beta1 = 0.9F;
        config->beta2 = 0.999F;
        config->eps = 1e-8F;
        config->weight_decay = 0.01F;
    }
}

static ddp_status alloc_state(struct ref_optimizer *optimizer)
{
    struct ddp_device *device = optimizer->device;
    size_t elems = 0;

    optimizer->offset =
        (size_t *)ddp_mem_array(device->mem, optimizer->param_count, sizeof(size_t));
    optimizer->step_count =
        (uint64_t *)ddp_mem_array(device->mem, optimizer->param_count, sizeof(uint64_t));
    if (optimizer->offset == NULL || optimizer->step_count == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < optimizer->param_count; i++) {
        optimizer->offset[i] = elems;
        elems += (optimizer->params[i].elem_count + ALIGN_ELEMS - 1) / ALIGN_ELEMS * ALIGN_ELEMS;
    }
    for (size_t slot = 0; slot < optimizer->slot_count; slot++) {
        void *data;

        DDP_TRY(device->ops->alloc(device, elems * sizeof(float), DDP_SPACE_DEVICE, &data));
        optimizer->slot_block[slot] = (float *)data;
    }
    return DDP_OK;
}

ddp_status ref_optimizer_create(struct ddp_device *device, struct ddp_param *params,
                                size_t param_count, const struct ref_optimizer_config *config,
                                struct ref_optimizer **out)
{
    struct ref_optimizer *optimizer =
        (struct ref_optimizer *)ddp_mem_array(device->mem, 1, sizeof(*optimizer));
    ddp_status status;

    *out = NULL;
    if (optimizer == NULL) {
        return DDP_E_NOMEM;
    }
    optimizer->device = device;
    optimizer->config = *config;
    optimizer->params = params;
    optimizer->param_count = param_count;
    if (config->kind == REF_OPTIMIZER_ADAMW) {
        optimizer->slot_count = 2;
    } else {
        optimizer->slot_count = config->momentum != 0.0F ? 1 : 0;
    }
    status = alloc_state(optimizer);
    if (status != DDP_OK) {
        ref_optimizer_destroy(optimizer);
        return status;
    }
    *out = optimizer;
    return DDP_OK;
}

void ref_optimizer_destroy(struct ref_optimizer *optimizer)
{
    struct ddp_device *device;

    if (optimizer == NULL) {
        return;
    }
    device = optimizer->device;
    for (size_t slot = 0; slot < SLOTS_MAX; slot++) {
        device->ops->free(device, DDP_SPACE_DEVICE, optimizer->slot_block[slot]);
    }
    ddp_mem_free(device->mem, optimizer->offset);
    ddp_mem_free(device->mem, optimizer->step_count);
    ddp_mem_free(device->mem, optimizer);
}

void ref_optimizer_set_lr(struct ref_optimizer *optimizer, float lr)
{
    optimizer->config.lr = lr;
}

static ddp_status step_sgd(struct ref_optimizer *optimizer, size_t index)
{
    struct ddp_param *param = &optimizer->params[index];
    const struct ref_optimizer_config *config = &optimizer->config;
    struct ddp_sgd sgd = {.lr = config->lr,
                          .momentum = config->momentum,
                          .weight_decay = config->weight_decay,
                          .dampening = config->dampening,
                          .nesterov = config->nesterov,
                          .is_first_step = optimizer->step_count[index] == 1};

    return optimizer->device->math->sgd(optimizer->device, NULL, &sgd, param->data, param->grad,
                                        ref_optimizer_slot(optimizer, 0, index), param->elem_count);
}

static ddp_status step_adamw(struct ref_optimizer *optimizer, size_t index)
{
    struct ddp_param *param = &optimizer->params[index];
    const struct ref_optimizer_config *config = &optimizer->config;
    double step = (double)optimizer->step_count[index];
    struct ddp_adamw adamw = {
        .lr = config->lr,
        .beta1 = config->beta1,
        .beta2 = config->beta2,
        .eps = config->eps,
        .weight_decay = config->weight_decay,
        .bias_correction1 = (float)(1.0 - pow((double)config->beta1, step)),
        .bias_correction2 = (float)(1.0 - pow((double)config->beta2, step)),
    };

    return optimizer->device->math->adamw(optimizer->device, NULL, &adamw, param->data, param->grad,
                                          ref_optimizer_slot(optimizer, 0, index),
                                          ref_optimizer_slot(optimizer, 1, index),
                                          param->elem_count);
}

ddp_status ref_optimizer_step(struct ref_optimizer *optimizer,
                              ddp_status (*updated)(void *context, size_t param), void *context)
{
    for (size_t i = 0; i < optimizer->param_count; i++) {
        if (!optimizer->params[i].is_grad_defined) {
            continue;
        }
        optimizer->step_count[i]++;
        if (optimizer->config.kind == REF_OPTIMIZER_ADAMW) {
            DDP_TRY(step_adamw(optimizer, i));
        } else {
            DDP_TRY(step_sgd(optimizer, i));
        }
        if (updated != NULL) {
            DDP_TRY(updated(context, i));
        }
    }
    return DDP_OK;
}

size_t ref_optimizer_slot_count(const struct ref_optimizer *optimizer)
{
    return optimizer->slot_count;
}

const char *ref_optimizer_slot_name(const struct ref_optimizer *optimizer, size_t slot)
{
    return slot < optimizer->slot_count ? slot_names[optimizer->config.kind][slot] : NULL;
}

float *ref_optimizer_slot(struct ref_optimizer *optimizer, size_t slot, size_t param)
{
    if (slot >= optimizer->slot_count) {
        return NULL;
    }
    return optimizer->slot_block[slot] + optimizer->offset[param];
}

uint64_t *ref_optimizer_step_count(struct ref_optimizer *optimizer, size_t param)
{
    return &optimizer->step_count[param];
}
