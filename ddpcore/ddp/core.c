/* What the parts of the DDP core share: errors, fault points, memory, hashes, and the answers about
 * the layout. It calls no other part. */
#include "ddpcore/ddp/core.h"

#include "ddpcore/base/hash.h"

ddp_status ddp_core_fail(struct ddp *ddp, ddp_status status, uint64_t detail)
{
    DDP_ASSERT(status < DDP_OK);
    if (ddp->group->semantics == DDP_SEMANTICS_STRICT) {
        return ddp_group_revoke(ddp->group, status, detail);
    }
    ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_RANK_ERROR, (uint64_t)status,
                       ddp->group->env->rank, (uint64_t)status, detail, 0);
    return status;
}

ddp_status ddp_core_fail_state(struct ddp *ddp)
{
    return ddp_core_fail(ddp, DDP_E_STATE, 0);
}

ddp_status ddp_core_told(struct ddp *ddp, ddp_status status)
{
    return status < DDP_OK && ddp->group->failure.status == DDP_OK ? ddp_core_fail(ddp, status, 0)
                                                                   : status;
}

ddp_status ddp_core_needs_all(struct ddp *ddp)
{
    return ddp->is_joining && !ddp->join.throw_on_early_termination &&
                   ddp->group->semantics == DDP_SEMANTICS_STRICT
               ? ddp_core_fail(ddp, DDP_E_UNSUPPORTED, 0)
               : DDP_OK;
}

static void name_param(struct ddp *ddp, ddp_status status, size_t param)
{
    ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_PARAM_ERROR, param, (uint64_t)status, 0,
                       0, 0);
}

ddp_status ddp_core_fail_params(struct ddp *ddp, ddp_status status, const bool *is_concerned)
{
    size_t first = ddp->param_count;

    for (size_t i = ddp->param_count; i-- > 0;) {
        first = is_concerned[i] ? i : first;
    }
    DDP_ASSERT(first < ddp->param_count);
    for (size_t i = first; i < ddp->param_count; i++) {
        if (is_concerned[i]) {
            name_param(ddp, status, i);
        }
    }
    return ddp_core_fail(ddp, status, first);
}

ddp_status ddp_core_fail_param(struct ddp *ddp, ddp_status status, size_t param)
{
    DDP_ASSERT(param < ddp->param_count);
    name_param(ddp, status, param);
    return ddp_core_fail(ddp, status, param);
}

ddp_status ddp_core_point(struct ddp *ddp, enum ddp_fault_point point,
                          struct ddp_fault_context *context, bool *out_is_skipped)
{
    enum ddp_fault_action action;

    DDP_ASSERT(context->bucket < (int32_t)ddp->layout.bucket_count);
    context->device = ddp->device;
    action = ddp_fault_point(ddp->group->env->faults, point, context);
    *out_is_skipped = action == DDP_FAULT_SKIP;
    return action == DDP_FAULT_FAIL ? ddp_core_fail(ddp, DDP_E_INJECTED, point) : DDP_OK;
}

ddp_status ddp_block_alloc(const struct ddp *ddp, enum ddp_space space, size_t size_bytes,
                           struct ddp_block *out)
{
    struct ddp_coll *coll = ddp->group->coll;
    const size_t wanted_bytes = size_bytes == 0 ? 1 : size_bytes;

    DDP_ASSERT(out->data == NULL);
    out->space = space;
    out->is_coll = true;
    out->data = coll->ops->alloc(coll, wanted_bytes, space);
    if (out->data != NULL) {
        return DDP_OK;
    }
    out->is_coll = false;
    return ddp->device->ops->alloc(ddp->device, wanted_bytes, space, &out->data);
}

void ddp_block_free(const struct ddp *ddp, struct ddp_block *block)
{
    struct ddp_group *group = ddp->group;

    if (!block->is_coll) { /* or there is none */
        ddp->device->ops->free(ddp->device, block->space, block->data);
    } else if (group->failure.status == DDP_OK) {
        group->coll->ops->free(group->coll, block->space, block->data);
    }
    /* After a failure peers may still read what was lent to them. Such memory is not freed here: it
     * lives as long as the collective or the rank. */
    block->data = NULL;
}

ddp_status ddp_core_hash(struct ddp *ddp, const char *name, const void *data, size_t size_bytes,
                         uint64_t *out)
{
    const void *seen;

    DDP_TRY(ddp_transfer_view(&ddp->transfer, data, size_bytes, &seen));
    *out = ddp_recorder_hash(ddp->group->env->recorder, seen, size_bytes, ddp_hash_text(name));
    return DDP_OK;
}

uint32_t ddp_member(const struct ddp *ddp)
{
    return ddp->group->coll->member;
}

uint32_t ddp_member_count(const struct ddp *ddp)
{
    return ddp->group->coll->member_count;
}

size_t ddp_bucket_count(const struct ddp *ddp)
{
    return ddp->layout.bucket_count;
}

enum ddp_dtype ddp_bucket_dtype(const struct ddp *ddp, size_t bucket)
{
    DDP_ASSERT(bucket < ddp->layout.bucket_count);
    return ddp->layout.buckets[bucket].dtype;
}

size_t ddp_bucket_elem_count(const struct ddp *ddp, size_t bucket)
{
    DDP_ASSERT(bucket < ddp->layout.bucket_count);
    return ddp->layout.buckets[bucket].elem_count;
}

size_t ddp_bucket_of_param(const struct ddp *ddp, size_t param_index)
{
    DDP_ASSERT(param_index < ddp->param_count);
    return ddp->layout.bucket_of[param_index];
}

size_t ddp_bucket_offset_of_param(const struct ddp *ddp, size_t param_index)
{
    DDP_ASSERT(param_index < ddp->param_count);
    return ddp->layout.offset_of[param_index];
}

const bool *ddp_unready_params(const struct ddp *ddp)
{
    return ddp->is_unready;
}
