/* Purpose: build and take down an emulation: tables, room for values, the initial state.
 * Idea: all tensors of a kind lie in one block with offsets, so that hashing and arithmetic are
 * plain loops. What is allocated lives as long as the emulation. step.c has the steps. */
#include "harness/emulation/emulation.h"

#include <stdio.h>
#include <string.h>

#include "harness/emulation/round.h"
#include "harness/sums/arith.h"

/* --- tables ----------------------------------------------------------------------------------- */

static ddp_status reserve(struct harness_emulation *e, struct harness_layout *layout, size_t count)
{
    layout->items = harness_emulation_alloc(e, count, sizeof(*layout->items));
    return layout->items == NULL ? DDP_E_NOMEM : DDP_OK;
}

static ddp_status make_model_tables(struct harness_emulation *e, struct ref_trainer *trainer)
{
    size_t buffer_count = 0;
    const struct ddp_buffer *buffers = ref_model_buffers(ref_trainer_model(trainer), &buffer_count);

    DDP_TRY(reserve(e, &e->params, e->input->param_count));
    DDP_TRY(reserve(e, &e->grads, e->input->param_count));
    for (size_t p = 0; p < e->input->param_count; p++) {
        const struct ddp_param *param = &e->input->params[p];

        harness_layout_add(&e->params, param->name, param->dtype, param->elem_count);
        harness_layout_add(&e->grads, param->name,
                           e->input->plan->job.mixed_precision.is_set
                               ? harness_mixed_params(&e->input->plan->job)
                               : param->dtype,
                           param->elem_count);
    }
    DDP_TRY(reserve(e, &e->buffers, buffer_count));
    for (size_t b = 0; b < buffer_count; b++) {
        harness_layout_add(&e->buffers, buffers[b].name, buffers[b].dtype, buffers[b].elem_count);
    }
    return DDP_OK;
}

static ddp_status allocate_values(struct harness_emulation *e)
{
    struct harness_step_values *now = &e->now;
    const size_t bucket_max = harness_program_bucket_max(e->input->program);
    const size_t bucket_bytes = harness_emulation_bucket_bytes(e);

    now->grad = harness_emulation_alloc(e, e->world, e->grads.size_bytes);
    now->has_grad = harness_emulation_alloc(e, e->world * e->params.count, sizeof(bool));
    e->graph = harness_emulation_alloc(e, e->world * e->params.count, sizeof(bool));
    now->is_used = harness_emulation_alloc(e, e->params.count, sizeof(bool));
    now->used_map = harness_emulation_alloc(e, e->params.count, sizeof(*now->used_map));
    now->bucket_in = harness_emulation_alloc(e, e->world, bucket_bytes);
    now->bucket_out = harness_emulation_alloc(e, e->world, bucket_bytes);
    now->expected_out = harness_emulation_alloc(e, 1, bucket_bytes);
    now->buffer = harness_emulation_alloc(e, e->world, e->buffers.size_bytes);
    now->is_buffer_known = harness_emulation_alloc(e, e->world, sizeof(bool));
    now->handed = harness_emulation_alloc(e, 1, e->buffers.size_bytes);
    now->rows = harness_emulation_alloc(e, e->world, sizeof(*now->rows));
    now->loss = harness_emulation_alloc(e, e->world, sizeof(*now->loss));
    now->micro_loss = harness_emulation_alloc(e, (size_t)e->world * e->input->job->micro_batches,
                                              sizeof(*now->micro_loss));
    e->buffer = harness_emulation_alloc(e, e->world, e->buffers.size_bytes);
    e->is_grad_known = harness_emulation_alloc(e, e->world * e->params.count, sizeof(bool));
    e->is_in_known = harness_emulation_alloc(e, e->world * bucket_max, sizeof(bool));
    e->is_out_known = harness_emulation_alloc(e, e->world * bucket_max, sizeof(bool));
    DDP_TRY(harness_recorded_create(e));
    DDP_TRY(harness_camps_create(e));
    DDP_TRY(harness_scaler_create(e));
    DDP_TRY(harness_local_create(e));
    DDP_TRY(harness_powersgd_create(e));
    return e->is_out_of_memory ? DDP_E_NOMEM : DDP_OK;
}

struct ddp_files *harness_emulation_files(const struct harness_emulation_input *input)
{
    return input->files != NULL ? input->files : ddp_files_system();
}

/* --- creation --------------------------------------------------------------------------------- */

static ddp_status name_folder(const char *run_dir, const char *name, char out[4096],
                              struct ddp_err *err)
{
    return (size_t)snprintf(out, 4096, "%s/%s", run_dir, name) < 4096
               ? DDP_OK
               : ddp_err_set(err, DDP_E_OVERFLOW, "%s: path too long", run_dir);
}

static ddp_status load_orders(struct harness_emulation *e, struct ddp_err *err)
{
    struct ddp_files *files = harness_emulation_files(e->input);
    char folder[4096];

    harness_schedules_init(&e->schedules, e->mem);
    harness_schedules_init(&e->first_schedules, e->mem);
    harness_trees_init(&e->trees, e->mem);
    if (e->input->run_dir == NULL) {
        return DDP_OK;
    }
    DDP_TRY(name_folder(e->input->run_dir, "schedules", folder, err));
    DDP_TRY(harness_schedules_load(&e->schedules, files, folder, err));
    /* Buckets that the restarted run does not have any more, or not yet. */
    if (e->input->first_run_dir != NULL && (e->input->program->rebuilt.count > 0 ||
                                            e->input->plan->job.hook == HARNESS_HOOK_LOCAL_SGD ||
                                            e->input->plan->job.hook == HARNESS_HOOK_POWERSGD)) {
        DDP_TRY(name_folder(e->input->first_run_dir, "schedules", folder, err));
        DDP_TRY(harness_schedules_load(&e->first_schedules, files, folder, err));
    }
    DDP_TRY(name_folder(e->input->run_dir, "trees", folder, err));
    return harness_trees_load(&e->trees, files, folder, e->world, err);
}

/* The trainer's model is the one that the tables describe: both were made of one plan. */
static void assert_model(const struct harness_emulation *e, struct ref_trainer *trainer)
{
    size_t count = 0;
    const struct ddp_param *params = ref_model_params(ref_trainer_model(trainer), &count);

    DDP_ASSERT(count == e->params.count);
    for (size_t p = 0; p < count; p++) {
        DDP_ASSERT(params[p].elem_count == e->params.items[p].elem_count);
        DDP_ASSERT(params[p].dtype == e->params.items[p].dtype);
    }
}

static ddp_status read_job(struct harness_emulation *e, const struct harness_trainer *first)
{
    const struct ref_optimizer *optimizer = ref_trainer_optimizer(first->trainer);

    for (uint32_t s = 0; s < e->slot_count; s++) {
        e->slot_name[s] = ref_optimizer_slot_name(optimizer, s);
    }
    e->shard = e->input->job->shard;
    DDP_ASSERT(e->shard.sample_count > 0);
    DDP_TRY(harness_emulation_count_batches(e));
    DDP_TRY(make_model_tables(e, first->trainer));
    assert_model(e, first->trainer);
    DDP_TRY(harness_emulation_make_bucketings(e));
    DDP_TRY(allocate_values(e));
    /* The trainer was just made: what it holds are the initial values. */
    DDP_TRY(harness_trainer_read(e, first, e->camps[0]->state.param, e->buffer));
    harness_emulation_share_buffers(e);
    return DDP_OK;
}

static ddp_status build(struct harness_emulation *e, struct ddp_err *err)
{
    struct harness_trainer *first = NULL;
    ddp_status status;

    DDP_TRY(harness_index_build(e->mem, e->input->trace, &e->index));
    DDP_TRY(load_orders(e, err));
    DDP_TRY(harness_task_stacks_create(e->mem, &e->stacks));
    DDP_TRY(harness_trainer_take(e, &first, err));
    status = read_job(e, first);
    harness_trainer_give(e, first);
    return status;
}

ddp_status harness_emulation_create(const struct harness_emulation_input *input,
                                    struct harness_emulation **out, struct ddp_err *err)
{
    struct harness_emulation *e = ddp_mem_array(input->mem, 1, sizeof(*e));
    ddp_status status;

    *out = NULL;
    if (e == NULL) {
        return DDP_E_NOMEM;
    }
    e->input = input;
    e->mem = input->mem;
    e->world = input->trace->world_size;
    e->slot_count = (uint32_t)harness_arith_slot_count(&input->job->optimizer);
    e->start_step = input->restored_step;
    e->end_step = e->start_step; /* until it is run */
    e->unknown_from = -1;
    e->wanted.mem = e->mem;
    e->index.mem = e->mem;
    e->schedules.mem = e->mem;
    e->first_schedules.mem = e->mem;
    e->trees.mem = e->mem;
    status = ddp_mem_pool_create(&e->sets);
    if (status != DDP_OK) {
        ddp_mem_free(input->mem, e);
        return status;
    }
    status = e->world == input->job->shard.world_size
                 ? build(e, err)
                 : ddp_err_set(err, DDP_E_INVALID, "the trace has %u ranks, the job %u", e->world,
                               input->job->shard.world_size);
    if (status != DDP_OK) {
        harness_emulation_destroy(e);
        return status;
    }
    *out = e;
    return DDP_OK;
}

void harness_emulation_destroy(struct harness_emulation *e)
{
    struct ddp_mem *mem = e->mem;

    harness_trainers_destroy(e);
    harness_task_stacks_destroy(e->stacks);
    for (size_t i = 0; i < e->block_count; i++) {
        ddp_mem_free(mem, e->blocks[i]);
    }
    ddp_mem_free(mem, e->blocks);
    ddp_mem_free(mem, e->camps);
    ddp_mem_free(mem, e->batches);
    ddp_mem_free(mem, e->compare.noted);
    ddp_mem_free(mem, e->compare.items);
    harness_hashes_fini(&e->wanted);
    harness_schedules_fini(&e->schedules);
    harness_schedules_fini(&e->first_schedules);
    harness_trees_fini(&e->trees);
    harness_index_fini(&e->index);
    ddp_mem_pool_destroy(e->sets);
    ddp_mem_free(mem, e);
}

ddp_status harness_emulation_want(struct harness_emulation *e, uint32_t steps_done)
{
    if (!e->snapshot.is_wanted) {
        harness_state_create(e, &e->snapshot.state);
        e->snapshot.buffer = harness_emulation_alloc(e, 1, e->buffers.size_bytes);
    }
    e->snapshot.is_wanted = true;
    e->snapshot.steps_done = steps_done;
    return e->is_out_of_memory ? DDP_E_NOMEM : DDP_OK;
}

bool harness_emulation_is_restore(const struct harness_emulation *e)
{
    return e->input->first_trace != NULL;
}

bool harness_emulation_is_branching(const struct harness_emulation *e)
{
    return ref_model_is_branching(&e->input->job->model);
}

bool harness_emulation_is_clean(const struct harness_emulation *e)
{
    const struct harness_handover *start = e->input->start;

    return e->compare.count == 0 && e->batch_count == 0 &&
           (start == NULL || !start->is_taken || start->is_clean);
}
