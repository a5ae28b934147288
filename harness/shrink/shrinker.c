/* A candidate is printed, read again, run and compared. */
#include "harness/shrink/shrinker.h"

#include <string.h>

const struct harness_plan *harness_shrinker_best(const struct harness_shrinker *shrinker)
{
    return &shrinker->best.plans[0];
}

struct harness_plan harness_shrinker_copy(struct harness_shrinker *shrinker)
{
    const struct harness_plan *best = harness_shrinker_best(shrinker);
    struct harness_plan plan = *best;

    plan.faults = ddp_mem_array(shrinker->mem, plan.fault_count + 1, sizeof *plan.faults);
    if (plan.faults == NULL) {
        shrinker->status = DDP_E_NOMEM;
        plan.fault_count = 0;
    } else if (plan.fault_count > 0) {
        memcpy(plan.faults, best->faults, plan.fault_count * sizeof *plan.faults);
    }
    return plan;
}

/* Nothing, which any plan may expect. */
static void expect_nothing(const struct harness_shrinker *shrinker, struct harness_plan *plan)
{
    memset(&plan->expect, 0, sizeof plan->expect);
    plan->expect.culprit.is_stated = true;
    plan->expect.culprit.ranks = harness_rank_set_in(shrinker->mem);
    plan->expect.step = -1;
    plan->expect.phase = -1;
    memset(&plan->canary, 0, sizeof plan->canary);
}

void harness_shrinker_expect_found(const struct harness_shrinker *shrinker,
                                   struct harness_plan *plan, bool is_exact)
{
    const struct harness_shrink_trial *trial = &shrinker->trial;

    expect_nothing(shrinker, plan);
    plan->expect.verdict = trial->signature.verdict;
    if (trial->signature.restored != HARNESS_VERDICT_NONE) {
        plan->expect.restore = (struct harness_expect_restore){
            .is_set = true, .refused = trial->signature.restored, .from_step = -1};
    }
    if (!is_exact) {
        return;
    }
    for (uint32_t i = 0; i < trial->culprit_count; i++) {
        harness_rank_set_add(&plan->expect.culprit.ranks, trial->culprits[i]);
    }
    plan->expect.step = trial->step;
    if (trial->has_bucket) {
        plan->expect.op =
            (struct harness_expect_op){.is_set = true, .bucket = trial->bucket, .seq = -1};
    }
}

static bool is_same(const struct harness_shrinker *shrinker,
                    const struct harness_shrink_trial *trial)
{
    const struct harness_shrink_trial *kept = &shrinker->trial;
    bool is_same_rank = trial->culprit_count == kept->culprit_count;

    for (uint32_t i = 0; is_same_rank && i < trial->culprit_count; i++) {
        is_same_rank = trial->culprits[i] == kept->culprits[i];
    }
    return harness_shrink_is_same(&trial->signature, &kept->signature) &&
           (is_same_rank || !shrinker->keeps_culprits);
}

bool harness_shrinker_attempt(struct harness_shrinker *shrinker, struct harness_plan *plan,
                              const char *const *sets, size_t set_count)
{
    const unsigned runs_kept = shrinker->runs_kept;
    struct harness_shrink_trial trial;
    struct harness_scenario candidate;
    struct ddp_err ignored = {{0}};
    struct ddp_text text;
    bool is_kept = false;

    if (shrinker->status != DDP_OK || shrinker->runs + runs_kept >= shrinker->config->runs_max) {
        return false;
    }
    if (shrinker->is_modelled) { /* what the model expects of it is worked out for its run */
        expect_nothing(shrinker, plan);
    } else {
        harness_shrinker_expect_found(shrinker, plan, false);
    }
    ddp_text_init(&text, shrinker->mem);
    harness_plan_print(plan, &text);
    if (harness_scenario_parse(ddp_text_str(&text), text.size_bytes, "shrunk.yaml", sets, set_count,
                               &candidate, &ignored) != DDP_OK) {
        return false; /* the job would not be one */
    }
    shrinker->runs++;
    if (candidate.plan_count == 1 &&
        harness_shrink_try(&candidate.plans[0], shrinker->config, shrinker->is_modelled, &trial,
                           &ignored) == DDP_OK) {
        is_kept = is_same(shrinker, &trial);
    }
    if (is_kept) {
        harness_scenario_fini(&shrinker->best);
        shrinker->best = candidate;
        shrinker->trial = trial;
    } else {
        harness_scenario_fini(&candidate);
    }
    if (shrinker->config->progress != NULL) {
        shrinker->config->progress(shrinker->config->context, shrinker->runs,
                                   harness_shrinker_best(shrinker));
    }
    return is_kept;
}
