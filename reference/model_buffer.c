/* Buffers that follow what passes by: running statistics and counters. */
#include "reference/model_kind.h"

/* Two roundings for each element, of buffer * (1 - momentum) and of the sum; and a third one to the
 * buffer's type, if that is narrower than what is computed in. */
ddp_status ref_buffer_follow(struct ref_model *model, size_t index, const float *value,
                             float momentum, float factor)
{
    struct ddp_device *device = model->device;
    const struct ddp_buffer *buffer = &model->buffers[index];

    float *followed = buffer->dtype == DDP_DTYPE_F32
                          ? (float *)buffer->data
                          : ref_tape_work(&model->tape, buffer->elem_count);

    DDP_ASSERT(buffer->dtype != DDP_DTYPE_I64);
    DDP_TRY(device->ops->scale(device, NULL, followed, DDP_DTYPE_F32, buffer->data, buffer->dtype,
                               buffer->elem_count, (double)(1.0F - momentum)));
    DDP_TRY(
        device->math->axpy(device, NULL, followed, value, momentum * factor, buffer->elem_count));
    return followed == buffer->data
               ? DDP_OK
               : device->ops->scale(device, NULL, buffer->data, buffer->dtype, followed,
                                    DDP_DTYPE_F32, buffer->elem_count, 1.0);
}

void ref_buffer_make_room(struct ref_model *model, size_t elem_count)
{
    if (model->config.statistics != DDP_DTYPE_F32) {
        (void)ref_tape_work(&model->tape, elem_count);
    }
}

ddp_status ref_buffer_count(struct ref_model *model, size_t index)
{
    struct ddp_device *device = model->device;
    const struct ddp_buffer *buffer = &model->buffers[index];

    DDP_ASSERT(buffer->dtype == DDP_DTYPE_I64 && buffer->elem_count == 1);
    return device->ops->reduce(device, NULL, buffer->data, model->one, 1, DDP_DTYPE_I64,
                               DDP_REDOP_SUM);
}
