/* PyTorch's second layout of buckets: by the order in which gradients became ready on rank 0.
 *
 * A rank notes that order in its first synchronised backward pass. The next forward pass on any
 * rank is the next one on all, so there rank 0's list of parameters, and then the sizes of its
 * buckets, are broadcast, as PyTorch does. In strict semantics the ranks then compare what they
 * got: a rank with another list would sum other parameters into a bucket of the same size.
 * Gradients lie with the parameters, so what was accumulated in them stays. */
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/ddp/core.h"

/* What travels: the parameters bucket by bucket, the number of buckets, the size of each. */
struct proposal {
    struct ddp_block block;
    int32_t *order; /* [param_count + 1], the number of buckets behind the parameters */
    int32_t *sizes; /* [param_count] */
};

static ddp_status broadcast(struct ddp *ddp, uint32_t index, int32_t *values, size_t count)
{
    const struct ddp_coll_args args = {
        .kind = DDP_COLL_BROADCAST,
        .dtype = DDP_DTYPE_I32,
        .role = DDP_ROLE_REBUILD,
        .index = index,
        .root = 0,
        .input = values,
        .output = values,
        .elem_count = count,
    };

    DDP_ASSERT(count > 0);
    ddp->device->hints->host_access(ddp->device, values, count * sizeof(*values), true);
    DDP_TRY(ddp_group_run(ddp->group, &args));
    ddp->device->hints->host_access(ddp->device, values, count * sizeof(*values), false);
    return DDP_OK;
}

/* Rank 0's own list, from its order. */
static ddp_status propose(struct ddp *ddp, struct proposal *proposal)
{
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    size_t bucket_count = 0;
    bool is_skipped = false;

    DDP_ASSERT(ddp->ready_order_count == ddp->param_count);
    DDP_TRY(ddp_core_told(ddp, ddp_bucket_assign_config(ddp->group->env->mem, ddp->params,
                                                        ddp->param_count, &ddp->config,
                                                        ddp->ready_order, proposal->order,
                                                        proposal->sizes, &bucket_count)));
    proposal->order[ddp->param_count] = (int32_t)bucket_count;
    context.data = proposal->order;
    context.elem_count = ddp->param_count + 1;
    context.dtype = DDP_DTYPE_I32;
    return ddp_core_point(ddp, DDP_FAULT_POINT_BUCKET_REBUILD, &context, &is_skipped);
}

/* Only a damaged message gives a number of buckets that cannot be. Then the ranks go on with the
 * nearest one that can, so that they meet in the next broadcast, and what it gives is refused. */
static ddp_status exchange(struct ddp *ddp, struct proposal *proposal, size_t *out_count)
{
    int32_t count;

    DDP_ASSERT(ddp->ready_order_count == ddp->param_count && !ddp->is_rebuilt);
    if (ddp->group->coll->member == 0) {
        DDP_TRY(propose(ddp, proposal));
    }
    DDP_TRY(broadcast(ddp, 0, proposal->order, ddp->param_count + 1));
    count = proposal->order[ddp->param_count];
    *out_count = count < 1 ? 1 : (size_t)count;
    *out_count = *out_count > ddp->param_count ? ddp->param_count : *out_count;
    return broadcast(ddp, 1, proposal->sizes, *out_count);
}

/* Strict: every rank got the same list. If not, all of them find the same rank that differs from
 * the majority, or that there is none. */
static ddp_status compare(struct ddp *ddp, uint64_t hash)
{
    const uint32_t member_count = ddp->group->coll->member_count;
    uint64_t *all = ddp_mem_array(ddp->group->env->mem, member_count, sizeof(*all));
    int32_t other = -1;
    bool is_equal = true;
    ddp_status status;

    if (all == NULL) {
        return ddp_core_fail(ddp, DDP_E_NOMEM, 0);
    }
    status = ddp_verify_exchange(ddp, DDP_ROLE_REBUILD, 2, &hash, sizeof(hash), all);
    for (uint32_t r = 0; status == DDP_OK && r < member_count; r++) {
        uint32_t alike = 0;

        for (uint32_t k = 0; k < member_count; k++) {
            alike += all[k] == all[r] ? 1 : 0;
        }
        is_equal = is_equal && alike == member_count;
        other = other < 0 && 2 * alike < member_count ? (int32_t)r : other;
    }
    ddp_mem_free(ddp->group->env->mem, all);
    return status != DDP_OK || is_equal ? status : ddp_verify_fail(ddp, other);
}

static uint64_t hash_of(const struct ddp *ddp, const struct proposal *proposal, size_t bucket_count)
{
    uint64_t hash = ddp_hash_combine(ddp_hash_text("buckets"), bucket_count);

    DDP_ASSERT(bucket_count > 0 && bucket_count <= ddp->param_count);
    for (size_t i = 0; i < ddp->param_count; i++) {
        hash = ddp_hash_combine(hash, (uint64_t)proposal->order[i]);
    }
    for (size_t b = 0; b < bucket_count; b++) {
        hash = ddp_hash_combine(hash, (uint64_t)proposal->sizes[b]);
    }
    return hash;
}

/* No bucket is under way: the pass that used them has ended. A wait that a fault skipped may have
 * left one, which is waited for. Gradients that lie in the old buckets are moved, so those go last
 * then. */
static ddp_status replace(struct ddp *ddp, struct ddp_layout *layout)
{
    struct ddp_layout old = ddp->layout;
    struct ddp_block *old_blocks = ddp->bucket_blocks;
    ddp_status status;

    for (size_t i = 0; i < old.bucket_count; i++) {
        DDP_TRY(ddp_reducer_settle(ddp, &ddp->layout.buckets[i].work));
    }
    if (!ddp->config.gradient_as_bucket_view) {
        ddp_buckets_free(ddp, old_blocks, old.bucket_count);
        old_blocks = NULL;
    }
    ddp_hook_close(ddp);
    ddp->bucket_blocks = NULL;
    ddp->layout = *layout;
    memset(layout, 0, sizeof(*layout));
    status = ddp_buckets_open(ddp);
    status = status == DDP_OK ? ddp_buckets_alloc(ddp) : status;
    status = status == DDP_OK ? ddp_view_attach(ddp) : status;
    status = status == DDP_OK ? ddp_hook_open(ddp) : status;
    if (status == DDP_OK) {
        ddp_buckets_free(ddp, old_blocks, old.bucket_count);
    } /* else gradients are still there, which goes with the rank */
    ddp_layout_destroy(ddp->group->env->mem, &old);
    return status;
}

static ddp_status adopt(struct ddp *ddp, const struct proposal *proposal, size_t bucket_count)
{
    struct ddp_layout layout;
    ddp_status status = ddp_layout_adopt(ddp->group->env->mem, ddp->params, ddp->param_count,
                                         proposal->order, proposal->sizes, bucket_count, &layout);

    if (status != DDP_OK) { /* E_INVALID: only a damaged message can say so */
        return status == DDP_E_INVALID ? ddp_core_fail_state(ddp) : ddp_core_fail(ddp, status, 0);
    }
    ddp_mixed_lay_out(ddp, &layout);
    status = replace(ddp, &layout);
    ddp_layout_destroy(ddp->group->env->mem, &layout);
    if (status != DDP_OK) {
        return ddp->group->failure.status != DDP_OK ? status : ddp_core_fail(ddp, status, 0);
    }
    DDP_ASSERT(ddp->layout.bucket_count == bucket_count);
    ddp->is_rebuilt = true;
    ddp->is_rebuild_due = false;
    return DDP_OK;
}

static ddp_status rebuild(struct ddp *ddp, struct proposal *proposal)
{
    const bool is_strict = ddp->group->semantics == DDP_SEMANTICS_STRICT;
    size_t bucket_count = 0;
    uint64_t hash;

    DDP_TRY(exchange(ddp, proposal, &bucket_count));
    hash = hash_of(ddp, proposal, bucket_count);
    ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_BUCKET_REBUILT, bucket_count, hash, 0,
                       0, 0);
    if (is_strict) {
        DDP_TRY(compare(ddp, hash));
    }
    DDP_TRY(adopt(ddp, proposal, bucket_count));
    ddp_buckets_record(ddp);
    return DDP_OK;
}

ddp_status ddp_rebuild(struct ddp *ddp)
{
    struct ddp_recorder *recorder = ddp->group->env->recorder;
    const enum ddp_phase phase =
        recorder != NULL ? (enum ddp_phase)recorder->phase : DDP_PHASE_FORWARD;
    struct proposal proposal = {.order = NULL};
    ddp_status status;

    if (!ddp_rebuild_is_open(ddp) || !ddp->is_rebuild_due) {
        return DDP_OK;
    }
    DDP_ASSERT(ddp->pass != DDP_PASS_BACKWARD && !ddp->is_reduction_unfinished);
    status = ddp_block_alloc(ddp, DDP_SPACE_HOST,
                             (2 * ddp->param_count + 1) * sizeof(*proposal.order), &proposal.block);
    if (status != DDP_OK) {
        return ddp_core_fail(ddp, status, 0);
    }
    proposal.order = proposal.block.data;
    proposal.sizes = proposal.order + ddp->param_count + 1;
    if (phase != DDP_PHASE_BUFFER) {
        ddp_recorder_phase(recorder, DDP_PHASE_BUFFER);
    }
    status = rebuild(ddp, &proposal);
    if (phase != DDP_PHASE_BUFFER) {
        ddp_recorder_phase(recorder, phase);
    }
    ddp_block_free(ddp, &proposal.block);
    return status;
}
