/* Statistics of BatchNorm layers over all members. The host combines them, so that they have the
 * same bits on every device; its blocks are seen by the device and by collectives. */
#include "ddpcore/ddp/batch_norm.h"

#include <math.h>
#include <string.h>

#include "ddpcore/ddp/core.h"

struct ddp_batch_norm {
    struct ddp *ddp;
    size_t channel_max;
    struct ddp_block own; /* float[2 C + 1]: means, variances, rows; or the sums of backward */
    struct ddp_block all; /* the same of each member */
};

ddp_status ddp_batch_norm_create(struct ddp *ddp, size_t channel_max, struct ddp_batch_norm **out)
{
    const size_t own_bytes = (2 * channel_max + 1) * sizeof(float);
    struct ddp_batch_norm *norm = ddp_mem_array(ddp->group->env->mem, 1, sizeof(*norm));
    ddp_status status;

    *out = NULL;
    if (norm == NULL) {
        return DDP_E_NOMEM;
    }
    norm->ddp = ddp;
    norm->channel_max = channel_max;
    status = ddp_block_alloc(ddp, DDP_SPACE_HOST, own_bytes, &norm->own);
    if (status == DDP_OK) {
        status = ddp_block_alloc(ddp, DDP_SPACE_HOST, ddp->group->coll->member_count * own_bytes,
                                 &norm->all);
    }
    if (status != DDP_OK) {
        ddp_batch_norm_destroy(norm);
        return status;
    }
    *out = norm;
    return DDP_OK;
}

void ddp_batch_norm_destroy(struct ddp_batch_norm *norm)
{
    struct ddp_mem *mem;

    if (norm == NULL) {
        return;
    }
    mem = norm->ddp->group->env->mem;
    ddp_block_free(norm->ddp, &norm->own);
    ddp_block_free(norm->ddp, &norm->all);
    ddp_mem_free(mem, norm);
}

static void touch(const struct ddp_batch_norm *norm, const struct ddp_block *block,
                  size_t elem_count, bool is_write)
{
    struct ddp_device *device = norm->ddp->device;

    device->hints->host_access(device, block->data, elem_count * sizeof(float), is_write);
}

static ddp_status pass_point(struct ddp_batch_norm *norm, enum ddp_fault_point point,
                             uint32_t layer, size_t elem_count, bool *out_is_skipped)
{
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    enum ddp_fault_action action;

    context.layer = (int32_t)layer;
    context.data = norm->own.data;
    context.elem_count = elem_count;
    action = ddp_fault_point(norm->ddp->group->env->faults, point, &context);
    *out_is_skipped = action == DDP_FAULT_SKIP;
    return action == DDP_FAULT_FAIL ? ddp_core_fail(norm->ddp, DDP_E_INJECTED, point) : DDP_OK;
}

/* own: a member's means, variances and rows. */
static bool is_empty(const float *own, size_t channel_count)
{
    const float rows = own[2 * channel_count];

    return rows >= 0.0F && rows <= 0.0F; /* a NaN is not */
}

/* Of one channel; as the header says it. */
static void combine(const float *all, uint32_t member_count, size_t channel, size_t channel_count,
                    double row_count, double *out_mean, double *out_variance)
{
    const size_t stride = 2 * channel_count + 1;
    double mean = 0.0;
    double squares = 0.0;

    DDP_ASSERT(channel < channel_count);
    for (uint32_t m = 0; m < member_count; m++) {
        const float *own = all + m * stride;

        if (!is_empty(own, channel_count)) {
            mean += (double)own[2 * channel_count] * (double)own[channel];
        }
    }
    mean /= row_count;
    for (uint32_t m = 0; m < member_count; m++) {
        const float *own = all + m * stride;
        const double off = (double)own[channel] - mean;

        if (!is_empty(own, channel_count)) {
            squares +=
                (double)own[2 * channel_count] * ((double)own[channel_count + channel] + off * off);
        }
    }
    *out_mean = mean;
    *out_variance = squares / row_count;
}

static double count_rows(const float *all, uint32_t member_count, size_t channel_count)
{
    double row_count = 0.0;

    for (uint32_t m = 0; m < member_count; m++) {
        row_count += (double)all[m * (2 * channel_count + 1) + 2 * channel_count];
    }
    return row_count;
}

static ddp_status hand_out(struct ddp_batch_norm *norm, struct ddp_batch_norm_stats *stats)
{
    struct ddp_transfer *transfer = &norm->ddp->transfer;
    const uint32_t member_count = norm->ddp->group->coll->member_count;
    const size_t channel_count = stats->channel_count;
    const float *all = norm->all.data;
    float *own = norm->own.data;
    const double row_count = count_rows(all, member_count, channel_count);
    const bool is_none = row_count >= 0.0 && row_count <= 0.0;

    for (size_t c = 0; c < channel_count; c++) {
        double mean = 0.0;
        double variance = 0.0;

        if (!is_none) {
            combine(all, member_count, c, channel_count, row_count, &mean, &variance);
        }
        own[c] = (float)mean;
        own[channel_count + c] = (float)variance;
    }
    DDP_TRY(ddp_transfer_to_device(transfer, stats->mean, own, channel_count * sizeof(float)));
    DDP_TRY(ddp_transfer_to_device(transfer, stats->variance, own + channel_count,
                                   channel_count * sizeof(float)));
    for (size_t c = 0; c < channel_count; c++) {
        own[c] = 1.0F / sqrtf(own[channel_count + c] + stats->eps);
    }
    stats->row_count = (float)row_count;
    return ddp_transfer_to_device(transfer, stats->inverse, own, channel_count * sizeof(float));
}

static ddp_status take_own(struct ddp_batch_norm *norm, const struct ddp_batch_norm_stats *stats)
{
    struct ddp_transfer *transfer = &norm->ddp->transfer;
    const size_t size_bytes = stats->channel_count * sizeof(float);
    float *own = norm->own.data;

    if (stats->row_count > 0.0F) {
        DDP_TRY(ddp_transfer_to_host(transfer, own, stats->mean, size_bytes));
        DDP_TRY(ddp_transfer_to_host(transfer, own + stats->channel_count, stats->variance,
                                     size_bytes));
    } else {
        memset(own, 0, 2 * size_bytes);
    }
    own[2 * stats->channel_count] = stats->row_count;
    return DDP_OK;
}

ddp_status ddp_batch_norm_forward(struct ddp_batch_norm *norm, uint32_t layer,
                                  struct ddp_batch_norm_stats *stats)
{
    struct ddp_group *group = norm->ddp->group;
    const size_t elem_count = 2 * stats->channel_count + 1;
    const struct ddp_coll_args args = {.kind = DDP_COLL_ALL_GATHER,
                                       .dtype = DDP_DTYPE_F32,
                                       .role = DDP_ROLE_BATCH_NORM,
                                       .index = layer,
                                       .input = norm->own.data,
                                       .output = norm->all.data,
                                       .elem_count = elem_count};
    bool is_skipped;

    DDP_ASSERT(stats->channel_count <= norm->channel_max);
    DDP_ASSERT(stats->row_count >= 0.0F && isfinite(stats->row_count));
    if (group->failure.status != DDP_OK) {
        return group->failure.status;
    }
    DDP_TRY(ddp_core_needs_all(norm->ddp));
    DDP_TRY(ddp_core_told(norm->ddp, take_own(norm, stats)));
    touch(norm, &norm->own, elem_count, true);
    DDP_TRY(pass_point(norm, DDP_FAULT_POINT_BATCH_NORM_MOMENTS, layer, elem_count, &is_skipped));
    if (is_skipped) { /* as if the layer had been left out of the conversion */
        memset(norm->all.data, 0, group->coll->member_count * elem_count * sizeof(float));
        memcpy(norm->all.data, norm->own.data, elem_count * sizeof(float));
    } else {
        DDP_TRY(ddp_group_run(group, &args));
    }
    touch(norm, &norm->all, group->coll->member_count * elem_count, false);
    return ddp_core_told(norm->ddp, hand_out(norm, stats));
}

ddp_status ddp_batch_norm_backward(struct ddp_batch_norm *norm, uint32_t layer, float *sums,
                                   size_t elem_count)
{
    struct ddp_group *group = norm->ddp->group;
    struct ddp_transfer *transfer = &norm->ddp->transfer;
    const struct ddp_coll_args args = {.kind = DDP_COLL_ALL_REDUCE,
                                       .redop = DDP_REDOP_SUM,
                                       .dtype = DDP_DTYPE_F32,
                                       .role = DDP_ROLE_BATCH_NORM,
                                       .index = layer,
                                       .input = norm->own.data,
                                       .output = norm->own.data,
                                       .elem_count = elem_count};
    bool is_skipped;

    DDP_ASSERT(elem_count <= 2 * norm->channel_max);
    if (group->failure.status != DDP_OK) {
        return group->failure.status;
    }
    DDP_TRY(ddp_core_told(norm->ddp, ddp_transfer_to_host(transfer, norm->own.data, sums,
                                                          elem_count * sizeof(float))));
    touch(norm, &norm->own, elem_count, true);
    DDP_TRY(pass_point(norm, DDP_FAULT_POINT_BATCH_NORM_SUMS, layer, elem_count, &is_skipped));
    if (!is_skipped) {
        DDP_TRY(ddp_group_run(group, &args));
    }
    touch(norm, &norm->own, elem_count, false);
    return ddp_core_told(norm->ddp, ddp_transfer_to_device(transfer, sums, norm->own.data,
                                                           elem_count * sizeof(float)));
}
