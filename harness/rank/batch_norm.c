/* BatchNorm over the batches of all ranks (job.sync_batchnorm): the model's exchange is the core's.
 */
#include "ddpcore/ddp/batch_norm.h"

#include "harness/rank/session.h"

static ddp_status exchange_moments(void *context, uint32_t layer, const struct ddp_moments *moments,
                                   size_t columns, float eps, float *inout_rows)
{
    struct harness_session *session = context;
    struct ddp_batch_norm_stats stats = {.mean = moments->mean,
                                         .variance = moments->variance,
                                         .inverse = moments->inverse,
                                         .channel_count = columns,
                                         .row_count = *inout_rows,
                                         .eps = eps};

    DDP_TRY(ddp_batch_norm_forward(session->batch_norm, layer, &stats));
    *inout_rows = stats.row_count;
    return DDP_OK;
}

static ddp_status exchange_sums(void *context, uint32_t layer, float *sums, size_t elem_count)
{
    struct harness_session *session = context;

    return ddp_batch_norm_backward(session->batch_norm, layer, sums, elem_count);
}

ddp_status harness_session_sync_batch_norm(struct harness_session *session)
{
    size_t channel_max = 0;

    if (!session->is_batch_norm_synced) {
        return DDP_OK;
    }
    /* Running statistics have an element for each channel. */
    for (size_t i = session->param_count; i < session->tensor_count; i++) {
        const size_t elem_count = session->tensors[i].elem_count;

        channel_max = elem_count > channel_max ? elem_count : channel_max;
    }
    DDP_TRY(ddp_batch_norm_create(session->ddp, channel_max, &session->batch_norm));
    session->exchange = (struct ref_exchange){session, exchange_moments, exchange_sums};
    ref_model_set_exchange(session->model, &session->exchange);
    return DDP_OK;
}
