/* Devices: memory, streams, events, and the kernels that a gradient reduction needs.
 *
 * Work is enqueued on a stream and never waited for here; completion is asked by event_query. The
 * CPU device runs everything at once on the calling thread, so its streams are NULL and its events
 * always ready. Pointers named "device" live in the device's memory; the CPU's is the host's.
 * To add a device: fill one static const table, pass the contract in tests/unit/device.cmake. */
#ifndef DDPCORE_DEVICE_DEVICE_H
#define DDPCORE_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"
#include "ddpcore/seam/access.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_device;
struct ddp_stream;       /* opaque; NULL is the device's default stream */
struct ddp_device_event; /* opaque */

/* Where memory lies. */
enum ddp_space {
    DDP_SPACE_DEVICE, /* the device's own; the host reaches it only if is_host_memory */
    DDP_SPACE_HOST    /* the host's, page-locked if need be, so that the device reaches it too */
};

/* Faults that can be injected into a device. They are real, not simulated. */
enum ddp_device_fault {
    DDP_DEVICE_FAULT_SPIN, /* a kernel that runs for `ms` milliseconds; 0 = until the device ends */
    DDP_DEVICE_FAULT_TRAP  /* a kernel with an illegal access: an error that sticks to the device */
};

struct ddp_device_ops {
    const char *name;
    bool is_host_memory; /* the host may read and write device memory directly */

    /* 64-byte aligned, zero-filled memory. The caller frees it on the same device and with the same
     * space; a device may keep freed memory for later allocations. A range may be freed while work
     * on the default stream still uses it; work on other streams must have been seen done before.
     * Errors: E_NOMEM (the host's), E_DEVICE_MEMORY (the device's own), E_DEVICE. */
    ddp_status (*alloc)(struct ddp_device *device, size_t size_bytes, enum ddp_space space,
                        void **out);
    void (*free)(struct ddp_device *device, enum ddp_space space, void *data);
    /* Copy between any two memories the device can reach; ranges must not overlap. Memory that is
     * not page-locked may hold the thread until the stream has come to the copy, or may be used
     * later: see transfer.h. */
    ddp_status (*copy)(struct ddp_device *device, struct ddp_stream *stream, void *target,
                       const void *source, size_t size_bytes);
    ddp_status (*zero)(struct ddp_device *device, struct ddp_stream *stream, void *target,
                       size_t size_bytes);

    /* target[i] = op(target[i], source[i]) for i in [0, elem_count), one rounding per element in
     * dtype (16-bit floats: exact fp32 operation, then round to nearest even). NaN propagates for
     * sum and prod; max and min follow fmaxf/fminf (a NaN operand is dropped). */
    ddp_status (*reduce)(struct ddp_device *device, struct ddp_stream *stream, void *target,
                         const void *source, size_t elem_count, enum ddp_dtype dtype,
                         enum ddp_redop op);
    /* target[i] = round_to(target_dtype, float(source[i]) * float(factor)), the product in fp32
     * with one rounding there; between doubles source[i] * factor, in fp64. Float dtypes only.
     * factor 1 converts. target == source is allowed when the dtypes agree. */
    ddp_status (*scale)(struct ddp_device *device, struct ddp_stream *stream, void *target,
                        enum ddp_dtype target_dtype, const void *source,
                        enum ddp_dtype source_dtype, size_t elem_count, double factor);

    /* Streams run beside each other and beside the default stream; only events order them. */
    ddp_status (*stream_create)(struct ddp_device *device, struct ddp_stream **out);
    void (*stream_destroy)(struct ddp_device *device, struct ddp_stream *stream);
    ddp_status (*event_create)(struct ddp_device *device, struct ddp_device_event **out);
    void (*event_destroy)(struct ddp_device *device, struct ddp_device_event *event);
    ddp_status (*event_record)(struct ddp_device *device, struct ddp_device_event *event,
                               struct ddp_stream *stream);
    /* DDP_PENDING until all work before the last record has finished. Errors: E_DEVICE, which is
     * how failed kernels show: every later call on the device says so too. */
    ddp_status (*event_query)(struct ddp_device *device, struct ddp_device_event *event);
    /* Later work on stream starts only after the event. Never blocks the host. */
    ddp_status (*stream_wait_event)(struct ddp_device *device, struct ddp_stream *stream,
                                    struct ddp_device_event *event);

    /* What the vendor's libraries take for a stream (cudaStream_t); NULL where there is none. */
    void *(*native_stream)(struct ddp_device *device, struct ddp_stream *stream);
    /* Let the device write into [memory, memory + size_bytes), the host's, until unmap or destroy:
     * for store_word. Page-aligned, a multiple of the page size. */
    ddp_status (*map)(struct ddp_device *device, void *memory, size_t size_bytes);
    void (*unmap)(struct ddp_device *device, void *memory);
    /* Once the stream's earlier work has finished, *word (mapped) becomes value; other processes
     * that share the memory see it without a call to any device. */
    ddp_status (*store_word)(struct ddp_device *device, struct ddp_stream *stream, uint64_t *word,
                             uint64_t value);
    /* Enqueue a fault. Errors: E_UNSUPPORTED (a CPU has no kernels of its own). */
    ddp_status (*inject)(struct ddp_device *device, struct ddp_stream *stream,
                         enum ddp_device_fault fault, uint64_t ms);
    /* The last E_DEVICE in the vendor's own words, "" if there was none. Borrowed until the next
     * call. */
    const char *(*last_error)(struct ddp_device *device);
    void (*destroy)(struct ddp_device *device);
};

struct ddp_math_ops;
struct ddp_layer_ops;
struct ddp_progress;

/* What callers tell a device beside the work that they give it, for a decorator that observes that
 * work (observer.h). A device that is no observer takes ddp_device_no_hints: there each function
 * does nothing and returns DDP_OK. No hint changes what is computed. */
struct ddp_device_hint_ops {
    /* A collective, whose library enqueues its own work on the stream, reads or writes
     * [data, data + size_bytes). Called once that work was enqueued. */
    void (*collective_access)(struct ddp_device *device, struct ddp_stream *stream,
                              const void *data, size_t size_bytes, bool is_write);
    /* The host itself is about to write, or has just read, [data, data + size_bytes). */
    void (*host_access)(struct ddp_device *device, const void *data, size_t size_bytes,
                        bool is_write);
    /* While true, copies are diagnostic: the host, which hashes, shows or alters data, waits for
     * the copy at once, so that later work never has to be ordered after it. What is read must have
     * been produced; what is written is no use of that memory. */
    void (*set_diagnostic)(struct ddp_device *device, bool is_diagnostic);
    /* The event only serves such waits: neither its records nor waits for it count as order between
     * pieces of work. Otherwise the wait after each hash would order the work around it, and hide
     * that the program itself forgot to. */
    void (*hide_event)(struct ddp_device *device, struct ddp_device_event *event);
    /* [data, data + size_bytes) is bucket, gradient, parameter or buffer number `index`. It may be
     * memory from elsewhere (a transport's), which is observed from here on. Nothing if size_bytes
     * is 0. Errors: E_NOMEM. */
    ddp_status (*name_range)(struct ddp_device *device, enum ddp_range_kind kind, size_t index,
                             const void *data, size_t size_bytes);
    /* From now on an event record on the default stream first enqueues the mark IDLE: whoever
     * records one is about to ask for it, or to make another stream wait for it. progress: mapped
     * for the device, borrowed; NULL ends it. */
    void (*set_progress)(struct ddp_device *device, struct ddp_progress *progress);
};
extern const struct ddp_device_hint_ops ddp_device_no_hints;

/* What a thread calls before it uses a library that works on the device: enter(number), or nothing
 * if enter is NULL. It takes no device, because such a thread may outlive the device. */
struct ddp_device_thread {
    void (*enter)(int32_t number);
    int32_t number;
};

/* Base of every device; implementations put their own state behind it. */
struct ddp_device {
    const struct ddp_device_ops *ops;
    const struct ddp_math_ops *math;    /* kernels of models and optimizers; see math.h */
    const struct ddp_layer_ops *layers; /* more of them, or NULL: it has none; see layers.h */
    const struct ddp_device_hint_ops *hints;
    struct ddp_mem *mem; /* for host-side bookkeeping */
    struct ddp_device_thread thread;
};

/* The CPU device. GEMM comes from the BLAS opened by ddp_blas_open. */
DDP_MUST_USE ddp_status ddp_device_cpu_create(struct ddp_mem *mem, struct ddp_device **out);

/* Open OpenBLAS once per process, before any rank or thread starts: prefers the serial build, pins
 * one thread and the core type (NULL: chosen for this CPU; AVX-512 -> SkylakeX, AVX2 -> Haswell,
 * because OpenBLAS may not know a newer CPU) so that bits repeat. Idempotent.
 * Errors: E_NOT_FOUND with the library names tried. */
DDP_MUST_USE ddp_status ddp_blas_open(const char *core_type, struct ddp_err *err);
/* "OpenBLAS 0.3.21 ... SkylakeX, 1 thread", or "none". For the run's capsule. Static storage. */
const char *ddp_blas_describe(void);
/* The core type in force ("SkylakeX"), or "". */
const char *ddp_blas_core_type(void);

#ifdef __cplusplus
}
#endif
#endif
