/* Purpose: on a card, a wait that is left out and orders nothing is refused.
 * Idea: one stream runs a group's collectives in their order. Before a pass uses any bucket, the
 * host has waited for all of them: the wait for a later one holds for an earlier one, too. Only
 * who leaves out the last wait of a pass may use what is not there yet. */
#include "harness/plan/bucket.h"
#include "harness/scenario/reader.h"
#include "reference/data.h"
#include "reference/model.h"

/* Of a model that can be built. */
static ddp_status count_buckets(const struct harness_job *job, size_t *out, struct ddp_err *err)
{
    const struct ref_data_config config = {.name = job->data,
                                           .sample_count = job->samples,
                                           .feature_count = job->features,
                                           .path = job->data_file,
                                           .label_path = job->label_file};
    struct ref_model_config model = {.name = job->model,
                                     .width_count = job->widths.count,
                                     .heads = job->heads,
                                     .experts = job->experts};
    struct ddp_mem *mem = ddp_mem_system();
    struct ref_model_tables tables = {0};
    struct harness_buckets first = {0};
    struct harness_buckets rebuilt = {0};
    struct ref_data_sizes data;
    ddp_status status;

    DDP_TRY(ref_data_describe(&config, &data, err));
    for (size_t i = 0; i < job->widths.count; i++) {
        model.width[i] = job->widths.items[i];
    }
    ref_model_defaults(&model, data.feature_count,
                       data.class_count > 0 ? data.class_count : data.target_count);
    DDP_TRY(ref_model_describe(mem, &model, &tables, err));
    const struct harness_tables of_model = {.params = tables.params,
                                            .param_count = tables.param_count};

    status = harness_bucket_assign_job(mem, job, &of_model, &first, &rebuilt);
    *out = first.count;
    harness_bucket_free(mem, first.items, first.count);
    harness_bucket_free(mem, rebuilt.items, rebuilt.count);
    ddp_mem_free(mem, tables.params);
    return status;
}

static bool is_wait_left_out(const struct harness_fault *fault)
{
    return fault->point == DDP_FAULT_POINT_COLLECTIVE_WAIT &&
           fault->action.kind == HARNESS_ACTION_SKIP && fault->at.bucket >= 0;
}

ddp_status harness_scenario_check_waits(const struct harness_reader *reader,
                                        const struct harness_yaml_node *top,
                                        const struct harness_plan *plan)
{
    const struct harness_yaml_node *faults = harness_reader_node(top, HARNESS_ROW_TOP_faults);
    size_t bucket_count = 0;

    for (uint32_t i = 0; i < plan->fault_count && harness_plan_is_cuda(plan); i++) {
        const int64_t bucket = plan->faults[i].at.bucket;

        if (!is_wait_left_out(&plan->faults[i])) {
            continue;
        }
        if (bucket_count == 0) {
            DDP_TRY(count_buckets(&plan->job, &bucket_count, reader->err));
        }
        if (plan->job.hook != HARNESS_HOOK_NONE || plan->job.find_unused_parameters) {
            return harness_yaml_fail(
                faults, reader->err, DDP_E_INVALID,
                "faults.%u leaves out a wait, and on a card a later one of "
                "the pass holds for it: leave out %s",
                i, plan->job.hook != HARNESS_HOOK_NONE ? "hook" : "find_unused_parameters");
        }
        if ((uint64_t)bucket + 1 < bucket_count) {
            return harness_yaml_fail(faults, reader->err, DDP_E_INVALID,
                                     "faults.%u leaves out the wait for bucket %lld, and on a card "
                                     "that for bucket %zu holds for it: use bucket %zu, the last",
                                     i, (long long)bucket, bucket_count - 1, bucket_count - 1);
        }
    }
    return DDP_OK;
}
