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

ddp_status harness_grammar_params(struct ddp_mem *mem, const struct harness_job *job,
                                  const struct ddp_param **out, size_t *out_count,
                                  struct ddp_err *err)
{
    struct ref_model_tables tables;

    DDP_TRY(describe(mem, job, &tables, err));
    *out = tables.params;
    *out_count = tables.param_count;
    return DDP_OK;
}

const struct harness_buckets *harness_grammar_buckets(const struct harness_grammar_job *job,
                                                      int64_t step)
{
    return harness_program_buckets(&job->program, (int32_t)step);
}

bool harness_grammar_is_row(const struct harness_job *job)
{
    return strcmp(job->model, "mlp") == 0 || strcmp(job->model, "exact_linear") == 0 ||
           strcmp(job->model, "module_child") == 0;
}

/* The last layer's parameters become ready first, each bias before its weight: the table backwards.
 * A rank without a batch takes them forwards. NULL: forwards, or they are not a row of layers. */
static const uint32_t *ready_order(struct ddp_mem *mem, const struct harness_job *job,
                                   size_t param_count)
{
    uint32_t *order = NULL;

    if (harness_grammar_is_row(job) && harness_grammar_passes(job, 0) >= job->micro_batches) {
        order = ddp_mem_array(mem, param_count, sizeof *order);
    }
    for (size_t i = 0; order != NULL && i < param_count; i++) {
        order[i] = (uint32_t)(param_count - 1 - i);
    }
    return order;
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
    model = (struct harness_tables){.params = tables.params,
                                    .param_count = tables.param_count,
                                    .buffers = tables.buffers,
                                    .buffer_count = tables.buffer_count,
                                    .ready_order = ready_order(mem, job, tables.param_count),
                                    .batch_norms = tables.batch_norms,
                                    .batch_norm_count = tables.batch_norm_count};
    out->uses_all = job->branch == REF_BRANCH_BOTH && strcmp(job->model, "moe") != 0;
    /* A layer is a weight and a bias, in the models that are a row of layers. */
    out->layer_count = harness_grammar_is_row(job) ? (uint32_t)(tables.param_count / 2) : 1;
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
