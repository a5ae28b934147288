/* One case: draw, parse, run in memory, compare. A case that does not pass leaves its plan, which
 * `ddprove run` takes, and its signature. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/campaign/campaign.h"
#include "harness/campaign/signature.h"
#include "harness/cell/cell.h"
#include "harness/grammar/model.h"
#include "harness/scenario/scenario.h"

/* What one case goes through. */
struct work {
    const struct harness_campaign *campaign;
    const char *self_path, *work_dir;
    struct ddp_mem_pool *pool;
    struct ddp_text plan_text;
    struct harness_scenario scenario;
    struct harness_campaign_result *result;
};

static ddp_status run_plan(struct work *work, const struct harness_plan *plan,
                           const struct harness_model *model, json_t **out, struct ddp_err *err)
{
    struct harness_cell_config config = {.driver = work->result->driver,
                                         .run_dir = work->work_dir,
                                         .self_path = work->self_path,
                                         .alternatives = model->accepted + 1,
                                         .alternative_count = model->accepted_count - 1};
    struct ddp_files_memory *memory = NULL;
    ddp_status status;

    if (work->result->driver == HARNESS_DRIVER_SIM) {
        DDP_TRY(ddp_files_memory_create(&memory));
        config.memory = memory;
        config.run_dir = "run";
    }
    status = harness_cell_run(plan, &config, out, err);
    ddp_files_memory_destroy(memory);
    if (work->result->driver != HARNESS_DRIVER_SIM) {
        (void)!ddp_files_remove_tree(work->work_dir, NULL);
    }
    return status;
}

/* Draw, parse and run. *out_verdict is made even if the harness fails while it runs. */
static ddp_status run(struct work *work, json_t **out_verdict, struct ddp_err *err)
{
    const struct harness_campaign *campaign = work->campaign;
    const char *sets[sizeof campaign->sets / sizeof campaign->sets[0]];
    struct harness_plan *plan;
    struct harness_model model;

    for (size_t i = 0; i < campaign->set_count; i++) {
        sets[i] = campaign->sets[i];
    }

    DDP_TRY(harness_grammar_draw(&campaign->options, campaign->seed, work->result->number,
                                 &work->plan_text, err));
    work->result->plan_hash =
        ddp_hash_bytes(ddp_text_str(&work->plan_text), work->plan_text.size_bytes, 0);
    DDP_TRY(harness_scenario_parse(ddp_text_str(&work->plan_text), work->plan_text.size_bytes,
                                   "plan.yaml", sets, campaign->set_count, &work->scenario, err));
    DDP_ASSERT(work->scenario.plan_count == 1);
    plan = &work->scenario.plans[0];
    DDP_TRY(harness_model_of(plan, ddp_mem_pool_mem(work->pool), &model, err));
    if (campaign->set_count > 0) {
        work->plan_text.size_bytes = 0;
        plan->expect = model.accepted[0];
        harness_plan_print(plan, &work->plan_text);
    }
    return run_plan(work, plan, &model, out_verdict, err);
}

/* What was drawn is a scenario, but not together with what the campaign sets. */
static bool is_left_out(const struct work *work)
{
    struct harness_scenario drawn = {.plans = NULL};
    struct ddp_text text;
    struct ddp_err err = {{0}};
    bool is_one = false;

    if (work->campaign->set_count == 0) {
        return false;
    }
    ddp_text_init(&text, ddp_mem_pool_mem(work->pool));
    if (harness_grammar_draw(&work->campaign->options, work->campaign->seed, work->result->number,
                             &text, &err) == DDP_OK) {
        is_one = harness_scenario_parse(ddp_text_str(&text), text.size_bytes, "plan.yaml", NULL, 0,
                                        &drawn, &err) == DDP_OK;
        harness_scenario_fini(&drawn);
    }
    return is_one;
}

static void leave_behind(const struct work *work, const char *failed_dir)
{
    struct ddp_text path;
    struct ddp_err err = {{0}};
    ddp_status status;

    ddp_text_init(&path, ddp_mem_pool_mem(work->pool));
    ddp_text_add(&path, "%s/%08" PRIu64 ".%s", failed_dir, work->result->number,
                 harness_driver_name(work->result->driver));
    status = ddp_files_make_dirs(ddp_text_str(&path), &err);
    if (status == DDP_OK) {
        size_t folder_bytes = path.size_bytes;

        ddp_text_add(&path, "/plan.yaml");
        status = ddp_files_write_atomic(ddp_files_system(), ddp_text_str(&path),
                                        ddp_text_str(&work->plan_text), work->plan_text.size_bytes,
                                        &err);
        path.size_bytes = folder_bytes;
        ddp_text_add(&path, "/signature.txt");
    }
    if (status == DDP_OK) {
        char line[sizeof work->result->text + 1];
        int size = snprintf(line, sizeof line, "%s\n", work->result->text);

        status = ddp_files_write_atomic(ddp_files_system(), ddp_text_str(&path), line, (size_t)size,
                                        &err);
    }
    if (status != DDP_OK) {
        work->result->outcome = HARNESS_OUTCOME_ERROR;
        harness_campaign_signature_error(err.text, false, work->result);
    }
}

void harness_campaign_run_case(const struct harness_campaign *campaign, uint64_t number,
                               enum harness_driver driver, const char *self_path,
                               const char *work_dir, const char *failed_dir,
                               struct harness_campaign_result *out)
{
    struct work work = {
        .campaign = campaign, .self_path = self_path, .work_dir = work_dir, .result = out};
    struct ddp_err err = {{0}};
    json_t *verdict = NULL;
    ddp_status status;

    *out = (struct harness_campaign_result){
        .number = number, .driver = driver, .outcome = HARNESS_OUTCOME_ERROR};
    status = ddp_mem_pool_create(&work.pool);
    if (status == DDP_OK) {
        ddp_text_init(&work.plan_text, ddp_mem_pool_mem(work.pool));
        status = run(&work, &verdict, &err);
    }
    if (verdict != NULL) {
        harness_campaign_signature(work.scenario.plan_count > 0 ? &work.scenario.plans[0] : NULL,
                                   verdict, out);
    } else {
        bool is_refused =
            (status == DDP_E_INVALID || status == DDP_E_UNSUPPORTED) && is_left_out(&work);

        harness_campaign_signature_error(err.text[0] != '\0' ? err.text : ddp_status_text(status),
                                         is_refused, out);
    }
    if (harness_campaign_is_wrong(out) && failed_dir != NULL && work.pool != NULL) {
        leave_behind(&work, failed_dir);
    }
    json_decref(verdict);
    harness_scenario_fini(&work.scenario);
    ddp_mem_pool_destroy(work.pool);
}
