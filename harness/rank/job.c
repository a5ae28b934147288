/* The plan's job in the reference's terms: names looked up, numbers copied. */
#include <string.h>

#include "harness/rank/rank.h"

static ddp_status check_name(const char *what, const char *name, const char *const *known,
                             struct ddp_err *err)
{
    struct ddp_text list;
    ddp_status status;

    for (size_t i = 0; known[i] != NULL; i++) {
        if (strcmp(name, known[i]) == 0) {
            return DDP_OK;
        }
    }
    ddp_text_init(&list, ddp_mem_system());
    for (size_t i = 0; known[i] != NULL; i++) {
        ddp_text_add(&list, "%s%s", i == 0 ? "" : ", ", known[i]);
    }
    status = ddp_err_set(err, DDP_E_NOT_FOUND, "there is no %s \"%s\"; known: %s", what, name,
                         ddp_text_str(&list));
    ddp_text_fini(&list);
    return status;
}

static void copy_optimizer(const struct harness_job *from, enum ref_optimizer_kind kind,
                           struct ref_optimizer_config *out)
{
    ref_optimizer_defaults(out, kind);
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
    enum ref_optimizer_kind optimizer;

    memset(out, 0, sizeof *out);
    DDP_TRY(check_name("model", from->model, ref_model_names(), err));
    DDP_TRY(check_name("dataset", from->data, ref_data_names(), err));
    if (ref_branch_rule_parse(from->branch, &out->model.branch) != DDP_OK) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "there is no branch rule \"%s\"", from->branch);
    }
    if (ref_optimizer_kind_parse(from->optimizer, &optimizer) != DDP_OK) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "there is no optimizer \"%s\"; known: sgd, adamw",
                           from->optimizer);
    }
    if (from->width_count > REF_LAYERS_MAX + 1) {
        return ddp_err_set(err, DDP_E_INVALID, "%zu widths; at most %d", from->width_count,
                           REF_LAYERS_MAX + 1);
    }
    out->model.name = from->model;
    out->model.width_count = from->width_count;
    memcpy(out->model.width, from->width, from->width_count * sizeof out->model.width[0]);
    out->model.skip_rank = from->skip_rank;
    out->model.seed = from->seed;
    out->data = (struct ref_data_config){.name = from->data,
                                         .sample_count = from->samples,
                                         .feature_count = from->features,
                                         .seed = from->seed};
    copy_optimizer(from, optimizer, &out->optimizer);
    out->shard = (struct ref_shard_config){.sample_count = from->samples,
                                           .world_size = from->ranks,
                                           .is_shuffled = from->is_shuffled,
                                           .is_one_epoch = from->shard_sizes != NULL,
                                           .seed = from->seed,
                                           .batch_rows = from->batch_per_rank,
                                           .shard_size = from->shard_sizes};
    out->micro_batches = from->micro_batches == 0 ? 1 : from->micro_batches;
    out->steps = from->steps;
    return DDP_OK;
}
