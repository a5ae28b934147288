/* A small job for tests of the simulator. */
#include "tests/unit/sim/sim_job.h"

#include <string.h>

#include "ddpcore/base/hash.h"
#include "tests/ct.h"

void sim_job_init(struct sim_job *job, uint32_t ranks)
{
    struct harness_job *what = &job->plan.job;

    memset(job, 0, sizeof *job);
    CT_REQUIRE_OK(ddp_mem_pool_create(&job->pool));
    job->mem = ddp_mem_pool_mem(job->pool);
    what->ranks = ranks;
    what->steps = 4;
    what->micro_batches = 1;
    what->model = "mlp";
    job->width[0] = 64;
    job->width[1] = 16;
    job->width[2] = 10;
    what->widths = (struct harness_sizes){job->width, 3};
    what->data = "digits";
    for (uint32_t i = 0; i < SIM_JOB_RANKS_MAX; i++) {
        job->batch[i] = 8;
        job->shard[i] = 32;
    }
    what->batch_per_rank = job->batch;
    what->is_shuffled = true;
    what->optimizer = (struct harness_optimizer){.kind = HARNESS_OPTIMIZER_ADAMW,
                                                 .lr = 1e-3,
                                                 .weight_decay = 0.01,
                                                 .beta1 = 0.9,
                                                 .beta2 = 0.999,
                                                 .eps = 1e-8,
                                                 .scale_growth = 2,
                                                 .scale_backoff = 0.5,
                                                 .scale_interval = 2000};
    what->bucket_cap_bytes = 512;
    what->seed = 7;
    what->collective.algorithm = DDP_ALGORITHM_RING;
    what->ranks_per_gpu = 1;
    what->timeout_ns = 5 * DDP_NS_PER_S;
    what->settle_ms = 1000;
    what->local_sgd_period = 1;
    what->powersgd_rank = 1;
    what->powersgd_start = 2;
    what->settle_ms = 1000;
    job->plan.id = "unit.sim";
    job->plan.cell = "";
    job->plan.faults = job->faults;
    for (unsigned phase = 0; phase < DDP_PHASE_COUNT; phase++) {
        what->phase_budget_ms[phase] = ddp_phase_budget_ms((enum ddp_phase)phase);
    }
    job->config.plan = &job->plan;
    job->config.program = &job->program;
    job->config.rank.is_hashing = true;
    job->config.seed = 1;
}

void sim_job_use_branchy(struct sim_job *job)
{
    job->plan.job.model = "branchy";
    job->plan.job.broadcast_buffers = true;
}

struct harness_fault *sim_job_fault(struct sim_job *job, uint32_t rank, enum ddp_fault_point point,
                                    enum harness_action_kind kind)
{
    struct harness_fault *fault = &job->faults[job->plan.fault_count++];

    *fault = (struct harness_fault){.at = {.rank = rank,
                                           .step = -1,
                                           .micro = -1,
                                           .bucket = -1,
                                           .param = -1,
                                           .layer = -1,
                                           .seq = -1,
                                           .phase = -1,
                                           .hit = 1,
                                           .times = 1},
                                    .point = point,
                                    .action = {.kind = kind, .signal = 9}};
    return fault;
}

static ddp_status build_program(struct sim_job *job)
{
    struct ref_model_tables tables;
    struct harness_tables model;
    struct ref_job ref;
    uint64_t *batch_count = NULL;

    DDP_TRY(harness_rank_job(&job->plan, &ref, &job->err));
    DDP_TRY(ref_model_describe(job->mem, &ref.model, &tables, &job->err));
    job->params = tables.params;
    job->param_count = tables.param_count;
    model = (struct harness_tables){
        tables.params, tables.param_count, tables.buffers,         tables.buffer_count, NULL,
        NULL,          tables.batch_norms, tables.batch_norm_count};
    if (job->plan.job.join.is_set) {
        ref.shard.sample_count = 1797;
        batch_count = ddp_mem_array(job->mem, job->plan.job.ranks, sizeof batch_count[0]);
        if (batch_count == NULL) {
            return DDP_E_NOMEM;
        }
        for (uint32_t i = 0; i < job->plan.job.ranks; i++) {
            batch_count[i] = ref_shard_batch_count(&ref.shard, i);
        }
    }
    return harness_program_build(job->mem, &job->plan, &model, batch_count, &job->program);
}

ddp_status sim_job_run(struct sim_job *job)
{
    ddp_status status = DDP_OK;

    if (job->is_run) {
        harness_trace_fini(&job->trace);
    } else {
        status = build_program(job);
    }
    if (status == DDP_OK) {
        status = harness_sim_run(job->mem, &job->config, &job->trace, &job->stats, &job->err);
        job->is_run = true;
    }
    if (status != DDP_OK) {
        ct_fail(__FILE__, __LINE__, "%s", job->err.text);
    }
    return status;
}

void sim_job_fini(struct sim_job *job)
{
    if (job->is_run) {
        harness_trace_fini(&job->trace);
    }
    ddp_mem_pool_destroy(job->pool);
}

ddp_status sim_job_status(const struct sim_job *job, uint32_t rank)
{
    size_t cursor = 0;
    const struct harness_trace_event *end =
        harness_trace_next(&job->trace, &cursor, rank, DDP_EVENT_RANK_END);

    return end == NULL ? DDP_PENDING : (ddp_status)(int32_t)(uint32_t)end->entry.arg[0];
}

uint64_t sim_job_param_hash(const struct sim_job *job, uint32_t rank)
{
    uint64_t hash = 0, last[16] = {0};
    size_t cursor = 0;
    const struct harness_trace_event *event;

    while ((event = harness_trace_next(&job->trace, &cursor, rank, DDP_EVENT_PARAM_UPDATED)) !=
           NULL) {
        last[event->entry.arg[0] % 16] = event->entry.arg[1];
    }
    for (size_t i = 0; i < job->param_count && i < 16; i++) {
        hash = ddp_hash_combine(hash, last[i]);
    }
    return last[0] == 0 ? 0 : hash;
}

size_t sim_job_count(const struct sim_job *job, uint32_t rank, enum ddp_event event)
{
    size_t count = 0, cursor = 0;

    while (harness_trace_next(&job->trace, &cursor, rank, event) != NULL) {
        count++;
    }
    return count;
}

const char *sim_job_text(struct sim_job *job)
{
    struct ddp_text text;

    ddp_text_init(&text, job->mem);
    harness_trace_print(&job->trace, &text);
    return ddp_text_str(&text);
}

const char *sim_job_path(struct sim_job *job, const char *dir, const char *name)
{
    struct ddp_text text;

    ddp_text_init(&text, job->mem);
    ddp_text_add(&text, "%s/%s", dir, name);
    return ddp_text_str(&text);
}

uint64_t sim_job_last(const struct sim_job *job, uint32_t rank, enum ddp_event event, unsigned arg)
{
    uint64_t last = 0;
    size_t cursor = 0;
    const struct harness_trace_event *found;

    while ((found = harness_trace_next(&job->trace, &cursor, rank, event)) != NULL) {
        last = found->entry.arg[arg];
    }
    return last;
}
