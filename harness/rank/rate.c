/* What a training loop decides beside DDP: the learning rate of a step, and the clipping of
 * gradients. A fault at trainer/config makes one rank's loop decide otherwise. */
#include <math.h>

#include "ddpcore/ddp/clip.h"
#include "harness/rank/session.h"

#define PI 3.14159265358979323846

ddp_status harness_session_configure_trainer(struct harness_session *session)
{
    const struct harness_job *job = &session->plan->job;
    struct ddp_fault_context place = DDP_FAULT_CONTEXT_NONE;
    int64_t options[] = {job->ranks, 0, 0, 0, 0};

    place.data = options;
    place.elem_count = sizeof options / sizeof options[0];
    place.dtype = DDP_DTYPE_I64;
    if (ddp_fault_point(session->env->faults, DDP_FAULT_POINT_TRAINER, &place) == DDP_FAULT_FAIL) {
        return ddp_err_set(session->err, DDP_E_INJECTED, "the trainer could not be configured");
    }
    session->lr_world = (double)options[0];
    session->lr_late_steps = options[1];
    ddp_scaler_init(&session->scaler);
    session->scaler.scale = 1.0f;
    if (job->optimizer.loss_scale > 0) {
        session->scaler.scale = (float)ldexp(job->optimizer.loss_scale, (int)options[3]);
        session->scaler.growth_factor = job->optimizer.scale_growth;
        session->scaler.backoff_factor = job->optimizer.scale_backoff;
        session->scaler.growth_interval = job->optimizer.scale_interval;
    }
    session->untimely = options[4];
    session->is_clip_early = options[2] != 0 && job->optimizer.clip_norm > 0;
    return DDP_OK;
}

/* Goyal et al., "Accurate, Large Minibatch SGD", 2017; Loshchilov and Hutter, "SGDR", 2016. */
float harness_session_rate(const struct harness_session *session, uint64_t step)
{
    const struct harness_optimizer *optimizer = &session->plan->job.optimizer;
    const double warmup = (double)optimizer->warmup_steps;
    const double at = (double)((int64_t)step - session->lr_late_steps);
    double rate = optimizer->lr;

    if (optimizer->lr_scaling == HARNESS_LR_SCALING_LINEAR) {
        rate *= session->lr_world;
    } else if (optimizer->lr_scaling == HARNESS_LR_SCALING_SQRT) {
        rate *= sqrt(session->lr_world);
    }
    if (at < warmup) {
        rate *= (at + 1) / warmup;
    } else if (optimizer->lr_decay == HARNESS_LR_DECAY_COSINE) {
        rate *= 0.5 * (1 + cos(PI * (at - warmup) / ((double)session->job.steps - warmup)));
    }
    return (float)rate;
}

/* Not ddp_clip_grad_norm: it would refuse a rank that left its backward pass out, of which more can
 * be said by what the others wait for. */
static ddp_status clip(struct harness_session *session)
{
    return ddp_clip_params(session->device, &session->transfer, session->params,
                           session->param_count, session->plan->job.optimizer.clip_norm, NULL);
}

ddp_status harness_session_clip(struct harness_session *session)
{
    bool is_skipped;

    if (!(session->plan->job.optimizer.clip_norm > 0)) {
        return DDP_OK;
    }
    DDP_TRY(harness_session_point(session, DDP_FAULT_POINT_OPTIMIZER_CLIP, &is_skipped));
    return is_skipped ? DDP_OK : clip(session);
}

/* A mistake: each rank clips its own gradient, and only then hands it over. */
ddp_status harness_session_clip_early(struct harness_session *session)
{
    DDP_TRY(clip(session));
    for (size_t p = session->param_count; p-- > 0;) {
        if (session->params[p].is_grad_defined) {
            DDP_TRY(ddp_grad_ready(session->ddp, p));
        }
    }
    return DDP_OK;
}
