/* First stage: make the job's tables and the program from the plan. */
#include <inttypes.h>
#include <string.h>

#include "harness/cell/stage.h"

/* Micro-batches of each rank; with join, the number of operations depends on them. */
static ddp_status batch_counts(struct harness_cell *cell, uint64_t **out)
{
    uint32_t ranks = cell->plan.job.ranks;

    *out = NULL;
    if (!cell->plan.job.join.is_set) {
        return DDP_OK;
    }
    *out = ddp_mem_array(cell->mem, ranks, sizeof **out);
    if (*out == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        (*out)[rank] = ref_shard_batch_count(&cell->job.shard, rank);
    }
    return DDP_OK;
}

ddp_status harness_stage_prepare(struct harness_cell *cell, struct ddp_err *err)
{
    struct ref_model_tables tables;
    struct ref_data data;
    uint64_t *counts;
    size_t buffer_elems = 0;
    ddp_status status;

    DDP_TRY(harness_rank_job(&cell->plan, &cell->job, err));
    DDP_TRY(ref_data_open(cell->mem, &cell->job.data, &data, err));
    cell->job.shard.sample_count = data.sample_count;
    ref_model_defaults(&cell->job.model, data.feature_count,
                       data.labels != NULL ? data.class_count : data.target_count);
    ref_data_close(&data);
    DDP_TRY(ref_model_describe(cell->mem, &cell->job.model, &tables, err));
    cell->params = tables.params;
    cell->param_count = tables.param_count;
    for (size_t i = 0; i < tables.buffer_count; i++) {
        buffer_elems += tables.buffers[i].elem_count;
    }
    DDP_TRY(batch_counts(cell, &counts));
    status = harness_program_build(cell->mem, &cell->plan, cell->params, cell->param_count,
                                   buffer_elems, counts, &cell->program);
    return status == DDP_OK
               ? DDP_OK
               : ddp_err_set(err, status, "cannot work out the program of %s", cell->plan.id);
}
