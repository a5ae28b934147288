/* Launch, and check. */
#include <stdio.h>
#include <string.h>

#include "harness/cell/stage.h"
#include "harness/launch/card.h"
#include "harness/proc/proc.h"
#include "harness/sim/sim.h"

ddp_status harness_stage_write_plan(const struct harness_cell *cell, struct ddp_err *err)
{
    struct ddp_text text;
    ddp_status status;

    DDP_TRY(harness_stage_make_dirs(&cell->config, cell->run_dir, err));
    ddp_text_init(&text, cell->mem);
    harness_plan_print(&cell->plan, &text);
    status = harness_stage_write(&cell->config, cell->run_dir, "plan.yaml", &text, err);
    ddp_text_fini(&text);
    return status;
}

static ddp_status write_inputs(struct harness_cell *cell, struct ddp_err *err)
{
    struct ddp_text text;
    ddp_status status;

    if (cell->config.memory != NULL) {
        return DDP_OK;
    }
    DDP_TRY(harness_stage_write_plan(cell, err));
    ddp_text_init(&text, cell->mem);
    harness_program_print(&cell->program, &text);
    status = harness_stage_write(&cell->config, cell->run_dir, "program.txt", &text, err);
    ddp_text_fini(&text);
    return status;
}

static ddp_status write_rank_traces(struct harness_cell *cell, struct ddp_err *err)
{
    const uint32_t world_size = cell->trace.world_size;
    struct ddp_text *texts = ddp_mem_array(cell->mem, world_size, sizeof *texts);
    ddp_status status = texts == NULL ? DDP_E_NOMEM : DDP_OK;
    char name[64];

    if (texts == NULL) {
        return ddp_err_set(err, status, "no memory for the traces of %u ranks", world_size);
    }
    for (uint32_t rank = 0; rank < world_size; rank++) {
        ddp_text_init(&texts[rank], cell->mem);
    }
    harness_trace_print_ranks(&cell->trace, texts);
    for (uint32_t rank = 0; rank < world_size; rank++) {
        if (status == DDP_OK) {
            (void)snprintf(name, sizeof name, "trace.rank%u.txt", rank);
            status = harness_stage_write(&cell->config, cell->run_dir, name, &texts[rank], err);
        }
        ddp_text_fini(&texts[rank]);
    }
    ddp_mem_free(cell->mem, texts);
    return status;
}

/* trace.txt is what `check` judges: it comes last, so that there is none of a record that lacks
 * anything. */
static ddp_status write_traces(struct harness_cell *cell, struct ddp_err *err)
{
    struct ddp_text text;
    ddp_status status;

    DDP_TRY(write_rank_traces(cell, err));
    if (cell->trace.graph.size_bytes > 0) {
        DDP_TRY(harness_stage_write(&cell->config, cell->run_dir, "graph.txt", &cell->trace.graph,
                                    err));
    }
    ddp_text_init(&text, cell->mem);
    harness_trace_print(&cell->trace, &text);
    status = harness_stage_write(&cell->config, cell->run_dir, "trace.txt", &text, err);
    ddp_text_fini(&text);
    return status;
}

/* A verdict stands on a trace that anybody can check again: one that is not there is lost evidence,
 * whatever the judge saw in memory. */
static ddp_status keep_traces(struct harness_cell *cell, struct ddp_err *err)
{
    struct ddp_err why = {""};
    ddp_status status = write_traces(cell, &why);

    cell->unwritten[0] = '\0';
    if (status == DDP_E_IO || status == DDP_E_NO_SPACE || status == DDP_E_NO_FD) {
        (void)snprintf(cell->unwritten, sizeof cell->unwritten, "the trace was not written: %.220s",
                       why.text);
        return DDP_OK;
    }
    return status == DDP_OK ? DDP_OK : ddp_err_set(err, status, "%s", why.text);
}

ddp_status harness_stage_launch(struct harness_cell *cell, const struct harness_rank_options *rank,
                                struct ddp_err *err)
{
    struct harness_launch_config config;
    const struct harness_driver_ops *driver =
        cell->config.driver == HARNESS_DRIVER_SIM ? harness_sim_driver() : harness_proc_driver();

    DDP_TRY(write_inputs(cell, err));
    memset(&config, 0, sizeof config);
    config.plan = &cell->plan;
    config.program = &cell->program;
    config.tables = &cell->model;
    config.rank = *rank;
    config.rank.run_dir = cell->run_dir;
    config.rank.checkpoint_path =
        harness_stage_path(cell->mem, cell->run_dir, "checkpoint.safetensors");
    config.memory = cell->config.memory;
    config.seed = cell->config.seed;
    config.self_path = cell->config.self_path;
    config.launcher = cell->config.launcher;
    config.plan_path = harness_stage_path(cell->mem, cell->run_dir, "plan.yaml");
    DDP_TRY(driver->run(cell->mem, &config, &cell->trace, err));
    if (cell->config.memory != NULL) {
        return DDP_OK;
    }
    DDP_TRY(harness_stage_find_files(cell, cell->trace.files, err));
    return keep_traces(cell, err);
}

/* When a fault that does something fired in one of these ranks, at time_ns at the latest: the first
 * and the last one; 0 = none did. */
static void faults_of(const struct harness_cell *cell, const struct harness_rank_set *ranks,
                      uint64_t time_ns, uint64_t *out_first_ns, uint64_t *out_last_ns)
{
    const struct harness_trace_event *event;
    size_t cursor = 0;

    *out_first_ns = 0;
    *out_last_ns = 0;
    while ((event = harness_trace_next(&cell->trace, &cursor, -1, DDP_EVENT_FAULT_FIRED)) != NULL) {
        const uint64_t fault = event->entry.arg[0];

        if (fault < cell->plan.fault_count && event->entry.time_ns <= time_ns &&
            cell->plan.faults[fault].action.kind != HARNESS_ACTION_NONE &&
            harness_rank_set_has(ranks, event->rank)) {
            *out_first_ns = *out_first_ns == 0 ? event->entry.time_ns : *out_first_ns;
            *out_last_ns = event->entry.time_ns;
        }
    }
}

/* Latencies of a diagnosis: from the first fault of a culprit, and from the death, the stop or the
 * last sign of life, which the monitor measured; else from the culprit's last fault. */
static void measure(const struct harness_cell *cell, uint64_t time_ns,
                    struct harness_finding *finding)
{
    uint64_t first_ns;
    uint64_t last_ns;

    faults_of(cell, &finding->culprits, time_ns, &first_ns, &last_ns);
    if (first_ns == 0) {
        return;
    }
    finding->attribute_ns = (int64_t)(time_ns - first_ns);
    if (finding->detect_ns < 0) {
        finding->detect_ns = (int64_t)(time_ns - last_ns);
    }
}

/* What crashes and hangs take along: the ranks that no diagnosis blames and that did not end well.
 * When they were reported, not all of them had come to wait. */
static struct harness_rank_set find_victims(const struct harness_cell *cell)
{
    const struct harness_findings *diagnoses = &cell->trace.diagnoses;
    struct harness_rank_set spared = harness_rank_set_in(cell->mem);
    struct harness_rank_set victims = harness_rank_set_in(cell->mem);
    const struct harness_trace_event *end;
    size_t cursor = 0;

    while ((end = harness_trace_next(&cell->trace, &cursor, -1, DDP_EVENT_RANK_END)) != NULL) {
        if (harness_index_status(end->entry.arg[0]) == DDP_OK) {
            harness_rank_set_add(&spared, (uint32_t)end->rank);
        }
    }
    for (size_t i = 0; i < diagnoses->count; i++) {
        harness_rank_set_add_all(&spared, &diagnoses->items[i].culprits);
    }
    for (uint32_t rank = 0; rank < cell->trace.world_size; rank++) {
        if (!harness_rank_set_has(&spared, rank)) {
            harness_rank_set_add(&victims, rank);
        }
    }
    return victims;
}

/* Ranks that die in the same way in the same step are one finding. The monitor reports the first
 * death at once and the next one when it comes. */
static bool joins_earlier_crash(struct harness_findings *findings,
                                const struct harness_finding *finding)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct harness_finding *earlier = &findings->items[i];

        if (earlier->verdict != finding->verdict || earlier->step != finding->step ||
            harness_verdict_family(finding->verdict) != HARNESS_FAMILY_CRASH) {
            continue;
        }
        harness_rank_set_add_all(&earlier->culprits, &finding->culprits);
        return true;
    }
    return false;
}

static void add_diagnoses(struct harness_cell *cell)
{
    const struct harness_rank_set victims = find_victims(cell);

    for (size_t i = 0; i < cell->trace.diagnoses.count; i++) {
        struct harness_finding finding = cell->trace.diagnoses.items[i];
        enum harness_family family = harness_verdict_family(finding.verdict);

        if (family == HARNESS_FAMILY_CRASH || family == HARNESS_FAMILY_HANG) {
            finding.victims = victims;
        }
        measure(cell, cell->trace.diagnosis_time_ns[i], &finding);
        if (!joins_earlier_crash(&cell->findings, &finding)) {
            harness_findings_add(&cell->findings, &finding);
        }
    }
}

static void oracle_input(const struct harness_cell *cell, const struct harness_cell *first,
                         struct harness_emulation_input *out)
{
    out->plan = &cell->plan;
    out->program = &cell->bound;
    out->trace = &cell->trace;
    out->job = &cell->job;
    out->params = cell->params;
    out->param_count = cell->param_count;
    out->device = cell->judge_device;
    out->run_dir = cell->run_dir;
    out->files = harness_stage_files(&cell->config);
    out->first_trace = first != NULL ? &first->trace : NULL;
    out->first_run_dir = first != NULL ? first->run_dir : NULL;
    out->restored_step = cell->restored_step;
    out->is_emitted = harness_stage_is_emitted;
    out->mem = cell->mem;
}

/* Gradients can be bitwise equal to those of the ranks only on a device of the same kind. Created
 * after the ranks were started, as a CUDA context does not survive a fork. */
static ddp_status open_judge_device(struct harness_cell *cell, struct ddp_err *err)
{
    const struct ddp_device_cuda_config config = {.cublas_path = harness_card_cublas_path()};

    if (cell->judge_device != NULL) {
        return DDP_OK;
    }
    if (!harness_plan_is_cuda(&cell->plan)) {
        return ddp_device_cpu_create(cell->mem, &cell->judge_device);
    }
    DDP_TRY(ddp_device_cuda_query(0, &cell->gpu, err));
    return ddp_device_cuda_create(cell->mem, &config, &cell->judge_device, err);
}

static ddp_status check(struct harness_cell *cell, struct harness_emulation_input *input,
                        const struct harness_cell *first, struct ddp_err *err)
{
    ddp_status status;

    DDP_TRY(open_judge_device(cell, err));
    harness_findings_init(&cell->findings, cell->mem);
    if (cell->unwritten[0] != '\0') {
        cell->findings.is_evidence_lost = true;
        (void)snprintf(cell->findings.lost_text, sizeof cell->findings.lost_text, "%s",
                       cell->unwritten);
    }
    if (cell->trace.lost_count > 0) {
        cell->findings.is_evidence_lost = true;
        (void)snprintf(cell->findings.lost_text, sizeof cell->findings.lost_text,
                       "%llu recorder entries were torn, overwritten or malformed",
                       (unsigned long long)cell->trace.lost_count);
    }
    if (cell->trace.refuted_count > 0) {
        cell->findings.is_evidence_lost = true;
        (void)snprintf(cell->findings.lost_text, sizeof cell->findings.lost_text,
                       "%llu diagnoses name ranks that did not end so",
                       (unsigned long long)cell->trace.refuted_count);
    }
    add_diagnoses(cell);
    DDP_TRY(harness_stage_bind(cell));
    oracle_input(cell, first, input);
    input->kept = cell->kept;
    status = harness_oracle_check_all(input, &cell->findings, &cell->wanted, err);
    return cell->wanted.is_failed && status == DDP_OK ? DDP_E_NOMEM : status;
}

ddp_status harness_stage_check_whole(struct harness_cell *cell, const struct harness_cell *first,
                                     struct ddp_err *err)
{
    struct harness_emulation_input input = {.plan = NULL};

    return check(cell, &input, first, err);
}

ddp_status harness_stage_check_part(struct harness_cell *cell, const struct harness_handover *start,
                                    struct harness_handover *leave, struct ddp_err *err)
{
    struct harness_emulation_input input = {.start = start, .leave = leave};

    return check(cell, &input, NULL, err);
}
