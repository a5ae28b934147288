/* Copies between host and device that have finished when the call returns. Inside reference/. */
#ifndef REFERENCE_TRANSFER_H
#define REFERENCE_TRANSFER_H

#include "ddpcore/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ref_transfer {
    struct ddp_device *device;
    struct ddp_device_event *event;
};
DDP_MUST_USE ddp_status ref_transfer_init(struct ref_transfer *transfer, struct ddp_device *device);
void ref_transfer_fini(struct ref_transfer *transfer);
/* After all work enqueued on the default stream, which is what produces `source`. */
DDP_MUST_USE ddp_status ref_transfer_copy(struct ref_transfer *transfer, void *target,
                                          const void *source, size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
