/* Making replicas equal: tensors of one rank are packed into chunks, broadcast, and unpacked on the
 * others. A chunk holds tensors of one type; chunk c of a role carries index c. */
#include "ddpcore/ddp/core.h"

#define DDP_CHUNK_BYTES_MAX ((size_t)250 << 20)

struct tensor {
    const char *name;
    enum ddp_dtype dtype;
    void *data;
    size_t elem_count;
};

/* A list of tensors, whatever table they come from. */
struct tensor_list {
    const struct ddp *ddp;
    bool is_params;
    size_t count;
};

static struct tensor tensor_at(const struct tensor_list *list, size_t index)
{
    const struct ddp *ddp = list->ddp;

    DDP_ASSERT(index < list->count);
    if (list->is_params) {
        const struct ddp_param *param = &ddp->params[index];

        return (struct tensor){param->name, param->dtype, param->data, param->elem_count};
    }
    return (struct tensor){ddp->buffers[index].name, ddp->buffers[index].dtype,
                           ddp->buffers[index].data, ddp->buffers[index].elem_count};
}

/* The tensors of one type in [first, end); tensors of other types may lie between them. */
struct chunk {
    size_t dtype; /* enum ddp_dtype, or DDP_DTYPE_COUNT behind the last chunk */
    size_t first, end;
    size_t elem_count;
};

/* The next chunk: as many whole tensors of one type as the cap allows, at least one. Start with a
 * zeroed chunk. False: there is none left. */
static bool next_chunk(const struct tensor_list *list, struct chunk *chunk)
{
    size_t place = chunk->end;

    while (chunk->dtype < DDP_DTYPE_COUNT) {
        while (place < list->count && tensor_at(list, place).dtype != chunk->dtype) {
            place++;
        }
        if (place < list->count) {
            break;
        }
        chunk->dtype++;
        place = 0;
    }
    if (chunk->dtype == DDP_DTYPE_COUNT) {
        return false;
    }
    chunk->first = place;
    chunk->elem_count = 0;
    for (; place < list->count; place++) {
        const struct tensor tensor = tensor_at(list, place);
        const size_t cap_elems = DDP_CHUNK_BYTES_MAX / ddp_dtype_size_bytes(tensor.dtype);

        if (tensor.dtype != chunk->dtype) {
            continue;
        }
        if (place > chunk->first && chunk->elem_count + tensor.elem_count > cap_elems) {
            break;
        }
        chunk->elem_count += tensor.elem_count;
        chunk->end = place + 1;
    }
    DDP_ASSERT(chunk->first < chunk->end && chunk->end <= list->count);
    return true;
}

static size_t chunk_bytes(const struct chunk *chunk)
{
    return chunk->elem_count * ddp_dtype_size_bytes((enum ddp_dtype)chunk->dtype);
}

static size_t staging_bytes(const struct tensor_list *list)
{
    struct chunk chunk = {0};
    size_t largest_bytes = 0;

    while (next_chunk(list, &chunk)) {
        largest_bytes = chunk_bytes(&chunk) > largest_bytes ? chunk_bytes(&chunk) : largest_bytes;
    }
    return largest_bytes;
}

size_t ddp_sync_staging_bytes(const struct ddp *ddp)
{
    const struct tensor_list list = {ddp, false, ddp->buffer_count};

    return staging_bytes(&list);
}

/* Copy the chunk's tensors into staging, or out of it. */
static ddp_status move_chunk(const struct tensor_list *list, const struct chunk *chunk,
                             void *staging, bool is_out)
{
    struct ddp_device *device = list->ddp->device;
    const size_t elem_bytes = ddp_dtype_size_bytes((enum ddp_dtype)chunk->dtype);
    unsigned char *packed = staging;
    size_t used_bytes = 0;

    for (size_t i = chunk->first; i < chunk->end; i++) {
        const struct tensor tensor = tensor_at(list, i);
        const size_t size_bytes = tensor.elem_count * elem_bytes;

        if (tensor.dtype != chunk->dtype || size_bytes == 0) {
            continue;
        }
        DDP_TRY(device->ops->copy(device, NULL, is_out ? tensor.data : packed + used_bytes,
                                  is_out ? packed + used_bytes : tensor.data, size_bytes));
        used_bytes += size_bytes;
    }
    DDP_ASSERT(used_bytes == chunk_bytes(chunk));
    return DDP_OK;
}

static ddp_status broadcast(const struct tensor_list *list, void *staging, uint32_t root)
{
    struct ddp_group *group = list->ddp->group;
    const bool is_root = group->coll->member == root;
    struct chunk chunk = {0};

    DDP_ASSERT(root < group->coll->member_count);
    for (uint32_t index = 0; next_chunk(list, &chunk); index++) {
        const struct ddp_coll_args args = {
            .kind = DDP_COLL_BROADCAST,
            .dtype = (enum ddp_dtype)chunk.dtype,
            .role = list->is_params ? DDP_ROLE_PARAM_SYNC : DDP_ROLE_BUFFER_SYNC,
            .index = index,
            .root = root,
            .input = staging,
            .output = staging,
            .elem_count = chunk.elem_count,
        };

        if (is_root) {
            DDP_TRY(move_chunk(list, &chunk, staging, false));
        }
        DDP_TRY(ddp_group_run(group, &args));
        if (!is_root) {
            DDP_TRY(move_chunk(list, &chunk, staging, true));
        }
    }
    return DDP_OK;
}

ddp_status ddp_sync_params(struct ddp *ddp, uint32_t root)
{
    const struct tensor_list list = {ddp, true, ddp->param_count};
    struct ddp_block staging = {0};
    ddp_status status;

    /* Synchronising parameters is rare (construction, end of join): no storage is kept for it. */
    DDP_TRY(
        ddp_core_told(ddp, ddp_block_alloc(ddp, DDP_SPACE_DEVICE, staging_bytes(&list), &staging)));
    status = ddp_core_told(ddp, broadcast(&list, staging.data, root));
    ddp_block_free(ddp, &staging);
    return status;
}

ddp_status ddp_sync_buffers(struct ddp *ddp, uint32_t root)
{
    const struct tensor_list list = {ddp, false, ddp->buffer_count};

    return ddp_core_told(ddp, broadcast(&list, ddp->staging.data, root));
}

static ddp_status record_buffers(struct ddp *ddp)
{
    for (size_t i = 0; ddp->config.is_hashing && i < ddp->buffer_count; i++) {
        const struct ddp_buffer *buffer = &ddp->buffers[i];
        uint64_t hash;

        DDP_TRY(
            ddp_core_hash(ddp, buffer->name, buffer->data, ddp_buffer_size_bytes(buffer), &hash));
        ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_BUFFER_SYNCED, i, hash, 0, 0, 0);
    }
    return DDP_OK;
}

ddp_status ddp_sync_buffer_pass(struct ddp *ddp, uint32_t root)
{
    struct ddp_recorder *recorder = ddp->group->env->recorder;
    const enum ddp_phase phase =
        recorder != NULL ? (enum ddp_phase)recorder->phase : DDP_PHASE_FORWARD;
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    bool is_skipped = false;
    ddp_status status;

    DDP_ASSERT(ddp->pass != DDP_PASS_BACKWARD && ddp->buffer_count > 0);
    ddp_recorder_phase(recorder, DDP_PHASE_BUFFER);
    status = ddp_core_point(ddp, DDP_FAULT_POINT_BUFFER_SYNC, &context, &is_skipped);
    if (status == DDP_OK && !is_skipped) {
        status = ddp_sync_buffers(ddp, root);
    }
    if (status == DDP_OK) {
        status = record_buffers(ddp);
    }
    ddp_recorder_phase(recorder, phase);
    return status;
}
