/* What belongs to the layout in force: the buckets' memory, their names for whoever watches the
 * device, and the record of where parameters lie. */
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

void ddp_buckets_free(struct ddp *ddp)
{
    for (size_t i = 0; ddp->bucket_blocks != NULL && i < ddp->layout.bucket_count; i++) {
        ddp_block_free(ddp, &ddp->bucket_blocks[i]);
        ddp->layout.buckets[i].data = NULL;
    }
    ddp_mem_free(ddp->group->env->mem, ddp->bucket_blocks);
    ddp->bucket_blocks = NULL;
}

void ddp_buckets_record(const struct ddp *ddp)
{
    for (size_t i = 0; i < ddp->param_count; i++) {
        ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_BUCKET_PARAM,
                           ddp->layout.bucket_of[i], i, ddp->layout.offset_of[i],
                           ddp->params[i].elem_count, 0);
    }
}
