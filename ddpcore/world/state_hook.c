/* The state of communication hooks in a trainer's state file. */
#include "ddpcore/world/state_hook.h"

#include <inttypes.h>

#include "ddpcore/ddp/hook.h"

static const struct ddp_param *tensor_of(struct ddp *ddp, size_t index)
{
    size_t count;
    const struct ddp_param *tensors = ddp_hook_state(ddp, &count);

    DDP_ASSERT(index < count);
    return &tensors[index];
}

/* Of the members of the model's group, which need not be all ranks. */
static uint32_t rows_of(struct ddp *ddp, size_t index)
{
    return ddp_hook_state_is_own(ddp, index) ? ddp_member_count(ddp) : 1;
}

size_t ddp_world_hook_count(struct ddp *ddp)
{
    size_t count = 0;

    (void)(ddp != NULL ? ddp_hook_state(ddp, &count) : NULL);
    return count;
}

size_t ddp_world_hook_bytes(struct ddp *ddp)
{
    const size_t count = ddp_world_hook_count(ddp);
    size_t size_bytes = 0;

    for (size_t i = 0; i < count; i++) {
        size_bytes += rows_of(ddp, i) * ddp_param_size_bytes(tensor_of(ddp, i));
    }
    return size_bytes;
}

ddp_status ddp_world_hook_name(struct ddp *ddp, size_t index, struct ddp_mem *mem,
                               struct ddp_text *out)
{
    ddp_text_init(out, mem);
    ddp_text_add(out, "hook.%s", tensor_of(ddp, index)->name);
    return out->is_failed ? DDP_E_NOMEM : DDP_OK;
}

/* All ranks' tensor to the host; block NULL: only for the others. */
static ddp_status gather(struct ddp_world *world, struct ddp *ddp, size_t index, char *block)
{
    struct ddp_device *device = world->device;
    const size_t size_bytes = ddp_param_size_bytes(tensor_of(ddp, index));
    const size_t rows = ddp_member_count(ddp);
    void *all = NULL;
    ddp_status status;

    DDP_TRY(device->ops->alloc(device, (rows + 1) * size_bytes, DDP_SPACE_DEVICE, &all));
    status = ddp_hook_state_gather(ddp, index, all);
    if (status == DDP_OK && block != NULL) {
        status = ddp_transfer_to_host(&world->transfer, block, (char *)all + size_bytes,
                                      rows * size_bytes);
    }
    device->ops->free(device, DDP_SPACE_DEVICE, all);
    return status;
}

static ddp_status add(struct ddp *ddp, size_t index, uint64_t rows, const char *block,
                      struct ddp_state_dict *dict)
{
    const struct ddp_param *tensor = tensor_of(ddp, index);
    const uint64_t shape[2] = {rows, tensor->elem_count};
    const bool is_own = ddp_hook_state_is_own(ddp, index);
    struct ddp_text name;
    ddp_status status = ddp_world_hook_name(ddp, index, dict->mem, &name);

    if (status == DDP_OK) {
        status = ddp_state_dict_add(dict, ddp_text_str(&name), tensor->dtype, is_own ? 2 : 1,
                                    is_own ? shape : shape + 1, block);
    }
    ddp_text_fini(&name);
    return status;
}

ddp_status ddp_world_hook_fill(struct ddp_world *world, struct ddp *ddp, char *block,
                               struct ddp_state_dict *dict)
{
    const size_t count = ddp_world_hook_count(ddp);
    ddp_status status = DDP_OK;

    for (size_t i = 0; i < count; i++) {
        const struct ddp_param *tensor = tensor_of(ddp, i);

        if (ddp_hook_state_is_own(ddp, i)) {
            DDP_TRY(gather(world, ddp, i, block));
        } else if (block != NULL && status == DDP_OK) {
            status = ddp_transfer_to_host(&world->transfer, block, tensor->data,
                                          ddp_param_size_bytes(tensor));
        }
        if (block != NULL && status == DDP_OK) {
            status = add(ddp, i, rows_of(ddp, i), block, dict);
            block += rows_of(ddp, i) * ddp_param_size_bytes(tensor);
        }
    }
    return status;
}

static ddp_status find(struct ddp *ddp, size_t index, const struct ddp_state_dict *dict,
                       const struct ddp_tensor_entry **out)
{
    struct ddp_text name;
    ddp_status status = ddp_world_hook_name(ddp, index, dict->mem, &name);

    *out = status == DDP_OK ? ddp_state_dict_find(dict, ddp_text_str(&name)) : NULL;
    ddp_text_fini(&name);
    return status;
}

ddp_status ddp_world_hook_check(struct ddp *ddp, const struct ddp_state_dict *dict,
                                struct ddp_err *err)
{
    const size_t count = ddp_world_hook_count(ddp);

    for (size_t i = 0; i < count; i++) {
        const struct ddp_param *tensor = tensor_of(ddp, i);
        const bool is_own = ddp_hook_state_is_own(ddp, i);
        const uint64_t shape[2] = {rows_of(ddp, i), tensor->elem_count};
        const struct ddp_tensor_entry *entry;

        DDP_TRY(find(ddp, i, dict, &entry));
        DDP_ASSERT(entry != NULL); /* the file's names were compared */
        if (is_own && entry->ndim == 2 && entry->shape[0] != shape[0]) {
            return ddp_err_set(err, DDP_E_SHAPE,
                               "%s is of %" PRIu64 " ranks, this job has %" PRIu64
                               ": each rank goes on from its own",
                               entry->name, entry->shape[0], shape[0]);
        }
        DDP_TRY(ddp_tensor_entry_check(entry, tensor->dtype, is_own ? 2 : 1,
                                       is_own ? shape : shape + 1, dict->mem, err));
    }
    return DDP_OK;
}

ddp_status ddp_world_hook_take(struct ddp_world *world, struct ddp *ddp,
                               const struct ddp_state_dict *dict)
{
    const size_t count = ddp_world_hook_count(ddp);

    for (size_t i = 0; i < count; i++) {
        const struct ddp_param *tensor = tensor_of(ddp, i);
        const size_t size_bytes = ddp_param_size_bytes(tensor);
        const size_t row = ddp_hook_state_is_own(ddp, i) ? ddp_member(ddp) : 0;
        const struct ddp_tensor_entry *entry;

        DDP_TRY(find(ddp, i, dict, &entry));
        DDP_ASSERT(entry != NULL && entry->size_bytes >= (row + 1) * size_bytes);
        DDP_TRY(ddp_transfer_to_device(&world->transfer, tensor->data,
                                       (const char *)entry->data + row * size_bytes, size_bytes));
    }
    return DDP_OK;
}
