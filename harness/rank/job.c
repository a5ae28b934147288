/* The plan's job in the reference's terms. Names of models and datasets are looked up where they
 * are built. */
#include <string.h>

#include "harness/plan/program.h"
#include "harness/rank/rank.h"

static void copy_optimizer(const struct harness_optimizer *from, struct ref_optimizer_config *out)
{
    static const enum ref_optimizer_kind kinds[HARNESS_OPTIMIZER_COUNT] = {
        [HARNESS_OPTIMIZER_SGD] = REF_OPTIMIZER_SGD,
        [HARNESS_OPTIMIZER_ADAMW] = REF_OPTIMIZER_ADAMW};

    ref_optimizer_defaults(out, kinds[from->kind]);
    out->lr = (float)from->lr;
    out->momentum = (float)from->momentum;
    out->dampening = (float)from->dampening;
    out->nesterov = from->nesterov;
    out->weight_decay = (float)from->weight_decay;
    out->beta1 = (float)from->beta1;
    out->beta2 = (float)from->beta2;
    out->eps = (float)from->eps;
}

ddp_status harness_rank_job(const struct harness_plan *plan, struct ref_job *out,
                            struct ddp_err *err)
{
    const struct harness_job *from = &plan->job;

    memset(out, 0, sizeof *out);
    if (from->widths.count > REF_LAYERS_MAX + 1) {
        return ddp_err_set(err, DDP_E_INVALID, "%zu widths; at most %d", from->widths.count,
                           REF_LAYERS_MAX + 1);
    }
    out->model.name = from->model;
    out->model.width_count = from->widths.count;
    for (size_t i = 0; i < from->widths.count; i++) {
        out->model.width[i] = from->widths.items[i];
    }
    out->model.branch = from->branch;
    out->model.skip_rank = from->skip_rank;
    out->model.heads = from->heads;
    out->model.experts = from->experts;
    out->model.initial = from->initial;
    out->model.precision = harness_mixed_params(from);
    out->model.statistics = harness_mixed_buffers(from);
    out->model.seed = from->seed;
    out->data = (struct ref_data_config){.name = from->data,
                                         .sample_count = from->samples,
                                         .feature_count = from->features,
                                         .path = from->data_file,
                                         .label_path = from->label_file,
                                         .seed = from->seed};
    copy_optimizer(&from->optimizer, &out->optimizer);
    out->shard = (struct ref_shard_config){
        .sample_count = from->samples,
        .world_size = from->ranks,
        .is_shuffled = from->is_shuffled,
        .is_one_epoch = from->shard_sizes != NULL,
        .drop_last = from->drop_last,
        .start = {from->start_index, from->start_epoch, (size_t)from->start_used},
        .seed = from->seed,
        .batch_rows = from->batch_per_rank,
        .shard_size = from->shard_sizes};
    out->micro_batches = from->micro_batches == 0 ? 1 : from->micro_batches;
    out->steps = from->steps;
    return DDP_OK;
}

size_t harness_rank_sample_count(const struct harness_plan *plan)
{
    struct ref_data_sizes sizes = {0};
    struct ref_job job;

    return harness_rank_job(plan, &job, NULL) == DDP_OK &&
                   ref_data_describe(&job.data, &sizes, NULL) == DDP_OK
               ? sizes.sample_count
               : 0;
}
