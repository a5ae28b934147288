/* Purpose: build and take down an emulation: tables, buffers, trainer, the initial state.
 * Idea: all tensors of a kind lie in one block with offsets, so that hashing and arithmetic are
 * plain loops. The steps themselves are in step.c. */
#include "harness/emulation/emulation.h"

#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/emulation/state.h"
#include "harness/sums/arith.h"

static ddp_status allocate_tables(struct harness_emulation *e)
{
    e->param_first = ddp_mem_array(e->mem, e->param_count, sizeof(size_t));
    e->param_salt = ddp_mem_array(e->mem, e->param_count, sizeof(uint64_t));
    e->bucket_of = ddp_mem_array(e->mem, e->param_count, sizeof(uint32_t));
    e->bucket_first = ddp_mem_array(e->mem, e->bucket_count, sizeof(size_t));
    e->bucket_salt = ddp_mem_array(e->mem, e->bucket_count, sizeof(uint64_t));
    if (e->param_first == NULL || e->param_salt == NULL || e->bucket_of == NULL ||
        e->bucket_first == NULL || e->bucket_salt == NULL) {
        return DDP_E_NOMEM;
    }
    return DDP_OK;
}

static ddp_status make_tables(struct harness_emulation *e)
{
    const struct harness_program *program = e->input->program;
    char name[32];

    DDP_TRY(allocate_tables(e));
    for (size_t p = 0; p < e->param_count; p++) {
        e->param_first[p] = e->elem_total;
        e->elem_total += e->input->params[p].elem_count;
        e->param_salt[p] = ddp_hash_text(e->input->params[p].name);
    }
    for (size_t b = 0; b < e->bucket_count; b++) {
        const struct harness_bucket *bucket = &program->buckets[b];

        e->bucket_first[b] = e->bucket_total;
        e->bucket_total += bucket->elem_count;
        (void)snprintf(name, sizeof(name), "%s/%zu", ddp_coll_role_name(DDP_ROLE_BUCKET), b);
        e->bucket_salt[b] = ddp_hash_text(name);
        for (uint32_t i = 0; i < bucket->param_count; i++) {
            e->bucket_of[bucket->params[i]] = (uint32_t)b;
        }
    }
    return DDP_OK;
}

static ddp_status allocate_values(struct harness_emulation *e)
{
    e->grad = ddp_mem_array(e->mem, e->world * e->elem_total, sizeof(float));
    e->is_grad_defined = ddp_mem_array(e->mem, e->world * e->param_count, sizeof(bool));
    e->is_used = ddp_mem_array(e->mem, e->param_count, sizeof(bool));
    e->bucket_in = ddp_mem_array(e->mem, e->world * e->bucket_total, sizeof(float));
    e->bucket_in_before = ddp_mem_array(e->mem, e->world * e->bucket_total, sizeof(float));
    e->bucket_out = ddp_mem_array(e->mem, e->world * e->bucket_total, sizeof(float));
    e->average = ddp_mem_array(e->mem, e->elem_total, sizeof(float));
    e->rows = ddp_mem_array(e->mem, e->world, sizeof(size_t));
    e->loss = ddp_mem_array(e->mem, e->world, sizeof(float));
    if (e->grad == NULL || e->is_grad_defined == NULL || e->is_used == NULL ||
        e->bucket_in == NULL || e->bucket_in_before == NULL || e->bucket_out == NULL ||
        e->average == NULL || e->rows == NULL || e->loss == NULL) {
        return DDP_E_NOMEM;
    }
    return harness_state_create(e, &e->state);
}

ddp_status harness_state_create(const struct harness_emulation *e, struct harness_state *out)
{
    *out = (struct harness_state){0};
    out->param = ddp_mem_array(e->mem, e->elem_total, sizeof(float));
    out->taken = ddp_mem_array(e->mem, e->param_count, sizeof(uint64_t));
    out->buffer = ddp_mem_array(e->mem, e->buffer_total, sizeof(float));
    if (out->param == NULL || out->taken == NULL || out->buffer == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t s = 0; s < e->slot_count; s++) {
        out->slot[s] = ddp_mem_array(e->mem, e->elem_total, sizeof(float));
        if (out->slot[s] == NULL) {
            return DDP_E_NOMEM;
        }
    }
    return DDP_OK;
}

void harness_state_destroy(const struct harness_emulation *e, struct harness_state *state)
{
    ddp_mem_free(e->mem, state->param);
    ddp_mem_free(e->mem, state->taken);
    ddp_mem_free(e->mem, state->buffer);
    ddp_mem_free(e->mem, state->slot[0]);
    ddp_mem_free(e->mem, state->slot[1]);
    *state = (struct harness_state){0};
}

void harness_state_copy(const struct harness_emulation *e, struct harness_state *target,
                        const struct harness_state *source)
{
    target->steps_done = source->steps_done;
    memcpy(target->param, source->param, e->elem_total * sizeof(float));
    memcpy(target->taken, source->taken, e->param_count * sizeof(uint64_t));
    memcpy(target->buffer, source->buffer, e->buffer_total * sizeof(float));
    for (uint32_t s = 0; s < e->slot_count; s++) {
        memcpy(target->slot[s], source->slot[s], e->elem_total * sizeof(float));
    }
}

/* Wait for the default stream: device copies may still be under way. */
static ddp_status settle(struct ddp_device *device)
{
    struct ddp_device_event *event = NULL;
    ddp_status status;

    if (device->ops->is_host_memory) {
        return DDP_OK;
    }
    DDP_TRY(device->ops->event_create(device, &event));
    status = device->ops->event_record(device, event, NULL);
    while (status == DDP_OK && (status = device->ops->event_query(device, event)) == DDP_PENDING) {
        status = DDP_OK;
    }
    device->ops->event_destroy(device, event);
    return status;
}

ddp_status harness_emulation_copy(const struct harness_emulation *e, float *target,
                                  const float *source, size_t elem_count)
{
    struct ddp_device *device = e->input->device;

    if (elem_count == 0) {
        return DDP_OK;
    }
    if (device->ops->is_host_memory) {
        memcpy(target, source, elem_count * sizeof(float));
        return DDP_OK;
    }
    DDP_TRY(device->ops->copy(device, NULL, target, source, elem_count * sizeof(float)));
    return settle(device);
}

ddp_status harness_emulation_take_buffers(struct harness_emulation *e)
{
    float *at = e->state.buffer;

    for (size_t b = 0; b < e->buffer_count; b++) {
        DDP_TRY(harness_emulation_copy(e, at, e->buffers[b].data, e->buffers[b].elem_count));
        at += e->buffers[b].elem_count;
    }
    return DDP_OK;
}

/* The trainer was just made: its parameters are the initial ones. */
static ddp_status read_initial_state(struct harness_emulation *e, struct ddp_err *err)
{
    size_t count = 0;
    const struct ddp_param *params = ref_model_params(ref_trainer_model(e->trainer), &count);

    if (count != e->param_count) {
        return ddp_err_set(err, DDP_E_INVALID, "the job's model has %zu parameters, the table %zu",
                           count, e->param_count);
    }
    for (size_t p = 0; p < count; p++) {
        if (params[p].elem_count != e->input->params[p].elem_count) {
            return ddp_err_set(err, DDP_E_INVALID, "parameter %s differs in size from the table",
                               params[p].name);
        }
        DDP_TRY(harness_emulation_copy(e, e->state.param + e->param_first[p], params[p].data,
                                       params[p].elem_count));
    }
    return harness_emulation_take_buffers(e);
}

static ddp_status load_orders(struct harness_emulation *e, struct ddp_err *err)
{
    char folder[4096];

    harness_schedules_init(&e->schedules, e->mem);
    harness_trees_init(&e->trees, e->mem);
    if (e->input->run_dir == NULL) {
        return DDP_OK;
    }
    if ((size_t)snprintf(folder, sizeof(folder), "%s/schedules", e->input->run_dir) >=
        sizeof(folder)) {
        return ddp_err_set(err, DDP_E_OVERFLOW, "%s: path too long", e->input->run_dir);
    }
    DDP_TRY(harness_schedules_load(&e->schedules, folder, err));
    (void)snprintf(folder, sizeof(folder), "%s/trees", e->input->run_dir);
    return harness_trees_load(&e->trees, folder, e->world, err);
}

static ddp_status build(struct harness_emulation *e, struct ddp_err *err)
{
    DDP_TRY(harness_index_build(e->mem, e->input->trace, &e->index));
    DDP_TRY(load_orders(e, err));
    DDP_TRY(ref_trainer_create(e->input->device, e->input->job, &e->trainer, err));
    e->buffers = ref_model_buffers(ref_trainer_model(e->trainer), &e->buffer_count);
    for (size_t b = 0; b < e->buffer_count; b++) {
        e->buffer_total += e->buffers[b].elem_count;
    }
    DDP_TRY(make_tables(e));
    DDP_TRY(allocate_values(e));
    e->shard = e->input->job->shard;
    if (e->shard.sample_count == 0) {
        e->shard.sample_count = ref_trainer_data(e->trainer)->sample_count;
    }
    return read_initial_state(e, err);
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
    e->param_count = input->param_count;
    e->bucket_count = input->program->bucket_count;
    e->slot_count = (uint32_t)harness_arith_slot_count(&input->job->optimizer);
    e->split_step = -1;
    e->missing_step = -1;
    e->index.mem = e->mem;
    e->schedules.mem = e->mem;
    e->trees.mem = e->mem;
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

static void free_hashes(struct harness_emulation *e)
{
    void *const blocks[] = {e->predicted,  e->grad_hash,    e->has_grad, e->loss_bits,
                            e->is_active,  e->in_hash,      e->out_hash, e->is_updated,
                            e->param_hash, e->average_hash, e->slot_hash};

    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        ddp_mem_free(e->mem, blocks[i]);
    }
}

void harness_emulation_destroy(struct harness_emulation *e)
{
    void *const blocks[] = {
        e->param_first, e->param_salt,      e->bucket_of, e->bucket_first, e->bucket_salt,
        e->grad,        e->is_grad_defined, e->is_used,   e->bucket_in,    e->bucket_in_before,
        e->bucket_out,  e->average,         e->rows,      e->loss};
    struct ddp_mem *mem = e->mem;

    for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
        ddp_mem_free(mem, blocks[i]);
    }
    free_hashes(e);
    harness_state_destroy(e, &e->state);
    harness_state_destroy(e, &e->snapshot);
    if (e->trainer != NULL) {
        ref_trainer_destroy(e->trainer);
    }
    harness_schedules_fini(&e->schedules);
    harness_trees_fini(&e->trees);
    harness_index_fini(&e->index);
    ddp_mem_free(mem, e);
}

ddp_status harness_emulation_want(struct harness_emulation *e, uint32_t steps_done)
{
    if (!e->is_snapshot_wanted) {
        DDP_TRY(harness_state_create(e, &e->snapshot));
    }
    e->is_snapshot_wanted = true;
    e->snapshot.steps_done = steps_done;
    return DDP_OK;
}

bool harness_emulation_is_restore(const struct harness_emulation *e)
{
    return e->input->first_trace != NULL || e->input->restored_step > 0;
}
