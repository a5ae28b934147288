/* First stage: from a plan to tables and program. */
#include <inttypes.h>
#include <string.h>

#include "harness/cell/stage.h"

static const struct ddp_param *model_tables(struct harness_cell *cell, size_t *out_buffer_elems)
{
    size_t buffer_count;
    const struct ddp_buffer *buffers = ref_model_buffers(cell->model, &buffer_count);

    *out_buffer_elems = 0;
    for (size_t i = 0; i < buffer_count; i++) {
        *out_buffer_elems += buffers[i].elem_count;
    }
    return ref_model_params(cell->model, &cell->param_count);
}

/* Micro-batches of each rank, which fix how many operations a joining job posts. */
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
    struct ref_data data;
    uint64_t *counts;
    size_t buffer_elems;
    ddp_status status;

    DDP_TRY(harness_rank_job(&cell->plan, &cell->job, err));
    if (cell->device == NULL) {
        DDP_TRY(ddp_device_cpu_create(cell->mem, &cell->device));
    }
    DDP_TRY(ref_data_open(cell->mem, &cell->job.data, &data, err));
    cell->job.shard.sample_count = data.sample_count;
    ref_model_defaults(&cell->job.model, data.feature_count,
                       data.labels != NULL ? data.class_count : data.target_count);
    ref_data_close(&data);
    DDP_TRY(ref_model_create(cell->device, &cell->job.model, 1, &cell->model, err));
    cell->params = model_tables(cell, &buffer_elems);
    DDP_TRY(batch_counts(cell, &counts));
    status = harness_program_build(cell->mem, &cell->plan, cell->params, cell->param_count,
                                   buffer_elems, counts, &cell->program);
    return status == DDP_OK
               ? DDP_OK
               : ddp_err_set(err, status, "cannot work out the program of %s", cell->plan.id);
}
