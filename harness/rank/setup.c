/* Opening and closing a rank's run. Opening stops at the first failure; whatever exists then is
 * released by the one close, in the opposite order. */
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/plan/program.h"
#include "harness/rank/session.h"

enum { ROWS_MAX = 1000000 }; /* as many as a scenario may ask for (job.batch_per_rank) */

/* Set-up ends by this time even if a rank never comes and no monitor runs. */
static uint64_t setup_deadline_ns(const struct harness_session *session)
{
    return ddp_clock_deadline_ns(session->env->clock, session->plan->job.timeout_ns);
}

static ddp_status open_data(struct harness_session *session)
{
    if (session->options->data != NULL) {
        session->data = session->options->data;
    } else {
        DDP_TRY(
            ref_data_open(session->env->mem, &session->job.data, &session->own_data, session->err));
        session->data = &session->own_data;
    }
    session->job.shard.sample_count = session->data->sample_count;
    ref_model_defaults(&session->job.model, session->data->feature_count,
                       session->data->labels != NULL ? session->data->class_count
                                                     : session->data->target_count);
    return DDP_OK;
}

/* Point data/sampler: a fault may alter which shard this rank takes, and how many rows of it at a
 * time: of those that a batch has room for, once there is one. */
static ddp_status configure_sampler(struct harness_session *session, size_t rows)
{
    const struct ref_shard_config *shard = &session->job.shard;
    int64_t options[] = {session->env->rank, shard->world_size, (int64_t)shard->seed,
                         shard->is_shuffled, (int64_t)rows};
    const int64_t most_rows = session->features == NULL ? ROWS_MAX : (int64_t)session->batch_rows;
    int64_t most = shard->shard_size != NULL ? shard->world_size : HARNESS_WORLD_MAX;
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;

    place.data = options;
    place.elem_count = sizeof options / sizeof options[0];
    place.dtype = DDP_DTYPE_I64;
    if (ddp_fault_point(session->env->faults, DDP_FAULT_POINT_DATA_SAMPLER, &place) ==
        DDP_FAULT_FAIL) {
        return ddp_err_set(session->err, DDP_E_INJECTED, "the sampler could not be configured");
    }
    if (options[0] < 0 || options[0] >= options[1] || options[1] > most || options[4] < 1 ||
        options[4] > most_rows) {
        return ddp_err_set(session->err, DDP_E_INVALID,
                           "a fault made the sampler one of rank %lld of %lld, %lld rows at a time",
                           (long long)options[0], (long long)options[1], (long long)options[4]);
    }
    session->sampler = (struct ddp_sampler_config){.sample_count = shard->sample_count,
                                                   .rank = (uint32_t)options[0],
                                                   .world_size = (uint32_t)options[1],
                                                   .is_shuffled = options[3] != 0,
                                                   .drop_last = shard->drop_last,
                                                   .seed = (uint64_t)options[2],
                                                   .shard_size = shard->shard_size};
    session->batch_rows = (size_t)options[4];
    return DDP_OK;
}

static ddp_status open_batches(struct harness_session *session)
{
    struct ddp_mem *mem = session->env->mem;
    size_t rows = session->batch_rows;

    session->param_salt = ddp_mem_array(mem, session->param_count, sizeof session->param_salt[0]);
    session->is_used = ddp_mem_array(mem, session->param_count, sizeof session->is_used[0]);
    session->features =
        ddp_mem_array(mem, rows * session->data->feature_count, sizeof session->features[0]);
    session->labels =
        ddp_mem_array(mem, rows * session->data->label_count, sizeof session->labels[0]);
    session->targets =
        ddp_mem_array(mem, rows * session->data->target_count, sizeof session->targets[0]);
    if (session->param_salt == NULL || session->is_used == NULL || session->features == NULL ||
        session->labels == NULL || session->targets == NULL) {
        return ddp_err_set(session->err, DDP_E_NOMEM, "no memory for a batch of %zu rows", rows);
    }
    for (size_t i = 0; i < session->param_count; i++) {
        session->param_salt[i] = ddp_hash_text(session->params[i].name);
    }
    return harness_batches_init(&session->batches, mem, &session->sampler, rows,
                                session->job.shard.is_one_epoch);
}

/* Point data/resume: a fault may alter where this rank's sampler goes on. */
static ddp_status go_on(struct harness_session *session)
{
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;
    int64_t options[] = {(int64_t)session->resume.epoch, (int64_t)session->resume.used};
    struct ddp_sampler_state state;

    place.data = options;
    place.elem_count = sizeof options / sizeof options[0];
    place.dtype = DDP_DTYPE_I64;
    if (ddp_fault_point(session->env->faults, DDP_FAULT_POINT_DATA_RESUME, &place) ==
        DDP_FAULT_FAIL) {
        return ddp_err_set(session->err, DDP_E_INJECTED, "the sampler could not go on");
    }
    state = (struct ddp_sampler_state){(uint64_t)options[0], (size_t)options[1]};
    if (options[0] < 0 || options[1] < 0 ||
        harness_batches_go_on(&session->batches, session->first_step * session->job.micro_batches,
                              &state) != DDP_OK) {
        return ddp_err_set(session->err, DDP_E_CORRUPT,
                           "the sampler cannot go on in epoch %lld behind %lld of %zu samples",
                           (long long)options[0], (long long)options[1],
                           session->data->sample_count);
    }
    return DDP_OK;
}

/* Takes over transport. */
static ddp_status open_group(struct harness_session *session, struct ddp_transport *transport)
{
    bool is_strict = session->plan->job.semantics != HARNESS_SEMANTICS_PYTORCH;
    struct ddp_coll *coll;

    DDP_TRY(harness_session_open_collective(session, is_strict, transport, &coll));
    ddp_group_init(&session->group, session->env, coll,
                   is_strict ? DDP_SEMANTICS_STRICT : DDP_SEMANTICS_PYTORCH,
                   session->plan->job.timeout_ns);
    session->is_group = true;
    session->numbers = 0;
    ddp_group_number_by(&session->group, &session->numbers);
    return DDP_OK;
}

/* As a fault may have altered it. */
static ddp_status reduce_in(struct harness_session *session, int64_t reduce,
                            struct ddp_config *config)
{
    const bool is_mixed = config->mixed != NULL;
    const bool is_strict = session->plan->job.semantics != HARNESS_SEMANTICS_PYTORCH;

    /* Passes have been made for 16 bits: without mixed precision a rank cannot train. */
    if (reduce >= DDP_DTYPE_COUNT || (reduce >= 0) != is_mixed) {
        if (is_mixed && is_strict && reduce == -1) {
            config->mixed = NULL;
            return DDP_OK;
        }
        return ddp_err_set(session->err, DDP_E_INVALID,
                           "a fault made %lld the type of mixed precision's sums: a job with "
                           "mixed_precision has one from 0 to %d, or in strict semantics -1 for "
                           "none, another job -1",
                           (long long)reduce, DDP_DTYPE_COUNT - 1);
    }
    session->mixed.reduce = is_mixed ? (enum ddp_dtype)reduce : DDP_DTYPE_F32;
    return DDP_OK;
}

/* Point ddp/config: a fault may alter what this rank alone is configured with. */
static ddp_status pass_config(struct harness_session *session, struct ddp_config *config)
{
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;
    int64_t options[] = {(int64_t)config->bucket_cap_bytes,
                         (int64_t)config->first_bucket_cap_bytes,
                         (int64_t)config->gradient_scale,
                         config->find_unused_parameters,
                         config->broadcast_buffers,
                         config->is_init_sync_skipped,
                         (int64_t)config->build_id,
                         session->plan->job.hook,
                         session->plan->job.sync_batchnorm,
                         session->plan->job.local_sgd_start,
                         session->plan->job.powersgd_error_feedback,
                         (int64_t)session->plan->job.seed,
                         config->mixed == NULL ? -1 : (int64_t)config->mixed->reduce};

    place.data = options;
    place.elem_count = sizeof options / sizeof options[0];
    place.dtype = DDP_DTYPE_I64;
    if (ddp_fault_point(session->env->faults, DDP_FAULT_POINT_CONFIG, &place) == DDP_FAULT_FAIL) {
        return ddp_err_set(session->err, DDP_E_INJECTED, "DDP could not be configured");
    }
    config->bucket_cap_bytes = (size_t)options[0];
    config->first_bucket_cap_bytes = (size_t)options[1];
    config->gradient_scale =
        options[2] == DDP_GRADIENT_SCALE_POST ? DDP_GRADIENT_SCALE_POST : DDP_GRADIENT_SCALE_PRE;
    config->find_unused_parameters = options[3] != 0;
    config->broadcast_buffers = options[4] != 0;
    config->is_init_sync_skipped = options[5] != 0;
    config->build_id = (uint64_t)options[6];
    DDP_TRY(harness_session_open_hook(session, options[7], &options[9], &session->hook));
    config->hook = session->hook;
    session->is_batch_norm_synced = options[8] != 0;
    return reduce_in(session, options[12], config);
}

/* Point model/buffers: a fault may make this rank hand over other buffers than it has. */
static ddp_status pass_buffers(struct harness_session *session, struct ddp_model *model)
{
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;
    struct ddp_mem *mem = session->env->mem;
    int64_t *elems;
    ddp_status status = DDP_OK;

    if (!ddp_fault_point_is_armed(session->env->faults, DDP_FAULT_POINT_MODEL_BUFFERS)) {
        return DDP_OK;
    }
    elems = ddp_mem_array(mem, model->buffer_count, sizeof(*elems));
    if (elems == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < model->buffer_count; i++) {
        elems[i] = (int64_t)model->buffers[i].elem_count;
    }
    place.data = elems;
    place.elem_count = model->buffer_count;
    place.dtype = DDP_DTYPE_I64;
    if (ddp_fault_point(session->env->faults, DDP_FAULT_POINT_MODEL_BUFFERS, &place) ==
        DDP_FAULT_FAIL) {
        status = ddp_err_set(session->err, DDP_E_INJECTED, "the buffers could not be listed");
    }
    for (size_t i = 0; status == DDP_OK && i < model->buffer_count; i++) {
        if (elems[i] < 0 || (uint64_t)elems[i] > model->buffers[i].elem_count) {
            status = ddp_err_set(session->err, DDP_E_INVALID,
                                 "a fault handed over %lld elements of buffer %zu, which has %zu",
                                 (long long)elems[i], i, model->buffers[i].elem_count);
        } else if (elems[i] == 0) {
            model->buffer_count = i;
        } else {
            model->buffers[i].elem_count = (size_t)elems[i];
        }
    }
    ddp_mem_free(mem, elems);
    return status;
}

static ddp_status wrap_model(struct harness_session *session)
{
    const struct harness_job *job = &session->plan->job;
    struct ddp_config config = {.bucket_cap_bytes = job->bucket_cap_bytes,
                                .first_bucket_cap_bytes = job->first_bucket_cap_bytes,
                                .bucket_order = job->bucket_order == HARNESS_BUCKET_ORDER_PYTORCH
                                                    ? DDP_BUCKET_ORDER_PYTORCH
                                                    : DDP_BUCKET_ORDER_REVERSE,
                                .gradient_scale = job->gradient_scale == HARNESS_GRADIENT_SCALE_POST
                                                      ? DDP_GRADIENT_SCALE_POST
                                                      : DDP_GRADIENT_SCALE_PRE,
                                .find_unused_parameters = job->find_unused_parameters,
                                .is_static_graph = job->static_graph,
                                .broadcast_buffers = job->broadcast_buffers,
                                .gradient_as_bucket_view = job->gradient_as_bucket_view,
                                .is_hashing = session->options->is_hashing};
    struct ddp_model model = {.params = session->params, .param_count = session->param_count};

    model.buffers = ref_model_buffers(session->model, &model.buffer_count);
    DDP_TRY(harness_session_list_delayed(session));
    config.is_delayed = session->is_delayed;
    if (job->mixed_precision.is_set) {
        session->mixed = (struct ddp_mixed_precision){ref_model_rounded(session->model),
                                                      harness_mixed_reduce(job)};
        config.mixed = &session->mixed;
    }
    DDP_TRY(pass_config(session, &config));
    DDP_TRY(pass_buffers(session, &model));
    DDP_TRY(
        ddp_create(&session->group, session->device, &model, &config, &session->ddp, session->err));
    return harness_session_sync_batch_norm(session);
}

void harness_session_unwrap(struct harness_session *session)
{
    harness_session_close_reader(session);
    ddp_batch_norm_destroy(session->batch_norm);
    session->batch_norm = NULL;
    if (session->ddp != NULL) {
        ddp_destroy(session->ddp);
    }
    session->ddp = NULL;
    ddp_hook_destroy(session->hook);
    session->hook = NULL;
}

/* The new group's share of what was left of the epoch: nothing of it was used in the step that
 * comes next. How many rows the rank takes at a time is its own, whatever its new number. */
static ddp_status deal_again(struct harness_session *session)
{
    session->resume =
        harness_batches_state(&session->batches, session->first_step * session->job.micro_batches);
    DDP_TRY(configure_sampler(session, session->batch_rows));
    harness_batches_fini(&session->batches);
    DDP_TRY(harness_batches_init(&session->batches, session->env->mem, &session->sampler,
                                 session->batch_rows, session->job.shard.is_one_epoch));
    return session->first_step > 0 ? go_on(session) : DDP_OK;
}

ddp_status harness_session_reopen(struct harness_session *session, struct ddp_transport *transport)
{
    const size_t sample_count = session->job.shard.sample_count;
    bool is_skipped;

    DDP_TRY(open_group(session, transport));
    DDP_TRY(harness_session_point(session, DDP_FAULT_POINT_RECOVERY_STATE, &is_skipped));
    harness_session_put_back_buffers(session, session->first_step);
    DDP_TRY(harness_session_spread_state(session));
    DDP_TRY(harness_rank_job(session->plan, &session->job, session->err));
    session->job.shard.sample_count = sample_count;
    DDP_TRY(deal_again(session));
    DDP_TRY(harness_session_configure_trainer(session));
    DDP_TRY(harness_session_open_reader(session));
    harness_session_phase(session, DDP_PHASE_INIT);
    DDP_TRY(wrap_model(session));
    harness_session_set_hook_steps(session);
    return DDP_OK;
}

ddp_status harness_session_open(struct harness_session *session,
                                const struct harness_rank_wiring *wiring)
{
    struct ddp_transport *transport;

    DDP_TRY(harness_rank_job(session->plan, &session->job, session->err));
    DDP_TRY(harness_session_point(session, DDP_FAULT_POINT_LAUNCH_SPAWN, &session->is_left_out));
    if (session->is_left_out) {
        return DDP_OK;
    }
    harness_session_phase(session, DDP_PHASE_RENDEZVOUS);
    DDP_TRY(
        harness_session_point(session, DDP_FAULT_POINT_RENDEZVOUS_CONNECT, &session->is_left_out));
    if (session->is_left_out) {
        return DDP_OK;
    }
    DDP_TRY(wiring->store(wiring->context, session->env, setup_deadline_ns(session),
                          &session->store, session->err));
    harness_session_phase(session, DDP_PHASE_INIT);
    DDP_TRY(harness_session_open_device(session));
    DDP_TRY(open_data(session));
    DDP_TRY(configure_sampler(session, session->job.shard.batch_rows[session->env->rank]));
    DDP_TRY(harness_session_build_model(session));
    DDP_TRY(harness_session_warm_up(session));
    DDP_TRY(open_batches(session));
    DDP_TRY(harness_session_configure_trainer(session));
    DDP_TRY(harness_session_point(session, DDP_FAULT_POINT_COMM_INIT, &session->is_left_out));
    if (session->is_left_out) {
        return DDP_OK;
    }
    DDP_TRY(wiring->transport(wiring->context, session->env, session->store,
                              setup_deadline_ns(session), &transport, session->err));
    DDP_TRY(open_group(session, transport));
    DDP_TRY(harness_session_open_groups(session, wiring, setup_deadline_ns(session)));
    if (session->options->is_restoring) {
        DDP_TRY(harness_session_restore(session));
        DDP_TRY(session->is_resuming ? go_on(session) : DDP_OK);
    }
    DDP_TRY(harness_session_open_reader(session));
    harness_session_phase(session, DDP_PHASE_INIT);
    DDP_TRY(wrap_model(session));
    DDP_TRY(harness_session_log(session));
    return session->options->is_restoring ? harness_session_load_hook(session) : DDP_OK;
}

void harness_session_close(struct harness_session *session)
{
    struct ddp_mem *mem = session->env->mem;

    harness_session_unwrap(session);
    harness_session_drop_buffers(session);
    harness_session_end_evaluations(session);
    harness_session_end_posts(session);
    harness_batches_fini(&session->batches);
    ddp_mem_free(mem, session->tensors);
    ddp_mem_free(mem, session->targets);
    ddp_mem_free(mem, session->labels);
    ddp_mem_free(mem, session->features);
    ddp_mem_free(mem, session->is_used);
    ddp_mem_free(mem, session->is_delayed);
    ddp_mem_free(mem, session->param_salt);
    harness_session_close_groups(session);
    if (session->is_group) {
        ddp_group_fini(&session->group);
    }
    if (session->optimizer != NULL) {
        ref_optimizer_destroy(session->optimizer);
    }
    if (session->model != NULL) {
        ref_model_destroy(session->model);
    }
    if (session->data == &session->own_data) {
        ref_data_close(&session->own_data);
    }
    harness_session_close_device(session);
    if (session->store != NULL) {
        session->store->ops->destroy(session->store);
    }
    if (session->own_plan != NULL) {
        harness_plan_continued_fini(mem, session->first_plan, session->own_plan);
    }
    ddp_mem_free(mem, session->own_plan);
    ddp_mem_free(mem, session->own_dir);
}
