/* Fewer settings, and the smallest model. */
#include <stdio.h>

#include "harness/plan/key.h"
#include "harness/shrink/shrinker.h"

enum { SETS_MAX = 64, SET_BYTES = 96 };

/* Settings whose absence is simpler, those that name ranks first. Each on its own, since one may be
 * what it takes. */
void harness_shrink_drop_options(struct harness_shrinker *shrinker)
{
    for (unsigned i = 0; i < 9; i++) {
        struct harness_plan plan = harness_shrinker_copy(shrinker);
        bool is_there = false;

        switch (i) {
        case 0:
            is_there = plan.job.posts.count + plan.job.groups.count > 0;
            plan.job.posts.count = 0;
            plan.job.groups.count = 0;
            break;
        case 1:
            is_there = plan.job.nodes != NULL;
            plan.job.nodes = NULL;
            break;
        case 2:
            is_there = plan.restore.is_set;
            plan.restore.is_set = false;
            plan.expect.restore.is_set = false;
            break;
        case 3:
            is_there = plan.job.join.is_set;
            plan.job.join.is_set = false;
            break;
        case 4:
            is_there = plan.job.shard_sizes != NULL;
            plan.job.shard_sizes = NULL;
            break;
        case 5:
            is_there = plan.job.bucket_cap_bytes > 0;
            plan.job.bucket_cap_bytes = 0;
            break;
        case 6:
            is_there = plan.job.first_bucket_cap_bytes > 0;
            plan.job.first_bucket_cap_bytes = 0;
            break;
        case 7:
            is_there = plan.job.segment_bytes > 0;
            plan.job.segment_bytes = 0;
            break;
        default:
            is_there = plan.job.checkpoint_every > 0 && !plan.restore.is_set;
            plan.job.checkpoint_every = 0;
            break;
        }
        if (is_there) {
            (void)harness_shrinker_attempt(shrinker, &plan, NULL, 0);
        }
    }
}

/* Keys of the job that have a default, as settings: "job.semantics=strict". */
static size_t list_defaults(const struct harness_plan *plan, char out[SETS_MAX][SET_BYTES])
{
    size_t count = 0;

    for (unsigned row = 0; row < HARNESS_ROW_COUNT; row++) {
        const struct harness_key *key = harness_key((enum harness_row)row);
        const char *section = key->section == HARNESS_SECTION_JOB         ? "job"
                              : key->section == HARNESS_SECTION_OPTIMIZER ? "job.optimizer"
                                                                          : NULL;

        if (section == NULL || key->fallback == NULL || key->fallback[0] == '\0' ||
            key->type == HARNESS_KEY_SECTION || key->type == HARNESS_KEY_BUDGETS ||
            row == HARNESS_ROW_JOB_data ||
            (key->section == HARNESS_SECTION_OPTIMIZER &&
             !harness_key_applies(key, &plan->job.optimizer))) {
            continue;
        }
        DDP_ASSERT(count < SETS_MAX);
        (void)snprintf(out[count++], SET_BYTES, "%s.%s=%s", section, key->key, key->fallback);
    }
    return count;
}

/* All defaults from first on, or what of them can stay: halves of what does not. */
static void set_defaults(struct harness_shrinker *shrinker, char sets[SETS_MAX][SET_BYTES],
                         size_t first, size_t count)
{
    const char *chosen[SETS_MAX];
    struct harness_plan plan = harness_shrinker_copy(shrinker);

    for (size_t i = 0; i < count; i++) {
        chosen[i] = sets[first + i];
    }
    if (count == 0 || harness_shrinker_attempt(shrinker, &plan, chosen, count) || count == 1) {
        return;
    }
    set_defaults(shrinker, sets, first, count / 2);
    set_defaults(shrinker, sets, first + count / 2, count - count / 2);
}

void harness_shrink_set_defaults(struct harness_shrinker *shrinker)
{
    char sets[SETS_MAX][SET_BYTES];

    set_defaults(shrinker, sets, 0, list_defaults(harness_shrinker_best(shrinker), sets));
}

/* Narrow layers, small batches, few samples. */
void harness_shrink_model(struct harness_shrinker *shrinker)
{
    struct harness_plan plan = harness_shrinker_copy(shrinker);
    size_t *batches = ddp_mem_array(shrinker->mem, plan.job.ranks, sizeof *batches);
    size_t *widths = ddp_mem_array(shrinker->mem, plan.job.widths.count + 1, sizeof *widths);

    if (batches == NULL || widths == NULL) {
        shrinker->status = DDP_E_NOMEM;
        return;
    }
    for (size_t i = 0; i < plan.job.widths.count; i++) {
        bool is_hidden = i > 0 && i + 1 < plan.job.widths.count;

        widths[i] = is_hidden ? 2 : plan.job.widths.items[i];
    }
    if (plan.job.widths.count > 2) {
        plan.job.widths.items = widths;
        (void)harness_shrinker_attempt(shrinker, &plan, NULL, 0);
    }
    plan = harness_shrinker_copy(shrinker);
    for (uint32_t rank = 0; rank < plan.job.ranks; rank++) {
        batches[rank] = 1;
    }
    plan.job.batch_per_rank = batches;
    (void)harness_shrinker_attempt(shrinker, &plan, NULL, 0);
}
