/* The pipeline itself: prepare, launch, check, describe, restore, judge, write. */
#include "harness/cell/cell.h"

#include <stdlib.h>
#include <string.h>

#include "harness/cell/stage.h"

static ddp_status write_verdict(const struct harness_cell_config *config, const json_t *verdict,
                                struct ddp_err *err)
{
    char *text = json_dumps(verdict, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    struct ddp_text out;
    ddp_status status;

    if (text == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "verdict.json cannot be written");
    }
    ddp_text_init(&out, ddp_mem_system());
    ddp_text_add(&out, "%s\n", text);
    free(text);
    status = ddp_files_make_dirs(config->run_dir, err);
    if (status == DDP_OK) {
        status = harness_stage_write(config, config->run_dir, "verdict.json", &out, err);
    }
    ddp_text_fini(&out);
    return status;
}

/* The command that reproduces an ERROR needs plan.yaml, also if the run ended before writing it. */
static void write_plan(const struct harness_cell_config *config, const struct harness_plan *plan)
{
    struct ddp_err ignored = {{0}};
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    harness_plan_print(plan, &text);
    if (ddp_files_make_dirs(config->run_dir, &ignored) == DDP_OK) {
        (void)!harness_stage_write(config, config->run_dir, "plan.yaml", &text, &ignored);
    }
    ddp_text_fini(&text);
}

static ddp_status judge(struct harness_cell *cell, const struct harness_restore_result *restore,
                        json_t **out)
{
    struct harness_judge_facts facts;
    struct harness_judgement judgement;

    DDP_TRY(harness_stage_facts(cell, restore, &facts));
    harness_judge(&cell->plan, &cell->findings, &facts, &judgement);
    for (size_t i = 0;
         judgement.outcome != HARNESS_OUTCOME_PASS && i < cell->config.alternative_count; i++) {
        struct harness_judgement other;

        cell->plan.expect = cell->config.alternatives[i];
        DDP_TRY(harness_stage_facts(cell, restore, &facts));
        harness_judge(&cell->plan, &cell->findings, &facts, &other);
        if (other.outcome == HARNESS_OUTCOME_PASS) {
            judgement = other;
        }
    }
    *out = harness_stage_verdict(cell, &facts, &judgement);
    return *out != NULL ? DDP_OK : DDP_E_NOMEM;
}

static ddp_status run_stages(struct harness_cell *cell, json_t **out, struct ddp_err *err)
{
    struct harness_rank_options rank = {.is_hashing = !cell->config.is_bare};
    struct harness_restore_result restore;

    memset(&restore, 0, sizeof restore);
    restore.from_step = -1;
    if (harness_plan_is_guest(&cell->plan)) {
        return harness_stage_guest(cell, out, err);
    }
    DDP_TRY(harness_stage_prepare(cell, err));
    DDP_TRY(harness_stage_launch(cell, &rank, err));
    if (cell->config.is_bare) {
        harness_findings_init(&cell->findings, cell->mem);
        return judge(cell, &restore, out);
    }
    DDP_TRY(harness_stage_check(cell, NULL, err));
    DDP_TRY(harness_stage_describe(cell, NULL, err));
    DDP_TRY(harness_stage_restore(cell, &restore, err));
    return judge(cell, &restore, out);
}

ddp_status harness_stage_open(struct harness_cell *cell, const struct harness_cell_config *config,
                              struct ddp_err *err)
{
    memset(cell, 0, sizeof *cell);
    DDP_TRY(ddp_blas_open(NULL, err));
    DDP_TRY(ddp_mem_pool_create(&cell->pool));
    cell->mem = ddp_mem_pool_mem(cell->pool);
    cell->wanted.mem = cell->mem;
    cell->config = *config;
    cell->run_dir = config->run_dir;
    return DDP_OK;
}

void harness_stage_close(struct harness_cell *cell)
{
    if (cell->judge_device != NULL) {
        cell->judge_device->ops->destroy(cell->judge_device);
    }
    ddp_mem_pool_destroy(cell->pool);
}

ddp_status harness_cell_run(const struct harness_plan *plan,
                            const struct harness_cell_config *config, json_t **out_verdict,
                            struct ddp_err *err)
{
    struct harness_cell cell;
    ddp_status status;

    *out_verdict = NULL;
    status = harness_stage_open(&cell, config, err);
    if (status == DDP_OK) {
        cell.plan = *plan;
        status = run_stages(&cell, out_verdict, err);
        harness_stage_close(&cell);
    }
    if (status != DDP_OK) {
        if (config->memory == NULL) {
            write_plan(config, plan);
        }
        json_decref(*out_verdict);
        *out_verdict =
            harness_cell_unjudged(plan, config, HARNESS_OUTCOME_ERROR,
                                  err->text[0] != '\0' ? err->text : ddp_status_text(status));
    }
    if (*out_verdict != NULL && config->memory == NULL) {
        struct ddp_err write_err = {{0}};
        ddp_status written = write_verdict(config, *out_verdict, &write_err);

        if (written != DDP_OK && status == DDP_OK) {
            status = ddp_err_set(err, written, "%s", write_err.text);
        }
    }
    return status;
}
