#include "ddpcore/device/transfer.h"

#include <sched.h>
#include <string.h>

ddp_status ddp_transfer_init(struct ddp_transfer *transfer, struct ddp_device *device,
                             struct ddp_idle *idle, struct ddp_clock *clock, uint64_t timeout_ns)
{
    ddp_status status = DDP_OK;

    *transfer = (struct ddp_transfer){.device = device};
    ddp_transfer_set_wait(transfer, idle, clock, timeout_ns);
    DDP_TRY(device->ops->event_create(device, &transfer->event));
    device->hints->hide_event(device, transfer->event);
    if (!device->ops->is_host_memory) {
        status =
            device->ops->alloc(device, DDP_TRANSFER_PIECE_BYTES, DDP_SPACE_HOST, &transfer->piece);
    }
    if (status != DDP_OK) {
        ddp_transfer_fini(transfer);
    }
    return status;
}

void ddp_transfer_set_wait(struct ddp_transfer *transfer, struct ddp_idle *idle,
                           struct ddp_clock *clock, uint64_t timeout_ns)
{
    DDP_ASSERT(idle == NULL || clock != NULL);
    transfer->idle = idle;
    transfer->clock = clock;
    transfer->timeout_ns = timeout_ns;
}

void ddp_transfer_fini(struct ddp_transfer *transfer)
{
    struct ddp_device *device = transfer->device;

    if (device != NULL) {
        device->ops->event_destroy(device, transfer->event);
        device->ops->free(device, DDP_SPACE_HOST, transfer->piece);
        ddp_mem_free(device->mem, transfer->held);
    }
    *transfer = (struct ddp_transfer){0};
}

static ddp_status poll_event(void *self)
{
    const struct ddp_transfer *transfer = self;

    return transfer->device->ops->event_query(transfer->device, transfer->event);
}

/* Until the last copy has finished. */
static ddp_status wait(struct ddp_transfer *transfer)
{
    const struct ddp_pollable pollable = {poll_event, NULL, transfer};
    ddp_status status = poll_event(transfer);

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

static ddp_status copy(struct ddp_transfer *transfer, void *target, const void *source,
                       size_t size_bytes)
{
    struct ddp_device *device = transfer->device;
    ddp_status status;

    DDP_ASSERT(transfer->piece == NULL || size_bytes <= DDP_TRANSFER_PIECE_BYTES);
    if (transfer->is_diagnostic) {
        device->hints->set_diagnostic(device, true);
    }
    status = device->ops->copy(device, NULL, target, source, size_bytes);
    if (transfer->is_diagnostic) {
        device->hints->set_diagnostic(device, false);
    }
    DDP_TRY(status);
    DDP_TRY(device->ops->event_record(device, transfer->event, NULL));
    return wait(transfer);
}

ddp_status ddp_transfer_to_host(struct ddp_transfer *transfer, void *host, const void *data,
                                size_t size_bytes)
{
    uint8_t *target = host;
    const uint8_t *source = data;

    if (transfer->piece == NULL) {
        return copy(transfer, host, data, size_bytes);
    }
    while (size_bytes > 0) {
        size_t piece_bytes =
            size_bytes < DDP_TRANSFER_PIECE_BYTES ? size_bytes : DDP_TRANSFER_PIECE_BYTES;

        DDP_TRY(copy(transfer, transfer->piece, source, piece_bytes));
        memcpy(target, transfer->piece, piece_bytes);
        target += piece_bytes;
        source += piece_bytes;
        size_bytes -= piece_bytes;
    }
    return DDP_OK;
}

ddp_status ddp_transfer_to_device(struct ddp_transfer *transfer, void *data, const void *host,
                                  size_t size_bytes)
{
    uint8_t *target = data;
    const uint8_t *source = host;

    if (transfer->piece == NULL) {
        return copy(transfer, data, host, size_bytes);
    }
    /* A copy that ran out of time may still read the piece. */
    DDP_TRY(wait(transfer));
    while (size_bytes > 0) {
        size_t piece_bytes =
            size_bytes < DDP_TRANSFER_PIECE_BYTES ? size_bytes : DDP_TRANSFER_PIECE_BYTES;

        memcpy(transfer->piece, source, piece_bytes);
        DDP_TRY(copy(transfer, target, transfer->piece, piece_bytes));
        target += piece_bytes;
        source += piece_bytes;
        size_bytes -= piece_bytes;
    }
    return DDP_OK;
}

ddp_status ddp_transfer_view(struct ddp_transfer *transfer, const void *data, size_t size_bytes,
                             const void **out)
{
    struct ddp_device *device = transfer->device;
    ddp_status status;

    *out = data;
    if (device->ops->is_host_memory || size_bytes == 0) {
        return DDP_OK;
    }
    if (transfer->held_bytes < size_bytes) {
        ddp_mem_free(device->mem, transfer->held);
        transfer->held_bytes = 0;
        transfer->held = ddp_mem_array(device->mem, 1, size_bytes);
        if (transfer->held == NULL) {
            return DDP_E_NOMEM;
        }
        transfer->held_bytes = size_bytes;
    }
    DDP_ASSERT(transfer->piece != NULL && size_bytes <= transfer->held_bytes);
    *out = transfer->held;
    transfer->is_diagnostic = true;
    status = ddp_transfer_to_host(transfer, transfer->held, data, size_bytes);
    transfer->is_diagnostic = false;
    return status;
}

ddp_status ddp_transfer_replace(struct ddp_transfer *transfer, void *data, const void *host,
                                size_t size_bytes)
{
    ddp_status status;

    transfer->is_diagnostic = true;
    status = ddp_transfer_to_device(transfer, data, host, size_bytes);
    transfer->is_diagnostic = false;
    return status;
}
