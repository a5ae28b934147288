/* The reducer: one backward pass. A gradient that is ready is scaled into its bucket. Buckets are
 * launched in order, each once it is full. At the end all buckets are waited for before any is
 * copied back, so that after a revocation no gradient is half averaged. */
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/ddp/core.h"

void ddp_reducer_touch_used_map(const struct ddp *ddp, bool is_write)
{
    ddp->device->hints->host_access(ddp->device, ddp->used_map,
                                    ddp->param_count * sizeof(*ddp->used_map), is_write);
}

ddp_status ddp_reducer_settle(struct ddp *ddp, struct ddp_coll_work *work)
{
    return work->seq != 0 ? ddp_group_drain(ddp->group, work) : DDP_OK;
}

static ddp_status repost(struct ddp *ddp, struct ddp_coll_work *work,
                         const struct ddp_coll_args *args)
{
    DDP_TRY(ddp_reducer_settle(ddp, work));
    DDP_ASSERT(work->seq == 0 || work->status != DDP_PENDING);
    memset(work, 0, sizeof(*work));
    work->args = *args;
    return ddp_group_post(ddp->group, work);
}

/* The hook's collective of a round; none if it is done with the bucket. */
static ddp_status post_round(struct ddp *ddp, size_t bucket, uint32_t round)
{
    struct ddp_bucket *target = &ddp->layout.buckets[bucket];
    struct ddp_coll_args args;
    bool is_over = false;

    DDP_TRY(ddp_reducer_settle(ddp, &target->work));
    DDP_TRY(ddp_hook_round(ddp, bucket, round, &args, &is_over));
    target->is_open = !is_over;
    if (!is_over) {
        return repost(ddp, &target->work, &args);
    }
    if (round == 0) {
        memset(&target->work, 0, sizeof(target->work));
    }
    return DDP_OK;
}

ddp_status ddp_reducer_end_rounds(struct ddp *ddp)
{
    bool is_any = ddp->config.hook != NULL;

    for (uint32_t round = 1; is_any; round++) {
        is_any = false;
        for (size_t i = 0; i < ddp->layout.bucket_count; i++) {
            if (ddp->layout.buckets[i].is_open) {
                DDP_TRY(post_round(ddp, i, round));
            }
        }
        for (size_t i = 0; i < ddp->layout.bucket_count; i++) {
            if (ddp->layout.buckets[i].is_open) {
                DDP_TRY(ddp_group_wait(ddp->group, &ddp->layout.buckets[i].work));
                is_any = true;
            }
        }
    }
    return DDP_OK;
}

static ddp_status post_plain(struct ddp *ddp, size_t bucket)
{
    struct ddp_bucket *target = &ddp->layout.buckets[bucket];
    const struct ddp_coll_args args = {
        .kind = DDP_COLL_ALL_REDUCE,
        .redop = DDP_REDOP_SUM,
        .dtype = target->dtype,
        .role = DDP_ROLE_BUCKET,
        .index = (uint32_t)bucket,
        .input = target->data,
        .output = target->data,
        .elem_count = target->elem_count,
    };

    DDP_ASSERT(bucket < ddp->layout.bucket_count);
    return repost(ddp, &target->work, &args);
}

ddp_status ddp_reducer_post_bucket(struct ddp *ddp, size_t bucket)
{
    return ddp->config.hook != NULL ? post_round(ddp, bucket, 0) : post_plain(ddp, bucket);
}

ddp_status ddp_reducer_post_used_map(struct ddp *ddp)
{
    const struct ddp_coll_args args = {
        .kind = DDP_COLL_ALL_REDUCE,
        .redop = DDP_REDOP_SUM,
        .dtype = DDP_DTYPE_I32,
        .role = DDP_ROLE_USED_MAP,
        .input = ddp->used_map,
        .output = ddp->used_map,
        .elem_count = ddp->param_count,
    };

    DDP_ASSERT(ddp_graph_has_map(ddp));
    return repost(ddp, &ddp->used_work, &args);
}

static void offer_bucket(const struct ddp *ddp, size_t bucket, struct ddp_fault_context *context)
{
    const struct ddp_bucket *source = &ddp->layout.buckets[bucket];

    context->bucket = (int32_t)bucket;
    context->data = source->data;
    context->elem_count = source->elem_count;
    context->dtype = source->dtype;
}

static ddp_status launch_used_map(struct ddp *ddp)
{
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    bool is_skipped = false;

    DDP_TRY(ddp_reducer_settle(ddp, &ddp->used_work));
    ddp_reducer_touch_used_map(ddp, true);
    for (size_t i = 0; i < ddp->param_count; i++) {
        ddp->used_map[i] = ddp->local_used[i] ? 1 : 0;
    }
    context.data = ddp->used_map;
    context.elem_count = ddp->param_count;
    context.dtype = DDP_DTYPE_I32;
    DDP_TRY(ddp_core_point(ddp, DDP_FAULT_POINT_USED_MAP, &context, &is_skipped));
    memset(&ddp->used_work, 0, sizeof(ddp->used_work));
    return is_skipped ? DDP_OK : ddp_reducer_post_used_map(ddp);
}

/* Launch full buckets, in order, up to the first that is not full; after the last bucket, the used
 * map. */
static ddp_status launch_ready(struct ddp *ddp)
{
    struct ddp_layout *layout = &ddp->layout;

    DDP_ASSERT(ddp->is_sync_pass && ddp->next_bucket <= layout->bucket_count);
    while (ddp->next_bucket < layout->bucket_count &&
           layout->buckets[ddp->next_bucket].pending_count == 0) {
        struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
        bool is_skipped = false;

        offer_bucket(ddp, ddp->next_bucket, &context);
        DDP_TRY(ddp_core_point(ddp, DDP_FAULT_POINT_BUCKET_LAUNCH, &context, &is_skipped));
        if (is_skipped) {
            memset(&layout->buckets[ddp->next_bucket].work, 0, sizeof(struct ddp_coll_work));
            layout->buckets[ddp->next_bucket].is_open = false;
        } else {
            DDP_TRY(ddp_reducer_post_bucket(ddp, ddp->next_bucket));
        }
        ddp->next_bucket++;
        if (ddp->next_bucket == layout->bucket_count && ddp->config.find_unused_parameters) {
            DDP_TRY(launch_used_map(ddp));
        }
    }
    return DDP_OK;
}

/* Let the collectives under way, and the other ranks, get on. */
static ddp_status drive(struct ddp *ddp)
{
    DDP_ASSERT(ddp->next_done <= ddp->next_bucket);
    while (ddp->next_done < ddp->next_bucket) {
        const ddp_status status =
            ddp_group_poll(ddp->group, &ddp->layout.buckets[ddp->next_done].work);

        if (status < DDP_OK) {
            return status;
        }
        if (status == DDP_PENDING) {
            break;
        }
        ddp->next_done++;
    }
    ddp->group->env->idle->ops->progress(ddp->group->env->idle);
    return DDP_OK;
}

static double scale_factor(const struct ddp *ddp)
{
    DDP_ASSERT(ddp->divisor > 0 && ddp->divisor <= ddp->group->coll->member_count);
    return 1.0 / (double)ddp->divisor;
}

static ddp_status fill_slice(struct ddp *ddp, size_t param, void *slice)
{
    const struct ddp_device_ops *ops = ddp->device->ops;
    const struct ddp_param *source = &ddp->params[param];

    if (ddp->config.mixed != NULL) {
        return ddp_mixed_fill(ddp, param, slice);
    }
    if (source->elem_count == 0) {
        return DDP_OK;
    }
    if (!source->is_grad_defined) {
        return ops->zero(ddp->device, NULL, slice, ddp_param_size_bytes(source));
    }
    if (ddp->config.gradient_scale == DDP_GRADIENT_SCALE_POST || ddp->config.hook != NULL) {
        if (slice == source->grad) {
            return DDP_OK;
        }
        return ops->copy(ddp->device, NULL, slice, source->grad, ddp_param_size_bytes(source));
    }
    return ops->scale(ddp->device, NULL, slice, source->dtype, source->grad, source->dtype,
                      source->elem_count, scale_factor(ddp));
}

/* Put a parameter into its bucket and count it. A skipped fill counts as never ready. */
static ddp_status mark_ready(struct ddp *ddp, size_t param)
{
    const size_t bucket = ddp->layout.bucket_of[param];
    struct ddp_bucket *target = &ddp->layout.buckets[bucket];
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    bool is_skipped = false;

    DDP_ASSERT(!ddp->is_ready[param] && target->pending_count > 0);
    DDP_ASSERT(bucket >= ddp->next_bucket);
    DDP_TRY(ddp_reducer_settle(ddp, &target->work));
    context.bucket = (int32_t)bucket;
    context.param = (int32_t)param;
    context.is_skip_idle = ddp_view_is_kept(ddp, param);
    DDP_TRY(ddp_core_point(ddp, DDP_FAULT_POINT_BUCKET_COPY, &context, &is_skipped));
    context.data = ddp_view_of(ddp, param);
    context.elem_count = ddp->params[param].elem_count;
    context.dtype = target->dtype;
    if (!is_skipped) {
        DDP_TRY(ddp_core_told(ddp, fill_slice(ddp, param, context.data)));
    }
    DDP_TRY(ddp_core_point(ddp, DDP_FAULT_POINT_BUCKET_FILL, &context, &is_skipped));
    if (is_skipped) {
        return DDP_OK;
    }
    ddp->is_ready[param] = true;
    target->pending_count--;
    return DDP_OK;
}

/* As in PyTorch: a parameter that will get no gradient counts as ready as soon as the first
 * gradient is ready. */
static ddp_status mark_unexpected(struct ddp *ddp)
{
    const bool is_due = ddp->config.find_unused_parameters || ddp_graph_is_known(ddp);

    if (!is_due || ddp->is_any_ready) {
        return DDP_OK;
    }
    for (size_t place = 0; place < ddp->param_count; place++) {
        const size_t param = ddp->layout.order[place];

        if (!ddp->is_expected[param]) {
            DDP_TRY(ddp_core_told(ddp, ddp_view_save(ddp, param)));
            ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_PARAM_UNUSED, param, 0, 0, 0,
                               0);
            DDP_TRY(mark_ready(ddp, param));
        }
    }
    return DDP_OK;
}

ddp_status ddp_backward_begin(struct ddp *ddp, const bool *is_used)
{
    if (ddp->group->failure.status != DDP_OK) {
        return ddp->group->failure.status;
    }
    if (ddp->pass != DDP_PASS_FORWARD) {
        if (ddp->group->semantics == DDP_SEMANTICS_STRICT || ddp->pass == DDP_PASS_BACKWARD) {
            return ddp_core_fail_state(ddp);
        }
        /* PyTorch: without a forward pass through DDP nothing is synchronised, gradients stay
         * local. */
        ddp->is_sync_pass = false;
    }
    DDP_ASSERT(ddp->pass != DDP_PASS_BACKWARD);
    ddp->pass = DDP_PASS_BACKWARD;
    ddp->is_any_ready = false;
    ddp->ready_count = 0;
    ddp->next_bucket = 0;
    ddp->next_done = 0;
    for (size_t i = 0; i < ddp->param_count; i++) {
        ddp->is_ready[i] = false;
        ddp->is_expected[i] = is_used == NULL || is_used[i];
    }
    ddp_graph_begin(ddp);
    for (size_t i = 0; i < ddp->layout.bucket_count; i++) {
        ddp->layout.buckets[i].pending_count = ddp->layout.buckets[i].param_count;
    }
    if (ddp->is_sync_pass) {
        ddp_rebuild_begin(ddp);
    }
    return DDP_OK;
}

static ddp_status refuse_ready(struct ddp *ddp, size_t param)
{
    if (ddp->pass != DDP_PASS_BACKWARD) {
        return ddp_core_fail_state(ddp);
    }
    if (ddp->is_ready[param]) {
        /* PyTorch checks this only in passes that are synchronised; a static graph counts how often
         * only in those. */
        if (ddp->is_sync_pass ||
            (ddp->group->semantics == DDP_SEMANTICS_STRICT && !ddp->config.is_static_graph)) {
            return ddp_core_fail_param(ddp, DDP_E_READY_TWICE, param);
        }
    }
    return DDP_OK;
}

ddp_status ddp_grad_ready(struct ddp *ddp, size_t param_index)
{
    struct ddp_param *param;
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    bool is_skipped = false;

    DDP_ASSERT(param_index < ddp->param_count);
    param = &ddp->locals[param_index];
    if (ddp->group->failure.status != DDP_OK) {
        return ddp->group->failure.status;
    }
    context.param = (int32_t)param_index;
    context.bucket = (int32_t)ddp->layout.bucket_of[param_index];
    context.data = param->grad;
    context.elem_count = param->elem_count;
    context.dtype = param->dtype;
    DDP_TRY(ddp_core_point(ddp, DDP_FAULT_POINT_GRAD_READY, &context, &is_skipped));
    if (is_skipped) {
        return DDP_OK;
    }
    if (ddp->is_sync_pass && ddp->pass == DDP_PASS_BACKWARD) {
        DDP_TRY(mark_unexpected(ddp));
    }
    DDP_TRY(refuse_ready(ddp, param_index));
    param->is_grad_defined = true;
    ddp->is_any_ready = true;
    ddp->local_used[param_index] = true;
    if (ddp->config.is_hashing) {
        uint64_t hash;

        DDP_TRY(ddp_core_hash(ddp, param->name, param->grad, ddp_param_size_bytes(param), &hash));
        ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_GRAD_READY, param_index, hash, 0, 0,
                           0);
    }
    ddp->ready_count++;
    if (!ddp->is_sync_pass) {
        ddp->is_ready[param_index] = true;
        ddp->group->env->idle->ops->progress(ddp->group->env->idle);
        return DDP_OK;
    }
    if (!ddp_graph_count(ddp, param_index)) {
        return drive(ddp);
    }
    DDP_TRY(mark_ready(ddp, param_index));
    if (ddp->is_ready[param_index]) {
        ddp_rebuild_note(ddp, param_index);
    }
    DDP_TRY(launch_ready(ddp));
    return drive(ddp);
}

/* The end of the pass that notes the graph: now everything is reduced. What was not used is told to
 * all before. */
static ddp_status reduce_noted(struct ddp *ddp)
{
    if (!ddp_graph_is_noting(ddp) || ddp->param_count == 0) {
        return DDP_OK;
    }
    DDP_TRY(launch_used_map(ddp));
    for (size_t i = 0; i < ddp->param_count; i++) {
        if (ddp->ready_times[i] == 0) {
            DDP_TRY(ddp_core_told(ddp, ddp_view_save(ddp, i)));
            ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_PARAM_UNUSED, i, 0, 0, 0, 0);
            ddp_rebuild_note(ddp, i);
        }
        DDP_TRY(mark_ready(ddp, i));
    }
    return DDP_OK;
}

/* A parameter never became ready. */
static ddp_status end_unready(struct ddp *ddp)
{
    for (size_t i = 0; i < ddp->param_count; i++) {
        ddp->is_unready[i] = !ddp->is_ready[i];
    }
    if (ddp->group->semantics == DDP_SEMANTICS_STRICT) {
        return ddp_core_fail_params(ddp, DDP_E_UNUSED_PARAMETER, ddp->is_unready);
    }
    /* PyTorch raises the error only if the pass produced a gradient at all. */
    ddp->is_reduction_unfinished = ddp->is_any_ready;
    return DDP_OK;
}

/* Copy one parameter's average back, unless no rank used it. */
static ddp_status copy_back(struct ddp *ddp, size_t param)
{
    struct ddp_param *target = &ddp->params[param];
    const size_t size_bytes = ddp_param_size_bytes(target);
    void *slice = ddp_view_of(ddp, param);

    if (!ddp_graph_has_map(ddp) || ddp->used_map[param] != 0) {
        if (ddp->config.mixed != NULL) {
            return ddp_mixed_copy_back(ddp, param, slice);
        }
        target->is_grad_defined = true;
        if (size_bytes > 0 && ddp->config.gradient_scale == DDP_GRADIENT_SCALE_POST &&
            ddp->config.hook == NULL) {
            DDP_TRY(ddp->device->ops->scale(ddp->device, NULL, target->grad, target->dtype, slice,
                                            target->dtype, target->elem_count, scale_factor(ddp)));
        } else if (size_bytes > 0 && target->grad != slice) {
            DDP_TRY(ddp->device->ops->copy(ddp->device, NULL, target->grad, slice, size_bytes));
        }
        return DDP_OK;
    }
    return ddp_view_restore(ddp, param);
}

static ddp_status record_final(struct ddp *ddp, size_t param)
{
    const struct ddp_param *target = &ddp->params[param];
    uint64_t hash;

    if (!ddp->config.is_hashing) {
        return DDP_OK;
    }
    DDP_TRY(ddp_core_hash(ddp, target->name, target->grad, ddp_param_size_bytes(target), &hash));
    ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_GRAD_FINAL, param, hash,
                       target->is_grad_defined ? 1 : 0, 0, 0);
    return DDP_OK;
}

static ddp_status unflatten(struct ddp *ddp)
{
    DDP_ASSERT(ddp->next_bucket == ddp->layout.bucket_count); /* all averages are there */
    if (ddp_graph_has_map(ddp)) {
        ddp_reducer_touch_used_map(ddp, false);
    }
    for (size_t i = 0; i < ddp->layout.bucket_count; i++) {
        const struct ddp_bucket *bucket = &ddp->layout.buckets[i];
        struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
        bool is_skipped = false;

        offer_bucket(ddp, i, &context);
        context.seq = bucket->work.seq;
        context.is_skip_idle = ddp_view_is_alike(ddp, bucket);
        DDP_TRY(ddp_core_point(ddp, DDP_FAULT_POINT_BUCKET_UNFLATTEN, &context, &is_skipped));
        for (size_t k = 0; k < bucket->param_count && !is_skipped; k++) {
            DDP_TRY(ddp_core_told(ddp, copy_back(ddp, ddp->layout.order[bucket->first_place + k])));
        }
    }
    DDP_TRY(ddp_core_told(ddp, ddp_view_attach(ddp)));
    for (size_t i = 0; i < ddp->param_count; i++) {
        DDP_TRY(record_final(ddp, i));
    }
    return DDP_OK;
}

ddp_status ddp_backward_end(struct ddp *ddp)
{
    if (ddp->group->failure.status != DDP_OK) {
        return ddp->group->failure.status;
    }
    if (ddp->pass != DDP_PASS_BACKWARD) {
        return ddp_core_fail_state(ddp);
    }
    ddp->pass = DDP_PASS_IDLE;
    if (!ddp->is_sync_pass) {
        return DDP_OK;
    }
    DDP_TRY(mark_unexpected(ddp));
    DDP_TRY(reduce_noted(ddp));
    DDP_TRY(launch_ready(ddp));
    for (size_t i = 0; i < ddp->param_count; i++) {
        if (!ddp->is_ready[i]) {
            return end_unready(ddp);
        }
    }
    for (size_t i = 0; i < ddp->layout.bucket_count; i++) {
        DDP_TRY(ddp_group_wait(ddp->group, &ddp->layout.buckets[i].work));
    }
    if ((ddp->config.find_unused_parameters || ddp_graph_is_noting(ddp)) && ddp->param_count > 0) {
        DDP_TRY(ddp_group_wait(ddp->group, &ddp->used_work));
    }
    DDP_TRY(ddp_reducer_end_rounds(ddp));
    DDP_TRY(unflatten(ddp));
    for (size_t i = 0; i < ddp->param_count; i++) {
        ddp->local_used[i] = false;
    }
    ddp_rebuild_end(ddp);
    if (ddp_graph_is_noting(ddp)) {
        ddp_graph_end(ddp);
    }
    return DDP_OK;
}
