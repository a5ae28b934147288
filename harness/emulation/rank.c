/* Purpose: one rank's part of a step as straight-line code: its micro-batches, its local gradient,
 * its input of the buckets. Ranks are tasks, so that the code may wait for the other ranks.
 * Idea: a rank needs a model only while its passes run; ranks that never wait share one. */
#include <string.h>

#include "harness/emulation/internal.h"
#include "harness/sums/arith.h"

/* --- between host and device ------------------------------------------------------------------ */

/* Wait for the default stream: device copies may still be under way. */
static ddp_status settle(struct ddp_device *device)
{
    struct ddp_device_event *event = NULL;
    ddp_status status;

    DDP_TRY(device->ops->event_create(device, &event));
    status = device->ops->event_record(device, event, NULL);
    while (status == DDP_OK && (status = device->ops->event_query(device, event)) == DDP_PENDING) {
        status = DDP_OK;
    }
    device->ops->event_destroy(device, event);
    return status;
}

/* Between host and device memory, finished on return. */
static ddp_status copy(const struct harness_emulation *e, void *target, const void *source,
                       size_t size_bytes)
{
    struct ddp_device *device = e->input->device;

    if (size_bytes == 0) {
        return DDP_OK;
    }
    if (device->ops->is_host_memory) {
        memcpy(target, source, size_bytes);
        return DDP_OK;
    }
    DDP_TRY(device->ops->copy(device, NULL, target, source, size_bytes));
    return settle(device);
}

/* --- trainers --------------------------------------------------------------------------------- */

ddp_status harness_trainer_take(struct harness_emulation *e, struct harness_trainer **out,
                                struct ddp_err *err)
{
    struct harness_trainer *trainer = e->idle_trainers;

    if (trainer != NULL) {
        e->idle_trainers = trainer->next_idle;
        *out = trainer;
        return DDP_OK;
    }
    trainer = harness_emulation_alloc(e, 1, sizeof(*trainer));
    if (trainer == NULL) {
        return DDP_E_NOMEM;
    }
    DDP_TRY(ref_trainer_create(e->input->device, e->input->job, &trainer->trainer, err));
    trainer->next = e->trainers;
    e->trainers = trainer;
    *out = trainer;
    return DDP_OK;
}

void harness_trainer_give(struct harness_emulation *e, struct harness_trainer *trainer)
{
    trainer->next_idle = e->idle_trainers;
    e->idle_trainers = trainer;
}

void harness_trainers_destroy(struct harness_emulation *e)
{
    for (struct harness_trainer *at = e->trainers; at != NULL; at = at->next) {
        ref_trainer_destroy(at->trainer);
    }
}

static ddp_status read_buffers(const struct harness_emulation *e,
                               const struct harness_trainer *trainer, void *block)
{
    size_t count = 0;
    const struct ddp_buffer *buffers =
        ref_model_buffers(ref_trainer_model(trainer->trainer), &count);

    for (size_t b = 0; b < count; b++) {
        struct harness_tensor target = harness_layout_at(&e->buffers, block, 0, b);

        DDP_TRY(copy(e, target.data, buffers[b].data, target.size_bytes));
    }
    return DDP_OK;
}

ddp_status harness_trainer_read(const struct harness_emulation *e,
                                const struct harness_trainer *trainer, void *param, void *buffer)
{
    size_t count = 0;
    const struct ddp_param *params = ref_model_params(ref_trainer_model(trainer->trainer), &count);

    for (size_t p = 0; p < count; p++) {
        struct harness_tensor target = harness_layout_at(&e->params, param, 0, p);

        DDP_TRY(copy(e, target.data, params[p].data, target.size_bytes));
    }
    return read_buffers(e, trainer, buffer);
}

/* The state before the step. Passes change buffers, never parameters. */
static ddp_status load(const struct harness_emulation *e, struct harness_trainer *trainer)
{
    struct ref_model *model = ref_trainer_model(trainer->trainer);
    size_t count = 0;
    struct ddp_param *params = ref_model_params(model, &count);
    struct ddp_buffer *buffers;

    if (!trainer->is_loaded || trainer->steps_done != e->state.steps_done) {
        for (size_t p = 0; p < count; p++) {
            struct harness_tensor source = harness_layout_at(&e->params, e->state.param, 0, p);

            DDP_TRY(copy(e, params[p].data, source.data, source.size_bytes));
        }
        trainer->is_loaded = true;
        trainer->steps_done = e->state.steps_done;
    }
    buffers = ref_model_buffers(model, &count);
    for (size_t b = 0; b < count; b++) {
        struct harness_tensor source = harness_layout_at(&e->buffers, e->state.buffer, 0, b);

        DDP_TRY(copy(e, buffers[b].data, source.data, source.size_bytes));
    }
    return DDP_OK;
}

/* --- a rank's step ---------------------------------------------------------------------------- */

static ddp_status keep_gradients(struct harness_emulation *e, const struct harness_trainer *trainer,
                                 uint32_t rank)
{
    size_t count = 0;
    const struct ddp_param *params = ref_model_params(ref_trainer_model(trainer->trainer), &count);

    for (size_t p = 0; p < count; p++) {
        struct harness_tensor target = harness_layout_at(&e->params, e->now.grad, rank, p);
        bool has_grad = e->now.rows[rank] > 0 && params[p].is_grad_defined;

        e->now.has_grad[rank * e->params.count + p] = has_grad;
        if (has_grad) {
            DDP_TRY(copy(e, target.data, params[p].grad, target.size_bytes));
        } else {
            memset(target.data, 0, target.size_bytes);
        }
    }
    return DDP_OK;
}

static ddp_status run_passes(struct harness_emulation *e, struct harness_trainer *trainer,
                             uint32_t rank, uint32_t step)
{
    DDP_TRY(load(e, trainer));
    DDP_TRY(ref_trainer_local_gradient(trainer->trainer, rank, step, &e->now.loss[rank],
                                       &e->now.rows[rank]));
    DDP_TRY(keep_gradients(e, trainer, rank));
    return rank == 0 ? read_buffers(e, trainer, e->now.buffer) : DDP_OK;
}

static ddp_status fill_buckets(struct harness_emulation *e, uint32_t rank)
{
    bool is_scaled = harness_emulation_is_scaled_before(e);
    float factor = is_scaled ? 1.0f / (float)e->now.divisor : 1.0f;

    for (size_t b = 0; b < e->buckets.count; b++) {
        const struct harness_bucket *bucket = &e->input->program->buckets[b];
        struct harness_tensor target = harness_layout_at(&e->buckets, e->now.bucket_in, rank, b);

        for (uint32_t i = 0; i < bucket->param_count; i++) {
            struct harness_tensor source =
                harness_layout_at(&e->params, e->now.grad, rank, bucket->params[i]);
            char *slice =
                (char *)target.data + bucket->offsets[i] * ddp_dtype_size_bytes(target.dtype);

            if (is_scaled || source.dtype != target.dtype) {
                DDP_TRY(harness_arith_scale(slice, target.dtype, source.data, source.dtype,
                                            source.elem_count, factor));
            } else {
                memcpy(slice, source.data, source.size_bytes);
            }
        }
    }
    return DDP_OK;
}

struct rank_step {
    struct harness_emulation *e;
    uint32_t step;
    struct ddp_err *err;
};

/* The code of one rank. What waits for other ranks waits with `task`. */
static ddp_status run_rank(void *context, uint32_t rank, struct harness_task *task)
{
    const struct rank_step *run = context;
    struct harness_trainer *trainer = NULL;
    ddp_status status;

    (void)task;
    DDP_TRY(harness_trainer_take(run->e, &trainer, run->err));
    status = run_passes(run->e, trainer, rank, run->step);
    harness_trainer_give(run->e, trainer);
    if (status == DDP_OK) {
        status = fill_buckets(run->e, rank);
    }
    return status == DDP_OK
               ? DDP_OK
               : ddp_err_set(run->err, status, "rank %u: %s", rank, ddp_status_text(status));
}

ddp_status harness_emulation_run_ranks(struct harness_emulation *e, uint32_t step,
                                       struct ddp_err *err)
{
    struct rank_step run = {e, step, err};
    const struct harness_task_group group = {
        .task_count = e->world, .context = &run, .run = run_rank};

    return harness_task_group_run(&group, e->stacks, err);
}

/* --- exchanges in the middle of a step -------------------------------------------------------- */

struct sum_context {
    const struct harness_emulation *e;
    struct harness_tensor tensor;
};

static ddp_status sum_all(const struct harness_exchange *const *all, uint32_t task_count)
{
    const struct sum_context *first = all[0]->context;
    struct ddp_mem *mem = first->e->mem;
    void **input = ddp_mem_array(mem, 2 * (size_t)task_count, sizeof(*input));
    ddp_status status;

    if (input == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t r = 0; r < task_count; r++) {
        input[r] = ((const struct sum_context *)all[r]->context)->tensor.data;
        input[task_count + r] = all[r]->output;
    }
    status = harness_emulation_sum(first->e, first->tensor.dtype, first->tensor.elem_count, input,
                                   input + task_count, NULL, 0);
    ddp_mem_free(mem, input);
    return status;
}

ddp_status harness_emulation_exchange_sum(const struct harness_emulation *e,
                                          struct harness_task *task, const char *name, uint64_t tag,
                                          const struct harness_tensor *input, void *output)
{
    const struct sum_context context = {e, *input};
    const struct harness_exchange exchange = {.name = name,
                                              .tag = tag,
                                              .input = input->data,
                                              .input_bytes = input->size_bytes,
                                              .output = output,
                                              .context = &context,
                                              .carry_out = sum_all};

    return harness_task_exchange(task, &exchange);
}
