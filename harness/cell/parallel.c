/* Training without ranks, for timing: one device, or DataParallel's threads. And what buckets a
 * job's parameters lie in. */
#include <string.h>

#include "ddpcore/cuda/cuda.h"
#include "harness/cell/cell.h"
#include "harness/plan/bucket.h"
#include "harness/rank/rank.h"
#include "reference/data_parallel.h"

/* Devices of one process, each with memory of its own. */
struct devices {
    struct ddp_mem_pool *pools[HARNESS_PACE_DEVICES_MAX];
    struct ddp_device *items[HARNESS_PACE_DEVICES_MAX];
    uint32_t count;
};

static ddp_status open_devices(const struct harness_plan *plan, uint32_t count, struct devices *out,
                               struct ddp_err *err)
{
    DDP_TRY(ddp_blas_open(NULL, err));
    for (uint32_t d = 0; d < count; d++) {
        const struct ddp_device_cuda_config card = {.ordinal = (int32_t)d};
        struct ddp_mem *mem;

        DDP_TRY(ddp_mem_pool_create(&out->pools[d]));
        out->count++;
        mem = ddp_mem_pool_mem(out->pools[d]);
        DDP_TRY(harness_plan_is_cuda(plan) ? ddp_device_cuda_create(mem, &card, &out->items[d], err)
                                           : ddp_device_cpu_create(mem, &out->items[d]));
    }
    return DDP_OK;
}

static void close_devices(struct devices *devices)
{
    for (uint32_t d = 0; d < devices->count; d++) {
        if (devices->items[d] != NULL) {
            devices->items[d]->ops->destroy(devices->items[d]);
        }
        ddp_mem_pool_destroy(devices->pools[d]);
    }
}

/* These are done by ranks' training loops, not by the reference's trainers. */
static ddp_status check(const struct harness_plan *plan, struct ddp_err *err)
{
    const struct harness_optimizer *optimizer = &plan->job.optimizer;

    if (plan->job.ranks > HARNESS_PACE_DEVICES_MAX) {
        return ddp_err_set(err, DDP_E_INVALID, "at most %d devices in one process, not %u",
                           HARNESS_PACE_DEVICES_MAX, plan->job.ranks);
    }
    if (optimizer->clip_norm > 0 || optimizer->loss_scale > 0 || optimizer->warmup_steps > 0 ||
        optimizer->lr_scaling != HARNESS_LR_SCALING_NONE ||
        optimizer->lr_decay != HARNESS_LR_DECAY_NONE || plan->job.join.is_set ||
        plan->job.mixed_precision.is_set) {
        return ddp_err_set(
            err, DDP_E_UNSUPPORTED,
            "only ddp trains with clip_norm, loss_scale, warmup_steps, lr_scaling, lr_decay, join "
            "or mixed_precision; leave them out to compare");
    }
    return DDP_OK;
}

static ddp_status run_single(struct devices *devices, const struct ref_job *job,
                             struct harness_pace *out, struct ddp_err *err)
{
    struct ddp_clock *clock = ddp_clock_monotonic();
    struct ref_trainer *trainer = NULL;
    uint64_t begun_ns;
    ddp_status status = ref_trainer_create(devices->items[0], job, &trainer, err);

    if (status != DDP_OK) {
        return status;
    }
    begun_ns = ddp_clock_now_ns(clock);
    for (uint32_t step = 0; step < job->steps && status == DDP_OK; step++) {
        status = ref_trainer_global_step(trainer, step, &out->loss);
    }
    out->ns = ddp_clock_now_ns(clock) - begun_ns;
    ref_trainer_destroy(trainer);
    return status;
}

static ddp_status run_parallel(struct devices *devices, const struct ref_job *job,
                               struct harness_pace *out, struct ddp_err *err)
{
    struct ddp_clock *clock = ddp_clock_monotonic();
    struct ref_data_parallel *parallel = NULL;
    uint64_t begun_ns;
    ddp_status status =
        ref_data_parallel_create(devices->items, devices->count, job, &parallel, err);

    if (status != DDP_OK) {
        return status;
    }
    for (uint32_t d = 0; d < devices->count; d++) {
        out->device_bytes[d] = ref_data_parallel_bytes(parallel, d);
    }
    out->device_count = devices->count;
    begun_ns = ddp_clock_now_ns(clock);
    for (uint32_t step = 0; step < job->steps && status == DDP_OK; step++) {
        status = ref_data_parallel_step(parallel, step, &out->loss);
    }
    out->ns = ddp_clock_now_ns(clock) - begun_ns;
    ref_data_parallel_destroy(parallel);
    return status;
}

ddp_status harness_cell_pace(const struct harness_plan *plan, bool is_single,
                             struct harness_pace *out, struct ddp_err *err)
{
    struct devices devices = {.count = 0};
    struct ref_job job;
    ddp_status status;

    memset(out, 0, sizeof *out);
    DDP_TRY(check(plan, err));
    DDP_TRY(harness_rank_job(plan, &job, err));
    status = open_devices(plan, is_single ? 1 : plan->job.ranks, &devices, err);
    if (status == DDP_OK) {
        status = is_single ? run_single(&devices, &job, out, err)
                           : run_parallel(&devices, &job, out, err);
    }
    close_devices(&devices);
    if (status == DDP_E_STATE) {
        return ddp_err_set(err, status, "the data ends before %u steps are done", job.steps);
    }
    return status;
}

static ddp_status describe(struct ddp_mem *mem, const struct harness_plan *plan,
                           struct ref_model_tables *out, struct ddp_err *err)
{
    struct ref_job job;
    struct ref_data_sizes data;

    DDP_TRY(harness_rank_job(plan, &job, err));
    DDP_TRY(ref_data_describe(&job.data, &data, err));
    ref_model_defaults(&job.model, data.feature_count,
                       data.class_count > 0 ? data.class_count : data.target_count);
    return ref_model_describe(mem, &job.model, out, err);
}

ddp_status harness_cell_print_buckets(const struct harness_plan *plan, struct ddp_text *out,
                                      struct ddp_err *err)
{
    struct ddp_mem *mem = ddp_mem_system();
    struct ref_model_tables tables = {0};
    struct harness_bucket *buckets = NULL;
    size_t count = 0, first_bytes, bytes;
    ddp_status status;

    DDP_TRY(describe(mem, plan, &tables, err));
    harness_bucket_caps(&plan->job, &first_bytes, &bytes);
    status = harness_bucket_assign(mem, tables.params, tables.param_count, first_bytes, bytes,
                                   &buckets, &count);
    for (size_t b = 0; b < count && status == DDP_OK; b++) {
        ddp_text_add(out, "bucket %zu: %s, %zu elements, %zu bytes:", b,
                     ddp_dtype_name(buckets[b].dtype), buckets[b].elem_count,
                     buckets[b].elem_count * ddp_dtype_size_bytes(buckets[b].dtype));
        for (size_t p = 0; p < buckets[b].param_count; p++) {
            ddp_text_add(out, " %s", tables.params[buckets[b].params[p]].name);
        }
        ddp_text_add(out, "\n");
    }
    harness_bucket_free(mem, buckets, count);
    ddp_mem_free(mem, tables.params);
    return status;
}
