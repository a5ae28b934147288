/* Passes in floats of 16 bits. The model keeps three tables: `params`, f32, which the optimizer
 * steps; `rounded`, of 16 bits, which a caller fills from them and in which gradients are left; and
 * `wide`, what kernels compute with: the rounded values as fp32. Kernels are fp32 throughout; what
 * they leave in a value or a gradient is rounded (tape_rounded.c), as a device does that multiplies
 * 16 bits and adds in 32. */
#include <string.h>

#include "reference/model_kind.h"

/* In one block: each tensor begins on a cache line. */
static size_t place(size_t elem_count, size_t elem_bytes)
{
    const size_t line = DDP_CACHE_LINE_BYTES;

    return (elem_count * elem_bytes + line - 1) / line * line;
}

/* A table like params, with data and gradients of dtype in a block of its own. */
static ddp_status create_table(struct ref_model *model, enum ddp_dtype dtype,
                               struct ddp_param **out_table, char **out_block)
{
    struct ddp_device *device = model->device;
    const size_t count = model->spec.param_count;
    size_t size_bytes = 0;
    struct ddp_param *table = (struct ddp_param *)ddp_mem_array(device->mem, count, sizeof(*table));
    void *block = NULL;

    *out_table = table;
    if (table == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        table[i] = model->params[i];
        table[i].dtype = dtype;
        size_bytes += 2 * place(table[i].elem_count, ddp_dtype_size_bytes(dtype));
    }
    DDP_TRY(device->ops->alloc(device, size_bytes, DDP_SPACE_DEVICE, &block));
    *out_block = (char *)block;
    size_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t one = place(table[i].elem_count, ddp_dtype_size_bytes(dtype));

        table[i].data = *out_block + size_bytes;
        table[i].grad = *out_block + size_bytes + one;
        size_bytes += 2 * one;
    }
    return DDP_OK;
}

ddp_status ref_model_create_rounded(struct ref_model *model, struct ddp_err *err)
{
    const enum ddp_dtype dtype = model->config.precision;

    if (dtype == DDP_DTYPE_F32) {
        return DDP_OK;
    }
    if (dtype != DDP_DTYPE_F16 && dtype != DDP_DTYPE_BF16) {
        return ddp_err_set(err, DDP_E_INVALID, "passes run in f32, f16 or bf16, not %s",
                           ddp_dtype_name(dtype));
    }
    if (!model->kind->is_roundable) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED, "model %s computes in f32 only",
                           model->config.name);
    }
    DDP_TRY(create_table(model, dtype, &model->rounded, &model->rounded_block));
    return create_table(model, DDP_DTYPE_F32, &model->wide, &model->wide_block);
}

void ref_model_destroy_rounded(struct ref_model *model)
{
    struct ddp_device *device = model->device;

    device->ops->free(device, DDP_SPACE_DEVICE, model->rounded_block);
    device->ops->free(device, DDP_SPACE_DEVICE, model->wide_block);
    ddp_mem_free(device->mem, model->rounded);
    ddp_mem_free(device->mem, model->wide);
}

ddp_status ref_model_widen(struct ref_model *model)
{
    const struct ddp_device_ops *ops = model->device->ops;

    for (size_t i = 0; model->rounded != NULL && i < model->spec.param_count; i++) {
        const struct ddp_param *from = &model->rounded[i];

        DDP_TRY(ops->scale(model->device, NULL, model->wide[i].data, DDP_DTYPE_F32, from->data,
                           from->dtype, from->elem_count, 1.0));
    }
    return DDP_OK;
}

struct ddp_param *ref_model_rounded(struct ref_model *model)
{
    return model->rounded;
}
