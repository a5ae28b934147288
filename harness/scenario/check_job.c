/* What keys of `job` mean together. */
#include <string.h>

#include "harness/scenario/reader.h"
#include "reference/model.h"

ddp_status harness_scenario_check_optimizer(const struct harness_reader *reader,
                                            const struct harness_yaml_node *map, void *kept)
{
    struct harness_optimizer *optimizer = kept;
    const struct harness_yaml_node *nesterov =
        harness_reader_node(map, HARNESS_ROW_OPTIMIZER_nesterov);
    bool is_plain =
        optimizer->momentum <= 0.0 || optimizer->dampening > 0.0 || optimizer->dampening < 0.0;

    if (harness_reader_node(map, HARNESS_ROW_OPTIMIZER_weight_decay) == NULL) {
        optimizer->weight_decay = optimizer->kind == HARNESS_OPTIMIZER_ADAMW ? 1e-2 : 0.0;
    }
    if (optimizer->kind == HARNESS_OPTIMIZER_SGD && optimizer->nesterov && is_plain) {
        return harness_yaml_fail(nesterov, reader->err, DDP_E_INVALID,
                                 "nesterov needs a momentum above 0 and a dampening of 0");
    }
    return DDP_OK;
}

static ddp_status check_widths(const struct harness_reader *reader,
                               const struct harness_yaml_node *map, const struct harness_job *job)
{
    const struct harness_yaml_node *node = harness_reader_node(map, HARNESS_ROW_JOB_widths);

    if (node == NULL || (job->widths.count >= 2 && job->widths.count <= REF_LAYERS_MAX + 1)) {
        return DDP_OK;
    }
    return harness_yaml_fail(node, reader->err, DDP_E_INVALID,
                             "widths wants from 2 to %d entries, input and output included",
                             REF_LAYERS_MAX + 1);
}

/* NCCL moves the memory of GPUs only, the core's schedules and MPI that of the host only. */
static ddp_status check_device(const struct harness_reader *reader,
                               const struct harness_yaml_node *map, const struct harness_job *job)
{
    const struct harness_yaml_node *node = harness_reader_node(map, HARNESS_ROW_JOB_collective);

    if (job->device == harness_engine_traits(job->collective.engine)->device) {
        return DDP_OK;
    }
    return harness_yaml_fail(node != NULL ? node : map, reader->err, DDP_E_INVALID,
                             job->device == HARNESS_DEVICE_CUDA
                                 ? "device cuda needs collective nccl or nccl/<algorithm>, not %s"
                                 : "collective %s needs device cuda",
                             harness_collective_name(job->collective));
}

/* Micro-batches until a rank's own shard is used up, or the job's end if that comes first. */
static uint64_t passes_of(const struct harness_job *job, uint32_t rank)
{
    uint64_t passes = (uint64_t)job->steps * job->micro_batches;
    uint64_t own =
        (job->shard_sizes[rank] + job->batch_per_rank[rank] - 1) / job->batch_per_rank[rank];

    return own < passes ? own : passes;
}

/* A rank that ended under join mirrors reductions, not checkpoints. */
static ddp_status check_join(const struct harness_reader *reader,
                             const struct harness_yaml_node *map, const struct harness_job *job)
{
    if (!job->join.is_set || job->checkpoint_every == 0 || job->shard_sizes == NULL) {
        return DDP_OK;
    }
    for (uint32_t rank = 1; rank < job->ranks; rank++) {
        if (passes_of(job, rank) != passes_of(job, 0)) {
            return harness_yaml_fail(harness_reader_node(map, HARNESS_ROW_JOB_join), reader->err,
                                     DDP_E_INVALID,
                                     "ranks end at different times, and an ended rank takes no "
                                     "part in a checkpoint; remove checkpoint_every");
        }
    }
    return DDP_OK;
}

ddp_status harness_scenario_check_job(const struct harness_reader *reader,
                                      const struct harness_yaml_node *map, void *kept)
{
    DDP_TRY(check_widths(reader, map, kept));
    DDP_TRY(check_device(reader, map, kept));
    return check_join(reader, map, kept);
}
