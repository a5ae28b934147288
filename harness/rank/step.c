/* The training loop: what a user's script does around DDP, with the fault points of the places that
 * belong to the script. Gradient events are the core's; samples, losses, parameters and optimizer
 * state are recorded here. */
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/ddp/drift.h"
#include "harness/rank/session.h"

static ddp_status on_layer(void *context, uint32_t layer)
{
    struct harness_session *session = context;
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;

    place.layer = (int32_t)layer;
    place.device = session->device;
    DDP_TRY(harness_session_mark(session, DDP_MARK_FORWARD, layer));
    session->env->idle->ops->progress(session->env->idle);
    /* SKIP is treated as GO: a layer cannot be left out. */
    return ddp_fault_point(session->env->faults, DDP_FAULT_POINT_FORWARD_LAYER, &place) ==
                   DDP_FAULT_FAIL
               ? DDP_E_INJECTED
               : DDP_OK;
}

static ddp_status on_grad_ready(void *context, size_t param)
{
    struct harness_session *session = context;

    DDP_TRY(harness_session_untimely(session, true));
    return session->is_clip_early ? DDP_OK : ddp_grad_ready(session->ddp, param);
}

/* A tensor that belongs to one parameter, as something that a fault may alter. */
static ddp_status pass_tensor(struct harness_session *session, enum ddp_fault_point point,
                              size_t param, void *data)
{
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;

    place.param = (int32_t)param;
    place.data = data;
    place.elem_count = session->params[param].elem_count;
    place.dtype = session->params[param].dtype;
    place.device = session->device;
    return ddp_fault_point(session->env->faults, point, &place) == DDP_FAULT_FAIL ? DDP_E_INJECTED
                                                                                  : DDP_OK;
}

static ddp_status on_updated(void *context, size_t param)
{
    struct harness_session *session = context;

    return pass_tensor(session, DDP_FAULT_POINT_PARAM_UPDATED, param, session->params[param].data);
}

/* Point data/batch: a fault may alter which samples a batch has. It does so in the epoch's list, so
 * that a batch that comes again is the same again. */
static ddp_status pass_samples(struct harness_session *session, uint32_t *samples, size_t rows)
{
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;

    place.data = samples;
    place.elem_count = rows;
    place.dtype = DDP_DTYPE_I32;
    if (ddp_fault_point(session->env->faults, DDP_FAULT_POINT_DATA_BATCH, &place) ==
        DDP_FAULT_FAIL) {
        return DDP_E_INJECTED;
    }
    for (size_t i = 0; i < rows; i++) {
        if (samples[i] >= session->data->sample_count) {
            return ddp_err_set(session->err, DDP_E_INVALID,
                               "a fault put sample %u into a batch, of %zu samples", samples[i],
                               session->data->sample_count);
        }
    }
    return DDP_OK;
}

/* Point data/transform. */
static ddp_status pass_features(struct harness_session *session, float *features, size_t rows)
{
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;

    place.data = features;
    place.elem_count = rows * session->data->feature_count;
    place.dtype = DDP_DTYPE_F32;
    return ddp_fault_point(session->env->faults, DDP_FAULT_POINT_DATA_TRANSFORM, &place) ==
                   DDP_FAULT_FAIL
               ? DDP_E_INJECTED
               : DDP_OK;
}

/* *out_rows = 0: the rank's data has ended. */
static ddp_status next_batch(struct harness_session *session, uint32_t step, uint32_t micro,
                             struct ref_batch *out)
{
    struct ddp_env *env = session->env;
    uint64_t number = (uint64_t)step * session->job.micro_batches + micro;
    uint32_t *samples;
    float *features;
    enum ddp_fault_action action;
    bool is_skipped;
    size_t rows;

    harness_session_phase(session, DDP_PHASE_DATA);
    DDP_TRY(harness_session_ask(session, DDP_FAULT_POINT_DATA_NEXT, &action));
    session->batch_shift += action == DDP_FAULT_SKIP ? 1 : 0;
    number += (uint64_t)session->batch_shift;
    session->batch_shift -= action == DDP_FAULT_DUP ? 1 : 0;
    if (harness_batches_begins_epoch(&session->batches, number)) {
        DDP_TRY(harness_session_point(session, DDP_FAULT_POINT_DATA_EPOCH, &is_skipped));
        if (is_skipped) {
            harness_batches_keep_order(&session->batches, number);
        }
    }
    DDP_TRY(harness_batches_take(&session->batches, number, &samples, &rows));
    *out = (struct ref_batch){
        .rank = env->rank, .step = step, .micro = micro, .rows = rows, .samples = samples};
    if (rows == 0) {
        return DDP_OK;
    }
    DDP_TRY(pass_samples(session, samples, rows));
    DDP_TRY(harness_session_read(session, number, samples, rows, out, &features));
    DDP_TRY(pass_features(session, features, rows));
    ddp_recorder_event(env->recorder, DDP_EVENT_DATA_BATCH, rows,
                       ddp_hash_bytes(samples, rows * sizeof samples[0], 0), samples[0], 0, 0);
    for (size_t i = 0; session->options->is_hashing && i < rows; i++) {
        ddp_recorder_event(env->recorder, DDP_EVENT_DATA_SAMPLE, samples[i], 0, 0, 0, 0);
    }
    return DDP_OK;
}

/* Point buffer/updated: of each buffer, whose number is the trigger's `param`. */
static ddp_status pass_buffers(struct harness_session *session)
{
    for (size_t i = session->param_count; i < session->tensor_count; i++) {
        struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;

        place.param = (int32_t)(i - session->param_count);
        place.data = session->tensors[i].data;
        place.elem_count = session->tensors[i].elem_count;
        place.dtype = session->tensors[i].dtype;
        place.device = session->device;
        if (ddp_fault_point(session->env->faults, DDP_FAULT_POINT_BUFFER_UPDATED, &place) ==
            DDP_FAULT_FAIL) {
            return DDP_E_INJECTED;
        }
    }
    return DDP_OK;
}

static ddp_status run_forward(struct harness_session *session, const struct ref_batch *batch,
                              const struct ref_model_observer *observer)
{
    float loss;
    uint32_t bits;
    bool is_skipped;

    harness_session_phase(session, DDP_PHASE_FORWARD);
    DDP_TRY(harness_session_point(session, DDP_FAULT_POINT_FORWARD_WRAPPER, &is_skipped));
    if (!is_skipped) {
        DDP_TRY(ddp_forward_begin(session->ddp));
    }
    harness_session_phase(session, DDP_PHASE_FORWARD);
    DDP_TRY(ref_model_forward(session->model, batch, observer, &loss));
    DDP_TRY(pass_buffers(session));
    harness_session_phase(session, DDP_PHASE_LOSS);
    memcpy(&bits, &loss, sizeof bits);
    ddp_recorder_event(session->env->recorder, DDP_EVENT_LOSS, bits, 0, 0, 0, 0);
    return DDP_OK;
}

static ddp_status run_backward(struct harness_session *session,
                               const struct ref_model_observer *observer)
{
    const bool *is_used = NULL;

    harness_session_phase(session, DDP_PHASE_BACKWARD);
    if (session->plan->job.find_unused_parameters) {
        ref_model_used(session->model, session->is_used);
        is_used = session->is_used;
    }
    DDP_TRY(harness_session_mark(session, DDP_MARK_BACKWARD, 0));
    DDP_TRY(ddp_backward_begin(session->ddp, is_used));
    DDP_TRY(ref_model_backward(session->model,
                               1.0f / (float)session->job.micro_batches * session->scaler.scale,
                               observer));
    DDP_TRY(session->is_clip_early ? harness_session_clip_early(session) : DDP_OK);
    return ddp_backward_end(session->ddp);
}

/* *out_ended: there was no batch left, and nothing was posted. */
static ddp_status run_micro(struct harness_session *session, uint32_t step, uint32_t micro,
                            bool *out_ended)
{
    const struct ref_model_observer observer = {
        .context = session, .layer = on_layer, .grad_ready = on_grad_ready};
    struct ref_batch batch;
    bool is_skipped;

    ddp_recorder_step(session->env->recorder, step, micro);
    DDP_TRY(next_batch(session, step, micro, &batch));
    *out_ended = batch.rows == 0;
    if (*out_ended) {
        return DDP_OK;
    }
    DDP_TRY(harness_session_untimely(session, false));
    ddp_set_sync(session->ddp, micro + 1 == session->job.micro_batches);
    DDP_TRY(run_forward(session, &batch, &observer));
    DDP_TRY(harness_session_point(session, DDP_FAULT_POINT_LOSS, &is_skipped));
    return is_skipped ? DDP_OK : run_backward(session, &observer);
}

static ddp_status pass_states(struct harness_session *session)
{
    size_t slot_count = ref_optimizer_slot_count(session->optimizer);

    for (size_t slot = 0; slot < slot_count; slot++) {
        for (size_t param = 0; param < session->param_count; param++) {
            DDP_TRY(pass_tensor(session, DDP_FAULT_POINT_OPTIMIZER_STATE, param,
                                ref_optimizer_slot(session->optimizer, slot, param)));
        }
    }
    return DDP_OK;
}

static ddp_status run_optimizer(struct harness_session *session, uint32_t step)
{
    bool is_skipped;

    harness_session_phase(session, DDP_PHASE_OPTIMIZER);
    DDP_TRY(harness_session_unscale(session));
    DDP_TRY(session->scaler.is_found ? DDP_OK : harness_session_clip(session));
    ref_optimizer_set_lr(session->optimizer, harness_session_rate(session, step));
    DDP_TRY(harness_session_mark(session, DDP_MARK_OPTIMIZER, 0));
    DDP_TRY(harness_session_point(session, DDP_FAULT_POINT_OPTIMIZER_PRE, &is_skipped));
    DDP_TRY(pass_states(session));
    is_skipped = is_skipped || session->scaler.is_found;
    harness_session_rescale(session);
    DDP_TRY(is_skipped ? DDP_OK : ref_optimizer_step(session->optimizer, on_updated, session));
    return harness_session_average(session, step);
}

static ddp_status record_tensor(struct harness_session *session, enum ddp_event event, size_t param,
                                const void *data, uint64_t slot)
{
    size_t size_bytes = ddp_param_size_bytes(&session->params[param]);
    const void *seen;

    DDP_TRY(ddp_transfer_view(&session->transfer, data, size_bytes, &seen));
    ddp_recorder_event(
        session->env->recorder, event, param,
        ddp_recorder_hash(session->env->recorder, seen, size_bytes, session->param_salt[param]),
        slot, 0, 0);
    return DDP_OK;
}

/* What the step's passes made of the model's buffers. */
static ddp_status record_buffers(struct harness_session *session)
{
    const size_t count = session->tensor_count - session->param_count;

    for (size_t i = 0; session->options->is_hashing && i < count; i++) {
        const struct ddp_param *buffer = &session->tensors[session->param_count + i];
        const size_t size_bytes = ddp_param_size_bytes(buffer);
        const void *seen;

        DDP_TRY(ddp_transfer_view(&session->transfer, buffer->data, size_bytes, &seen));
        ddp_recorder_event(session->env->recorder, DDP_EVENT_BUFFER_UPDATED, i,
                           ddp_recorder_hash(session->env->recorder, seen, size_bytes,
                                             ddp_hash_text(buffer->name)),
                           0, 0, 0);
    }
    return DDP_OK;
}

/* Every parameter and its state, updated or not: replicas are compared by these. */
static ddp_status record_state(struct harness_session *session)
{
    size_t slot_count = ref_optimizer_slot_count(session->optimizer);

    for (size_t param = 0; session->options->is_hashing && param < session->param_count; param++) {
        DDP_TRY(
            record_tensor(session, DDP_EVENT_PARAM_UPDATED, param, session->params[param].data, 0));
        for (size_t slot = 0; slot < slot_count; slot++) {
            DDP_TRY(record_tensor(session, DDP_EVENT_OPTIMIZER_STATE, param,
                                  ref_optimizer_slot(session->optimizer, slot, param), slot));
        }
    }
    return record_buffers(session);
}

/* A trainer in production would raise an alarm; this one says what it was told, and goes on. */
static ddp_status check_drift(struct harness_session *session, uint32_t step)
{
    const uint32_t every = session->plan->job.drift_every;
    struct ddp_drift drift;
    ddp_status status;

    if (every == 0 || (step + 1) % every != 0) {
        return DDP_OK;
    }
    status = ddp_check_drift(session->ddp, &drift);
    if (status != DDP_OK && status != DDP_E_MODEL) {
        return status;
    }
    if (status == DDP_OK) { /* whoever asks goes by that: no alarm */
        drift = (struct ddp_drift){.rank = -1};
    }
    ddp_recorder_event(session->env->recorder, DDP_EVENT_DRIFT, (uint64_t)(int64_t)drift.rank,
                       drift.rank_count, drift.param, drift.differ_count, 0);
    return DDP_OK;
}

/* The model that join left. */
static ddp_status record_joined(struct harness_session *session)
{
    for (size_t i = 0; session->options->is_hashing && i < session->tensor_count; i++) {
        const struct ddp_param *tensor = &session->tensors[i];
        size_t size_bytes = ddp_param_size_bytes(tensor);
        const void *seen;

        DDP_TRY(ddp_transfer_view(&session->transfer, tensor->data, size_bytes, &seen));
        ddp_recorder_event(session->env->recorder, DDP_EVENT_JOIN_TENSOR, i,
                           ddp_hash_tensor(seen, size_bytes, ddp_hash_text(tensor->name), NULL), 0,
                           0, 0);
    }
    return DDP_OK;
}

/* *out_ended: the rank's data ended, the step was not completed. */
static ddp_status run_step(struct harness_session *session, uint32_t step, bool *out_ended)
{
    uint32_t every = session->plan->job.checkpoint_every;
    bool is_skipped;

    session->group.step = step;
    ddp_recorder_step(session->env->recorder, step, 0);
    harness_session_phase(session, DDP_PHASE_DATA);
    *out_ended = false;
    DDP_TRY(harness_session_point(session, DDP_FAULT_POINT_STEP_BEGIN, &is_skipped));
    if (is_skipped) {
        return DDP_OK;
    }
    DDP_TRY(harness_session_keep_buffers(session, step));
    ref_model_zero_grad(session->model);
    for (uint32_t micro = 0; micro < session->job.micro_batches; micro++) {
        DDP_TRY(run_micro(session, step, micro, out_ended));
        if (*out_ended) {
            return DDP_OK;
        }
    }
    DDP_TRY(harness_session_post(session, step));
    DDP_TRY(run_optimizer(session, step));
    DDP_TRY(check_drift(session, step));
    DDP_TRY(record_state(session));
    session->steps_done = step + 1;
    if (every > 0 && session->steps_done % every == 0) {
        DDP_TRY(harness_session_save(session));
    }
    return harness_session_evaluate(session, step);
}

ddp_status harness_session_train(struct harness_session *session)
{
    const struct harness_job *job = &session->plan->job;
    const struct ddp_join_config join = {
        .divide_by_initial_world_size = job->join.divide_by_initial_world_size,
        .throw_on_early_termination = job->join.throw_on_early_termination};
    bool is_ended = false;

    session->steps_done = session->first_step;
    if (job->join.is_set) {
        DDP_TRY(ddp_join_begin(session->ddp, &join));
    }
    /* Without join, a rank whose data ends stops here, and its peers wait for collectives that it
     * never posts. This is a user's mistake, which the harness must find. */
    for (uint64_t step = session->first_step; step < session->job.steps && !is_ended; step++) {
        DDP_TRY(run_step(session, (uint32_t)step, &is_ended));
    }
    if (!job->join.is_set) {
        return DDP_OK;
    }
    harness_session_phase(session, DDP_PHASE_JOIN);
    DDP_TRY(ddp_join_end(session->ddp));
    return record_joined(session);
}
