/* The passes, each over what is smallest so far. */
#include "harness/shrink/shrink.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "harness/plan/key.h"
#include "harness/scenario/scenario.h"
#include "harness/shrink/trial.h"

enum { SETS_MAX = 64, SET_BYTES = 96 };

struct shrinker {
    const struct harness_shrink_config *config;
    struct ddp_mem *mem;
    struct harness_scenario best;      /* of one plan */
    struct harness_shrink_trial trial; /* its */
    bool is_modelled;
    unsigned runs;
    struct ddp_err *err;
    ddp_status status; /* the harness's own first failure */
};

static const struct harness_plan *best(const struct shrinker *shrinker)
{
    return &shrinker->best.plans[0];
}

/* In a plan that is not compared with a model, what was found is expected. is_exact: with its
 * place, which changes as the plan shrinks. */
static void expect_found(const struct shrinker *shrinker, struct harness_plan *plan, bool is_exact)
{
    const struct harness_shrink_trial *trial = &shrinker->trial;

    memset(&plan->expect, 0, sizeof plan->expect);
    plan->expect.verdict = trial->signature.verdict;
    plan->expect.culprit.is_stated = true;
    plan->expect.culprit.ranks = harness_rank_set_in(shrinker->mem);
    for (uint32_t i = 0; is_exact && i < trial->culprit_count; i++) {
        harness_rank_set_add(&plan->expect.culprit.ranks, trial->culprits[i]);
    }
    plan->expect.step = is_exact ? trial->step : -1;
    plan->expect.phase = -1;
    if (is_exact && trial->has_bucket) {
        plan->expect.op =
            (struct harness_expect_op){.is_set = true, .bucket = trial->bucket, .seq = -1};
    }
    memset(&plan->canary, 0, sizeof plan->canary);
}

/* Run a changed plan; it becomes the best if its signature is the same. */
static bool attempt(struct shrinker *shrinker, struct harness_plan *plan, const char *const *sets,
                    size_t set_count)
{
    struct harness_shrink_trial trial;
    struct harness_scenario candidate;
    struct ddp_err ignored = {{0}};
    struct ddp_text text;
    bool is_kept = false;

    if (shrinker->status != DDP_OK || shrinker->runs >= shrinker->config->runs_max) {
        return false;
    }
    if (!shrinker->is_modelled) {
        expect_found(shrinker, plan, false);
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
        is_kept = harness_shrink_is_same(&trial.signature, &shrinker->trial.signature);
    }
    if (is_kept) {
        harness_scenario_fini(&shrinker->best);
        shrinker->best = candidate;
        shrinker->trial = trial;
    } else {
        harness_scenario_fini(&candidate);
    }
    if (shrinker->config->progress != NULL) {
        shrinker->config->progress(shrinker->config->context, shrinker->runs, best(shrinker));
    }
    return is_kept;
}

/* A copy that may be changed: its own faults, arrays shared. */
static struct harness_plan copy(struct shrinker *shrinker)
{
    struct harness_plan plan = *best(shrinker);

    plan.faults = ddp_mem_array(shrinker->mem, plan.fault_count + 1, sizeof *plan.faults);
    if (plan.faults == NULL) {
        shrinker->status = DDP_E_NOMEM;
        plan.fault_count = 0;
    } else if (plan.fault_count > 0) {
        memcpy(plan.faults, best(shrinker)->faults, plan.fault_count * sizeof *plan.faults);
    }
    return plan;
}

/* None, then each fault alone, then all but one at a time. */
static void drop_faults(struct shrinker *shrinker)
{
    uint32_t count = best(shrinker)->fault_count;
    struct harness_plan plan = copy(shrinker);

    plan.fault_count = 0;
    if (count == 0 || attempt(shrinker, &plan, NULL, 0)) {
        return;
    }
    for (uint32_t i = 0; count > 1 && i < count; i++) {
        plan = copy(shrinker);
        plan.faults[0] = plan.faults[i];
        plan.fault_count = 1;
        if (attempt(shrinker, &plan, NULL, 0)) {
            return;
        }
    }
    for (uint32_t i = 0; best(shrinker)->fault_count > 2 && i < best(shrinker)->fault_count;) {
        plan = copy(shrinker);
        plan.fault_count--;
        memmove(&plan.faults[i], &plan.faults[i + 1], (plan.fault_count - i) * sizeof *plan.faults);
        i += !attempt(shrinker, &plan, NULL, 0);
    }
}

/* A rank with faults in a smaller world: with m ranks that have faults, the one with i of them
 * below it becomes min(rank, ranks - (m - i)), so that they stay apart and in order. */
static uint32_t moved_rank(const struct harness_plan *plan, uint32_t rank, uint32_t ranks)
{
    uint32_t above = 0; /* distinct ranks with faults from this one on */

    for (uint32_t i = 0; i < plan->fault_count; i++) {
        bool is_first = plan->faults[i].at.rank >= rank;

        for (uint32_t k = 0; k < i; k++) {
            is_first = is_first && plan->faults[k].at.rank != plan->faults[i].at.rank;
        }
        above += is_first;
    }
    if (above > ranks) {
        return ranks; /* no room: the plan will not parse */
    }
    return rank < ranks - above ? rank : ranks - above;
}

/* The smallest world first. */
static void drop_ranks(struct shrinker *shrinker)
{
    uint32_t world = best(shrinker)->job.ranks;

    for (uint32_t ranks = 1; ranks < world; ranks = ranks < 4 ? ranks + 1 : 2 * ranks) {
        struct harness_plan plan = copy(shrinker);

        plan.job.ranks = ranks;
        for (uint32_t i = 0; i < plan.fault_count; i++) {
            plan.faults[i].at.rank = moved_rank(best(shrinker), plan.faults[i].at.rank, ranks);
        }
        plan.job.skip_rank = plan.job.skip_rank < ranks ? plan.job.skip_rank : ranks - 1;
        if (plan.restore.ranks > ranks) {
            plan.restore.ranks = ranks;
        }
        if (attempt(shrinker, &plan, NULL, 0)) {
            return;
        }
    }
}

/* The fewest steps first; faults of steps that are gone move to the last one. */
static void drop_steps(struct shrinker *shrinker)
{
    uint32_t most = best(shrinker)->job.steps;

    for (uint32_t steps = 1; steps < most; steps = steps < 4 ? steps + 1 : 2 * steps) {
        struct harness_plan plan = copy(shrinker);

        plan.job.steps = steps;
        for (uint32_t i = 0; i < plan.fault_count; i++) {
            if (plan.faults[i].at.step >= (int64_t)steps) {
                plan.faults[i].at.step = steps - 1;
            }
        }
        if (plan.job.checkpoint_every > steps) {
            plan.job.checkpoint_every = steps;
        }
        if (attempt(shrinker, &plan, NULL, 0)) {
            return;
        }
    }
}

/* Settings whose absence is simpler. Each on its own, since one may be what it takes. */
static void drop_options(struct shrinker *shrinker)
{
    for (unsigned i = 0; i < 7; i++) {
        struct harness_plan plan = copy(shrinker);
        bool is_there = false;

        switch (i) {
        case 0:
            is_there = plan.restore.is_set;
            plan.restore.is_set = false;
            plan.expect.restore.is_set = false;
            break;
        case 1:
            is_there = plan.job.join.is_set;
            plan.job.join.is_set = false;
            break;
        case 2:
            is_there = plan.job.shard_sizes != NULL;
            plan.job.shard_sizes = NULL;
            break;
        case 3:
            is_there = plan.job.bucket_cap_bytes > 0;
            plan.job.bucket_cap_bytes = 0;
            break;
        case 4:
            is_there = plan.job.first_bucket_cap_bytes > 0;
            plan.job.first_bucket_cap_bytes = 0;
            break;
        case 5:
            is_there = plan.job.segment_bytes > 0;
            plan.job.segment_bytes = 0;
            break;
        default:
            is_there = plan.job.checkpoint_every > 0 && !plan.restore.is_set;
            plan.job.checkpoint_every = 0;
            break;
        }
        if (is_there) {
            (void)attempt(shrinker, &plan, NULL, 0);
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
static void set_defaults(struct shrinker *shrinker, char sets[SETS_MAX][SET_BYTES], size_t first,
                         size_t count)
{
    const char *chosen[SETS_MAX];
    struct harness_plan plan = copy(shrinker);

    for (size_t i = 0; i < count; i++) {
        chosen[i] = sets[first + i];
    }
    if (count == 0 || attempt(shrinker, &plan, chosen, count) || count == 1) {
        return;
    }
    set_defaults(shrinker, sets, first, count / 2);
    set_defaults(shrinker, sets, first + count / 2, count - count / 2);
}

/* Narrow layers, small batches, few samples. */
static void shrink_model(struct shrinker *shrinker)
{
    struct harness_plan plan = copy(shrinker);
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
        (void)attempt(shrinker, &plan, NULL, 0);
    }
    plan = copy(shrinker);
    for (uint32_t rank = 0; rank < plan.job.ranks; rank++) {
        batches[rank] = 1;
    }
    plan.job.batch_per_rank = batches;
    (void)attempt(shrinker, &plan, NULL, 0);
}

/* A name is of small letters, with '_' for what separates words. */
static char name_char(char character)
{
    if (character >= 'A' && character <= 'Z') {
        return (char)(character - 'A' + 'a');
    }
    if (character == '.' || character == '/' || character == '-') {
        return '_';
    }
    return character;
}

/* "value_lost_at_bucket_launch", from the verdict and the first fault. */
static void name_it(const struct shrinker *shrinker, char *out, size_t size_bytes)
{
    const struct harness_plan *plan = best(shrinker);
    size_t size;

    (void)snprintf(out, size_bytes, "%s%s%s",
                   harness_verdict_name(shrinker->trial.signature.verdict),
                   plan->fault_count > 0 ? "_at_" : "",
                   plan->fault_count > 0 ? ddp_fault_point_name(plan->faults[0].point) : "");
    size = strlen(out);
    for (size_t i = 0; i < size; i++) {
        out[i] = name_char(out[i]);
    }
}

/* What happens, in a sentence or two. */
static void tell(const struct shrinker *shrinker, const char *from, struct ddp_text *out)
{
    const struct harness_plan *plan = best(shrinker);

    ddp_text_add(out, "Shrunk from %s in %u runs. ", from, shrinker->runs);
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        const struct harness_fault *fault = &plan->faults[i];

        ddp_text_add(out, "Rank %" PRIu32 ": %s at %s. ", fault->at.rank,
                     harness_action_name(fault->action.kind), ddp_fault_point_name(fault->point));
    }
    if (shrinker->trial.signature.death_signal != 0) {
        ddp_text_add(out, "The harness itself ends by signal %d.",
                     shrinker->trial.signature.death_signal);
    } else if (shrinker->trial.signature.also != HARNESS_VERDICT_NONE) {
        ddp_text_add(out, "Found is %s, and %s, which does not follow from it.",
                     harness_verdict_name(shrinker->trial.signature.verdict),
                     harness_verdict_name(shrinker->trial.signature.also));
    } else if (shrinker->is_modelled) {
        ddp_text_add(out, "Found is %s, which is not what the fault does.",
                     harness_verdict_name(shrinker->trial.signature.verdict));
    } else {
        ddp_text_add(out, "Found is %s.", harness_verdict_name(shrinker->trial.signature.verdict));
    }
}

static void print_result(struct shrinker *shrinker, const char *from, const char *family,
                         const char *name, struct ddp_text *out)
{
    struct harness_plan plan = copy(shrinker);
    struct ddp_text story;
    struct ddp_text id;

    if (!shrinker->is_modelled) {
        expect_found(shrinker, &plan, true);
    }
    ddp_text_init(&story, shrinker->mem);
    ddp_text_init(&id, shrinker->mem);
    tell(shrinker, from, &story);
    ddp_text_add(&id, "%s.%s", family, name);
    plan.id = ddp_text_str(&id);
    plan.cell = "";
    plan.purpose = ddp_text_str(&story);
    harness_plan_print(&plan, out);
    ddp_text_add(out, "# reproduce: ddprove run %s.yaml --driver %s --seed %" PRIu64 "\n", name,
                 harness_driver_name(shrinker->config->driver), shrinker->config->seed);
}

/* Whether the model answers to the plan, and the run shows something else. */
static bool is_wrong_by_model(struct shrinker *shrinker, struct harness_shrink_trial *out)
{
    struct ddp_err ignored = {{0}};

    shrinker->runs++;
    return harness_shrink_try(best(shrinker), shrinker->config, true, out, &ignored) == DDP_OK &&
           out->signature.outcome != HARNESS_OUTCOME_PASS;
}

/* The signature to keep. */
static ddp_status look_first(struct shrinker *shrinker, struct ddp_err *err)
{
    struct harness_plan plan;

    shrinker->is_modelled = is_wrong_by_model(shrinker, &shrinker->trial);
    if (shrinker->is_modelled) {
        return DDP_OK;
    }
    shrinker->runs++;
    DDP_TRY(harness_shrink_try(best(shrinker), shrinker->config, false, &shrinker->trial, err));
    if (shrinker->trial.signature.verdict == HARNESS_VERDICT_NONE &&
        shrinker->trial.signature.outcome != HARNESS_OUTCOME_ERROR) {
        return ddp_err_set(err, DDP_E_INVALID, "%s: nothing is found, so there is nothing to keep",
                           best(shrinker)->id);
    }
    /* Again, with what was found expected, as candidates will be. */
    plan = copy(shrinker);
    expect_found(shrinker, &plan, false);
    shrinker->runs++;
    return harness_shrink_try(&plan, shrinker->config, false, &shrinker->trial, err);
}

static void shrink_all(struct shrinker *shrinker)
{
    char sets[SETS_MAX][SET_BYTES];

    drop_faults(shrinker);
    drop_ranks(shrinker);
    drop_steps(shrinker);
    drop_options(shrinker);
    set_defaults(shrinker, sets, 0, list_defaults(best(shrinker), sets));
    shrink_model(shrinker);
    drop_ranks(shrinker);
    drop_steps(shrinker);
}

ddp_status harness_shrink(const char *text, size_t size_bytes, const char *path,
                          const struct harness_shrink_config *config, const char *family,
                          struct ddp_text *out_scenario, struct harness_shrink_result *out,
                          struct ddp_err *err)
{
    struct shrinker shrinker = {.config = config, .err = err};
    struct ddp_mem_pool *pool;
    ddp_status status;

    memset(out, 0, sizeof *out);
    DDP_TRY(ddp_mem_pool_create(&pool));
    shrinker.mem = ddp_mem_pool_mem(pool);
    status = harness_scenario_parse(text, size_bytes, path, NULL, 0, &shrinker.best, err);
    if (status == DDP_OK && shrinker.best.plan_count != 1) {
        status = ddp_err_set(err, DDP_E_INVALID, "%s has %zu cells; name the plan of one", path,
                             shrinker.best.plan_count);
    }
    status = status == DDP_OK ? look_first(&shrinker, err) : status;
    if (status == DDP_OK) {
        const char *from = ddp_mem_strdup(shrinker.mem, best(&shrinker)->id);

        shrink_all(&shrinker);
        *out = (struct harness_shrink_result){.signature = shrinker.trial.signature,
                                              .is_wrong = shrinker.is_modelled,
                                              .runs = shrinker.runs,
                                              .faults = best(&shrinker)->fault_count,
                                              .ranks = best(&shrinker)->job.ranks,
                                              .steps = best(&shrinker)->job.steps};
        name_it(&shrinker, out->name, sizeof out->name);
        print_result(&shrinker, from != NULL ? from : "", family, out->name, out_scenario);
        status = out_scenario->is_failed ? DDP_E_NOMEM : shrinker.status;
    }
    harness_scenario_fini(&shrinker.best);
    ddp_mem_pool_destroy(pool);
    return status;
}
