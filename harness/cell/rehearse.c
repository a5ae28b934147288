/* A plan is tried in the simulator without being judged: does each of its faults fire, and does the
 * job have the parameters and tensors that the plan names? */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "harness/cell/stage.h"
#include "harness/sim/sim.h"

/* The key that would have to be another. */
struct blame {
    char *key; /* [HARNESS_BLAMED_KEY_BYTES] */
    char section[40];
    struct ddp_err *err;
};

DDP_PRINTF(2, 3)
static void set_key(struct blame *blame, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(blame->key, HARNESS_BLAMED_KEY_BYTES, format, args);
    va_end(args);
}

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

/* Of the plan's program. One that was posted too often has the number behind the last. */
static uint64_t last_seq(const struct harness_cell *cell, enum harness_verdict verdict)
{
    return cell->program.op_count + (verdict == HARNESS_VERDICT_MISMATCH_EXTRA ? 1 : 0);
}

static ddp_status check_op(const struct harness_cell *cell, const struct harness_expect_op *op,
                           enum harness_verdict verdict, struct blame *blame)
{
    const size_t bucket_max = harness_program_bucket_max(&cell->program);

    set_key(blame, "%s.op.params", blame->section);
    DDP_TRY(check_names(cell, &op->params, blame->err));
    set_key(blame, "%s.op.bucket", blame->section);
    if (op->bucket >= (int64_t)bucket_max) {
        return ddp_err_set(blame->err, DDP_E_INVALID,
                           "expect: bucket %" PRId64
                           " cannot be named: the job has %zu, counted from 0",
                           op->bucket, bucket_max);
    }
    set_key(blame, "%s.op.seq", blame->section);
    return op->seq <= (int64_t)last_seq(cell, verdict)
               ? DDP_OK
               : ddp_err_set(blame->err, DDP_E_INVALID,
                             "expect: seq %" PRId64
                             " cannot be named: the job posts %zu collectives, counted from 1",
                             op->seq, cell->program.op_count);
}

static ddp_status check_expected_ops(const struct harness_cell *cell, struct blame *blame)
{
    const struct harness_expect *expect = &cell->plan.expect;

    (void)snprintf(blame->section, sizeof blame->section, "expect");
    DDP_TRY(check_op(cell, &expect->op, expect->verdict, blame));
    for (size_t i = 0; i < expect->findings.count; i++) {
        const struct harness_expect_finding *finding = &expect->findings.items[i];

        (void)snprintf(blame->section, sizeof blame->section, "expect.findings.%zu", i);
        DDP_TRY(check_op(cell, &finding->op, finding->verdict, blame));
    }
    return DDP_OK;
}

static uint64_t param_elems(const struct harness_cell *cell, int64_t param)
{
    uint64_t most = 0;

    for (size_t i = 0; i < cell->param_count; i++) {
        if ((param < 0 || (size_t)param == i) && cell->params[i].elem_count > most) {
            most = cell->params[i].elem_count;
        }
    }
    return most;
}

static uint64_t bucket_elems(const struct harness_cell *cell, int64_t bucket)
{
    const struct harness_buckets *const lists[] = {&cell->program.first, &cell->program.rebuilt};
    uint64_t most = 0;

    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < lists[k]->count; i++) {
            if ((bucket < 0 || (size_t)bucket == i) && lists[k]->items[i].elem_count > most) {
                most = lists[k]->items[i].elem_count;
            }
        }
    }
    return most;
}

/* The most elements that a fault finds at its point; UINT64_MAX: only the run can know. */
static uint64_t elems_at(const struct harness_cell *cell, const struct harness_fault *fault)
{
    switch (fault->point) {
    case DDP_FAULT_POINT_GRAD_READY:
    case DDP_FAULT_POINT_BUCKET_FILL:
    case DDP_FAULT_POINT_PARAM_UPDATED:
    case DDP_FAULT_POINT_OPTIMIZER_STATE:
    case DDP_FAULT_POINT_PARAM_ROUNDED:
    case DDP_FAULT_POINT_AVERAGE:
        return param_elems(cell, fault->at.param);
    case DDP_FAULT_POINT_BUCKET_LAUNCH:
    case DDP_FAULT_POINT_BUCKET_UNFLATTEN:
        return bucket_elems(cell, fault->at.bucket);
    default:
        return UINT64_MAX;
    }
}

/* An element past the end is taken from the front again: another one than the scenario says. */
static ddp_status check_elems(const struct harness_cell *cell, struct blame *blame)
{
    for (uint32_t i = 0; i < cell->plan.fault_count; i++) {
        const struct harness_fault *fault = &cell->plan.faults[i];
        const uint64_t count = elems_at(cell, fault);

        /* Where there is nothing at all, the fault never fires. */
        if (fault->action.kind == HARNESS_ACTION_CORRUPT && count > 0 &&
            fault->action.elem >= count) {
            set_key(blame, "faults.%" PRIu32 ".do.elem", i);
            return ddp_err_set(blame->err, DDP_E_INVALID,
                               "faults.%" PRIu32 ": there is no element %" PRIu64
                               " at %s: at most %" PRIu64 " are there, counted from 0",
                               i, fault->action.elem, ddp_fault_point_name(fault->point), count);
        }
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

/* What else may be the reason, of an action that may find nothing to alter. */
static const char *idle_words(const struct harness_action *action)
{
    if (action->kind == HARNESS_ACTION_SKIP) {
        return ", or there is nothing to leave out";
    }
    if (action->kind == HARNESS_ACTION_ARG && action->arg == HARNESS_ARG_ROOT) {
        return ", or the collective has no root: only broadcast and reduce do";
    }
    return action->kind == HARNESS_ACTION_ARG || action->kind == HARNESS_ACTION_CORRUPT
               ? ", or all that it alters is so already"
               : "";
}

static ddp_status check_fired(const struct harness_cell *cell, struct blame *blame)
{
    for (uint32_t i = 0; i < cell->plan.fault_count; i++) {
        const struct harness_fault *fault = &cell->plan.faults[i];
        const uint32_t count = harness_stage_fired_count(cell, i);

        /* A rehearsal has no restore run. */
        if (count == 0 && harness_plan_run_of(fault) == HARNESS_RUN_FIRST) {
            set_key(blame, "faults.%" PRIu32 ".at", i);
            return ddp_err_set(blame->err, DDP_E_INVALID,
                               "faults.%" PRIu32 " never fires: in this job, rank %" PRIu32
                               " does not reach %s under all that `at` asks for%s",
                               i, fault->at.rank, ddp_fault_point_name(fault->point),
                               idle_words(&fault->action));
        }
    }
    return DDP_OK;
}

/* Only a record with hashes shows which gradients were ready. */
static bool needs_hashes(const struct harness_plan *plan)
{
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        if (plan->faults[i].action.kind == HARNESS_ACTION_SKIP &&
            plan->faults[i].point == DDP_FAULT_POINT_GRAD_READY && plan->job.micro_batches > 1) {
            return true;
        }
    }
    return false;
}

static ddp_status rehearse(struct harness_cell *cell, struct blame *blame)
{
    struct harness_launch_config config;
    ddp_status status;

    DDP_TRY(harness_stage_prepare(cell, blame->err));
    DDP_TRY(check_expected_ops(cell, blame));
    DDP_TRY(check_elems(cell, blame));
    set_key(blame, "%s", "");
    if (!is_rehearsed(&cell->plan)) {
        return DDP_OK;
    }
    memset(&config, 0, sizeof config);
    config.plan = &cell->plan;
    config.program = &cell->program;
    config.rank.is_hashing = needs_hashes(&cell->plan);
    config.rank.run_dir = "rehearsal"; /* in memory: nothing is left */
    DDP_TRY(ddp_files_memory_create(&config.memory));
    status = harness_sim_driver()->run(cell->mem, &config, &cell->trace, blame->err);
    ddp_files_memory_destroy(config.memory);
    return status != DDP_OK ? status : check_fired(cell, blame);
}

ddp_status harness_cell_rehearse(const struct harness_plan *plan,
                                 char out_key[HARNESS_BLAMED_KEY_BYTES], struct ddp_err *err)
{
    const struct harness_cell_config config = {.driver = HARNESS_DRIVER_SIM};
    struct blame blame = {.key = out_key, .err = err};
    struct harness_cell cell;
    ddp_status status;

    out_key[0] = '\0';
    if (harness_plan_is_guest(plan)) {
        return DDP_OK; /* only its program knows */
    }
    DDP_TRY(harness_stage_check_possible(plan, out_key, err));
    DDP_TRY(harness_stage_open(&cell, &config, err));
    cell.plan = *plan;
    status = rehearse(&cell, &blame);
    harness_stage_close(&cell);
    return status;
}
