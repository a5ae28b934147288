/* Rows of what the job keeps: the optimizer, checkpoints and the run that starts from one. */
#include <stdio.h>
#include <string.h>

#include "harness/grammar/draw.h"
#include "harness/grammar/job.h"
#include "harness/plan/group.h"
#include "harness/plan/posted.h"

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

void grammar_OPTIMIZER_warmup_steps(struct harness_draw *draw)
{
    optimizer_of(draw)->warmup_steps = 1 + (uint32_t)harness_draw_below(draw, 5);
}

/* Some that always bind, some that never do. */
void grammar_OPTIMIZER_clip_norm(struct harness_draw *draw)
{
    optimizer_of(draw)->clip_norm = HARNESS_DRAW_ONE_OF(draw, 0.01, 0.5, 100);
}

/* Always drawn, since its default depends on the optimizer. */
void grammar_OPTIMIZER_weight_decay(struct harness_draw *draw)
{
    bool is_adamw = optimizer_of(draw)->kind == HARNESS_OPTIMIZER_ADAMW;

    optimizer_of(draw)->weight_decay = harness_draw_chance(draw, 60)
                                           ? (is_adamw ? 1e-2 : 0)
                                           : HARNESS_DRAW_ONE_OF(draw, 0, 1e-4, 0.05, 0.3);
}

/* Behind so many steps all ranks hold what rank 0 saves: of ranks that step apart, once they have
 * averaged what they have, if that is all that they keep. */
static bool is_all_saved(const struct harness_job *job, uint32_t steps_done)
{
    const int64_t last = (int64_t)steps_done - 1;

    return !harness_program_is_local(job, last) ||
           (harness_program_is_averaged(job, last) && strcmp(job->model, "branchy") != 0 &&
            strcmp(job->model, "convnet") != 0 && job->optimizer.kind == HARNESS_OPTIMIZER_SGD &&
            !(job->optimizer.momentum > 0));
}

void grammar_TOP_restore(struct harness_draw *draw)
{
    const struct harness_job *job = &draw->plan->job;

    /* A run from the last step's checkpoint would have nothing to show. */
    draw->plan->restore.is_set = draw->is_healthy && job->checkpoint_every > 0 &&
                                 job->steps % job->checkpoint_every != 0 &&
                                 is_all_saved(job, job->steps - job->steps % job->checkpoint_every);
}

void grammar_RESTORE_prefix(struct harness_draw *draw)
{
    draw->plan->restore.prefix =
        (enum harness_prefix)harness_draw_below(draw, HARNESS_PREFIX_COUNT);
}

/* A tensor of the file: a parameter, or the number of its updates. */
static const char *draw_key(struct harness_draw *draw, const struct harness_grammar_job *job)
{
    const char *param = job->params[harness_draw_below(draw, job->param_count)].name;
    const char *prefix = harness_draw_chance(draw, 50)           ? "optim.step."
                         : draw->plan->job.is_checkpoint_wrapped ? "module."
                                                                 : "";
    size_t size_bytes = strlen(prefix) + strlen(param) + 1;
    char *key = harness_draw_array(draw, size_bytes, 1);

    if (key != NULL) {
        (void)snprintf(key, size_bytes, "%s%s", prefix, param);
    }
    return key;
}

/* Any but those that need to know the file's bytes. */
void grammar_RESTORE_edit(struct harness_draw *draw)
{
    static const enum harness_edit_kind kinds[] = {
        HARNESS_EDIT_ADD_PREFIX, HARNESS_EDIT_DOUBLE_PREFIX, HARNESS_EDIT_MIXED_PREFIX,
        HARNESS_EDIT_DROP_KEY,   HARNESS_EDIT_EXTRA_KEY,     HARNESS_EDIT_TRUNCATE,
        HARNESS_EDIT_FLIP_BYTE,  HARNESS_EDIT_HEAD,
    };
    struct harness_restore *restore = &draw->plan->restore;
    struct harness_grammar_job job;

    /* What is kept beside the model and the optimizer has keys of its own (refusal.c). */
    if (!restore->is_set || !harness_grammar_is_plain(&draw->plan->job)) {
        return;
    }
    restore->edit = kinds[harness_draw_below(draw, sizeof kinds / sizeof kinds[0])];
    if (restore->edit == HARNESS_EDIT_HEAD) {
        restore->edit_bytes = harness_draw_below(draw, 100); /* less than any header */
    } else if (restore->edit == HARNESS_EDIT_EXTRA_KEY) {
        restore->key = harness_draw_chance(draw, 50) ? "fc9.weight" : "optim.exp_avg.fc9.weight";
    } else if (restore->edit == HARNESS_EDIT_DROP_KEY || restore->edit == HARNESS_EDIT_FLIP_BYTE) {
        draw->status = harness_grammar_job_open(draw->mem, draw->plan, &job, NULL);
        restore->key = draw->status == DDP_OK ? draw_key(draw, &job) : restore->key;
    }
}

/* The ranks that job.posts name as roots are among them, and so are those of its groups. */
void grammar_RESTORE_ranks(struct harness_draw *draw)
{
    const struct harness_job *job = &draw->plan->job;
    uint32_t least = 1;

    for (size_t i = 0; i < job->posts.count; i++) {
        struct harness_posted posted;

        if (harness_posted_parse(job->posts.items[i], &posted, NULL) == DDP_OK &&
            posted.root >= least) {
            least = posted.root + 1;
        }
    }
    for (size_t i = 0; i < job->groups.count; i++) {
        struct harness_group group;

        if (harness_group_parse(job->groups.items[i], &group, NULL) == DDP_OK &&
            group.ranks[group.rank_count - 1] >= least) {
            least = group.ranks[group.rank_count - 1] + 1;
        }
    }
    if (harness_grammar_is_plain(job)) { /* else some of what is kept is a rank's own */
        draw->plan->restore.ranks = (uint32_t)harness_draw_between(draw, least, job->ranks);
    }
}

/* Not beside an edit of one of the optimizer's keys, from which a world of another size goes on. */
void grammar_RESTORE_skip_optimizer_state(struct harness_draw *draw)
{
    const char *key = draw->plan->restore.key;

    draw->plan->restore.skip_optimizer_state = draw->plan->restore.is_set &&
                                               harness_grammar_is_plain(&draw->plan->job) &&
                                               (key == NULL || strncmp(key, "optim.", 6) != 0);
}
