/* The job's own training loop: reference kernels and the reference's optimizer, two explicit sums.
 */
#include "tests/unit/oracle/oracle_job.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ddpcore/base/file.h"
#include "ddpcore/base/hash.h"
#include "tests/ct.h"

bool oracle_job_open(struct oracle_job *job, bool is_adamw)
{
    struct harness_job *plan = &job->plan.job;

    memset(job, 0, sizeof(*job));
    if (ddp_mem_pool_create(&job->pool) != DDP_OK) {
        return false;
    }
    job->mem = ddp_mem_pool_mem(job->pool);
    job->batch_rows[0] = 4;
    job->batch_rows[1] = 4;
    *plan = (struct harness_job){
        .ranks = ORACLE_JOB_RANKS,
        .steps = ORACLE_JOB_STEPS,
        .micro_batches = 1,
        .model = "mlp",
        .data = "digits",
        .batch_per_rank = job->batch_rows,
        .optimizer = {.kind = is_adamw ? HARNESS_OPTIMIZER_ADAMW : HARNESS_OPTIMIZER_SGD,
                      .lr = 0.05},
        .bucket_cap_bytes = 350,
        .first_bucket_cap_bytes = 350,
        .collective = {.algorithm = DDP_ALGORITHM_RING},
        .seed = 7};
    job->plan.id = "test.oracle";
    job->job.model =
        (struct ref_model_config){.name = "mlp", .width = {64, 8, 10}, .width_count = 3, .seed = 7};
    job->job.data = (struct ref_data_config){.name = "digits", .sample_count = 64, .seed = 7};
    ref_optimizer_defaults(&job->job.optimizer, is_adamw ? REF_OPTIMIZER_ADAMW : REF_OPTIMIZER_SGD);
    job->job.optimizer.lr = 0.05f;
    job->job.optimizer.momentum = is_adamw ? 0.0f : 0.9f;
    job->job.shard = (struct ref_shard_config){.sample_count = 64,
                                               .world_size = ORACLE_JOB_RANKS,
                                               .is_shuffled = true,
                                               .seed = 7,
                                               .batch_rows = job->batch_rows};
    job->job.micro_batches = 1;
    job->job.steps = ORACLE_JOB_STEPS;
    (void)snprintf(job->run_dir, sizeof(job->run_dir), "/tmp/ddprove-oracle-XXXXXX");
    job->is_run_dir_made = mkdtemp(job->run_dir) != NULL;
    return job->is_run_dir_made && ddp_blas_open(NULL, NULL) == DDP_OK &&
           ddp_device_cpu_create(job->mem, &job->device) == DDP_OK;
}

static void remove_dir(const char *path)
{
    char entry_path[512];
    DIR *dir = opendir(path);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(entry_path, sizeof(entry_path), "%s/%.200s", path, entry->d_name);
            if (unlink(entry_path) != 0) {
                remove_dir(entry_path);
            }
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    (void)rmdir(path);
}

void oracle_job_close(struct oracle_job *job)
{
    if (job->device != NULL) {
        job->device->ops->destroy(job->device);
    }
    if (job->is_run_dir_made) {
        remove_dir(job->run_dir);
    }
    ddp_mem_pool_destroy(job->pool);
}

static void record(struct oracle_job *job, uint32_t rank, enum ddp_event event, uint32_t step,
                   uint64_t a0, uint64_t a1)
{
    const uint64_t arg[5] = {a0, a1, 0, 0, 0};

    oracle_job_add_event(job, rank, event, step, arg);
}

static void write_schedules(struct oracle_job *job, size_t count)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/schedules", job->run_dir);
    (void)mkdir(path, 0700);
    for (unsigned r = 0; r < ORACLE_JOB_RANKS; r++) {
        (void)snprintf(path, sizeof(path), "%s/schedules/n%zu.r%u.txt", job->run_dir, count, r);
        file = fopen(path, "w");
        DDP_ASSERT(file != NULL);
        /* Rank 1 sends to rank 0, which adds and sends back: out = in0 + in1. */
        (void)fprintf(file,
                      "schedule 1 kind=all_reduce algorithm=ring rank=%u size=2 count=%zu "
                      "dtype=f32 root=0 in_place=1\n",
                      r, count);
        (void)fprintf(file,
                      r == 0 ? "0 round=0 recv_reduce peer=1 dst=out:0+%zu deps=\n"
                               "1 round=1 send peer=1 src=out:0+%zu deps=0\nend\n"
                             : "0 round=0 send peer=0 src=out:0+%zu deps=\n"
                               "1 round=1 recv peer=0 dst=out:0+%zu deps=0\nend\n",
                      count, count);
        (void)fclose(file);
    }
}

/* The hash of a tensor, which is kept under it. */
static uint64_t hash_tensor(const struct oracle_job *job, const char *name, const float *data,
                            size_t count)
{
    uint64_t hash = ddp_hash_tensor(data, count * sizeof(float), ddp_hash_text(name), NULL);
    char path[256];
    FILE *file;

    if (!job->is_keeping) {
        return hash;
    }
    (void)snprintf(path, sizeof(path), "%s/payload", job->run_dir);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/payload/%016llx", job->run_dir,
                   (unsigned long long)hash);
    file = fopen(path, "wb");
    DDP_ASSERT(file != NULL);
    DDP_ASSERT(fwrite(data, sizeof(float), count, file) == count);
    (void)fclose(file);
    return hash;
}

static uint64_t bucket_seq(const struct oracle_job *job, uint32_t step, size_t bucket)
{
    for (size_t i = 0; i < job->program.op_count; i++) {
        const struct harness_op *op = &job->program.ops[i];

        if (op->role == DDP_ROLE_BUCKET && op->step == (int32_t)step && op->index == bucket) {
            return op->seq;
        }
    }
    return 0;
}

/* A collective that carries no gradients: all members get the same out of it. */
static void record_collective(struct oracle_job *job, const struct harness_op *op)
{
    const struct ddp_event_op packed = {op->kind, op->redop, op->dtype,
                                        op->role, op->index, op->root};
    uint32_t step = op->step < 0 ? 0 : (uint32_t)op->step;
    uint64_t out = op->kind == DDP_COLL_BARRIER ? 0 : 7;

    const uint64_t done[5] = {op->seq, ddp_event_op_pack(&packed), op->elem_count, DDP_OK, out};

    for (uint32_t r = 0; r < ORACLE_JOB_RANKS; r++) {
        const uint64_t in = op->kind == DDP_COLL_BROADCAST && r != op->root ? 0 : out;
        const uint64_t post[5] = {op->seq, ddp_event_op_pack(&packed), op->elem_count, 0, in};

        oracle_job_enter(job, r, step, op->phase);
        oracle_job_add_event(job, r, DDP_EVENT_COLL_POST, step, post);
    }
    for (uint32_t r = 0; r < ORACLE_JOB_RANKS; r++) {
        const uint64_t waited[5] = {op->seq};

        oracle_job_add_event(job, r, DDP_EVENT_COLL_DONE, step, done);
        oracle_job_add_event(job, r, DDP_EVENT_COLL_WAITED, step, waited);
    }
}

/* One replica. */
struct replica {
    struct ref_trainer *trainer;
    struct ddp_param *params;
    float *bucket;
};

static void reduce_bucket(struct oracle_job *job, struct replica *replicas, uint32_t step, size_t b)
{
    const struct harness_bucket *bucket = &job->program.first.items[b];
    const struct harness_op *op = harness_program_at(&job->program, bucket_seq(job, step, b));
    const struct ddp_event_op packed = {op->kind, op->redop, op->dtype,
                                        op->role, op->index, op->root};
    char name[32];

    (void)snprintf(name, sizeof(name), "bucket/%zu", b);
    for (uint32_t r = 0; r < ORACLE_JOB_RANKS; r++) {
        float *data = replicas[r].bucket;

        for (uint32_t i = 0; i < bucket->param_count; i++) {
            const struct ddp_param *param = &replicas[r].params[bucket->params[i]];
            const float *grad = param->grad;

            for (size_t k = 0; k < param->elem_count; k++) {
                data[bucket->offsets[i] + k] = grad[k] * 0.5f;
            }
        }
        if (job->hook.input != NULL) {
            job->hook.input(r, step, b, data, bucket->elem_count);
        }
        {
            const uint64_t arg[5] = {op->seq, ddp_event_op_pack(&packed), op->elem_count, 0,
                                     hash_tensor(job, name, data, bucket->elem_count)};

            oracle_job_add_event(job, r, DDP_EVENT_COLL_POST, step, arg);
        }
    }
    for (size_t k = 0; k < bucket->elem_count; k++) {
        replicas[0].bucket[k] = replicas[0].bucket[k] + replicas[1].bucket[k];
        replicas[1].bucket[k] = replicas[0].bucket[k];
    }
    for (uint32_t r = 0; r < ORACLE_JOB_RANKS; r++) {
        float *data = replicas[r].bucket;

        if (job->hook.output != NULL) {
            job->hook.output(r, step, b, data, bucket->elem_count);
        }
        {
            const uint64_t arg[5] = {op->seq, ddp_event_op_pack(&packed), op->elem_count, DDP_OK,
                                     hash_tensor(job, name, data, bucket->elem_count)};
            const uint64_t waited[5] = {op->seq};

            oracle_job_add_event(job, r, DDP_EVENT_COLL_DONE, step, arg);
            oracle_job_add_event(job, r, DDP_EVENT_COLL_WAITED, step, waited);
        }
        for (uint32_t i = 0; i < bucket->param_count; i++) {
            const struct ddp_param *param = &replicas[r].params[bucket->params[i]];

            memcpy(param->grad, data + bucket->offsets[i], param->elem_count * sizeof(float));
        }
    }
}

static uint64_t hash_param(const struct oracle_job *job, const struct ddp_param *param,
                           const float *data)
{
    return hash_tensor(job, param->name, data, param->elem_count);
}

static bool run_forward(struct oracle_job *job, struct replica *replica, uint32_t rank,
                        uint32_t step)
{
    struct ref_batch batch;
    float loss = 0.0f;
    uint32_t bits;
    size_t rows = 0;

    if (ref_trainer_batch(replica->trainer, rank, step, 0, &batch) != DDP_OK) {
        return false;
    }
    {
        const uint64_t arg[5] = {batch.rows,
                                 ddp_hash_bytes(batch.samples, batch.rows * sizeof(uint32_t), 0),
                                 batch.samples[0], 0, 0};

        oracle_job_add_event(job, rank, DDP_EVENT_DATA_BATCH, step, arg);
    }
    for (size_t i = 0; i < batch.rows; i++) {
        record(job, rank, DDP_EVENT_DATA_SAMPLE, step, batch.samples[i], 0);
    }
    oracle_job_enter(job, rank, step, DDP_PHASE_FORWARD);
    if (ref_trainer_local_gradient(replica->trainer, rank, step, &loss, &rows) != DDP_OK) {
        return false;
    }
    memcpy(&bits, &loss, sizeof(bits));
    record(job, rank, DDP_EVENT_LOSS, step, bits, 0);
    for (size_t p = 0; p < job->param_count; p++) {
        record(job, rank, DDP_EVENT_GRAD_READY, step, p,
               hash_param(job, &replica->params[p], replica->params[p].grad));
    }
    return true;
}

static bool run_update(struct oracle_job *job, struct replica *replica, uint32_t rank,
                       uint32_t step)
{
    struct ref_optimizer *optimizer = ref_trainer_optimizer(replica->trainer);

    for (size_t p = 0; p < job->param_count; p++) {
        const uint64_t arg[5] = {p, hash_param(job, &replica->params[p], replica->params[p].grad),
                                 1, 0, 0};

        oracle_job_add_event(job, rank, DDP_EVENT_GRAD_FINAL, step, arg);
    }
    if (ref_optimizer_step(optimizer, NULL, NULL) != DDP_OK) {
        return false;
    }
    for (size_t p = 0; p < job->param_count; p++) {
        struct ddp_param *param = &replica->params[p];

        if (job->hook.updated != NULL) {
            job->hook.updated(rank, step, p, param->data, param->elem_count);
        }
        record(job, rank, DDP_EVENT_PARAM_UPDATED, step, p, hash_param(job, param, param->data));
        for (size_t slot = 0; slot < ref_optimizer_slot_count(optimizer); slot++) {
            const uint64_t arg[5] = {
                p, hash_param(job, param, ref_optimizer_slot(optimizer, slot, p)), slot, 0, 0};

            oracle_job_add_event(job, rank, DDP_EVENT_OPTIMIZER_STATE, step, arg);
        }
    }
    return true;
}

/* Operations around the buckets of a step are posted as planned. */
static void post_others(struct oracle_job *job, int32_t step, bool is_before_buckets)
{
    uint64_t first =
        step < 0 || step >= ORACLE_JOB_STEPS ? UINT64_MAX : bucket_seq(job, (uint32_t)step, 0);

    for (size_t i = 0; i < job->program.op_count; i++) {
        const struct harness_op *op = &job->program.ops[i];

        if (op->step == step && op->role != DDP_ROLE_BUCKET &&
            (op->seq < first) == is_before_buckets) {
            record_collective(job, op);
        }
    }
}

static bool train(struct oracle_job *job, struct replica *replicas)
{
    for (uint32_t r = 0; r < ORACLE_JOB_RANKS; r++) {
        oracle_job_begin(job, r);
    }
    post_others(job, -1, true);
    for (uint32_t step = 0; step < ORACLE_JOB_STEPS; step++) {
        post_others(job, (int32_t)step, true);
        for (uint32_t r = 0; r < ORACLE_JOB_RANKS; r++) {
            if (!run_forward(job, &replicas[r], r, step)) {
                return false;
            }
        }
        for (size_t b = 0; b < job->program.first.count; b++) {
            reduce_bucket(job, replicas, step, b);
        }
        for (uint32_t r = 0; r < ORACLE_JOB_RANKS; r++) {
            if (!run_update(job, &replicas[r], r, step)) {
                return false;
            }
        }
        post_others(job, (int32_t)step, false);
    }
    post_others(job, ORACLE_JOB_STEPS, true);
    for (uint32_t r = 0; r < ORACLE_JOB_RANKS; r++) {
        record(job, r, DDP_EVENT_RANK_HOLDS, ORACLE_JOB_STEPS, 0, 0);
        oracle_job_end(job, r);
        job->trace.ends[r].how = HARNESS_END_EXITED;
    }
    return true;
}

static bool prepare(struct oracle_job *job)
{
    struct ref_model_tables tables;
    struct harness_tables model;

    if (ref_model_describe(job->mem, &job->job.model, &tables, NULL) != DDP_OK) {
        return false;
    }
    job->params = tables.params;
    job->param_count = tables.param_count;
    model = (struct harness_tables){
        tables.params, tables.param_count, tables.buffers,         tables.buffer_count, NULL,
        NULL,          tables.batch_norms, tables.batch_norm_count};
    if (harness_program_build(job->mem, &job->plan, &model, NULL, &job->program) != DDP_OK) {
        return false;
    }
    harness_trace_init(&job->trace, job->mem, ORACLE_JOB_RANKS, "sim");
    job->trace.event_capacity = 8192;
    job->trace.events = ddp_mem_array(job->mem, 8192, sizeof(*job->trace.events));
    if (job->trace.ends == NULL) {
        job->trace.ends = ddp_mem_array(job->mem, ORACLE_JOB_RANKS, sizeof(*job->trace.ends));
    }
    harness_findings_init(&job->findings, job->mem);
    for (size_t b = 0; b < job->program.first.count; b++) {
        write_schedules(job, job->program.first.items[b].elem_count);
    }
    for (size_t i = 0; i < job->program.op_count; i++) {
        oracle_job_write_schedule(job, &job->program.ops[i]);
    }
    job->input = (struct harness_emulation_input){.plan = &job->plan,
                                                  .program = &job->program,
                                                  .trace = &job->trace,
                                                  .job = &job->job,
                                                  .params = job->params,
                                                  .param_count = job->param_count,
                                                  .device = job->device,
                                                  .run_dir = job->run_dir,
                                                  .mem = job->mem};
    return job->trace.events != NULL && job->trace.ends != NULL;
}

bool oracle_job_run(struct oracle_job *job)
{
    struct replica replicas[ORACLE_JOB_RANKS] = {{NULL, NULL, NULL}, {NULL, NULL, NULL}};
    size_t count = 0;
    bool is_right = prepare(job);

    for (uint32_t r = 0; is_right && r < ORACLE_JOB_RANKS; r++) {
        is_right = ref_trainer_create(job->device, &job->job, &replicas[r].trainer, NULL) == DDP_OK;
        if (is_right) {
            replicas[r].params = ref_model_params(ref_trainer_model(replicas[r].trainer), &count);
            replicas[r].bucket = ddp_mem_array(job->mem, 4096, sizeof(float));
        }
    }
    is_right = is_right && train(job, replicas);
    for (uint32_t r = 0; r < ORACLE_JOB_RANKS; r++) {
        if (replicas[r].trainer != NULL) {
            ref_trainer_destroy(replicas[r].trainer);
        }
    }
    return is_right;
}

static ddp_status check(struct oracle_job *job, struct harness_hashes *wanted,
                        struct harness_kept **kept, struct ddp_err *err)
{
    char folder[256];

    (void)snprintf(folder, sizeof(folder), "%s/payload", job->run_dir);
    harness_hashes_sort(wanted);
    DDP_TRY(harness_kept_load(job->mem, ddp_files_system(), folder, wanted, kept, err));
    job->input.kept = *kept;
    job->findings.count = 0;
    job->findings.is_evidence_lost = false;
    return harness_oracle_check_all(&job->input, &job->findings, wanted, err);
}

bool oracle_job_check(struct oracle_job *job)
{
    struct harness_hashes wanted = {.mem = job->mem};
    struct harness_kept *kept = NULL;
    struct ddp_err err = {""};
    ddp_status status = harness_oracle_check_all(&job->input, &job->findings, &wanted, &err);

    for (int round = 0; job->is_keeping && status == DDP_OK && round < 4; round++) {
        status = check(job, &wanted, &kept, &err);
        job->input.kept = NULL;
        harness_kept_destroy(kept);
    }
    harness_hashes_fini(&wanted);
    if (status != DDP_OK) {
        CT_FAIL("check_all: %s %s", ddp_status_name(status), err.text);
    }
    return status == DDP_OK;
}

struct ddp_event_entry *oracle_job_event(struct oracle_job *job, uint32_t rank,
                                         enum ddp_event event, uint32_t step, uint64_t subject)
{
    for (size_t i = 0; i < job->trace.event_count; i++) {
        struct harness_trace_event *at = &job->trace.events[i];
        bool is_collective = event == DDP_EVENT_COLL_POST || event == DDP_EVENT_COLL_DONE;
        struct ddp_event_op op = ddp_event_op_unpack(at->entry.arg[1]);

        if (at->rank == rank && at->entry.event == event && at->entry.step == step &&
            (is_collective ? op.role == DDP_ROLE_BUCKET && op.index == subject
                           : at->entry.arg[0] == subject)) {
            return &at->entry;
        }
    }
    return NULL;
}

struct harness_finding *oracle_job_finding(struct oracle_job *job, enum harness_oracle_id oracle)
{
    struct harness_finding *found = NULL;

    for (size_t i = 0; i < job->findings.count; i++) {
        if (job->findings.items[i].oracle == oracle) {
            if (found != NULL) {
                return NULL;
            }
            found = &job->findings.items[i];
        }
    }
    return found;
}
