/* Purpose: what the training loop makes of averages before the optimizer sees them, and the
 * learning rate of a step, by arithmetic of the judge's own. Idea: the plan says both; no rank is
 * asked. */
#include <math.h>

#include "harness/emulation/internal.h"
#include "harness/sums/arith.h"

struct ref_optimizer_config harness_emulation_optimizer(const struct harness_emulation *e,
                                                        uint32_t step)
{
    const struct harness_job *job = &e->input->plan->job;
    struct ref_optimizer_config config = e->input->job->optimizer;
    const double ranks = (double)job->ranks;
    const double before = (double)job->optimizer.warmup_steps;
    double factor = 1.0;
    double base = job->optimizer.lr;

    base = job->optimizer.lr_scaling == HARNESS_LR_SCALING_LINEAR ? base * ranks
           : job->optimizer.lr_scaling == HARNESS_LR_SCALING_SQRT ? base * sqrt(ranks)
                                                                  : base;
    if (step < job->optimizer.warmup_steps) {
        factor = ((double)step + 1.0) / before;
    } else if (job->optimizer.lr_decay == HARNESS_LR_DECAY_COSINE) {
        const double length = (double)e->input->job->steps - before;

        factor = 0.5 * (1.0 + cos(acos(-1.0) * ((double)step - before) / length));
    }
    config.lr = (float)(base * factor);
    return config;
}

/* The norm over what the camp's optimizer is given; false: not all of it is known. */
static bool find_norm(struct harness_emulation *e, const struct harness_camp *camp, double *out)
{
    double squares = 0;
    double values[256];

    for (size_t p = 0; p < e->params.count; p++) {
        const struct harness_tensor average = harness_layout_at(&e->params, camp->average, 0, p);
        const size_t width = ddp_dtype_size_bytes(average.dtype);

        if (!camp->is_used[p]) {
            continue;
        }
        if (!camp->is_average_known[p]) {
            return false;
        }
        for (size_t at = 0; at < average.elem_count; at += 256) {
            const size_t left = average.elem_count - at;
            const size_t count = left < 256 ? left : 256;

            harness_arith_widen(values, (const char *)average.data + at * width, average.dtype,
                                count);
            for (size_t i = 0; i < count; i++) {
                squares += values[i] * values[i];
            }
        }
    }
    *out = sqrt(squares);
    return true;
}

ddp_status harness_emulation_clip(struct harness_emulation *e, struct harness_camp *camp)
{
    const double most = e->input->plan->job.optimizer.clip_norm;
    double norm = 0;
    double factor;

    if (!(most > 0.0)) {
        return DDP_OK;
    }
    if (!find_norm(e, camp, &norm)) {
        /* One gradient decides about all of them. */
        for (size_t p = 0; p < e->params.count; p++) {
            camp->is_average_known[p] = false;
        }
        return DDP_OK;
    }
    factor = most / (norm + 1e-6);
    for (size_t p = 0; p < e->params.count && !(factor >= 1.0); p++) {
        const struct harness_tensor average = harness_layout_at(&e->params, camp->average, 0, p);

        if (camp->is_used[p]) {
            DDP_TRY(harness_arith_scale(average.data, average.dtype, average.data, average.dtype,
                                        average.elem_count, (float)factor));
        }
    }
    return DDP_OK;
}
