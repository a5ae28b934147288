/* First stage: make the job's tables and the program from the plan. */
#include <inttypes.h>
#include <string.h>

#include "harness/cell/stage.h"
#include "harness/trace/taken.h"

/* Micro-batches of each rank; with join, the number of operations depends on them. */
static ddp_status count_batches(struct harness_cell *cell)
{
    uint32_t ranks = cell->plan.job.ranks;

    cell->batch_counts = NULL;
    if (!cell->plan.job.join.is_set) {
        return DDP_OK;
    }
    cell->batch_counts = ddp_mem_array(cell->mem, ranks, sizeof cell->batch_counts[0]);
    if (cell->batch_counts == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        cell->batch_counts[rank] = ref_shard_batch_count(&cell->job.shard, rank);
    }
    return DDP_OK;
}

static ddp_status build(struct harness_cell *cell, const uint64_t *batch_counts,
                        struct harness_program *out)
{
    return harness_program_build(cell->mem, &cell->plan, &cell->model, batch_counts, out);
}

ddp_status harness_stage_prepare(struct harness_cell *cell, struct ddp_err *err)
{
    struct ref_model_tables tables;
    struct ref_data data;
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
    cell->model = (struct harness_tables){
        tables.params, tables.param_count, tables.buffers,         tables.buffer_count, NULL,
        NULL,          tables.batch_norms, tables.batch_norm_count};
    DDP_TRY(harness_stage_ready_order(cell, err));
    DDP_TRY(count_batches(cell));
    status = build(cell, cell->batch_counts, &cell->program);
    cell->bound = cell->program;
    return status == DDP_OK
               ? DDP_OK
               : ddp_err_set(err, status, "cannot work out the program of %s", cell->plan.id);
}

/* Micro-batches that ranks took, where they should have taken others; NULL if not. */
static ddp_status count_taken(struct harness_cell *cell, const struct harness_index *index,
                              uint64_t **out)
{
    const uint32_t ranks = cell->plan.job.ranks;
    const uint64_t micro_batches = cell->job.micro_batches;
    const uint64_t planned = (uint64_t)cell->plan.job.steps * micro_batches;
    uint64_t *taken;
    bool is_other = false;

    *out = NULL;
    if (cell->batch_counts == NULL) {
        return DDP_OK;
    }
    taken = ddp_mem_array(cell->mem, ranks, sizeof *taken);
    if (taken == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t rank = 0; rank < ranks && rank < index->world_size; rank++) {
        uint64_t due = cell->batch_counts[rank] < planned ? cell->batch_counts[rank] : planned;

        taken[rank] = harness_taken_count(index, rank, cell->restored_step * micro_batches,
                                          micro_batches, due);
        is_other = is_other || taken[rank] != due;
    }
    *out = is_other ? taken : NULL;
    return DDP_OK;
}

ddp_status harness_stage_bind(struct harness_cell *cell)
{
    struct harness_index index;
    uint64_t *taken = NULL;
    struct harness_buckets announced = {NULL, 0};
    ddp_status status;

    if (cell->batch_counts == NULL && cell->program.rebuilt.count == 0) {
        return DDP_OK;
    }
    DDP_TRY(harness_index_build(cell->mem, &cell->trace, &index));
    status = count_taken(cell, &index, &taken);
    if (status == DDP_OK) {
        status = harness_stage_announced(cell, &index, &announced);
    }
    harness_index_fini(&index);
    if (status != DDP_OK || (taken == NULL && announced.count == 0)) {
        return status;
    }
    cell->model.announced = announced.count > 0 ? &announced : NULL;
    status = build(cell, taken != NULL ? taken : cell->batch_counts, &cell->bound);
    cell->model.announced = NULL;
    cell->bound.hash = cell->program.hash; /* the one that ranks were given */
    return status;
}
