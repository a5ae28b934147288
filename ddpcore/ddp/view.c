/* Gradients that lie in the buckets (gradient_as_bucket_view): no second copy of them, and nothing
 * to copy in or back.
 *
 * A parameter's gradient is moved to its place in the bucket, and its pointer with it, wherever it
 * lay before: at construction, when buckets are rebuilt, and behind a backward pass for which the
 * caller had put it elsewhere. At the end it goes back to where the caller had it. */
#include <string.h>

#include "ddpcore/ddp/core.h"

void *ddp_view_of(const struct ddp *ddp, size_t param)
{
    const struct ddp_bucket *bucket = &ddp->layout.buckets[ddp->layout.bucket_of[param]];
    const size_t offset = ddp->layout.offset_of[param];

    DDP_ASSERT(ddp->config.mixed != NULL || bucket->dtype == ddp->params[param].dtype);
    DDP_ASSERT(offset + ddp->params[param].elem_count <= bucket->elem_count);
    return (unsigned char *)bucket->data + offset * ddp_dtype_size_bytes(bucket->dtype);
}

bool ddp_view_is_kept(const struct ddp *ddp, size_t param)
{
    const struct ddp_param *source =
        ddp->config.mixed != NULL ? &ddp->locals[param] : &ddp->params[param];
    const struct ddp_bucket *bucket = &ddp->layout.buckets[ddp->layout.bucket_of[param]];
    const unsigned char *bytes = ddp_view_of(ddp, param);
    const size_t size_bytes = source->elem_count * ddp_dtype_size_bytes(bucket->dtype);

    if (!ddp_fault_point_is_armed(ddp->group->env->faults, DDP_FAULT_POINT_BUCKET_COPY) ||
        source->is_grad_defined || !ddp->device->ops->is_host_memory) {
        return false;
    }
    for (size_t i = 0; i < size_bytes; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

bool ddp_view_is_alike(const struct ddp *ddp, const struct ddp_bucket *bucket)
{
    const bool is_scaled =
        ddp->config.gradient_scale == DDP_GRADIENT_SCALE_POST && ddp->config.hook == NULL;
    bool is_so =
        ddp_fault_point_is_armed(ddp->group->env->faults, DDP_FAULT_POINT_BUCKET_UNFLATTEN) &&
        ddp->device->ops->is_host_memory && ddp->config.mixed == NULL && !is_scaled &&
        !ddp_graph_has_map(ddp);

    DDP_ASSERT(bucket->first_place + bucket->param_count <= ddp->param_count);
    for (size_t k = 0; k < bucket->param_count && is_so; k++) {
        const size_t param = ddp->layout.order[bucket->first_place + k];
        const struct ddp_param *target = &ddp->params[param];

        is_so = target->is_grad_defined &&
                memcmp(target->grad, ddp_view_of(ddp, param), ddp_param_size_bytes(target)) == 0;
    }
    return is_so;
}

static bool is_view(const struct ddp *ddp, size_t param)
{
    return ddp->config.gradient_as_bucket_view &&
           ddp->params[param].grad == ddp_view_of(ddp, param);
}

/* Room for one parameter after the other. */
static ddp_status open_saved(struct ddp *ddp)
{
    size_t total_bytes = 0;

    if (!ddp_graph_has_map(ddp)) {
        return DDP_OK;
    }
    ddp->is_saved = ddp_mem_array(ddp->group->env->mem, ddp->param_count, sizeof(bool));
    ddp->saved_at = ddp_mem_array(ddp->group->env->mem, ddp->param_count, sizeof(*ddp->saved_at));
    if (ddp->is_saved == NULL || ddp->saved_at == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < ddp->param_count; i++) {
        ddp->saved_at[i] = total_bytes;
        total_bytes += (ddp_param_size_bytes(&ddp->params[i]) + 7) / 8 * 8;
    }
    return ddp->device->ops->alloc(ddp->device, total_bytes == 0 ? 1 : total_bytes,
                                   DDP_SPACE_DEVICE, &ddp->saved);
}

ddp_status ddp_view_open(struct ddp *ddp)
{
    if (!ddp->config.gradient_as_bucket_view) {
        return DDP_OK;
    }
    ddp->own_grads = ddp_mem_array(ddp->group->env->mem, ddp->param_count, sizeof(*ddp->own_grads));
    if (ddp->own_grads == NULL) {
        return DDP_E_NOMEM;
    }
    DDP_ASSERT(ddp->bucket_blocks != NULL);
    DDP_TRY(open_saved(ddp));
    for (size_t i = 0; i < ddp->param_count; i++) {
        ddp->own_grads[i] = ddp->params[i].grad;
    }
    return ddp_view_attach(ddp);
}

ddp_status ddp_view_attach(struct ddp *ddp)
{
    struct ddp_device *device = ddp->device;

    for (size_t i = 0; ddp->config.gradient_as_bucket_view && i < ddp->param_count; i++) {
        struct ddp_param *param = &ddp->params[i];
        const size_t size_bytes = ddp_param_size_bytes(param);
        void *view = ddp_view_of(ddp, i);

        DDP_ASSERT(ddp->own_grads != NULL && view != NULL);
        if (param->grad == view) {
            continue;
        }
        if (param->is_grad_defined && size_bytes > 0) {
            DDP_TRY(device->ops->copy(device, NULL, view, param->grad, size_bytes));
        }
        param->grad = view;
        DDP_TRY(device->hints->name_range(device, DDP_RANGE_GRAD, i, view, size_bytes));
    }
    return DDP_OK;
}

ddp_status ddp_view_save(struct ddp *ddp, size_t param)
{
    const size_t size_bytes = ddp_param_size_bytes(&ddp->params[param]);
    const bool is_stale =
        is_view(ddp, param) && ddp->params[param].is_grad_defined && !ddp->local_used[param];

    if (ddp->is_saved == NULL) {
        return DDP_OK;
    }
    ddp->is_saved[param] = is_stale && size_bytes > 0;
    return !ddp->is_saved[param]
               ? DDP_OK
               : ddp->device->ops->copy(ddp->device, NULL,
                                        (unsigned char *)ddp->saved + ddp->saved_at[param],
                                        ddp->params[param].grad, size_bytes);
}

ddp_status ddp_view_restore(struct ddp *ddp, size_t param)
{
    if (ddp->is_saved == NULL || !ddp->is_saved[param]) {
        return DDP_OK;
    }
    DDP_ASSERT(is_view(ddp, param) && ddp->params[param].is_grad_defined);
    ddp->is_saved[param] = false;
    return ddp->device->ops->copy(ddp->device, NULL, ddp->params[param].grad,
                                  (unsigned char *)ddp->saved + ddp->saved_at[param],
                                  ddp_param_size_bytes(&ddp->params[param]));
}

void ddp_view_close(struct ddp *ddp)
{
    struct ddp_mem *mem = ddp->group->env->mem;
    /* In a failed group the buckets hold what an unfinished collective has left there. */
    const bool is_worth_it = ddp->group->failure.status == DDP_OK;

    for (size_t i = 0; ddp->own_grads != NULL && i < ddp->param_count; i++) {
        struct ddp_param *param = &ddp->params[i];

        if (!is_view(ddp, i)) {
            continue; /* the caller has put it elsewhere */
        }
        param->is_grad_defined = param->is_grad_defined && is_worth_it && ddp->own_grads[i] != NULL;
        if (param->is_grad_defined && param->elem_count > 0 &&
            ddp->device->ops->copy(ddp->device, NULL, ddp->own_grads[i], param->grad,
                                   ddp_param_size_bytes(param)) != DDP_OK) {
            param->is_grad_defined = false;
        }
        param->grad = ddp->own_grads[i];
    }
    ddp->device->ops->free(ddp->device, DDP_SPACE_DEVICE, ddp->saved);
    ddp_mem_free(mem, ddp->own_grads);
    ddp_mem_free(mem, ddp->is_saved);
    ddp_mem_free(mem, ddp->saved_at);
}
