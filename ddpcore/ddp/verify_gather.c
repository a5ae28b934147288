/* What strict and PyTorch's verification share: an exchange between all ranks, and the error. */
#include <string.h>

#include "ddpcore/ddp/core.h"

ddp_status ddp_verify_exchange(struct ddp *ddp, enum ddp_coll_role role, uint32_t index,
                               const void *own, size_t size_bytes, void *all)
{
    struct ddp_group *group = ddp->group;
    const uint32_t member_count = group->coll->member_count;
    struct ddp_block input = {0}, output = {0};
    struct ddp_coll_args args = {.kind = DDP_COLL_ALL_GATHER,
                                 .dtype = DDP_DTYPE_U8,
                                 .role = role,
                                 .index = index,
                                 .elem_count = size_bytes};
    ddp_status status = ddp_block_alloc(ddp, DDP_SPACE_HOST, size_bytes, &input);

    DDP_ASSERT(size_bytes > 0 && ddp->pass != DDP_PASS_BACKWARD);
    if (status == DDP_OK) {
        status = ddp_block_alloc(ddp, DDP_SPACE_HOST, size_bytes * member_count, &output);
    }
    if (status == DDP_OK) {
        ddp->device->hints->host_access(ddp->device, input.data, size_bytes, true);
        memcpy(input.data, own, size_bytes);
        args.input = input.data;
        args.output = output.data;
        status = ddp_group_run(group, &args);
    }
    if (status == DDP_OK) {
        ddp->device->hints->host_access(ddp->device, output.data, size_bytes * member_count, false);
        memcpy(all, output.data, size_bytes * member_count);
    }
    ddp_block_free(ddp, &input);
    ddp_block_free(ddp, &output);
    return status;
}

ddp_status ddp_verify_gather(struct ddp *ddp, uint32_t index, const void *own, size_t size_bytes,
                             void *all)
{
    return ddp_verify_exchange(ddp, DDP_ROLE_VERIFY, index, own, size_bytes, all);
}

ddp_status ddp_verify_fail(struct ddp *ddp, int32_t member)
{
    struct ddp_group *group = ddp->group;
    const int32_t rank = member < 0 ? -1 : (int32_t)ddp_coll_rank_of(group->coll, (uint32_t)member);

    DDP_ASSERT(member < (int32_t)group->coll->member_count && group->failure.status == DDP_OK);
    group->failure.status = DDP_E_MODEL;
    group->failure.rank = rank;
    group->failure.step = group->step;
    ddp_recorder_event(group->env->recorder, DDP_EVENT_RANK_ERROR, (uint64_t)DDP_E_MODEL,
                       (uint64_t)(int64_t)rank, (uint64_t)DDP_E_MODEL, 0, 0);
    return DDP_E_MODEL;
}
