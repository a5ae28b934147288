#include "ddpcore/device/transfer.h"

#include <sched.h>

#include "ddpcore/device/observer.h"

ddp_status ddp_transfer_init(struct ddp_transfer *transfer, struct ddp_device *device,
                             struct ddp_idle *idle, struct ddp_clock *clock, uint64_t timeout_ns)
{
    *transfer = (struct ddp_transfer){
        .device = device, .idle = idle, .clock = clock, .timeout_ns = timeout_ns};
    DDP_ASSERT(idle == NULL || clock != NULL);
    DDP_TRY(device->ops->event_create(device, &transfer->event));
    ddp_device_observer_hide(device, transfer->event);
    return DDP_OK;
}

void ddp_transfer_fini(struct ddp_transfer *transfer)
{
    if (transfer->device != NULL) {
        transfer->device->ops->event_destroy(transfer->device, transfer->event);
        if (transfer->held != NULL) {
            transfer->device->ops->free(transfer->device, DDP_SPACE_HOST, transfer->held);
        }
    }
    *transfer = (struct ddp_transfer){0};
}

static ddp_status poll_event(void *self)
{
    const struct ddp_transfer *transfer = self;

    return transfer->device->ops->event_query(transfer->device, transfer->event);
}

ddp_status ddp_transfer_copy(struct ddp_transfer *transfer, void *target, const void *source,
                             size_t size_bytes)
{
    const struct ddp_pollable pollable = {poll_event, NULL, transfer};
    struct ddp_device *device = transfer->device;
    ddp_status status;

    DDP_TRY(device->ops->copy(device, NULL, target, source, size_bytes));
    DDP_TRY(device->ops->event_record(device, transfer->event, NULL));
    status = poll_event(transfer);
    if (status != DDP_PENDING) {
        return status;
    }
    if (transfer->idle != NULL) {
        return ddp_wait(transfer->idle, transfer->clock, &pollable,
                        ddp_clock_deadline_ns(transfer->clock, transfer->timeout_ns));
    }
    while (status == DDP_PENDING) {
        (void)sched_yield();
        status = poll_event(transfer);
    }
    return status;
}

ddp_status ddp_transfer_view(struct ddp_transfer *transfer, const void *data, size_t size_bytes,
                             const void **out)
{
    struct ddp_device *device = transfer->device;

    *out = data;
    if (device->ops->is_host_memory || size_bytes == 0) {
        return DDP_OK;
    }
    if (transfer->held_bytes < size_bytes) {
        if (transfer->held != NULL) {
            device->ops->free(device, DDP_SPACE_HOST, transfer->held);
        }
        transfer->held_bytes = 0;
        transfer->held = NULL;
        DDP_TRY(device->ops->alloc(device, size_bytes, DDP_SPACE_HOST, &transfer->held));
        transfer->held_bytes = size_bytes;
    }
    *out = transfer->held;
    return ddp_transfer_copy(transfer, transfer->held, data, size_bytes);
}
