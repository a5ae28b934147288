/* The core's side of communication hooks: what they see of the buckets, their memory, and the place
 * where a fault may alter what they send. When rounds come is reducer.c's. */
#include "ddpcore/ddp/hook.h"

#include <string.h>

#include "ddpcore/ddp/core.h"

static struct ddp_grad_bucket bucket_of(const struct ddp *ddp, size_t index)
{
    const struct ddp_bucket *bucket = &ddp->layout.buckets[index];

    DDP_ASSERT(index < ddp->layout.bucket_count);
    return (struct ddp_grad_bucket){
        .index = index,
        .is_last = index + 1 == ddp->layout.bucket_count,
        .dtype = bucket->dtype,
        .elem_count = bucket->elem_count,
        .data = bucket->data,
        .params = &ddp->layout.order[bucket->first_place],
        .offsets = &ddp->hook_offsets[bucket->first_place],
        .param_count = bucket->param_count,
        .divisor = ddp->divisor,
    };
}

/* Offsets in the order of places: the layout has them by parameter. */
static ddp_status list_buckets(struct ddp *ddp)
{
    struct ddp_mem *mem = ddp->group->env->mem;
    struct ddp_grad_bucket *buckets =
        ddp_mem_array(mem, ddp->layout.bucket_count, sizeof(*buckets));

    ddp->hook_site.buckets = buckets;
    ddp->hook_offsets = ddp_mem_array(mem, ddp->param_count, sizeof(*ddp->hook_offsets));
    if (buckets == NULL || ddp->hook_offsets == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t place = 0; place < ddp->param_count; place++) {
        ddp->hook_offsets[place] = ddp->layout.offset_of[ddp->layout.order[place]];
    }
    for (size_t i = 0; i < ddp->layout.bucket_count; i++) {
        buckets[i] = bucket_of(ddp, i);
    }
    return DDP_OK;
}

ddp_status ddp_hook_open(struct ddp *ddp)
{
    struct ddp_hook *hook = ddp->config.hook;

    if (hook == NULL) {
        return DDP_OK;
    }
    DDP_ASSERT(ddp->hook_site.ddp == NULL);
    ddp->hook_site = (struct ddp_hook_site){
        .ddp = ddp,
        .device = ddp->device,
        .mem = ddp->group->env->mem,
        .member = ddp->group->coll->member,
        .member_count = ddp->group->coll->member_count,
        .params = ddp->params,
        .param_count = ddp->param_count,
        .bucket_count = ddp->layout.bucket_count,
    };
    DDP_TRY(list_buckets(ddp));
    return hook->ops->open(hook, &ddp->hook_site);
}

void ddp_hook_close(struct ddp *ddp)
{
    struct ddp_mem *mem = ddp->group->env->mem;

    if (ddp->hook_site.ddp == NULL) {
        return;
    }
    ddp->config.hook->ops->close(ddp->config.hook);
    ddp_mem_free(mem, (void *)(uintptr_t)ddp->hook_site.buckets);
    ddp_mem_free(mem, ddp->hook_offsets);
    ddp->hook_offsets = NULL;
    memset(&ddp->hook_site, 0, sizeof(ddp->hook_site));
}

ddp_status ddp_hook_round(struct ddp *ddp, size_t bucket, uint32_t round, struct ddp_coll_args *out,
                          bool *out_is_over)
{
    const struct ddp_grad_bucket view = bucket_of(ddp, bucket);
    struct ddp_hook *hook = ddp->config.hook;
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    bool is_skipped;
    ddp_status status;

    DDP_ASSERT(hook != NULL && ddp->hook_site.ddp == ddp);
    *out = (struct ddp_coll_args){
        .kind = DDP_COLL_ALL_REDUCE,
        .redop = DDP_REDOP_SUM,
        .dtype = view.dtype,
        .input = view.data,
        .output = view.data,
        .elem_count = view.elem_count,
    };
    *out_is_over = false;
    status = round < DDP_HOOK_ROUNDS_MAX ? hook->ops->round(hook, &view, round, out, out_is_over)
                                         : DDP_E_STATE;
    if (status != DDP_OK) {
        return ddp_core_fail(ddp, status, 0);
    }
    out->role = DDP_ROLE_BUCKET;
    out->index = (uint32_t)bucket;
    context.bucket = (int32_t)bucket;
    context.data = *out_is_over ? view.data : (void *)(uintptr_t)out->input;
    context.elem_count = *out_is_over ? view.elem_count : out->elem_count;
    context.dtype = *out_is_over ? view.dtype : out->dtype;
    return ddp_core_point(ddp,
                          *out_is_over ? DDP_FAULT_POINT_HOOK_DONE : DDP_FAULT_POINT_HOOK_ROUND,
                          &context, &is_skipped);
}

ddp_status ddp_hook_alloc(const struct ddp_hook_site *site, size_t bucket, size_t size_bytes,
                          struct ddp_block *out)
{
    struct ddp_device *device = site->device;

    DDP_TRY(ddp_block_alloc(site->ddp, DDP_SPACE_DEVICE, size_bytes, out));
    return device->hints->name_range(device, DDP_RANGE_BUCKET, bucket, out->data, size_bytes);
}

void ddp_hook_free(const struct ddp_hook_site *site, struct ddp_block *block)
{
    ddp_block_free(site->ddp, block);
}

const struct ddp_param *ddp_hook_state(struct ddp *ddp, size_t *out_count)
{
    const struct ddp_hook *hook = ddp->config.hook;

    *out_count = 0;
    return hook != NULL && hook->ops->state != NULL ? hook->ops->state(ddp->config.hook, out_count)
                                                    : NULL;
}

bool ddp_hook_state_is_own(struct ddp *ddp, size_t index)
{
    const struct ddp_hook *hook = ddp->config.hook;

    return hook != NULL && hook->ops->is_state_own != NULL && hook->ops->is_state_own(hook, index);
}

ddp_status ddp_hook_state_gather(struct ddp *ddp, size_t index, void *block)
{
    size_t count = 0;
    const struct ddp_param *tensor = ddp_hook_state(ddp, &count);
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    struct ddp_coll_args args;
    size_t size_bytes;
    bool is_skipped;
    ddp_status status;

    if (ddp->group->failure.status != DDP_OK) {
        return ddp->group->failure.status;
    }
    if (ddp->pass != DDP_PASS_IDLE) {
        return ddp_core_fail_state(ddp);
    }
    DDP_ASSERT(index < count);
    tensor += index;
    size_bytes = ddp_param_size_bytes(tensor);
    /* A copy: what becomes of a message must not become of what the hook goes on with. */
    status = ddp->device->ops->copy(ddp->device, NULL, block, tensor->data, size_bytes);
    if (status != DDP_OK) {
        return ddp_core_fail(ddp, status, 0);
    }
    context.data = block;
    context.elem_count = tensor->elem_count;
    context.dtype = tensor->dtype;
    DDP_TRY(ddp_core_point(ddp, DDP_FAULT_POINT_HOOK_STATE, &context, &is_skipped));
    if (is_skipped) {
        return DDP_OK;
    }
    args = (struct ddp_coll_args){.kind = DDP_COLL_ALL_GATHER,
                                  .redop = DDP_REDOP_SUM,
                                  .dtype = tensor->dtype,
                                  .role = DDP_ROLE_HOOK_STATE,
                                  .index = (uint32_t)index,
                                  .input = block,
                                  .output = (char *)block + size_bytes,
                                  .elem_count = tensor->elem_count};
    return ddp_group_run(ddp->group, &args);
}

void ddp_hook_destroy(struct ddp_hook *hook)
{
    if (hook != NULL) {
        hook->ops->destroy(hook);
    }
}
