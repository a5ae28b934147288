/* Launch, check, and replay with payloads. */
#include <stdio.h>
#include <string.h>

#include "harness/cell/stage.h"
#include "harness/launch/card.h"
#include "harness/proc/proc.h"
#include "harness/sim/sim.h"

static ddp_status write_inputs(struct harness_cell *cell, struct ddp_err *err)
{
    struct ddp_files *files = harness_stage_files(&cell->config);
    struct ddp_text text;
    ddp_status status;

    if (cell->config.memory != NULL) {
        return DDP_OK;
    }
    DDP_TRY(harness_stage_make_dirs(&cell->config, cell->run_dir, err));
    /* Not every run writes one, and one that an earlier run left here must not stay. */
    (void)!files->ops->remove(files, harness_stage_path(cell->mem, cell->run_dir, "graph.txt"),
                              NULL);
    ddp_text_init(&text, cell->mem);
    harness_plan_print(&cell->plan, &text);
    status = harness_stage_write(&cell->config, cell->run_dir, "plan.yaml", &text, err);
    ddp_text_fini(&text);
    if (status == DDP_OK) {
        ddp_text_init(&text, cell->mem);
        harness_program_print(&cell->program, &text);
        status = harness_stage_write(&cell->config, cell->run_dir, "program.txt", &text, err);
        ddp_text_fini(&text);
    }
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

static ddp_status write_traces(struct harness_cell *cell, struct ddp_err *err)
{
    struct ddp_text text;
    ddp_status status;

    ddp_text_init(&text, cell->mem);
    harness_trace_print(&cell->trace, &text);
    status = harness_stage_write(&cell->config, cell->run_dir, "trace.txt", &text, err);
    ddp_text_fini(&text);
    if (status == DDP_OK) {
        status = write_rank_traces(cell, err);
    }
    if (status == DDP_OK && cell->trace.graph.size_bytes > 0) {
        status =
            harness_stage_write(&cell->config, cell->run_dir, "graph.txt", &cell->trace.graph, err);
    }
    return status;
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
    return write_traces(cell, err);
}

/* Latencies of a diagnosis, from the time when the first fault that did something fired. */
static void measure(const struct harness_cell *cell, uint64_t time_ns,
                    struct harness_finding *finding)
{
    uint64_t fired_ns = harness_stage_first_fault_ns(cell);

    if (fired_ns > 0 && time_ns >= fired_ns) {
        finding->attribute_ns = (int64_t)(time_ns - fired_ns);
        if (finding->detect_ns < 0) {
            finding->detect_ns = finding->attribute_ns;
        }
    }
}

/* Ranks that die in the same way are one finding. The monitor reports the first death at once and
 * the next one when it comes. */
static bool joins_earlier_crash(struct harness_findings *findings,
                                const struct harness_finding *finding)
{
    for (size_t i = 0; i < findings->count; i++) {
        struct harness_finding *earlier = &findings->items[i];

        if (earlier->verdict != finding->verdict ||
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
    for (size_t i = 0; i < cell->trace.diagnoses.count; i++) {
        struct harness_finding finding = cell->trace.diagnoses.items[i];

        measure(cell, cell->trace.diagnosis_time_ns[i], &finding);
        if (!joins_earlier_crash(&cell->findings, &finding)) {
            harness_findings_add(&cell->findings, &finding);
        }
    }
}

static void oracle_input(const struct harness_cell *cell, const struct harness_cell *first,
                         struct harness_emulation_input *out)
{
    memset(out, 0, sizeof *out);
    out->plan = &cell->plan;
    out->program = &cell->program;
    out->trace = &cell->trace;
    out->job = &cell->job;
    out->params = cell->params;
    out->param_count = cell->param_count;
    out->device = cell->judge_device;
    out->run_dir = cell->run_dir;
    out->files = harness_stage_files(&cell->config);
    out->first_trace = first != NULL ? &first->trace : NULL;
    out->restored_step = cell->restored_step;
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

ddp_status harness_stage_check(struct harness_cell *cell, const struct harness_cell *first,
                               struct ddp_err *err)
{
    struct harness_emulation_input input;
    ddp_status status;

    DDP_TRY(open_judge_device(cell, err));
    harness_findings_init(&cell->findings, cell->mem);
    if (cell->trace.lost_count > 0) {
        cell->findings.is_evidence_lost = true;
        (void)snprintf(cell->findings.lost_text, sizeof cell->findings.lost_text,
                       "%llu recorder entries were torn or overwritten",
                       (unsigned long long)cell->trace.lost_count);
    }
    add_diagnoses(cell);
    oracle_input(cell, first, &input);
    status = harness_oracle_check_all(&input, &cell->findings, err);
    return status;
}

/* The oracles that compare gradients on their way into and out of a bucket. */
static bool is_first_difference(const struct harness_finding *finding, uint32_t step,
                                uint32_t bucket)
{
    bool is_gradient =
        finding->oracle == HARNESS_ORACLE_GRADIENT || finding->oracle == HARNESS_ORACLE_REDUCTION;

    return is_gradient && finding->step == (int32_t)step && finding->op.bucket == (int32_t)bucket;
}

/* Describe every finding about the first differing bucket from the payloads in replay->run_dir. */
static ddp_status describe_from(struct harness_cell *cell, struct harness_cell *replay,
                                uint32_t step, uint32_t bucket, struct ddp_err *err)
{
    struct harness_emulation_input input;
    ddp_status status = DDP_OK;

    oracle_input(replay, NULL, &input);
    for (size_t i = 0; status == DDP_OK && i < cell->findings.count; i++) {
        struct harness_finding *finding = &cell->findings.items[i];

        if (is_first_difference(finding, step, bucket)) {
            status = harness_oracle_describe(&input, finding, err);
        }
    }
    return status;
}

ddp_status harness_stage_describe(struct harness_cell *cell, struct ddp_err *err)
{
    struct harness_rank_options rank = {.is_hashing = true};
    struct harness_cell replay;
    uint32_t step;
    uint32_t bucket;
    ddp_status status;

    if (!harness_oracle_first_difference(&cell->findings, &step, &bucket)) {
        return DDP_OK;
    }
    replay = *cell;
    memset(&replay.trace, 0, sizeof replay.trace);
    replay.run_dir = harness_stage_path(cell->mem, cell->run_dir, "replay");
    rank.payload_step = step;
    DDP_TRY(harness_stage_launch(&replay, &rank, err));
    status = describe_from(cell, &replay, step, bucket, err);
    harness_trace_fini(&replay.trace);
    return status;
}

ddp_status harness_stage_describe_recorded(struct harness_cell *cell, struct ddp_err *err)
{
    struct harness_cell replay = *cell;
    uint32_t step;
    uint32_t bucket;

    if (!harness_oracle_first_difference(&cell->findings, &step, &bucket)) {
        return DDP_OK;
    }
    replay.run_dir = harness_stage_path(cell->mem, cell->run_dir, "replay");
    return describe_from(cell, &replay, step, bucket, err);
}
