/* What a new group begins with: the state of the member that has done the most steps. */
#include "harness/rank/session.h"

/* Of each tensor the source's. */
static ddp_status spread(struct harness_session *session, void *data, enum ddp_dtype dtype,
                         size_t elem_count, uint32_t *inout_index)
{
    const struct ddp_coll_args args = {.kind = DDP_COLL_BROADCAST,
                                       .dtype = dtype,
                                       .role = DDP_ROLE_STATE,
                                       .index = (*inout_index)++,
                                       .root = session->plan->job.source,
                                       .input = data,
                                       .output = data,
                                       .elem_count = elem_count};

    return ddp_group_run(&session->group, &args);
}

static ddp_status spread_counts(struct harness_session *session, uint32_t *inout_index)
{
    struct ddp_device *device = session->device;
    void *block;
    uint64_t *counts;
    ddp_status status;

    DDP_TRY(
        device->ops->alloc(device, session->param_count * sizeof(*counts), DDP_SPACE_HOST, &block));
    counts = block;
    for (size_t p = 0; p < session->param_count; p++) {
        counts[p] = *ref_optimizer_step_count(session->optimizer, p);
    }
    status = spread(session, counts, DDP_DTYPE_I64, session->param_count, inout_index);
    for (size_t p = 0; status == DDP_OK && p < session->param_count; p++) {
        *ref_optimizer_step_count(session->optimizer, p) = counts[p];
    }
    device->ops->free(device, DDP_SPACE_HOST, block);
    return status;
}

ddp_status harness_session_spread_state(struct harness_session *session)
{
    const size_t slot_count = ref_optimizer_slot_count(session->optimizer);
    uint32_t index = 0;

    for (size_t i = 0; i < session->tensor_count; i++) {
        const struct ddp_param *tensor = &session->tensors[i];

        DDP_TRY(spread(session, tensor->data, tensor->dtype, tensor->elem_count, &index));
    }
    for (size_t slot = 0; slot < slot_count; slot++) {
        for (size_t p = 0; p < session->param_count; p++) {
            DDP_TRY(spread(session, ref_optimizer_slot(session->optimizer, slot, p), DDP_DTYPE_F32,
                           session->params[p].elem_count, &index));
        }
    }
    return spread_counts(session, &index);
}
