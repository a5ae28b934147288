/* A device for tests of collectives: host memory, but streams that hold back. Work is queued and
 * runs only in nccl_device_run, op by op, so that a test decides what has happened by when. */
#ifndef TESTS_UNIT_NCCL_NCCL_DEVICE_H
#define TESTS_UNIT_NCCL_NCCL_DEVICE_H

#include "ddpcore/device/device.h"

struct nccl_device {
    struct ddp_device base;
    struct ddp_device_hint_ops hints; /* counts what collectives access */
    struct ddp_device *cpu;
    struct ddp_mem_pool *pool;        /* events and memory, so that a killed rank's vanish */
    bool is_killed;                   /* leaks are no failure */
    struct ddp_stream *streams[8];    /* [0]: the default stream */
    bool is_held[8];                  /* by the test: nothing of it runs */
    uint64_t access_count;            /* of collectives */
    size_t read_bytes, written_bytes; /* sums over them */
    uint64_t live_streams, live_events, live_blocks;
    bool is_broken; /* event_query says E_DEVICE */
    bool is_strict; /* freeing memory that waiting work points to is a failure */
};

bool nccl_device_open(struct nccl_device *device);
void nccl_device_close(struct nccl_device *device);
/* Run what can run on every stream that is not held. Returns whether anything moved. */
bool nccl_device_run(struct nccl_device *device);
/* work goes on the stream; it is done when poll(work) says so. */
void nccl_device_enqueue(void *native_stream, bool (*poll)(void *work), void *work);

#endif
