/* Copies between host and device that have finished when the call returns: for what the host has to
 * see (a loss, a hash, a checkpoint), not for data that only the device needs. The wait polls an
 * event, in ddp_wait if an idle hook is given, so that a stuck device ends in E_TIMEOUT.
 *
 * The host's side may be any memory. The device itself copies only to and from page-locked memory,
 * and the host from there: a copy with pageable memory would block the calling thread in the driver
 * until the stream reaches it, without a time-out and without a mark that the host waits. The
 * page-locked piece is allocated once, because an allocation may block in the same way. */
#ifndef DDPCORE_DEVICE_TRANSFER_H
#define DDPCORE_DEVICE_TRANSFER_H

#include "ddpcore/base/clock.h"
#include "ddpcore/base/idle.h"
#include "ddpcore/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most that one copy moves; longer ones are made in pieces. */
#define DDP_TRANSFER_PIECE_BYTES ((size_t)1 << 18)

struct ddp_transfer {
    struct ddp_device *device;
    struct ddp_device_event *event;
    struct ddp_idle *idle; /* NULL: the thread yields while it asks */
    struct ddp_clock *clock;
    uint64_t timeout_ns; /* per piece; 0 = never; without idle: never */
    void *piece;         /* page-locked, DDP_TRANSFER_PIECE_BYTES; NULL: the device needs none */
    void *held;          /* the host's memory of _view, held_bytes long */
    size_t held_bytes;
    bool is_diagnostic; /* inside of _view and _replace */
};

/* Borrows everything. clock is needed with idle only. Zero-initialised is valid for _fini.
 * Errors: E_NOMEM, E_DEVICE. */
DDP_MUST_USE ddp_status ddp_transfer_init(struct ddp_transfer *transfer, struct ddp_device *device,
                                          struct ddp_idle *idle, struct ddp_clock *clock,
                                          uint64_t timeout_ns);
void ddp_transfer_fini(struct ddp_transfer *transfer);
/* Wait otherwise from now on; the same as in _init. */
void ddp_transfer_set_wait(struct ddp_transfer *transfer, struct ddp_idle *idle,
                           struct ddp_clock *clock, uint64_t timeout_ns);
/* From or to the device's memory, after all work enqueued on the default stream, which is what
 * produces or last uses it. Errors: E_TIMEOUT, E_DEVICE; the target may have been written in
 * part, and the device's memory is still being used after E_TIMEOUT. */
DDP_MUST_USE ddp_status ddp_transfer_to_host(struct ddp_transfer *transfer, void *host,
                                             const void *data, size_t size_bytes);
DDP_MUST_USE ddp_status ddp_transfer_to_device(struct ddp_transfer *transfer, void *data,
                                               const void *host, size_t size_bytes);
/* *out: the device's data where the host can read it: data itself if the device's memory is the
 * host's, else a copy (transfer->held) that lives until the next call. Errors: E_NOMEM, and those
 * of _to_host. A diagnostic read (device.h, set_diagnostic): what produced the data must have been
 * seen done, and nothing later counts as ordered by it. */
DDP_MUST_USE ddp_status ddp_transfer_view(struct ddp_transfer *transfer, const void *data,
                                          size_t size_bytes, const void **out);
/* As _to_device, by who alters data from outside (an injected fault): nothing later has to be
 * ordered after it, nor counts as ordered by it. */
DDP_MUST_USE ddp_status ddp_transfer_replace(struct ddp_transfer *transfer, void *data,
                                             const void *host, size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
