/* Altered arguments of a collective, and the memory that they need. */
#include <string.h>

#include "harness/inject/action.h"

static size_t block_bytes(const struct ddp_coll_args *args)
{
    return args->kind == DDP_COLL_BARRIER ? 0
                                          : args->elem_count * ddp_dtype_size_bytes(args->dtype);
}

static size_t input_bytes(const struct ddp_coll_args *args, uint32_t member_count)
{
    return ddp_coll_input_blocks(args->kind, member_count) * block_bytes(args);
}

/* As if this rank were the root: so much there is. */
static size_t output_bytes(const struct ddp_coll_args *args, uint32_t member_count)
{
    return ddp_coll_output_blocks(args->kind, member_count, true) * block_bytes(args);
}

static void set_arg(const struct harness_action *action, struct ddp_coll_args *args)
{
    switch (action->arg) {
    case HARNESS_ARG_KIND:
        args->kind = (enum ddp_coll_kind)(action->arg_value % DDP_COLL_POSTED_KIND_COUNT);
        break;
    case HARNESS_ARG_COUNT:
        args->elem_count = (size_t)action->arg_value;
        break;
    case HARNESS_ARG_DTYPE:
        args->dtype = (enum ddp_dtype)(action->arg_value % DDP_DTYPE_COUNT);
        break;
    case HARNESS_ARG_REDOP:
        args->redop = (enum ddp_redop)(action->arg_value % DDP_REDOP_COUNT);
        break;
    case HARNESS_ARG_ROOT:
        args->root = (uint32_t)action->arg_value;
        break;
    case HARNESS_ARG_INDEX:
        args->index = (uint32_t)action->arg_value;
        break;
    case HARNESS_ARG_FIELD_COUNT:
        break;
    }
}

static ddp_status copy_out(struct ddp_device *device, void *target, const void *source,
                           size_t posted_bytes, size_t edited_bytes)
{
    size_t kept = posted_bytes < edited_bytes ? posted_bytes : edited_bytes;

    return source != NULL && kept > 0 ? device->ops->copy(device, NULL, target, source, kept)
                                      : DDP_OK;
}

/* On a device whose memory is the host's, from mem: the device may be gone before the list. Other
 * devices take back what they gave when they are destroyed. */
static ddp_status alloc_scratch(const struct harness_edit_place *place, size_t size_bytes,
                                void **out)
{
    struct harness_scratch *scratch;

    if (!place->device->ops->is_host_memory) {
        return place->device->ops->alloc(place->device, size_bytes, DDP_SPACE_DEVICE, out);
    }
    scratch = ddp_mem_array(place->mem, 1, DDP_CACHE_LINE_BYTES + size_bytes);
    if (scratch == NULL) {
        return DDP_E_NOMEM;
    }
    scratch->next = *place->scratch;
    *place->scratch = scratch;
    *out = (uint8_t *)scratch + DDP_CACHE_LINE_BYTES;
    return DDP_OK;
}

/* Block: input, then output, each starting on a cache line. */
static ddp_status move_to_scratch(const struct ddp_coll_args *posted, struct ddp_coll_args *args,
                                  const struct harness_edit_place *place)
{
    uint32_t member_count = place->member_count;
    struct ddp_device *device = place->device;
    size_t in_bytes = (input_bytes(args, member_count) + DDP_CACHE_LINE_BYTES - 1) &
                      ~(size_t)(DDP_CACHE_LINE_BYTES - 1);
    void *block;

    DDP_TRY(alloc_scratch(place, in_bytes + output_bytes(args, member_count) + 1, &block));
    DDP_TRY(copy_out(device, block, posted->input, input_bytes(posted, member_count),
                     input_bytes(args, member_count)));
    DDP_TRY(copy_out(device, (uint8_t *)block + in_bytes, posted->output,
                     output_bytes(posted, member_count), output_bytes(args, member_count)));
    args->output = (uint8_t *)block + in_bytes;
    args->input =
        posted->input == posted->output && args->kind != DDP_COLL_ALL_GATHER ? args->output : block;
    return DDP_OK;
}

ddp_status harness_action_edit_args(const struct harness_action *action, struct ddp_coll_args *args,
                                    const struct harness_edit_place *place)
{
    struct ddp_coll_args edited = *args;

    set_arg(action, &edited);
    if (input_bytes(&edited, place->member_count) > input_bytes(args, place->member_count) ||
        output_bytes(&edited, place->member_count) > output_bytes(args, place->member_count)) {
        DDP_TRY(move_to_scratch(args, &edited, place));
    }
    *args = edited;
    return DDP_OK;
}

void harness_scratch_free(struct harness_scratch *scratch, struct ddp_mem *mem)
{
    while (scratch != NULL) {
        struct harness_scratch *next = scratch->next;

        ddp_mem_free(mem, scratch);
        scratch = next;
    }
}
