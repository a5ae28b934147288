/* Rows of what changes which operations a job posts, or what values follow from them: hooks, the
 * loss's scale, statistics of all ranks, a noted graph, going on after a loss. What the scenario's
 * checks refuse together is not drawn together (check_job.c). */
#include <string.h>

#include "harness/grammar/draw.h"
#include "harness/grammar/job.h"

static struct harness_job *job_of(struct harness_draw *draw)
{
    return &draw->plan->job;
}

/* Small ones, where fp16 rounds to zero or not, and ones that overflow until it has backed off. */
void grammar_OPTIMIZER_loss_scale(struct harness_draw *draw)
{
    if (!job_of(draw)->join.is_set) {
        job_of(draw)->optimizer.loss_scale =
            HARNESS_DRAW_ONE_OF(draw, 1, 128, 1024, 65536, 1e20, 1e30);
    }
}

void grammar_OPTIMIZER_scale_growth(struct harness_draw *draw)
{
    if (job_of(draw)->optimizer.loss_scale > 0) {
        job_of(draw)->optimizer.scale_growth = HARNESS_DRAW_ONE_OF(draw, 1, 2, 8);
    }
}

void grammar_OPTIMIZER_scale_backoff(struct harness_draw *draw)
{
    if (job_of(draw)->optimizer.loss_scale > 0) {
        job_of(draw)->optimizer.scale_backoff = HARNESS_DRAW_ONE_OF(draw, 1e-6, 0.25, 0.5);
    }
}

void grammar_OPTIMIZER_scale_interval(struct harness_draw *draw)
{
    if (job_of(draw)->optimizer.loss_scale > 0) {
        job_of(draw)->optimizer.scale_interval = (uint32_t)harness_draw_between(draw, 1, 4);
    }
}

/* Gradients alone go into hooks that divide, and into all but two those of a joined job. */
void grammar_JOB_hook(struct harness_draw *draw)
{
    static const enum harness_hook hooks[] = {HARNESS_HOOK_ALLREDUCE, HARNESS_HOOK_FP16,
                                              HARNESS_HOOK_BF16,      HARNESS_HOOK_QUANTIZE,
                                              HARNESS_HOOK_POWERSGD,  HARNESS_HOOK_LOCAL_SGD};
    struct harness_job *job = job_of(draw);
    const enum harness_hook hook = hooks[harness_draw_below(draw, sizeof hooks / sizeof hooks[0])];
    const bool is_special = hook == HARNESS_HOOK_QUANTIZE || hook == HARNESS_HOOK_POWERSGD ||
                            hook == HARNESS_HOOK_LOCAL_SGD;

    if ((is_special && job->join.is_set) ||
        (hook == HARNESS_HOOK_LOCAL_SGD && job->optimizer.loss_scale > 0)) {
        return;
    }
    job->hook = hook;
    job->gradient_scale = HARNESS_GRADIENT_SCALE_PRE;
}

void grammar_JOB_mixed_precision(struct harness_draw *draw)
{
    struct harness_job *job = job_of(draw);

    job->mixed_precision.is_set =
        job->hook == HARNESS_HOOK_NONE && !job->gradient_as_bucket_view &&
        strcmp(job->model, "exact_linear") != 0 && /* it computes in f32 */
        (draw->is_healthy ||
         (strcmp(job->model, "convnet") != 0 && strcmp(job->model, "moe") != 0));
}

void grammar_JOB_local_sgd_start(struct harness_draw *draw)
{
    if (job_of(draw)->hook == HARNESS_HOOK_LOCAL_SGD) {
        job_of(draw)->local_sgd_start = (uint32_t)harness_draw_between(draw, 0, 3);
    }
}

void grammar_JOB_local_sgd_period(struct harness_draw *draw)
{
    if (job_of(draw)->hook == HARNESS_HOOK_LOCAL_SGD) {
        job_of(draw)->local_sgd_period = (uint32_t)harness_draw_between(draw, 1, 3);
    }
}

void grammar_JOB_powersgd_rank(struct harness_draw *draw)
{
    if (job_of(draw)->hook == HARNESS_HOOK_POWERSGD) {
        job_of(draw)->powersgd_rank = (size_t)harness_draw_between(draw, 1, 4);
    }
}

void grammar_JOB_powersgd_start(struct harness_draw *draw)
{
    if (job_of(draw)->hook == HARNESS_HOOK_POWERSGD) {
        job_of(draw)->powersgd_start = (uint32_t)harness_draw_between(draw, 2, 4);
    }
}

void grammar_JOB_powersgd_error_feedback(struct harness_draw *draw)
{
    if (job_of(draw)->hook == HARNESS_HOOK_POWERSGD) {
        job_of(draw)->powersgd_error_feedback = harness_draw_chance(draw, 50);
    }
}

void grammar_JOB_powersgd_warm_start(struct harness_draw *draw)
{
    if (job_of(draw)->hook == HARNESS_HOOK_POWERSGD) {
        job_of(draw)->powersgd_warm_start = harness_draw_chance(draw, 50);
    }
}

void grammar_JOB_static_graph(struct harness_draw *draw)
{
    struct harness_job *job = job_of(draw);

    job->static_graph = !job->join.is_set && !job->find_unused_parameters;
}

/* Of the models that are drawn one has BatchNorm. */
void grammar_JOB_sync_batchnorm(struct harness_draw *draw)
{
    struct harness_job *job = job_of(draw);

    job->sync_batchnorm = strcmp(job->model, "convnet") == 0 &&
                          (!job->join.is_set || job->join.throw_on_early_termination);
}

/* Other faults lie behind one loss, among those that go on: some of them, with buckets that are the
 * same from their first step on, and nothing else that makes other values of gradients. */
void grammar_JOB_on_loss(struct harness_draw *draw)
{
    struct harness_job *job = job_of(draw);
    bool is_alone = draw->options->fault_max <= 1 ||
                    (job->ranks > 2 && job->bucket_order == HARNESS_BUCKET_ORDER_REVERSE &&
                     harness_grammar_is_plain(job) && !job->mixed_precision.is_set);
    bool is_fitting = is_alone && !job->join.is_set && job->shard_sizes == NULL &&
                      job->posts.count == 0 && job->groups.count == 0 && job->drift_every == 0 &&
                      job->optimizer.loss_scale == 0 && job->hook != HARNESS_HOOK_POWERSGD &&
                      job->hook != HARNESS_HOOK_LOCAL_SGD &&
                      (job->micro_batches == 1 ||
                       (strcmp(job->model, "convnet") != 0 && strcmp(job->model, "branchy") != 0));

    for (uint32_t rank = 1; rank < job->ranks; rank++) {
        is_fitting = is_fitting && job->batch_per_rank[rank] == job->batch_per_rank[0];
    }
    if (is_fitting) {
        job->on_loss = HARNESS_ON_LOSS_CONTINUE;
    }
}
