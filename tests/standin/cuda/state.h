/* Inside of the CUDA runtime stand-in, for tests on machines without a GPU. Nothing that runs on it
 * is a GPU result.
 *
 * Order of locks: device, then stream, then mark. Memory's lock is a leaf. */
#ifndef TESTS_STANDIN_CUDA_STATE_H
#define TESTS_STANDIN_CUDA_STATE_H

#include <ddp_standin.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A point in a stream: done once the stream's worker has reached it. */
struct standin_mark {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t ref_count;
    bool is_done;
};
struct standin_mark *standin_mark_create(void); /* one reference; NULL: no memory */
struct standin_mark *standin_mark_ref(struct standin_mark *mark);
void standin_mark_unref(struct standin_mark *mark); /* NULL is allowed */
void standin_mark_finish(struct standin_mark *mark);
void standin_mark_wait(struct standin_mark *mark);
bool standin_mark_is_done(struct standin_mark *mark);

/* One piece of work in a stream. */
struct standin_item {
    struct standin_item *next;
    /* 0 or the cudaError that the work ends in. */
    int (*run)(void *context, const volatile int *is_cancelled);
    void (*drop)(void *context); /* called after run, or instead of it; NULL: nothing to free */
    void *context;
    bool is_always;    /* run even on a failed device: bookkeeping, work of other stand-ins */
    bool needs_memory; /* device memory is open to the process while it runs */
};

struct CUstream_st {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct standin_item *first, **tail;
    uint64_t length; /* of that list */
    bool is_capturing;
    bool is_closed; /* destroyed: the worker leaves once the queue is empty */
    uint64_t id;
    struct CUstream_st *next; /* device's list */
    struct CUstream_st **link;
};

struct CUevent_st {
    pthread_mutex_t lock;
    struct standin_mark *last; /* of the last record; NULL: never recorded */
};

struct standin_device {
    pthread_mutex_t lock; /* the list of streams */
    struct CUstream_st *streams;
    struct CUstream_st *default_stream; /* made when first used */
    uint64_t stream_ids;
    _Atomic int error; /* sticky; 0: none */
    int is_cancelled;  /* accessed with __atomic builtins: other threads read it */
    _Atomic uint64_t stream_count, event_count, pageable_copy_count, kernel_count, copy_count;
    _Atomic uint64_t captured_count;
    _Atomic uint64_t card_mask; /* cards with a context, a bit each */
    /* From the environment, fixed after the start. */
    uint64_t seed;
    uint64_t memory_bytes;
    uint64_t failing_allocation; /* 0: none */
    uint64_t queue_length;       /* words wait where a stream holds so much work; 0: never */
    int card_count;
    bool is_guarded;
    bool has_write_value;
    bool is_pageable_waiting; /* for copies with memory that is not page-locked */
};
extern struct standin_device standin_device;

/* At the head of every call: starts the device on first use and returns its sticky error. */
cudaError_t standin_enter(void);
/* At the end of every call: notes the error for cudaGetLastError and returns it. */
cudaError_t standin_leave(cudaError_t error);
uint64_t standin_mix(uint64_t value); /* splitmix64 */

/* Streams. All are called without locks held. */
struct CUstream_st *standin_stream_resolve(cudaStream_t stream); /* NULL: no memory */
/* Takes over the item's context; after an error neither of its functions was called. */
cudaError_t standin_stream_push(struct CUstream_st *stream, const struct standin_item *item);
cudaError_t standin_stream_push_mark(struct CUstream_st *stream, struct standin_mark *mark);
/* Until it has room, as a driver's queue has not always. */
void standin_stream_await_room(cudaStream_t stream);
bool standin_stream_is_capturing(cudaStream_t stream);
cudaError_t standin_stream_drain(struct CUstream_st *stream);
cudaError_t standin_device_drain(void);

/* Memory. */
enum standin_place { STANDIN_DEVICE, STANDIN_PINNED, STANDIN_PAGEABLE, STANDIN_OUTSIDE };
/* Where [data, data + size_bytes) lies; OUTSIDE: partly, or in device memory that is not allocated.
 */
enum standin_place standin_memory_place(const void *data, size_t size_bytes);
void standin_memory_open(void); /* nests */
void standin_memory_close(void);
void standin_memory_report(struct ddp_standin_report *out);

/* Free what the calling worker keeps for kernels. */
void standin_kernel_fini(void);

#endif
