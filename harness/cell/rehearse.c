/* A plan is tried in the simulator without being judged: does each of its faults fire, and does the
 * job have the parameters and tensors that the plan names? */
#include <inttypes.h>
#include <string.h>

#include "harness/cell/stage.h"
#include "harness/sim/sim.h"

static bool is_param(const struct harness_cell *cell, const char *name)
{
    for (size_t i = 0; i < cell->param_count; i++) {
        if (strcmp(cell->params[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static ddp_status check_names(const struct harness_cell *cell, const struct harness_texts *names,
                              struct ddp_err *err)
{
    const char **known = ddp_mem_array(cell->mem, cell->param_count, sizeof *known);

    if (known == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < cell->param_count; i++) {
        known[i] = cell->params[i].name;
    }
    for (size_t i = 0; i < names->count; i++) {
        const char *nearest;

        if (is_param(cell, names->items[i])) {
            continue;
        }
        nearest = ddp_text_nearest(names->items[i], known, cell->param_count);
        return ddp_err_set(err, DDP_E_INVALID, "expect: the model has no parameter %s%s%s",
                           names->items[i], nearest != NULL ? "; did you mean " : "",
                           nearest != NULL ? nearest : "");
    }
    return DDP_OK;
}

static ddp_status check_op(const struct harness_cell *cell, const struct harness_expect_op *op,
                           struct ddp_err *err)
{
    const size_t bucket_max = harness_program_bucket_max(&cell->program);

    DDP_TRY(check_names(cell, &op->params, err));
    return op->bucket < (int64_t)bucket_max
               ? DDP_OK
               : ddp_err_set(err, DDP_E_INVALID,
                             "expect: bucket %" PRId64
                             " cannot be named: the job has %zu, counted from 0",
                             op->bucket, bucket_max);
}

static ddp_status check_expected_ops(const struct harness_cell *cell, struct ddp_err *err)
{
    const struct harness_expect *expect = &cell->plan.expect;

    DDP_TRY(check_op(cell, &expect->op, err));
    for (size_t i = 0; i < expect->findings.count; i++) {
        DDP_TRY(check_op(cell, &expect->findings.items[i].op, err));
    }
    return DDP_OK;
}

/* A canary may state that a fault never fires. */
static bool is_rehearsed(const struct harness_plan *plan)
{
    const struct harness_canary *canary = &plan->canary;
    const bool never_fires =
        canary->is_set && (canary->outcome == HARNESS_OUTCOME_INCONCLUSIVE ||
                           (canary->reason != NULL && strstr(canary->reason, "never fired")));

    return plan->fault_count > 0 && harness_plan_runs_on(plan, HARNESS_DRIVER_SIM) && !never_fires;
}

static ddp_status check_fired(const struct harness_cell *cell, struct ddp_err *err)
{
    for (uint32_t i = 0; i < cell->plan.fault_count; i++) {
        const struct harness_fault *fault = &cell->plan.faults[i];
        uint32_t count;

        (void)harness_trace_fired_ns(&cell->trace, i, &count);
        /* A rehearsal has no restore run. */
        if (count == 0 && harness_plan_run_of(fault) == HARNESS_RUN_FIRST) {
            return ddp_err_set(err, DDP_E_INVALID,
                               "faults.%" PRIu32 " never fires: in this job, rank %" PRIu32
                               " does not reach %s under all that `at` asks for",
                               i, fault->at.rank, ddp_fault_point_name(fault->point));
        }
    }
    return DDP_OK;
}

static ddp_status rehearse(struct harness_cell *cell, struct ddp_err *err)
{
    struct harness_launch_config config;
    ddp_status status;

    DDP_TRY(harness_stage_prepare(cell, err));
    DDP_TRY(check_expected_ops(cell, err));
    if (!is_rehearsed(&cell->plan)) {
        return DDP_OK;
    }
    memset(&config, 0, sizeof config);
    config.plan = &cell->plan;
    config.program = &cell->program;
    config.rank.run_dir = "rehearsal"; /* in memory: nothing is left */
    DDP_TRY(ddp_files_memory_create(&config.memory));
    status = harness_sim_driver()->run(cell->mem, &config, &cell->trace, err);
    ddp_files_memory_destroy(config.memory);
    return status != DDP_OK ? status : check_fired(cell, err);
}

ddp_status harness_cell_rehearse(const struct harness_plan *plan, struct ddp_err *err)
{
    const struct harness_cell_config config = {.driver = HARNESS_DRIVER_SIM};
    struct harness_cell cell;
    ddp_status status;

    if (harness_plan_is_guest(plan)) {
        return DDP_OK; /* only its program knows */
    }
    DDP_TRY(harness_stage_open(&cell, &config, err));
    cell.plan = *plan;
    status = rehearse(&cell, err);
    harness_stage_close(&cell);
    return status;
}
