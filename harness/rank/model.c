/* Purpose: the rank's model and optimizer, as the job says, and as faults alter them. */
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/rank/session.h"

/* As wide as a scenario may ask for (job.widths): products of two widths stay far from overflow. */
enum { WIDTH_MAX = 1048576 };

/* Buffers are tensors of one dimension that have no gradient. */
static ddp_status list_tensors(struct harness_session *session)
{
    size_t buffer_count;
    const struct ddp_buffer *buffers = ref_model_buffers(session->model, &buffer_count);

    session->tensor_count = session->param_count + buffer_count;
    session->tensors =
        ddp_mem_array(session->env->mem, session->tensor_count, sizeof session->tensors[0]);
    if (session->tensors == NULL) {
        return ddp_err_set(session->err, DDP_E_NOMEM, "no memory for a list of tensors");
    }
    memcpy(session->tensors, session->params, session->param_count * sizeof session->tensors[0]);
    for (size_t i = 0; i < buffer_count; i++) {
        session->tensors[session->param_count + i] =
            (struct ddp_param){.name = buffers[i].name,
                               .dtype = buffers[i].dtype,
                               .data = buffers[i].data,
                               .elem_count = buffers[i].elem_count,
                               .ndim = 1,
                               .shape = {buffers[i].elem_count}};
    }
    return DDP_OK;
}

/* Point model/build: a fault may alter the widths of this rank's hidden layers, or leave one out;
 * those of inputs and outputs are the data's. */
static ddp_status pass_widths(struct harness_session *session)
{
    struct ref_model_config *model = &session->job.model;
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;
    int64_t widths[REF_LAYERS_MAX + 1];
    size_t kept = 1;

    place.data = widths;
    place.elem_count = model->width_count > 2 ? model->width_count - 2 : 0;
    place.dtype = DDP_DTYPE_I64;
    for (size_t i = 0; i < place.elem_count; i++) {
        widths[i] = (int64_t)model->width[1 + i];
    }
    if (ddp_fault_point(session->env->faults, DDP_FAULT_POINT_MODEL_BUILD, &place) ==
        DDP_FAULT_FAIL) {
        return ddp_err_set(session->err, DDP_E_INJECTED, "the model could not be built");
    }
    for (size_t i = 0; i < place.elem_count; i++) {
        if (widths[i] < 0 || widths[i] > WIDTH_MAX) {
            return ddp_err_set(session->err, DDP_E_INVALID,
                               "a fault made hidden layer %zu %lld wide; 1 to %d can be built, and "
                               "0 leaves it out",
                               i, (long long)widths[i], WIDTH_MAX);
        }
        if (widths[i] > 0) {
            model->width[kept++] = (size_t)widths[i];
        }
    }
    if (place.elem_count > 0) {
        model->width[kept++] = model->width[model->width_count - 1];
        model->width_count = kept;
    }
    return DDP_OK;
}

/* Point model/statistics: a fault may alter the type of this rank's buffers of floats. */
static ddp_status pass_statistics(struct harness_session *session)
{
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;
    int64_t dtype = (int64_t)session->job.model.statistics;

    place.data = &dtype;
    place.elem_count = 1;
    place.dtype = DDP_DTYPE_I64;
    if (ddp_fault_point(session->env->faults, DDP_FAULT_POINT_MODEL_STATISTICS, &place) ==
        DDP_FAULT_FAIL) {
        return ddp_err_set(session->err, DDP_E_INJECTED, "the model's buffers got no type");
    }
    if (dtype < 0 || dtype >= DDP_DTYPE_COUNT) {
        return ddp_err_set(session->err, DDP_E_INVALID, "a fault made %lld the type of buffers",
                           (long long)dtype);
    }
    session->job.model.statistics = (enum ddp_dtype)dtype;
    return DDP_OK;
}

ddp_status harness_session_build_model(struct harness_session *session)
{
    struct ref_job *job = &session->job;

    DDP_TRY(pass_widths(session));
    DDP_TRY(pass_statistics(session));
    /* Rank 0 draws what the reference does: the others' parameters must not survive. */
    if (session->plan->job.init == HARNESS_INIT_PER_RANK && session->env->rank > 0) {
        job->model.seed = ddp_hash_combine(job->model.seed, session->env->rank);
        job->model.initial = NULL;
    }
    DDP_TRY(ref_model_create(session->device, &job->model, session->batch_rows, &session->model,
                             session->err));
    ref_model_set_wait(session->model, session->env->idle, session->env->clock,
                       session->plan->job.timeout_ns);
    session->params = ref_model_params(session->model, &session->param_count);
    DDP_TRY(ref_optimizer_create(session->device, session->params, session->param_count,
                                 &job->optimizer, &session->optimizer));
    return list_tensors(session);
}
