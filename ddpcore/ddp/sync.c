/* Making replicas equal: tensors of one rank are packed into chunks, broadcast, and unpacked on the
 * others. Chunk c of a role carries index c. */
#include "ddpcore/ddp/core.h"

#define DDP_CHUNK_ELEM_COUNT_MAX (((size_t)250 << 20) / sizeof(float))

/* A list of tensors, whatever table they come from. */
struct tensor_list {
    const struct ddp *ddp;
    bool is_params;
    size_t count;
};

static float *tensor_data(const struct tensor_list *list, size_t index)
{
    return list->is_params ? list->ddp->params[index].data : list->ddp->buffers[index].data;
}

static size_t tensor_elem_count(const struct tensor_list *list, size_t index)
{
    return list->is_params ? list->ddp->params[index].elem_count
                           : list->ddp->buffers[index].elem_count;
}

/* End of the chunk that begins at tensor `first`: whole tensors up to the cap, at least one. */
static size_t chunk_end(const struct tensor_list *list, size_t first, size_t *out_elem_count)
{
    size_t elem_count = tensor_elem_count(list, first);
    size_t end = first + 1;

    while (end < list->count &&
           elem_count + tensor_elem_count(list, end) <= DDP_CHUNK_ELEM_COUNT_MAX) {
        elem_count += tensor_elem_count(list, end);
        end++;
    }
    *out_elem_count = elem_count;
    return end;
}

static size_t staging_elem_count(const struct tensor_list *list)
{
    size_t largest = 0;

    for (size_t first = 0; first < list->count;) {
        size_t elem_count = 0;

        first = chunk_end(list, first, &elem_count);
        largest = elem_count > largest ? elem_count : largest;
    }
    return largest;
}

size_t ddp_sync_staging_elem_count(const struct ddp *ddp)
{
    const struct tensor_list list = {ddp, false, ddp->buffer_count};

    return staging_elem_count(&list);
}

/* Copy tensors [first, end) into staging, or out of it. */
static ddp_status move_chunk(const struct tensor_list *list, size_t first, size_t end,
                             float *staging, bool is_out)
{
    struct ddp_device *device = list->ddp->device;

    for (size_t i = first; i < end; i++) {
        const size_t elem_count = tensor_elem_count(list, i);
        float *data = tensor_data(list, i);

        if (elem_count > 0) {
            DDP_TRY(device->ops->copy(device, NULL, is_out ? data : staging,
                                      is_out ? staging : data, elem_count * sizeof(float)));
        }
        staging += elem_count;
    }
    return DDP_OK;
}

static ddp_status broadcast(const struct tensor_list *list, float *staging, uint32_t root)
{
    struct ddp_group *group = list->ddp->group;
    const bool is_root = group->coll->member == root;
    uint32_t chunk = 0;

    for (size_t first = 0; first < list->count; chunk++) {
        size_t elem_count = 0;
        const size_t end = chunk_end(list, first, &elem_count);
        const struct ddp_coll_args args = {
            .kind = DDP_COLL_BROADCAST,
            .dtype = DDP_DTYPE_F32,
            .role = list->is_params ? DDP_ROLE_PARAM_SYNC : DDP_ROLE_BUFFER_SYNC,
            .index = chunk,
            .root = root,
            .input = staging,
            .output = staging,
            .elem_count = elem_count,
        };

        if (is_root) {
            DDP_TRY(move_chunk(list, first, end, staging, false));
        }
        DDP_TRY(ddp_group_run(group, &args));
        if (!is_root) {
            DDP_TRY(move_chunk(list, first, end, staging, true));
        }
        first = end;
    }
    return DDP_OK;
}

ddp_status ddp_sync_params(struct ddp *ddp, uint32_t root)
{
    const struct tensor_list list = {ddp, true, ddp->param_count};
    const size_t elem_count = staging_elem_count(&list);
    struct ddp_block staging = {0};
    ddp_status status;

    /* Synchronising parameters is rare (construction, end of join): no storage is kept for it. */
    DDP_TRY(ddp_block_alloc(ddp, DDP_SPACE_DEVICE, elem_count * sizeof(float), &staging));
    status = broadcast(&list, staging.data, root);
    ddp_block_free(ddp, &staging);
    return status;
}

ddp_status ddp_sync_buffers(struct ddp *ddp, uint32_t root)
{
    const struct tensor_list list = {ddp, false, ddp->buffer_count};

    return broadcast(&list, ddp->staging.data, root);
}
