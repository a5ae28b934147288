/* A decorator around a device: two fault points, and a record of what device work does in which
 * order, from which a checker proves that nothing is used before it is there.
 *
 * Recorded are each read and write of a range of memory (by kernels, and by collectives through
 * ops->note), each event record, each wait of a stream that really took place, and each event that
 * the host saw done. Ranges are named by the allocation they lie in and an offset, streams, events
 * and allocations by numbers in order of creation, so that two runs of the same program record the
 * same. Memory that the device did not allocate is the host's own and is not recorded, unless it
 * was named below. The host's own accesses are recorded where it says so below. */
#ifndef DDPCORE_DEVICE_OBSERVER_H
#define DDPCORE_DEVICE_OBSERVER_H

#include "ddpcore/device/device.h"
#include "ddpcore/seam/access.h"
#include "ddpcore/seam/env.h"
#include "ddpcore/seam/progress.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Takes over inner on success; on failure it stays the caller's. Borrows env, whose allocator it
 * uses, whose faults it passes (device/alloc: FAIL is E_DEVICE_MEMORY, E_NOMEM in host space, SKIP
 * is GO; device/event_wait: SKIP forgets the wait and says OK, FAIL is E_INJECTED) and, if
 * is_recording, into whose recorder it writes. Handles of streams and events are its own: a
 * collective's library gets native_stream. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status ddp_device_observer_create(struct ddp_device *inner, struct ddp_env *env,
                                                   bool is_recording, struct ddp_device **out);

/* The event only serves watching: what streams and the host learn by it is not recorded. The host
 * waits for a copy that it hashes; taken for order, that wait would stand in for every event that
 * the program forgot, and the more is watched the less would be found. Does nothing if the device
 * is no observer. */
void ddp_device_observer_hide(struct ddp_device *device, struct ddp_device_event *event);

/* The host itself is about to write, or has just read, [data, data + size_bytes). Does nothing if
 * the device is no recording observer, or if it did not allocate that memory. */
void ddp_device_observer_host(struct ddp_device *device, const void *data, size_t size_bytes,
                              bool is_write);

/* While true, copies are a watcher's (a hash's), which looks at what its own poll saw done. Does
 * nothing if the device is no observer. */
void ddp_device_observer_watch(struct ddp_device *device, bool is_watching);

/* From now on every event recorded on the default stream is preceded by the mark IDLE: whoever
 * records one there is about to ask for it, or makes another stream wait for it. progress: mapped
 * for the device, borrowed; NULL ends it. Does nothing if the device is no observer. */
void ddp_device_observer_mark(struct ddp_device *device, struct ddp_progress *progress);

/* Record that [data, data + size_bytes) in the device's memory is bucket, gradient, parameter or
 * buffer number `index`. Memory from elsewhere (a transport's) is observed from here on. Does
 * nothing if the device is no recording observer, or if size_bytes is 0. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status ddp_device_observer_name(struct ddp_device *device,
                                                 enum ddp_range_kind kind, size_t index,
                                                 const void *data, size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
