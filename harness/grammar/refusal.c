/* What comes of loading a checkpoint that was edited, or is read by another rule than it needs:
 * from how often "module." stands before the keys, and what each rule makes of that. */
#include <string.h>

#include "harness/grammar/answer.h"

/* How many times "module." stands before the names of one kind of tensors: in the file, and where
 * they go. */
struct depths {
    uint32_t stored, wanted;
};

static bool is_own_child(const struct harness_plan *plan)
{
    return strcmp(plan->job.model, "module_child") == 0;
}

/* Wrapping a model, and an edit, put it before every key of theirs. */
static struct depths depths_of(const struct harness_plan *plan, bool is_optimizer)
{
    const struct harness_restore *restore = &plan->restore;
    uint32_t own = !is_optimizer && is_own_child(plan) ? 1 : 0;
    uint32_t saved = !is_optimizer && plan->job.is_checkpoint_wrapped ? 1 : 0;
    uint32_t added = restore->edit == HARNESS_EDIT_ADD_PREFIX      ? 1
                     : restore->edit == HARNESS_EDIT_DOUBLE_PREFIX ? 2
                                                                   : 0;

    return (struct depths){.stored = own + saved + added,
                           .wanted = own + (!is_optimizer && restore->is_wrapped ? 1 : 0)};
}

/* PyTorch's rule takes one prefix from every key that has one. */
static bool is_stripping(const struct harness_restore *restore)
{
    return restore->prefix == HARNESS_PREFIX_PYTORCH && !restore->is_wrapped;
}

/* Keys that all have as many prefixes. */
static bool is_fitting(const struct harness_restore *restore, struct depths depths)
{
    uint32_t stored = depths.stored - (is_stripping(restore) && depths.stored > 0 ? 1 : 0);

    return restore->prefix == HARNESS_PREFIX_AUTO || stored == depths.wanted;
}

/* Every second key has one more: stripping can make that even if the others have none. */
static bool is_mix_fitting(const struct harness_restore *restore, struct depths depths)
{
    return is_stripping(restore) && depths.stored == 0 && depths.wanted == 0;
}

static bool has_state(const struct harness_optimizer *optimizer)
{
    return optimizer->kind == HARNESS_OPTIMIZER_ADAMW || optimizer->momentum > 0;
}

enum harness_verdict harness_model_refusal(const struct harness_plan *plan)
{
    const struct harness_restore *restore = &plan->restore;
    const struct depths model = depths_of(plan, false), optimizer = depths_of(plan, true);
    bool is_of_model = restore->key != NULL && strncmp(restore->key, "optim.", 6) != 0;
    bool is_model_fitting = is_fitting(restore, model);
    const bool is_skipped = restore->skip_optimizer_state; /* nobody looks for its keys */
    bool is_all_fitting = is_model_fitting && (is_skipped || is_fitting(restore, optimizer));

    switch (restore->edit) {
    case HARNESS_EDIT_TRUNCATE:
    case HARNESS_EDIT_HEAD:
        return HARNESS_VERDICT_CHECKPOINT_TORN;
    case HARNESS_EDIT_FLIP_BYTE:
        return HARNESS_VERDICT_CHECKPOINT_CORRUPTED;
    case HARNESS_EDIT_DROP_KEY:
    case HARNESS_EDIT_EXTRA_KEY:
        if (is_skipped && !is_of_model) {
            break;
        }
        /* The model is loaded first. Keys that no prefix makes equal are not a prefix's fault. */
        return is_of_model || is_model_fitting ? HARNESS_VERDICT_CHECKPOINT_KEYS
                                               : HARNESS_VERDICT_CHECKPOINT_PREFIX;
    case HARNESS_EDIT_MIXED_PREFIX:
        is_all_fitting =
            is_mix_fitting(restore, model) && (is_skipped || is_mix_fitting(restore, optimizer));
        break;
    default:
        break;
    }
    if (!is_all_fitting) {
        return HARNESS_VERDICT_CHECKPOINT_PREFIX;
    }
    /* What loads is not all that was saved. */
    return is_skipped && has_state(&plan->job.optimizer) ? HARNESS_VERDICT_CHECKPOINT_STATE
                                                         : HARNESS_VERDICT_NONE;
}
