/* Mixed precision: the caller's table holds the weights that are kept, of f32 (masters); passes
 * compute with rounded copies of them, in whose type they leave gradients; these are summed in a
 * type of their own, and their averages are the masters' gradients.
 *
 * As in PyTorch, buckets are assigned by the masters' sizes: what is sent has another type. */
#include <stdio.h>

#include "ddpcore/ddp/core.h"

static bool is_narrow(enum ddp_dtype dtype)
{
    return dtype == DDP_DTYPE_F16 || dtype == DDP_DTYPE_BF16;
}

static ddp_status check_param(const struct ddp_param *master, const struct ddp_param *rounded,
                              size_t index, struct ddp_err *err)
{
    if (master->dtype != DDP_DTYPE_F32) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "parameter %zu \"%s\" is %s; with mixed precision the weights that are "
                           "kept are f32",
                           index, master->name, ddp_dtype_name(master->dtype));
    }
    if (!is_narrow(rounded->dtype)) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "parameter %zu \"%s\" is rounded to %s; it can be f16 or bf16", index,
                           master->name, ddp_dtype_name(rounded->dtype));
    }
    return rounded->elem_count == master->elem_count
               ? DDP_OK
               : ddp_err_set(err, DDP_E_INVALID,
                             "parameter %zu \"%s\" has %zu elements, its rounded copy %zu", index,
                             master->name, master->elem_count, rounded->elem_count);
}

ddp_status ddp_mixed_open(struct ddp *ddp, struct ddp_err *err)
{
    const struct ddp_mixed_precision *mixed = ddp->config.mixed;

    ddp->locals = mixed != NULL ? mixed->params : ddp->params;
    if (mixed == NULL) {
        return DDP_OK;
    }
    if (mixed->reduce != DDP_DTYPE_F32 && !is_narrow(mixed->reduce)) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "gradients cannot be reduced in %s; f32, f16 and bf16 can be",
                           ddp_dtype_name(mixed->reduce));
    }
    if (ddp->config.hook != NULL || ddp->config.gradient_as_bucket_view) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED,
                           "mixed precision goes with no communication hook, and not with "
                           "gradient_as_bucket_view");
    }
    for (size_t i = 0; i < ddp->param_count; i++) {
        DDP_TRY(check_param(&ddp->params[i], &mixed->params[i], i, err));
        if (mixed->params[i].dtype != mixed->params[0].dtype) {
            return ddp_err_set(err, DDP_E_INVALID, "rounded parameters are %s and %s; one type",
                               ddp_dtype_name(mixed->params[0].dtype),
                               ddp_dtype_name(mixed->params[i].dtype));
        }
    }
    return DDP_OK;
}

void ddp_mixed_lay_out(const struct ddp *ddp, struct ddp_layout *layout)
{
    if (ddp->config.mixed == NULL) {
        return;
    }
    for (size_t i = 0; i < layout->bucket_count; i++) {
        struct ddp_bucket *bucket = &layout->buckets[i];

        bucket->dtype = ddp->config.mixed->reduce;
        bucket->size_bytes = bucket->elem_count * ddp_dtype_size_bytes(bucket->dtype);
    }
}

void ddp_mixed_name(const struct ddp *ddp, char out[DDP_MIXED_NAME_BYTES])
{
    const struct ddp_mixed_precision *mixed = ddp->config.mixed;
    const enum ddp_dtype param = ddp->param_count > 0 ? ddp->locals[0].dtype : DDP_DTYPE_F32;

    DDP_ASSERT(mixed != NULL);
    (void)snprintf(out, DDP_MIXED_NAME_BYTES, "mixed %s/%s", ddp_dtype_name(param),
                   ddp_dtype_name(mixed->reduce));
}

/* A fault may leave one out, or alter it afterwards. */
static ddp_status round_param(struct ddp *ddp, size_t param)
{
    const struct ddp_param *master = &ddp->params[param];
    const struct ddp_param *rounded = &ddp->locals[param];
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    bool is_skipped = false;

    context.param = (int32_t)param;
    DDP_TRY(ddp_core_point(ddp, DDP_FAULT_POINT_PARAM_ROUND, &context, &is_skipped));
    if (!is_skipped && master->elem_count > 0) {
        DDP_TRY(ddp->device->ops->scale(ddp->device, NULL, rounded->data, rounded->dtype,
                                        master->data, master->dtype, master->elem_count, 1.0));
    }
    context.data = rounded->data;
    context.elem_count = rounded->elem_count;
    context.dtype = rounded->dtype;
    return ddp_core_point(ddp, DDP_FAULT_POINT_PARAM_ROUNDED, &context, &is_skipped);
}

ddp_status ddp_round_params(struct ddp *ddp)
{
    for (size_t i = 0; ddp->config.mixed != NULL && i < ddp->param_count; i++) {
        DDP_TRY(ddp_core_told(ddp, round_param(ddp, i)));
    }
    return DDP_OK;
}

static double factor_of(const struct ddp *ddp)
{
    DDP_ASSERT(ddp->divisor > 0);
    return 1.0 / (double)ddp->divisor;
}

enum { SUM_ELEMS = 16384 }; /* of the memory in which gradients are widened */

ddp_status ddp_mixed_alloc(struct ddp *ddp)
{
    size_t most = 0;

    for (size_t i = 0; ddp->config.mixed != NULL && i < ddp->param_count; i++) {
        most = ddp->params[i].elem_count > most ? ddp->params[i].elem_count : most;
    }
    most = most < (size_t)SUM_ELEMS ? most : (size_t)SUM_ELEMS;
    return most == 0
               ? DDP_OK
               : ddp_block_alloc(ddp, DDP_SPACE_DEVICE, most * sizeof(float), &ddp->mixed_block);
}

/* master->grad += rounded->grad, in f32. */
static ddp_status add_widened(struct ddp *ddp, const struct ddp_param *master,
                              const struct ddp_param *rounded)
{
    const struct ddp_device_ops *ops = ddp->device->ops;
    const size_t width = ddp_dtype_size_bytes(rounded->dtype);
    void *widened = ddp->mixed_block.data;

    for (size_t at = 0; at < master->elem_count; at += SUM_ELEMS) {
        const size_t left = master->elem_count - at;
        const size_t count = left < (size_t)SUM_ELEMS ? left : (size_t)SUM_ELEMS;

        DDP_TRY(ops->scale(ddp->device, NULL, widened, DDP_DTYPE_F32,
                           (const char *)rounded->grad + at * width, rounded->dtype, count, 1.0));
        DDP_TRY(ops->reduce(ddp->device, NULL, (float *)master->grad + at, widened, count,
                            DDP_DTYPE_F32, DDP_REDOP_SUM));
    }
    return DDP_OK;
}

/* The master has a gradient that nobody has cleared. As autograd does, this rank's is added to it,
 * and the sum, rounded, is what is reduced: in the rounded gradient's place, which it uses up. */
static ddp_status fold(struct ddp *ddp, size_t param)
{
    const struct ddp_param *master = &ddp->params[param];
    struct ddp_param *rounded = &ddp->locals[param];

    if (rounded->is_grad_defined) {
        DDP_TRY(add_widened(ddp, master, rounded));
        rounded->is_grad_defined = false;
    }
    return ddp->device->ops->scale(ddp->device, NULL, rounded->grad, rounded->dtype, master->grad,
                                   master->dtype, master->elem_count, 1.0);
}

/* Rounded to the type that is summed, then divided in it. */
ddp_status ddp_mixed_fill(struct ddp *ddp, size_t param, void *slice)
{
    const struct ddp_device_ops *ops = ddp->device->ops;
    const struct ddp_param *source = &ddp->locals[param];
    const enum ddp_dtype dtype = ddp->config.mixed->reduce;

    if (source->elem_count == 0) {
        return DDP_OK;
    }
    if (ddp->params[param].is_grad_defined) {
        DDP_TRY(fold(ddp, param));
    } else if (!source->is_grad_defined) {
        return ops->zero(ddp->device, NULL, slice,
                         source->elem_count * ddp_dtype_size_bytes(dtype));
    }
    DDP_TRY(ops->scale(ddp->device, NULL, slice, dtype, source->grad, source->dtype,
                       source->elem_count, 1.0));
    return ddp->config.gradient_scale == DDP_GRADIENT_SCALE_POST
               ? DDP_OK
               : ops->scale(ddp->device, NULL, slice, dtype, slice, dtype, source->elem_count,
                            factor_of(ddp));
}

/* Divided in the type that was summed, then widened. The rounded gradient has been used up: later
 * passes begin a new one. */
ddp_status ddp_mixed_copy_back(struct ddp *ddp, size_t param, void *slice)
{
    const struct ddp_device_ops *ops = ddp->device->ops;
    struct ddp_param *target = &ddp->params[param];
    const enum ddp_dtype dtype = ddp->config.mixed->reduce;

    ddp->locals[param].is_grad_defined = false;
    target->is_grad_defined = true;
    if (target->elem_count == 0) {
        return DDP_OK;
    }
    if (ddp->config.gradient_scale == DDP_GRADIENT_SCALE_POST) {
        DDP_TRY(ops->scale(ddp->device, NULL, slice, dtype, slice, dtype, target->elem_count,
                           factor_of(ddp)));
    }
    return ops->scale(ddp->device, NULL, target->grad, target->dtype, slice, dtype,
                      target->elem_count, 1.0);
}
