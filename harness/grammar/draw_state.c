/* Rows of what the job keeps: the optimizer, checkpoints and the run that starts from one. */
#include <string.h>

#include "harness/grammar/draw.h"

static struct harness_optimizer *optimizer_of(struct harness_draw *draw)
{
    return &draw->plan->job.optimizer;
}

void grammar_OPTIMIZER_lr(struct harness_draw *draw)
{
    /* A rate of 0 would hide faults. */
    optimizer_of(draw)->lr = draw->is_healthy ? HARNESS_DRAW_ONE_OF(draw, 0, 1e-3, 0.01, 0.05)
                                              : HARNESS_DRAW_ONE_OF(draw, 1e-3, 0.01, 0.05);
}

void grammar_OPTIMIZER_momentum(struct harness_draw *draw)
{
    optimizer_of(draw)->momentum = HARNESS_DRAW_ONE_OF(draw, 0.5, 0.9, 0.99);
}

void grammar_OPTIMIZER_dampening(struct harness_draw *draw)
{
    optimizer_of(draw)->dampening = HARNESS_DRAW_ONE_OF(draw, 0.1, 0.5, 1);
}

/* Nesterov's form needs momentum, undamped. */
void grammar_OPTIMIZER_nesterov(struct harness_draw *draw)
{
    struct harness_optimizer *optimizer = optimizer_of(draw);

    optimizer->nesterov = optimizer->kind == HARNESS_OPTIMIZER_SGD && optimizer->momentum > 0 &&
                          !(optimizer->dampening > 0);
}

void grammar_OPTIMIZER_beta1(struct harness_draw *draw)
{
    optimizer_of(draw)->beta1 = HARNESS_DRAW_ONE_OF(draw, 0, 0.5, 0.99);
}

void grammar_OPTIMIZER_beta2(struct harness_draw *draw)
{
    optimizer_of(draw)->beta2 = HARNESS_DRAW_ONE_OF(draw, 0.5, 0.9, 0.99);
}

void grammar_OPTIMIZER_eps(struct harness_draw *draw)
{
    optimizer_of(draw)->eps = HARNESS_DRAW_ONE_OF(draw, 1e-10, 1e-6, 1e-3);
}

/* Always drawn, since its default depends on the optimizer. */
void grammar_OPTIMIZER_weight_decay(struct harness_draw *draw)
{
    bool is_adamw = optimizer_of(draw)->kind == HARNESS_OPTIMIZER_ADAMW;

    optimizer_of(draw)->weight_decay = harness_draw_chance(draw, 60)
                                           ? (is_adamw ? 1e-2 : 0)
                                           : HARNESS_DRAW_ONE_OF(draw, 0, 1e-4, 0.05, 0.3);
}

void grammar_TOP_restore(struct harness_draw *draw)
{
    const struct harness_job *job = &draw->plan->job;

    /* A run from the last step's checkpoint would have nothing to show. */
    draw->plan->restore.is_set =
        draw->is_healthy && job->checkpoint_every > 0 && job->steps % job->checkpoint_every != 0;
}

/* Rules under which the file's keys fit the model. The model `module_child` has names that begin
 * with the prefix, so PyTorch's rule strips what belongs to it. */
void grammar_RESTORE_prefix(struct harness_draw *draw)
{
    struct harness_plan *plan = draw->plan;
    bool is_as_saved = plan->job.is_checkpoint_wrapped == plan->restore.is_wrapped;
    enum harness_prefix drawn = (enum harness_prefix)harness_draw_below(draw, HARNESS_PREFIX_COUNT);
    bool is_stripped = !plan->restore.is_wrapped && plan->job.is_checkpoint_wrapped;
    bool is_own = strcmp(plan->job.model, "module_child") == 0 && !plan->restore.is_wrapped;

    if (drawn == HARNESS_PREFIX_EXACT && !is_as_saved) {
        return;
    }
    if (drawn == HARNESS_PREFIX_PYTORCH && !is_stripped && (!is_as_saved || is_own)) {
        return;
    }
    plan->restore.prefix = drawn;
}

void grammar_RESTORE_ranks(struct harness_draw *draw)
{
    draw->plan->restore.ranks = (uint32_t)harness_draw_between(draw, 1, draw->plan->job.ranks);
}
