/* Judge a recorded run again: plan.yaml and trace.txt in, a new judgement out. The run folder is
 * read, never written. */
#include <stdio.h>
#include <string.h>

#include "harness/cell/stage.h"
#include "harness/scenario/scenario.h"

/* The trace, if it and the files beside it are what the run left. */
static ddp_status read_record(struct harness_cell *cell, struct ddp_err *err)
{
    void *text;
    size_t size_bytes;
    ddp_status status;

    DDP_TRY(harness_stage_read(cell, cell->run_dir, "trace.txt", &text, &size_bytes, err));
    status = harness_trace_parse(cell->mem, text, &cell->trace, err);
    if (status != DDP_OK) {
        return ddp_err_wrap(err, status, "%s/trace.txt", cell->run_dir);
    }
    return harness_stage_check_files(cell, err);
}

/* The restore run as the first judgement recorded it: what it loaded and whether it was equal. */
static ddp_status check_restore(struct harness_cell *cell, struct harness_restore_result *out,
                                struct ddp_err *err)
{
    struct harness_cell second = *cell;

    out->from_step = -1;
    if (!cell->plan.restore.is_set && !cell->plan.expect.restore.is_set) {
        return DDP_OK;
    }
    second.run_dir = harness_stage_path(cell->mem, cell->run_dir, "restore");
    DDP_TRY(harness_stage_restored(cell, &second));
    memset(&second.trace, 0, sizeof second.trace);
    DDP_TRY(harness_stage_prepare(&second, err));
    DDP_TRY(read_record(&second, err));
    DDP_TRY(harness_stage_check(&second, cell, err));
    DDP_TRY(harness_stage_describe_recorded(&second, cell, err));
    out->is_run = true;
    DDP_TRY(harness_stage_conclude(&second, out));
    harness_stage_adopt_gap(cell, &second);
    return DDP_OK;
}

static ddp_status check_cell(struct harness_cell *cell, json_t **out, struct ddp_err *err)
{
    struct harness_restore_result restore;
    struct harness_judge_facts facts;
    struct harness_judgement judgement;

    memset(&restore, 0, sizeof restore);
    if (harness_plan_is_guest(&cell->plan)) {
        return harness_stage_guest_recorded(cell, out, err);
    }
    DDP_TRY(harness_stage_prepare(cell, err));
    DDP_TRY(read_record(cell, err));
    DDP_ASSERT(harness_driver_parse(cell->trace.driver, &cell->config.driver) == DDP_OK);
    DDP_ASSERT(harness_launcher_parse(cell->trace.launcher, &cell->config.launcher) == DDP_OK);
    cell->config.seed = cell->trace.seed;
    DDP_TRY(harness_stage_check(cell, NULL, err));
    DDP_TRY(harness_stage_describe_recorded(cell, NULL, err));
    DDP_TRY(check_restore(cell, &restore, err));
    DDP_TRY(harness_stage_facts(cell, &restore, &facts));
    harness_judge(&cell->plan, &cell->findings, &facts, &judgement);
    *out = harness_stage_verdict(cell, &facts, &judgement);
    return *out != NULL ? DDP_OK : DDP_E_NOMEM;
}

/* A record that is not what the run left proves nothing, for or against anybody. */
static ddp_status refuse_record(const struct harness_cell *cell, const struct ddp_err *err,
                                json_t **out)
{
    char reason[sizeof err->text + 64];

    (void)snprintf(reason, sizeof reason, "the evidence was damaged: %s", err->text);
    json_decref(*out);
    *out = harness_cell_unjudged(&cell->plan, &cell->config, HARNESS_OUTCOME_INCONCLUSIVE, reason);
    return *out != NULL ? DDP_OK : DDP_E_NOMEM;
}

ddp_status harness_cell_check(const char *run_dir, bool is_time_enforced, json_t **out_verdict,
                              struct ddp_err *err)
{
    struct harness_cell_config config;
    struct harness_scenario scenario;
    struct harness_cell cell;
    void *text = NULL;
    size_t size_bytes = 0;
    ddp_status status;

    *out_verdict = NULL;
    memset(&config, 0, sizeof config);
    memset(&scenario, 0, sizeof scenario);
    config.run_dir = run_dir;
    config.is_time_enforced = is_time_enforced;
    DDP_TRY(harness_stage_open(&cell, &config, err));
    status = harness_stage_read(&cell, run_dir, "plan.yaml", &text, &size_bytes, err);
    if (status == DDP_OK) {
        status = harness_scenario_parse(text, size_bytes,
                                        harness_stage_path(cell.mem, run_dir, "plan.yaml"), NULL, 0,
                                        &scenario, err);
    }
    if (status == DDP_OK) {
        cell.plan = scenario.plans[0];
        status = check_cell(&cell, out_verdict, err);
        if (status == DDP_E_PARSE || status == DDP_E_CORRUPT) {
            status = refuse_record(&cell, err, out_verdict);
        }
        harness_scenario_fini(&scenario);
    }
    harness_stage_close(&cell);
    return status;
}
