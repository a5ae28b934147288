/* What belongs to the layout in force: the buckets' memory, their names for whoever watches the
 * device, the record of where parameters lie, and the order by which rebuild.c makes the next one.
 */
#include "ddpcore/ddp/core.h"

ddp_status ddp_buckets_open(struct ddp *ddp)
{
    DDP_ASSERT(ddp->bucket_blocks == NULL);
    ddp->bucket_blocks =
        ddp_mem_array(ddp->group->env->mem, ddp->layout.bucket_count, sizeof(*ddp->bucket_blocks));
    return ddp->bucket_blocks == NULL ? DDP_E_NOMEM : DDP_OK;
}

ddp_status ddp_buckets_alloc(struct ddp *ddp)
{
    struct ddp_device *device = ddp->device;
    struct ddp_layout *layout = &ddp->layout;

    DDP_ASSERT(ddp->bucket_blocks != NULL);
    for (size_t i = 0; i < layout->bucket_count; i++) {
        struct ddp_bucket *bucket = &layout->buckets[i];

        DDP_TRY(ddp_block_alloc(ddp, DDP_SPACE_DEVICE, bucket->size_bytes, &ddp->bucket_blocks[i]));
        bucket->data = ddp->bucket_blocks[i].data;
        DDP_TRY(device->hints->name_range(device, DDP_RANGE_BUCKET, i, bucket->data,
                                          bucket->size_bytes));
    }
    return DDP_OK;
}

void ddp_buckets_free(struct ddp *ddp, struct ddp_block *blocks, size_t count)
{
    for (size_t i = 0; blocks != NULL && i < count; i++) {
        ddp_block_free(ddp, &blocks[i]);
    }
    ddp_mem_free(ddp->group->env->mem, blocks);
}

void ddp_buckets_record(const struct ddp *ddp)
{
    for (size_t i = 0; i < ddp->param_count; i++) {
        DDP_ASSERT(ddp->layout.bucket_of[i] < ddp->layout.bucket_count);
        ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_BUCKET_PARAM,
                           ddp->layout.bucket_of[i], i, ddp->layout.offset_of[i],
                           ddp->params[i].elem_count, 0);
    }
}

/* --- the order in which gradients become ready ------------------------------------------------ */

bool ddp_rebuild_is_open(const struct ddp *ddp)
{
    return ddp->config.bucket_order == DDP_BUCKET_ORDER_PYTORCH &&
           !ddp->config.find_unused_parameters && !ddp->is_rebuilt && ddp->param_count > 0;
}

ddp_status ddp_rebuild_open(struct ddp *ddp)
{
    if (!ddp_rebuild_is_open(ddp)) {
        return DDP_OK;
    }
    ddp->ready_order =
        ddp_mem_array(ddp->group->env->mem, ddp->param_count, sizeof(*ddp->ready_order));
    return ddp->ready_order == NULL ? DDP_E_NOMEM : DDP_OK;
}

void ddp_rebuild_begin(struct ddp *ddp)
{
    if (ddp_rebuild_is_open(ddp) && !ddp->is_rebuild_due) {
        ddp->ready_order_count = 0;
    }
}

void ddp_rebuild_note(struct ddp *ddp, size_t param)
{
    if (ddp_rebuild_is_open(ddp) && !ddp->is_rebuild_due) {
        DDP_ASSERT(ddp->ready_order_count < ddp->param_count);
        ddp->ready_order[ddp->ready_order_count++] = (int32_t)param;
    }
}

void ddp_rebuild_end(struct ddp *ddp)
{
    if (ddp_rebuild_is_open(ddp)) {
        DDP_ASSERT(ddp->ready_order_count == ddp->param_count);
        ddp->is_rebuild_due = true;
    }
}

void ddp_rebuild_note_all(struct ddp *ddp)
{
    ddp_rebuild_begin(ddp);
    for (size_t i = 0; i < ddp->param_count; i++) {
        ddp_rebuild_note(ddp, i);
    }
    ddp_rebuild_end(ddp);
}
