/* Facts for the judge, from the trace: which faults fired, how survivors ended. */
#include <string.h>

#include "harness/cell/stage.h"

/* When the first fault that does something fired; 0: none did. */
static uint64_t first_fault_ns(const struct harness_cell *cell)
{
    uint64_t first_ns = 0;

    for (uint32_t i = 0; i < cell->plan.fault_count; i++) {
        uint32_t count;
        uint64_t fired_ns = harness_trace_fired_ns(&cell->trace, i, &count);

        if (cell->plan.faults[i].action.kind != HARNESS_ACTION_NONE && count > 0 &&
            (first_ns == 0 || fired_ns < first_ns)) {
            first_ns = fired_ns;
        }
    }
    return first_ns;
}

/* How the survivors ended: all ranks on which no fault acted. */
static void survivors(struct harness_cell *cell, struct harness_judge_facts *out)
{
    const struct harness_trace *trace = &cell->trace;
    ddp_status expected = cell->plan.expect.survivors.status;
    struct harness_rank_set injected = harness_rank_set_in(cell->mem);
    uint64_t fired_ns = first_fault_ns(cell);

    harness_plan_injected(&cell->plan, HARNESS_RUN_FIRST, &injected);
    out->is_survivor_status_met = true;
    out->survivor_latency_ns = -1;
    for (uint32_t rank = 0; rank < trace->world_size; rank++) {
        const struct harness_trace_event *end;
        size_t cursor = 0;
        ddp_status status = DDP_OK;

        if (harness_rank_set_has(&injected, rank)) {
            continue;
        }
        out->is_survivor_checked = true;
        end = harness_trace_next(trace, &cursor, rank, DDP_EVENT_RANK_END);
        if (end != NULL) {
            status = (ddp_status)(int32_t)(uint32_t)end->entry.arg[0];
            if (fired_ns > 0 && end->entry.time_ns >= fired_ns &&
                (int64_t)(end->entry.time_ns - fired_ns) > out->survivor_latency_ns) {
                out->survivor_latency_ns = (int64_t)(end->entry.time_ns - fired_ns);
            }
        }
        if ((end == NULL || status != expected) && out->is_survivor_status_met) {
            out->is_survivor_status_met = false;
            out->is_survivor_ended = end != NULL;
            out->survivor_status = status;
            out->survivor_rank = rank;
        }
    }
}

/* What ranks say of their errors, in the first run and in the one that restores. */
static void words(struct harness_cell *cell, const struct harness_restore_result *restore,
                  struct harness_judge_facts *out)
{
    const char *says = cell->plan.expect.says;

    if (says != NULL && !harness_stage_is_said(cell, cell->run_dir, cell->plan.job.ranks, says,
                                               &out->said_instead)) {
        out->unsaid = says;
    } else if (restore->is_run && !restore->is_said) {
        out->unsaid = cell->plan.restore.says;
        out->said_instead = restore->said;
    }
}

ddp_status harness_stage_facts(struct harness_cell *cell,
                               const struct harness_restore_result *restore,
                               struct harness_judge_facts *out)
{
    uint32_t fault_count = cell->plan.fault_count;
    uint32_t restore_fault = 0;
    uint32_t *fired = ddp_mem_array(cell->mem, fault_count, sizeof *fired);
    const char **names = ddp_mem_array(cell->mem, cell->param_count, sizeof *names);

    memset(out, 0, sizeof *out);
    if (fired == NULL || names == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t i = 0; i < fault_count; i++) {
        if (harness_plan_run_of(&cell->plan.faults[i]) == HARNESS_RUN_FIRST) {
            fired[i] = harness_stage_fired_count(cell, i);
        } else if (restore->is_run) {
            fired[i] = restore->fired_count[restore_fault++];
        }
    }
    for (size_t i = 0; i < cell->param_count; i++) {
        names[i] = cell->params[i].name;
    }
    out->program = &cell->bound;
    out->trace = cell->is_parted ? &cell->before : &cell->trace;
    out->continued_from_step = cell->first_step_alone;
    out->param_names = names;
    out->param_count = (uint32_t)cell->param_count;
    out->fired_count = fired;
    survivors(cell, out);
    words(cell, restore, out);
    out->is_time_enforced =
        cell->config.driver == HARNESS_DRIVER_SIM || cell->config.is_time_enforced;
    out->is_leak_process = cell->trace.leak_process;
    out->is_leak_shm = cell->trace.leak_shm;
    out->is_leak_fd = cell->trace.leak_fd;
    out->leak_text = cell->trace.leak_text;
    out->is_restore_run = restore->is_run;
    out->restored_from_step = restore->from_step;
    out->is_restore_equal = restore->is_equal;
    out->restore_verdict = restore->verdict;
    out->is_damage_loaded = restore->is_damage_loaded;
    out->restore_text = restore->text;
    out->restore_culprits = restore->culprits;
    out->restore_other = restore->other;
    out->restore_other_text = restore->other_text;
    return DDP_OK;
}
