/* What fails, and what is left of it: looked at, made smaller, told. */
#include "harness/shrink/shrink.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "harness/grammar/model.h"
#include "harness/shrink/shrinker.h"

enum { RUNS_KEPT = 10 }; /* for the last look at ranks and steps */

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

/* What is found first, be it in the restore run. */
static const char *found(const struct harness_shrinker *shrinker)
{
    const struct harness_shrink_signature *signature = &shrinker->trial.signature;

    return harness_verdict_name(signature->restored != HARNESS_VERDICT_NONE ? signature->restored
                                                                            : signature->verdict);
}

/* "value_lost_at_bucket_launch", from the verdict and the first fault. */
static void name_it(const struct harness_shrinker *shrinker, char *out, size_t size_bytes)
{
    const struct harness_plan *plan = harness_shrinker_best(shrinker);
    size_t size;

    (void)snprintf(out, size_bytes, "%s%s%s", found(shrinker), plan->fault_count > 0 ? "_at_" : "",
                   plan->fault_count > 0 ? ddp_fault_point_name(plan->faults[0].point) : "");
    size = strlen(out);
    for (size_t i = 0; i < size; i++) {
        out[i] = name_char(out[i]);
    }
}

/* What happens, in a sentence or two. */
static void tell(const struct harness_shrinker *shrinker, const char *from, struct ddp_text *out)
{
    const struct harness_plan *plan = harness_shrinker_best(shrinker);

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
        ddp_text_add(out, "Found is %s, and %s, which does not follow from it.", found(shrinker),
                     harness_verdict_name(shrinker->trial.signature.also));
    } else if (shrinker->trial.unfired_count > 0) {
        ddp_text_add(out, "Found is %s, and a fault that never fires.", found(shrinker));
    } else if (shrinker->is_modelled) {
        ddp_text_add(out, "Found is %s, which is not what the fault does.", found(shrinker));
    } else {
        ddp_text_add(out, "Found is %s.", found(shrinker));
    }
}

static void print_result(struct harness_shrinker *shrinker, const char *from, const char *family,
                         const char *name, struct ddp_text *out)
{
    struct harness_plan plan = harness_shrinker_copy(shrinker);
    struct harness_model model;
    struct ddp_err ignored = {{0}};
    struct ddp_text story;
    struct ddp_text id;

    if (!shrinker->is_modelled) {
        harness_shrinker_expect_found(shrinker, &plan, true);
    } else if (harness_model_of(&plan, shrinker->mem, &model, &ignored) == DDP_OK) {
        plan.expect = model.accepted[0];
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

/* Whether the model has an answer to the plan, and the run shows another one. */
static bool is_wrong_by_model(struct harness_shrinker *shrinker, struct harness_shrink_trial *out)
{
    struct ddp_err ignored = {{0}};

    shrinker->runs++;
    return harness_shrink_try(harness_shrinker_best(shrinker), shrinker->config, true, out,
                              &ignored) == DDP_OK &&
           out->signature.death_signal == 0 && /* it is the model's: the run itself ended well */
           out->signature.outcome != HARNESS_OUTCOME_PASS;
}

/* Something else was found than what the plan expects, so that faults which did not fire have no
 * part in it. If what is expected was found, that they did not fire is what is wrong. */
static bool has_idle_faults(const struct harness_shrinker *shrinker)
{
    const struct harness_shrink_trial *trial = &shrinker->trial;
    const struct harness_plan *plan = harness_shrinker_best(shrinker);

    return trial->unfired_count > 0 && trial->signature.verdict != HARNESS_VERDICT_NONE &&
           (trial->signature.verdict != plan->expect.verdict || trial->has_unexpected);
}

static void drop_idle_faults(struct harness_shrinker *shrinker)
{
    struct harness_plan plan = harness_shrinker_copy(shrinker);
    uint32_t count = 0;

    for (uint32_t i = 0; i < plan.fault_count; i++) {
        if (!harness_shrink_is_unfired(&shrinker->trial, i)) {
            plan.faults[count++] = plan.faults[i];
        }
    }
    plan.fault_count = count;
    shrinker->trial.signature.outcome = HARNESS_OUTCOME_FAIL; /* it was INCONCLUSIVE for them */
    shrinker->keeps_culprits = true;
    (void)harness_shrinker_attempt(shrinker, &plan, NULL, 0);
    shrinker->keeps_culprits = false;
}

/* The signature to keep: how the harness itself died; else what differs from the plan's model, if
 * the plan's own expectation is not met; else what was found, right or wrong. */
static ddp_status look_first(struct harness_shrinker *shrinker, struct ddp_err *err)
{
    const struct harness_shrink_trial *trial = &shrinker->trial;
    struct harness_shrink_trial modelled;
    struct harness_plan plan;

    shrinker->runs++;
    DDP_TRY(harness_shrink_try(harness_shrinker_best(shrinker), shrinker->config, false,
                               &shrinker->trial, err));
    if (trial->signature.death_signal != 0) {
        return DDP_OK;
    }
    if (has_idle_faults(shrinker)) {
        drop_idle_faults(shrinker);
    }
    if (!trial->is_passed && is_wrong_by_model(shrinker, &modelled)) {
        shrinker->is_modelled = true;
        shrinker->trial = modelled;
        return DDP_OK;
    }
    if (trial->signature.verdict == HARNESS_VERDICT_NONE &&
        trial->signature.restored == HARNESS_VERDICT_NONE &&
        trial->signature.outcome != HARNESS_OUTCOME_ERROR &&
        trial->signature.outcome != HARNESS_OUTCOME_INCONCLUSIVE) {
        return ddp_err_set(err, DDP_E_INVALID, "%s: nothing is found, so there is nothing to keep",
                           harness_shrinker_best(shrinker)->id);
    }
    /* Again, with what was found expected, as candidates will be. */
    plan = harness_shrinker_copy(shrinker);
    harness_shrinker_expect_found(shrinker, &plan, false);
    shrinker->runs++;
    return harness_shrink_try(&plan, shrinker->config, false, &shrinker->trial, err);
}

static void shrink_all(struct harness_shrinker *shrinker)
{
    harness_shrink_drop_faults(shrinker);
    harness_shrink_drop_options(shrinker);
    harness_shrink_drop_ranks(shrinker);
    harness_shrink_drop_steps(shrinker);
    shrinker->runs_kept = RUNS_KEPT;
    harness_shrink_drop_options(shrinker);
    harness_shrink_set_defaults(shrinker);
    harness_shrink_model(shrinker);
    shrinker->runs_kept = 0;
    harness_shrink_drop_ranks(shrinker);
    harness_shrink_drop_steps(shrinker);
}

ddp_status harness_shrink(const char *text, size_t size_bytes, const char *path,
                          const struct harness_shrink_config *config, const char *family,
                          struct ddp_text *out_scenario, struct harness_shrink_result *out,
                          struct ddp_err *err)
{
    struct harness_shrinker shrinker = {.config = config};
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
        const char *from = ddp_mem_strdup(shrinker.mem, harness_shrinker_best(&shrinker)->id);

        shrink_all(&shrinker);
        *out =
            (struct harness_shrink_result){.signature = shrinker.trial.signature,
                                           .is_wrong = shrinker.is_modelled,
                                           .runs = shrinker.runs,
                                           .faults = harness_shrinker_best(&shrinker)->fault_count,
                                           .ranks = harness_shrinker_best(&shrinker)->job.ranks,
                                           .steps = harness_shrinker_best(&shrinker)->job.steps};
        name_it(&shrinker, out->name, sizeof out->name);
        print_result(&shrinker, from != NULL ? from : "", family, out->name, out_scenario);
        status = out_scenario->is_failed ? DDP_E_NOMEM : shrinker.status;
    }
    harness_scenario_fini(&shrinker.best);
    ddp_mem_pool_destroy(pool);
    return status;
}
