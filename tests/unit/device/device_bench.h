/* A device under test, whichever the executable was linked for, with guarded ranges in its memory.
 *
 * A range has an image on the host and one on the device, both with guard bytes around the payload.
 * A case fills the host's payload, pushes it, runs an operation on the device's, and pulls it back,
 * which also checks the guards. */
#ifndef TESTS_UNIT_DEVICE_DEVICE_BENCH_H
#define TESTS_UNIT_DEVICE_DEVICE_BENCH_H

#include "ddpcore/base/prng.h"
#include "ddpcore/device/device.h"
#include "ddpcore/device/math.h"
#include "ddpcore/device/transfer.h"
#include "tests/ct.h"

enum { BENCH_RANGES = 7, BENCH_GUARD_BYTES = 64 };

struct bench_range {
    unsigned char *host, *device; /* images, capacity_bytes each */
    size_t capacity_bytes;
    size_t first, size_bytes; /* of the payload */
};

struct bench {
    struct ddp_device *device;
    const struct ddp_device_ops *ops;
    struct ddp_mem_pool *pool; /* the device's bookkeeping */
    struct ddp_transfer transfer;
    struct bench_range ranges[BENCH_RANGES];
};

/* What the executable tests. Errors: E_NOT_FOUND and E_UNSUPPORTED where this machine has none. */
ddp_status bench_create_device(struct ddp_mem *mem, struct ddp_device **out, struct ddp_err *err);

/* False if there is no such device here, or (after a noted failure) it did not open; *reason is
 * then to be given to CT_SKIP. */
bool bench_open(struct bench *bench, const char **reason);
/* Destroys everything, and checks that the device has given back its memory. */
void bench_close(struct bench *bench);
/* Leaves the case where there is no device. */
#define BENCH_OPEN(bench)                          \
    do {                                           \
        const char *bench_reason;                  \
        if (!bench_open((bench), &bench_reason)) { \
            CT_SKIP(bench_reason);                 \
        }                                          \
    } while (0)

/* Guards around room for elem_count elements that starts `lead` elements behind an address aligned
 * to 64 bytes. Returns the host's payload. */
void *bench_begin(struct bench *bench, unsigned range, size_t elem_bytes, size_t elem_count,
                  size_t lead);
/* The host's image to the device. Returns the device's payload. */
void *bench_push(struct bench *bench, unsigned range);
/* The device's image to the host, after all work on the default stream; checks the guards. Returns
 * the host's payload. */
void *bench_pull(struct bench *bench, unsigned range);

/* Enqueue a kernel that runs for ms milliseconds (0: until the device ends), so that what is
 * enqueued behind it is late; on a device that runs everything at once this is nothing. */
void bench_spin(struct bench *bench, struct ddp_stream *stream, uint64_t ms);
/* Ask until all work of the stream so far has ended. Returns the final status. */
ddp_status bench_drain(struct bench *bench, struct ddp_stream *stream);

#endif
