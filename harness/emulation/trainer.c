/* Purpose: trainers for ranks whose passes run, and values between them and the emulation.
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

ddp_status harness_emulation_copy(const struct harness_emulation *e, void *target,
                                  const void *source, size_t size_bytes)
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

ddp_status harness_trainer_read_buffers(const struct harness_emulation *e,
                                        const struct harness_trainer *trainer, void *block)
{
    size_t count = 0;
    const struct ddp_buffer *buffers =
        ref_model_buffers(ref_trainer_model(trainer->trainer), &count);

    for (size_t b = 0; b < count; b++) {
        struct harness_tensor target = harness_layout_at(&e->buffers, block, 0, b);

        DDP_TRY(harness_emulation_copy(e, target.data, buffers[b].data, target.size_bytes));
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

        DDP_TRY(harness_emulation_copy(e, target.data, params[p].data, target.size_bytes));
    }
    return harness_trainer_read_buffers(e, trainer, buffer);
}

/* The weights that passes of 16 bits compute with. */
static ddp_status round_params(const struct harness_emulation *e, struct ref_model *model,
                               const struct harness_camp *camp)
{
    struct ddp_param *rounded = ref_model_rounded(model);
    void *values;
    ddp_status status = DDP_OK;

    if (rounded == NULL) {
        return DDP_OK;
    }
    values = ddp_mem_array(e->mem, 1, e->grads.size_bytes);
    if (values == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t p = 0; status == DDP_OK && p < e->params.count; p++) {
        const struct harness_tensor from = harness_layout_at(&e->params, camp->state.param, 0, p);
        const struct harness_tensor to = harness_layout_at(&e->grads, values, 0, p);

        status = harness_arith_scale(to.data, to.dtype, from.data, from.dtype, to.elem_count, 1.0f);
        if (status == DDP_OK) {
            status = harness_emulation_copy(e, rounded[p].data, to.data, to.size_bytes);
        }
    }
    ddp_mem_free(e->mem, values);
    return status;
}

ddp_status harness_trainer_load_buffers(const struct harness_emulation *e,
                                        const struct harness_trainer *trainer, void *blocks,
                                        uint32_t index)
{
    size_t count = 0;
    struct ddp_buffer *buffers = ref_model_buffers(ref_trainer_model(trainer->trainer), &count);

    for (size_t b = 0; b < count; b++) {
        struct harness_tensor source = harness_layout_at(&e->buffers, blocks, index, b);

        DDP_TRY(harness_emulation_copy(e, buffers[b].data, source.data, source.size_bytes));
    }
    return DDP_OK;
}

ddp_status harness_trainer_load(const struct harness_emulation *e, struct harness_trainer *trainer,
                                uint32_t rank, uint32_t owner)
{
    struct harness_camp *camp = harness_emulation_camp(e, rank);
    struct ref_model *model = ref_trainer_model(trainer->trainer);
    size_t count = 0;
    struct ddp_param *params = ref_model_params(model, &count);

    if (!trainer->is_loaded || trainer->steps_done != e->steps_done ||
        trainer->camp != camp->number) {
        for (size_t p = 0; p < count; p++) {
            struct harness_tensor source = harness_layout_at(&e->params, camp->state.param, 0, p);

            DDP_TRY(harness_emulation_copy(e, params[p].data, source.data, source.size_bytes));
        }
        DDP_TRY(round_params(e, model, camp));
        trainer->is_loaded = true;
        trainer->steps_done = e->steps_done;
        trainer->camp = camp->number;
    }
    return harness_trainer_load_buffers(e, trainer, e->buffer, owner);
}
