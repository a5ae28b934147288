/* The observing device under test. The device underneath is the CPU, which has one stream and no
 * pending work; a thin table over it says PENDING on demand and counts the hints that it gets. */
#ifndef TESTS_UNIT_DEVICE_OBSERVER_BENCH_H
#define TESTS_UNIT_DEVICE_OBSERVER_BENCH_H

#include "ddpcore/device/observer.h"
#include "ddpcore/seam/recorder.h"
#include "tests/ct.h"

enum { OBSERVER_RING_ENTRIES = 256 };

struct pending_device {
    struct ddp_device base;
    struct ddp_device_ops ops;
    struct ddp_device *cpu;
    int pending_count; /* further queries that say PENDING */
    size_t access_count, hint_count;
    const struct ddp_stream *accessed_on;
    const struct ddp_device_event *hidden;
};

struct observer_bench {
    struct ddp_mem_pool *pool;
    struct ddp_clock_virtual clock;
    struct ddp_recorder recorder;
    struct ddp_fault_hook hook;
    enum ddp_fault_point point;
    enum ddp_fault_action action;
    struct ddp_fault_context seen;
    struct ddp_env env;
    struct pending_device inner;
    struct ddp_device *device;
    uint64_t read_count; /* events taken from the ring so far */
};

bool observer_bench_open(struct observer_bench *bench, bool is_recording);
/* Checks that everything was given back. */
void observer_bench_close(struct observer_bench *bench);
void observer_bench_arm(struct observer_bench *bench, enum ddp_fault_point point,
                        enum ddp_fault_action action);
float *observer_bench_alloc(struct observer_bench *bench, size_t elem_count);
void observer_bench_free(struct observer_bench *bench, float *data);

/* The next recorded event is this one. */
void observer_expect(struct observer_bench *bench, const char *what, enum ddp_event event,
                     uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4);
/* No further event was recorded. */
void observer_expect_nothing(struct observer_bench *bench, const char *what);
/* A piece of work and what it must have touched: "r1:0+32 w0:4+8" = reads 32 bytes at offset 0 of
 * allocation 1, writes 8 bytes at offset 4 of allocation 0. */
void observer_expect_work(struct observer_bench *bench, const char *what, uint64_t stream,
                          const char *touched);

#endif
