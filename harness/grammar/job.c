/* What a plan's job comes to. */
#include "harness/grammar/job.h"

#include <errno.h>
#include <string.h>

#include "reference/data.h"
#include "reference/model.h"

uint64_t harness_grammar_passes(const struct harness_job *job, uint32_t rank)
{
    uint64_t passes = (uint64_t)job->steps * job->micro_batches;
    uint64_t batch = job->batch_per_rank[rank];
    uint64_t own = job->shard_sizes == NULL ? passes : (job->shard_sizes[rank] + batch - 1) / batch;

    return own < passes ? own : passes;
}

uint32_t harness_grammar_full_steps(const struct harness_job *job, uint32_t rank)
{
    return (uint32_t)(harness_grammar_passes(job, rank) / job->micro_batches);
}

bool harness_grammar_is_even(const struct harness_job *job)
{
    for (uint32_t rank = 1; rank < job->ranks; rank++) {
        if (harness_grammar_passes(job, rank) != harness_grammar_passes(job, 0)) {
            return false;
        }
    }
    return true;
}

bool harness_grammar_is_summed(const struct harness_job *job, uint32_t rank, int64_t step)
{
    bool is_other = false;

    for (uint32_t r = 0; r < job->ranks; r++) {
        is_other = is_other || (r != rank && harness_grammar_full_steps(job, r) > step);
    }
    return is_other;
}

bool harness_grammar_is_plain(const struct harness_job *job)
{
    return job->hook == HARNESS_HOOK_NONE && job->optimizer.loss_scale == 0 &&
           !job->sync_batchnorm && !job->static_graph && job->on_loss == HARNESS_ON_LOSS_END;
}

/* The optimizer keeps a state beside the parameters. */
static bool has_state(const struct harness_job *job)
{
    return job->optimizer.kind == HARNESS_OPTIMIZER_ADAMW || job->optimizer.momentum > 0;
}

enum harness_verdict harness_grammar_verdict_of_errno(int error)
{
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return HARNESS_VERDICT_RESOURCE_DISK;
    case EMFILE:
    case ENFILE:
        return HARNESS_VERDICT_RESOURCE_FD;
    default:
        return HARNESS_VERDICT_CRASH_EXITED;
    }
}

/* Names and shapes of the plan's model. */
static ddp_status describe(struct ddp_mem *mem, const struct harness_job *job,
                           struct ref_model_tables *out, struct ddp_err *err)
{
    const struct ref_data_config data_config = {
        .name = job->data, .sample_count = 1, .feature_count = job->features, .seed = job->seed};
    struct ref_model_config config;
    struct ref_data data;

    memset(&config, 0, sizeof config);
    config.name = job->model;
    config.branch = job->branch;
    config.skip_rank = job->skip_rank;
    config.heads = job->heads;
    config.experts = job->experts;
    config.width_count = job->widths.count;
    for (size_t i = 0; i < job->widths.count && i <= REF_LAYERS_MAX; i++) {
        config.width[i] = job->widths.items[i];
    }
    DDP_TRY(ref_data_open(mem, &data_config, &data, err));
    ref_model_defaults(&config, data.feature_count,
                       data.labels != NULL ? data.class_count : data.target_count);
    ref_data_close(&data);
    return ref_model_describe(mem, &config, out, err);
}

ddp_status harness_grammar_job_open(struct ddp_mem *mem, const struct harness_plan *plan,
                                    struct harness_grammar_job *out, struct ddp_err *err)
{
    const struct harness_job *job = &plan->job;
    struct ref_model_tables tables;
    uint64_t *counts = NULL;
    struct harness_tables model;

    memset(out, 0, sizeof *out);
    out->job = job;
    DDP_TRY(describe(mem, job, &tables, err));
    out->params = tables.params;
    out->param_count = tables.param_count;
    out->has_buffers = tables.buffer_count > 0;
    model = (struct harness_tables){
        tables.params, tables.param_count, tables.buffers,         tables.buffer_count, NULL,
        NULL,          tables.batch_norms, tables.batch_norm_count};
    out->uses_all = job->branch == REF_BRANCH_BOTH && strcmp(job->model, "moe") != 0;
    /* A layer is a weight and a bias, in the models that are a row of layers. */
    out->layer_count = out->has_buffers || !out->uses_all || strcmp(job->model, "gpt") == 0
                           ? 1
                           : (uint32_t)(tables.param_count / 2);
    if (job->join.is_set) {
        counts = ddp_mem_array(mem, job->ranks, sizeof *counts);
        if (counts == NULL) {
            return DDP_E_NOMEM;
        }
        for (uint32_t rank = 0; rank < job->ranks; rank++) {
            size_t batch = job->batch_per_rank[rank];

            counts[rank] =
                job->shard_sizes == NULL ? SIZE_MAX : (job->shard_sizes[rank] + batch - 1) / batch;
        }
    }
    return harness_program_build(mem, plan, &model, counts, &out->program);
}

enum harness_grammar_place harness_grammar_place(const struct harness_grammar_job *job,
                                                 enum ddp_fault_point point)
{
    switch (point) {
    case DDP_FAULT_POINT_LAUNCH_SPAWN:
    case DDP_FAULT_POINT_RENDEZVOUS_CONNECT:
    case DDP_FAULT_POINT_DATA_SAMPLER:
    case DDP_FAULT_POINT_COMM_INIT:
        return HARNESS_GRAMMAR_AT_START;
    case DDP_FAULT_POINT_MODEL_BUILD:
        /* It offers hidden layers; whoever differs is plain from three ranks on. */
        return job->layer_count > 1 && job->job->ranks > 2 ? HARNESS_GRAMMAR_AT_START
                                                           : HARNESS_GRAMMAR_NOWHERE;
    case DDP_FAULT_POINT_CONFIG:
        /* Strict semantics compare configurations; the plan says who differs. */
        return job->job->semantics == HARNESS_SEMANTICS_STRICT && job->job->ranks > 1
                   ? HARNESS_GRAMMAR_AT_START
                   : HARNESS_GRAMMAR_NOWHERE;
    case DDP_FAULT_POINT_MODEL_BUFFERS:
        return job->has_buffers && job->job->ranks > 1 ? HARNESS_GRAMMAR_AT_START
                                                       : HARNESS_GRAMMAR_NOWHERE;
    case DDP_FAULT_POINT_STEP_BEGIN:
    case DDP_FAULT_POINT_OPTIMIZER_PRE:
        return HARNESS_GRAMMAR_AT_STEP;
    case DDP_FAULT_POINT_DATA_NEXT:
    case DDP_FAULT_POINT_DATA_BATCH:
    case DDP_FAULT_POINT_DATA_TRANSFORM:
    case DDP_FAULT_POINT_FORWARD_WRAPPER:
    case DDP_FAULT_POINT_LOSS:
        return HARNESS_GRAMMAR_AT_PASS;
    case DDP_FAULT_POINT_FORWARD_LAYER:
        return HARNESS_GRAMMAR_AT_LAYER;
    case DDP_FAULT_POINT_GRAD_READY:
    case DDP_FAULT_POINT_BUCKET_COPY:
    case DDP_FAULT_POINT_BUCKET_FILL:
    case DDP_FAULT_POINT_PARAM_UPDATED:
        return HARNESS_GRAMMAR_AT_PARAM;
    case DDP_FAULT_POINT_OPTIMIZER_STATE:
        return has_state(job->job) ? HARNESS_GRAMMAR_AT_PARAM : HARNESS_GRAMMAR_NOWHERE;
    case DDP_FAULT_POINT_BUCKET_LAUNCH:
    case DDP_FAULT_POINT_COLLECTIVE_PRE:
    case DDP_FAULT_POINT_COLLECTIVE_ENQUEUE:
    case DDP_FAULT_POINT_COLLECTIVE_POST:
    case DDP_FAULT_POINT_COLLECTIVE_WAIT:
    case DDP_FAULT_POINT_BUCKET_UNFLATTEN:
        return HARNESS_GRAMMAR_AT_BUCKET;
    case DDP_FAULT_POINT_USED_MAP:
        return job->job->find_unused_parameters ? HARNESS_GRAMMAR_AT_STEP : HARNESS_GRAMMAR_NOWHERE;
    case DDP_FAULT_POINT_BUFFER_SYNC:
        return job->has_buffers && job->job->broadcast_buffers ? HARNESS_GRAMMAR_AT_STEP
                                                               : HARNESS_GRAMMAR_NOWHERE;
    case DDP_FAULT_POINT_CHECKPOINT_WRITE:
    case DDP_FAULT_POINT_CHECKPOINT_FSYNC:
    case DDP_FAULT_POINT_CHECKPOINT_RENAME:
    case DDP_FAULT_POINT_CHECKPOINT_KEY:
        return job->job->checkpoint_every > 0 ? HARNESS_GRAMMAR_AT_CHECKPOINT
                                              : HARNESS_GRAMMAR_NOWHERE;
    case DDP_FAULT_POINT_TEARDOWN:
        return HARNESS_GRAMMAR_AT_END;
    /* Not drawn: data/epoch (only where data is used more than once), buffer/updated (running
     * statistics of branchy alone), collective/schedule (where a schedule is compiled depends on
     * what was before), message/recv (which comes first differs on proc), checkpoint/load (in a
     * restore run, which faults here do not have), and those of NCCL, MPI and cards. */
    default:
        break;
    }
    return HARNESS_GRAMMAR_NOWHERE;
}

bool harness_grammar_is_answered(const struct harness_grammar_job *job,
                                 const struct harness_fault *fault)
{
    const bool is_local = job->job->hook == HARNESS_HOOK_LOCAL_SGD;

    if (harness_grammar_is_plain(job->job)) {
        return true;
    }
    /* From local_sgd_start on buckets are not reduced. */
    if (is_local && harness_grammar_place(job, fault->point) == HARNESS_GRAMMAR_AT_BUCKET) {
        return false;
    }
    /* A step that is left out, since the loss's scale overflowed, updates nothing. */
    if (job->job->optimizer.loss_scale > 0 && (fault->point == DDP_FAULT_POINT_PARAM_UPDATED ||
                                               fault->point == DDP_FAULT_POINT_OPTIMIZER_STATE)) {
        return false;
    }
    switch (fault->action.kind) {
    case HARNESS_ACTION_NONE:
    case HARNESS_ACTION_DELAY:
    case HARNESS_ACTION_KILL:
    case HARNESS_ACTION_ABORT:
    case HARNESS_ACTION_EXIT:
    case HARNESS_ACTION_FAIL:
    case HARNESS_ACTION_STOP:
    case HARNESS_ACTION_ENV:
    case HARNESS_ACTION_LEAK_MEMORY:
    case HARNESS_ACTION_LEAK_FILE:
    case HARNESS_ACTION_NO_MEMORY:
        return true;
    case HARNESS_ACTION_HANG: /* whoever steps alone misses nobody for a while */
        return !is_local;
    default:
        return false;
    }
}
