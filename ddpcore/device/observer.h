/* A decorator around a device: two fault points, and a record of what device work does in which
 * order, from which a checker proves that nothing is used before it was written.
 *
 * Recorded are each read and write of a range of memory (by kernels and copies; by collectives and
 * by the host where the hints of device.h say so), each event record, each wait of a stream that
 * really took place, and each event that the host saw done. Ranges are named by the allocation they
 * lie in and an offset; streams, events and allocations by numbers in order of creation, so that
 * two runs of the same program record the same. Memory that the device did not allocate is the
 * host's own and is not recorded, unless hints->name_range names it. */
#ifndef DDPCORE_DEVICE_OBSERVER_H
#define DDPCORE_DEVICE_OBSERVER_H

#include "ddpcore/device/device.h"
#include "ddpcore/seam/env.h"

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

#ifdef __cplusplus
}
#endif
#endif
