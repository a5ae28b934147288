/* Buffers that follow what passes by: running statistics and counters. */
#include "reference/model_kind.h"

/* Two roundings for each element, of buffer * (1 - momentum) and of the sum. */
ddp_status ref_buffer_follow(struct ref_model *model, size_t index, const float *value,
                             float momentum, float factor)
{
    struct ddp_device *device = model->device;
    const struct ddp_buffer *buffer = &model->buffers[index];

    DDP_ASSERT(buffer->dtype == DDP_DTYPE_F32);
    DDP_TRY(device->ops->scale(device, NULL, buffer->data, DDP_DTYPE_F32, buffer->data,
                               DDP_DTYPE_F32, buffer->elem_count, (double)(1.0F - momentum)));
    return device->math->axpy(device, NULL, buffer->data, value, momentum * factor,
                              buffer->elem_count);
}

ddp_status ref_buffer_count(struct ref_model *model, size_t index)
{
    struct ddp_device *device = model->device;
    const struct ddp_buffer *buffer = &model->buffers[index];

    DDP_ASSERT(buffer->dtype == DDP_DTYPE_I64 && buffer->elem_count == 1);
    return device->ops->reduce(device, NULL, buffer->data, model->one, 1, DDP_DTYPE_I64,
                               DDP_REDOP_SUM);
}
