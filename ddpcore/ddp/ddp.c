/* Construction, the start of a forward pass, destruction. The backward pass is reducer.c, uneven
 * inputs are join.c. */
#include "ddpcore/ddp/ddp.h"

#include "ddpcore/base/hash.h"
#include "ddpcore/ddp/core.h"
#include "ddpcore/seam/option.h"

/* Integers hold no averages. Buffers are only copied and may be of any type. */
static ddp_status check_params(const struct ddp *ddp, struct ddp_err *err)
{
    for (size_t i = 0; i < ddp->param_count; i++) {
        const enum ddp_dtype dtype = ddp->params[i].dtype;

        if (ddp->params[i].ndim > DDP_NDIM_MAX) {
            return ddp_err_set(err, DDP_E_UNSUPPORTED,
                               "parameter %zu \"%s\" has %u dimensions; more than %d have to be "
                               "folded",
                               i, ddp->params[i].name, ddp->params[i].ndim, DDP_NDIM_MAX);
        }
        if (dtype != DDP_DTYPE_F32 && dtype != DDP_DTYPE_F64 && dtype != DDP_DTYPE_F16 &&
            dtype != DDP_DTYPE_BF16) {
            return ddp_err_set(err, DDP_E_UNSUPPORTED,
                               "parameter %zu \"%s\" is %s; gradients can be f32, f64, f16 or bf16",
                               i, ddp->params[i].name, ddp_dtype_name(dtype));
        }
    }
    return DDP_OK;
}

static ddp_status create_storage(struct ddp *ddp)
{
    struct ddp_mem *mem = ddp->group->env->mem;

    DDP_TRY(ddp_layout_create(mem, ddp->params, ddp->param_count, &ddp->config, &ddp->layout));
    ddp_mixed_lay_out(ddp, &ddp->layout);
    DDP_ASSERT(ddp->layout.bucket_count <= ddp->param_count);
    DDP_TRY(ddp_buckets_open(ddp));
    DDP_TRY(ddp_rebuild_open(ddp));
    DDP_TRY(ddp_graph_open(ddp));
    ddp->local_used = ddp_mem_array(mem, ddp->param_count, sizeof(bool));
    ddp->is_expected = ddp_mem_array(mem, ddp->param_count, sizeof(bool));
    ddp->is_ready = ddp_mem_array(mem, ddp->param_count, sizeof(bool));
    ddp->is_unready = ddp_mem_array(mem, ddp->param_count, sizeof(bool));
    if (ddp->local_used == NULL || ddp->is_expected == NULL || ddp->is_ready == NULL ||
        ddp->is_unready == NULL) {
        return DDP_E_NOMEM;
    }
    DDP_TRY(ddp_block_alloc(ddp, DDP_SPACE_DEVICE, ddp_sync_staging_bytes(ddp), &ddp->staging));
    DDP_TRY(ddp_mixed_alloc(ddp));
    DDP_TRY(ddp_block_alloc(ddp, DDP_SPACE_HOST, sizeof(int64_t), &ddp->control));
    DDP_TRY(
        ddp_block_alloc(ddp, DDP_SPACE_HOST, ddp->param_count * sizeof(int32_t), &ddp->used_block));
    ddp->used_map = ddp->used_block.data;
    DDP_TRY(ddp_buckets_alloc(ddp));
    DDP_TRY(ddp_view_open(ddp));
    return ddp_hook_open(ddp);
}

static void record_config(const struct ddp *ddp)
{
    const struct ddp_config *config = &ddp->config;
    const bool is_set[DDP_OPTION_COUNT] = {
        [DDP_OPTION_SEMANTICS] = ddp->group->semantics != DDP_SEMANTICS_STRICT,
        [DDP_OPTION_BUCKET_ORDER] = config->bucket_order == DDP_BUCKET_ORDER_PYTORCH,
        [DDP_OPTION_GRADIENT_SCALE] = config->gradient_scale == DDP_GRADIENT_SCALE_POST,
        [DDP_OPTION_FIND_UNUSED] = config->find_unused_parameters,
        [DDP_OPTION_STATIC_GRAPH] = config->is_static_graph,
        [DDP_OPTION_BROADCAST_BUFFERS] = config->broadcast_buffers,
        [DDP_OPTION_INIT_SYNC_SKIPPED] = config->is_init_sync_skipped,
        [DDP_OPTION_BUCKET_VIEW] = config->gradient_as_bucket_view};
    char mixed[DDP_MIXED_NAME_BYTES];
    uint64_t options = 0;
    uint64_t hook = config->hook == NULL ? 0 : ddp_hash_text(config->hook->ops->name);

    for (unsigned i = 0; i < DDP_OPTION_COUNT; i++) {
        options |= (uint64_t)is_set[i] << i;
    }
    if (config->mixed != NULL) { /* which is a hook of PyTorch's, too */
        ddp_mixed_name(ddp, mixed);
        hook = ddp_hash_text(mixed);
    }
    ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_DDP_CONFIG, config->bucket_cap_bytes,
                       config->first_bucket_cap_bytes, options, hook, config->build_id);
}

static void record_shapes(const struct ddp *ddp)
{
    for (size_t i = 0; i < ddp->param_count; i++) {
        const struct ddp_param *param = &ddp->params[i];
        uint64_t size[DDP_NDIM_MAX] = {0};

        for (uint32_t k = 0; k < param->ndim; k++) {
            size[k] = param->shape[k];
        }
        ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_PARAM_SHAPE, i, size[0], size[1],
                           size[2], size[3]);
    }
    for (size_t i = 0; i < ddp->buffer_count; i++) {
        const struct ddp_buffer *buffer = &ddp->buffers[i];

        ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_BUFFER_SHAPE, i, buffer->dtype,
                           buffer->elem_count, ddp_hash_text(buffer->name), 0);
    }
}

/* Tell the device which ranges are gradients, parameters and buffers, so that a checker of the
 * order of device work can name the memory it finds misused. */
static ddp_status name_ranges(const struct ddp *ddp)
{
    struct ddp_device *device = ddp->device;

    for (size_t i = 0; i < ddp->param_count; i++) {
        const size_t size_bytes = ddp_param_size_bytes(&ddp->params[i]);

        DDP_TRY(device->hints->name_range(device, DDP_RANGE_GRAD, i, ddp->locals[i].grad,
                                          ddp_param_size_bytes(&ddp->locals[i])));
        DDP_TRY(
            device->hints->name_range(device, DDP_RANGE_PARAM, i, ddp->params[i].data, size_bytes));
    }
    for (size_t i = 0; i < ddp->buffer_count; i++) {
        DDP_TRY(device->hints->name_range(device, DDP_RANGE_BUFFER, i, ddp->buffers[i].data,
                                          ddp_buffer_size_bytes(&ddp->buffers[i])));
    }
    return DDP_OK;
}

/* Everything that needs no other rank. */
static ddp_status prepare(struct ddp *ddp, struct ddp_err *err)
{
    const struct ddp_env *env = ddp->group->env;
    const struct ddp_hook *hook = ddp->config.hook;
    ddp_status status;

    DDP_TRY(check_params(ddp, err));
    DDP_TRY(ddp_mixed_open(ddp, err));
    status = ddp_transfer_init(&ddp->transfer, ddp->device, env->idle, env->clock,
                               ddp->group->timeout_ns);
    if (status == DDP_OK) {
        status = create_storage(ddp);
    }
    if (status == DDP_OK) {
        status = name_ranges(ddp);
    }
    if (status == DDP_E_UNSUPPORTED && hook != NULL && hook->ops->needs != NULL) {
        return ddp_err_set(
            err, status,
            "the hook %s needs %s; without a hook, and with allreduce, fp16 or bf16, "
            "gradients may be of any type and lie on any device",
            hook->ops->name, hook->ops->needs);
    }
    return status == DDP_OK
               ? DDP_OK
               : ddp_err_set(err, status, "the buckets of %zu parameters%s%s: %s", ddp->param_count,
                             hook != NULL ? " for the hook " : "",
                             hook != NULL ? hook->ops->name : "", ddp_status_text(status));
}

/* All ranks have rank 0's parameters and buffers afterwards. */
static ddp_status make_equal(struct ddp *ddp, struct ddp_err *err)
{
    ddp_status status = ddp_sync_params(ddp, 0);

    if (status == DDP_OK) {
        status = ddp_sync_buffers(ddp, 0);
    }
    return status == DDP_OK ? DDP_OK
                            : ddp_err_set(err, status, "parameters could not be broadcast: %s",
                                          ddp_status_text(status));
}

ddp_status ddp_create(struct ddp_group *group, struct ddp_device *device,
                      const struct ddp_model *model, const struct ddp_config *config,
                      struct ddp **out, struct ddp_err *err)
{
    struct ddp *ddp = ddp_mem_array(group->env->mem, 1, sizeof(*ddp));
    ddp_status status;

    *out = NULL;
    if (ddp == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the reducer");
    }
    DDP_ASSERT(group->coll->member < group->coll->member_count);
    ddp->group = group;
    ddp->device = device;
    ddp->params = model->params;
    ddp->param_count = model->param_count;
    ddp->buffers = model->buffers;
    ddp->buffer_count = model->buffer_count;
    ddp->config = *config;
    ddp_config_fill(&ddp->config);
    ddp->is_sync = true;
    ddp->is_buffer_due = true;
    ddp->divisor = group->coll->member_count;
    status = prepare(ddp, err);
    if (status != DDP_OK) {
        (void)ddp_core_fail(ddp, status, 0);
        goto out;
    }
    record_config(ddp);
    record_shapes(ddp);
    ddp_buckets_record(ddp);
    status = group->semantics == DDP_SEMANTICS_STRICT ? ddp_verify_strict(ddp, err)
                                                      : ddp_verify_pytorch(ddp, err);
    if (status == DDP_OK && !ddp->config.is_init_sync_skipped) {
        status = make_equal(ddp, err);
    }
out:
    if (status != DDP_OK) {
        ddp_destroy(ddp);
        return status;
    }
    *out = ddp;
    return DDP_OK;
}

static bool is_under_way(const struct ddp_coll_work *work)
{
    return work->seq != 0 && work->status == DDP_PENDING;
}

/* PyTorch leaves the buckets of a pass with unready parameters under way: members that are a step
 * behind still need them, and get the same error from their own next forward pass. */
static void finish_launched(struct ddp *ddp)
{
    for (size_t i = 0; i < ddp->layout.bucket_count; i++) {
        struct ddp_coll_work *work = &ddp->layout.buckets[i].work;

        if (is_under_way(work) && ddp_group_drain(ddp->group, work) != DDP_OK) {
            return;
        }
    }
}

/* A collective that a library has begun may take a while to be aborted. */
#define DDP_END_TIMEOUT_NS (30 * DDP_NS_PER_S)

struct ending {
    struct ddp_coll *coll;
    struct ddp_coll_work *work;
};

static ddp_status ending_poll(void *self)
{
    const struct ending *ending = self;

    return ending->coll->ops->poll(ending->coll, ending->work);
}

static void ending_hint(void *self, struct ddp_idle_hint *hint)
{
    const struct ending *ending = self;

    ending->coll->ops->hint(ending->coll, hint);
}

static bool is_ended(struct ddp *ddp, struct ddp_coll_work *work)
{
    struct ddp_env *env = ddp->group->env;
    struct ending ending = {ddp->group->coll, work};
    const struct ddp_pollable pollable = {ending_poll, ending_hint, &ending};
    ddp_status status;

    if (!is_under_way(work)) {
        return true;
    }
    status = ending_poll(&ending);
    if (status == DDP_PENDING) {
        status = ddp_wait(env->idle, env->clock, &pollable,
                          ddp_clock_deadline_ns(env->clock, DDP_END_TIMEOUT_NS));
    }
    return status != DDP_E_TIMEOUT || work->status != DDP_PENDING;
}

/* The storage of this reducer goes, so none of its collectives may stay queued. If one is, the
 * group is revoked (after a timeout in pytorch semantics nobody has done that yet), which ends it.
 * After a death the queue ends by itself; a revocation would have to name a dead rank, and a member
 * that left in good order is none. False: a collective did not end, and its storage must not be
 * freed. */
static bool end_works(struct ddp *ddp)
{
    struct ddp_group *group = ddp->group;
    bool is_over;
    const struct ddp_revocation revocation = {group->env->rank, group->failure.status, group->step,
                                              group->failure.detail};
    struct ddp_revocation present;
    struct ddp_coll_work *pending = is_under_way(&ddp->used_work) ? &ddp->used_work : NULL;

    for (size_t i = 0; i < ddp->layout.bucket_count; i++) {
        if (is_under_way(&ddp->layout.buckets[i].work)) {
            pending = &ddp->layout.buckets[i].work;
        }
    }
    if (pending == NULL) {
        return true;
    }
    if (group->failure.status == DDP_OK) {
        (void)ddp_group_revoke(group, DDP_E_STATE, 0);
    } else if (group->failure.status != DDP_E_PEER_DIED &&
               !group->coll->ops->is_revoked(group->coll, &present)) {
        group->coll->ops->revoke(group->coll, &revocation);
    }
    is_over = is_ended(ddp, &ddp->used_work);
    for (size_t i = 0; i < ddp->layout.bucket_count; i++) {
        is_over = is_ended(ddp, &ddp->layout.buckets[i].work) && is_over;
    }
    return is_over;
}

void ddp_destroy(struct ddp *ddp)
{
    struct ddp_mem *mem;

    if (ddp == NULL) {
        return;
    }
    mem = ddp->group->env->mem;
    DDP_ASSERT(ddp->bucket_blocks == NULL || ddp->layout.buckets != NULL);
    if (ddp->layout.buckets != NULL) {
        if (ddp->is_reduction_unfinished && ddp->group->failure.status == DDP_OK) {
            finish_launched(ddp);
        }
        if (!end_works(ddp)) {
            return; /* what is left goes with the rank */
        }
    }
    ddp_hook_close(ddp);
    ddp_view_close(ddp);
    ddp_buckets_free(ddp, ddp->bucket_blocks, ddp->layout.bucket_count);
    ddp_block_free(ddp, &ddp->staging);
    ddp_block_free(ddp, &ddp->mixed_block);
    ddp_block_free(ddp, &ddp->control);
    ddp_block_free(ddp, &ddp->hashes);
    ddp_block_free(ddp, &ddp->used_block);
    ddp_transfer_fini(&ddp->transfer);
    ddp_graph_close(ddp);
    ddp_mem_free(mem, ddp->ready_order);
    ddp_mem_free(mem, ddp->local_used);
    ddp_mem_free(mem, ddp->is_expected);
    ddp_mem_free(mem, ddp->is_ready);
    ddp_mem_free(mem, ddp->is_unready);
    ddp_layout_destroy(mem, &ddp->layout);
    ddp_mem_free(mem, ddp);
}

ddp_status ddp_forward_begin(struct ddp *ddp)
{
    bool is_buffer_pass = ddp->config.broadcast_buffers && ddp->buffer_count > 0;

    if (ddp->group->failure.status != DDP_OK) {
        return ddp->group->failure.status;
    }
    if (ddp->pass == DDP_PASS_BACKWARD) {
        return ddp_core_fail_state(ddp);
    }
    if (ddp->is_reduction_unfinished && ddp->is_sync) {
        return ddp_core_fail_params(ddp, DDP_E_UNUSED_PARAMETER, ddp->is_unready);
    }
    DDP_ASSERT(!ddp->is_sync || !ddp->is_reduction_unfinished);
    ddp->is_sync_pass = ddp->is_sync;
    if (ddp->is_joining) {
        DDP_TRY(ddp_join_forward(ddp));
    } else {
        if (!ddp->is_reduction_unfinished) {
            DDP_TRY(ddp_rebuild(ddp));
        }
        is_buffer_pass =
            is_buffer_pass && (ddp->group->semantics == DDP_SEMANTICS_STRICT ? ddp->is_sync_pass
                                                                             : ddp->is_buffer_due);
        if (is_buffer_pass) {
            DDP_TRY(ddp_sync_buffer_pass(ddp, 0));
        }
    }
    DDP_TRY(ddp_round_params(ddp));
    ddp->is_buffer_due = ddp->is_sync_pass;
    ddp->pass = DDP_PASS_FORWARD;
    return DDP_OK;
}

void ddp_set_sync(struct ddp *ddp, bool is_sync)
{
    ddp->is_sync = is_sync;
}
