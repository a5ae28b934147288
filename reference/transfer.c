/* Finished copies. A host that needs a loss has nothing else to do until the device has it, so it
 * polls the event; on the CPU device the event is always ready. */
#include "reference/transfer.h"

ddp_status ref_transfer_init(struct ref_transfer *transfer, struct ddp_device *device)
{
    transfer->device = device;
    transfer->event = NULL;
    return device->ops->event_create(device, &transfer->event);
}

void ref_transfer_fini(struct ref_transfer *transfer)
{
    if (transfer->device != NULL) {
        transfer->device->ops->event_destroy(transfer->device, transfer->event);
    }
    *transfer = (struct ref_transfer){0};
}

ddp_status ref_transfer_copy(struct ref_transfer *transfer, void *target, const void *source,
                             size_t size_bytes)
{
    struct ddp_device *device = transfer->device;
    ddp_status status;

    DDP_TRY(device->ops->copy(device, NULL, target, source, size_bytes));
    DDP_TRY(device->ops->event_record(device, transfer->event, NULL));
    do {
        status = device->ops->event_query(device, transfer->event);
    } while (status == DDP_PENDING);
    return status;
}
