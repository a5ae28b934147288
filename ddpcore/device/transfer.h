/* Copies between host and device that have finished when the call returns: for what the host has to
 * see (a loss, a hash, a checkpoint), never for what only the device needs. Waits by asking an
 * event, in ddp_wait if an idle hook is given, so that a stuck device ends in E_TIMEOUT. */
#ifndef DDPCORE_DEVICE_TRANSFER_H
#define DDPCORE_DEVICE_TRANSFER_H

#include "ddpcore/base/clock.h"
#include "ddpcore/base/idle.h"
#include "ddpcore/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_transfer {
    struct ddp_device *device;
    struct ddp_device_event *event;
    struct ddp_idle *idle; /* NULL: the thread yields while it asks */
    struct ddp_clock *clock;
    uint64_t timeout_ns; /* per copy; 0 = never; without idle: never */
    void *held;          /* host memory of _view, held_bytes long */
    size_t held_bytes;
};

/* Borrows everything. clock is needed with idle only. Zero-initialised is valid for _fini. */
DDP_MUST_USE ddp_status ddp_transfer_init(struct ddp_transfer *transfer, struct ddp_device *device,
                                          struct ddp_idle *idle, struct ddp_clock *clock,
                                          uint64_t timeout_ns);
void ddp_transfer_fini(struct ddp_transfer *transfer);
/* After all work enqueued on the default stream, which is what produces `source`.
 * Errors: E_TIMEOUT, E_DEVICE. */
DDP_MUST_USE ddp_status ddp_transfer_copy(struct ddp_transfer *transfer, void *target,
                                          const void *source, size_t size_bytes);
/* *out: the device's data where the host can read it: data itself if the device's memory is the
 * host's, else a copy that lives until the next call. Errors: E_NOMEM, and those of _copy. */
DDP_MUST_USE ddp_status ddp_transfer_view(struct ddp_transfer *transfer, const void *data,
                                          size_t size_bytes, const void **out);

#ifdef __cplusplus
}
#endif
#endif
