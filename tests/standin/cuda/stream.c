/* CUDA runtime stand-in, for tests on machines without a GPU; nothing here is a GPU result.
 * Streams: queues, each served in order by a thread of its own. */
#include <sched.h>
#include <stdlib.h>

#include "tests/standin/cuda/state.h"

/* With a seed a worker waits before each item, rarely for long, so that orders change that nothing
 * but timing kept. A yield may take milliseconds on a busy machine, so the time is bounded as well:
 * the device must not look stuck. */
static void hold_back(const struct CUstream_st *stream, uint64_t item_index)
{
    const uint64_t most_ns = UINT64_C(1000000);
    uint64_t bits, yield_count, started_ns;

    if (standin_device.seed == 0) {
        return;
    }
    bits = standin_mix(standin_device.seed ^ standin_mix(stream->id << 32 | item_index));
    yield_count = (bits >> 8) % (bits % 8 == 0 ? 4096 : 64);
    started_ns = ddp_standin_globaltimer_ns();
    for (uint64_t i = 0; i < yield_count && ddp_standin_globaltimer_ns() - started_ns < most_ns;
         i++) {
        sched_yield();
    }
}

static struct standin_item *take(struct CUstream_st *stream)
{
    struct standin_item *item;

    pthread_mutex_lock(&stream->lock);
    while (stream->first == NULL && !stream->is_closed) {
        pthread_cond_wait(&stream->changed, &stream->lock);
    }
    item = stream->first;
    if (item != NULL) {
        stream->first = item->next;
        stream->length--;
        if (stream->first == NULL) {
            stream->tail = &stream->first;
        }
    }
    pthread_mutex_unlock(&stream->lock);
    return item;
}

static void serve(struct standin_item *item)
{
    bool is_failed = atomic_load_explicit(&standin_device.error, memory_order_relaxed) != 0;

    if (item->is_always || !is_failed) {
        if (item->needs_memory) {
            standin_memory_open();
        }
        int error = item->run(item->context, &standin_device.is_cancelled);
        if (item->needs_memory) {
            standin_memory_close();
        }
        ddp_standin_device_fail(error);
    }
    if (item->drop != NULL) {
        item->drop(item->context);
    }
    free(item);
}

/* Leave the device's list, unless work was enqueued once more. */
static bool retire(struct CUstream_st *stream)
{
    bool is_empty;

    pthread_mutex_lock(&standin_device.lock);
    pthread_mutex_lock(&stream->lock);
    is_empty = stream->first == NULL;
    pthread_mutex_unlock(&stream->lock);
    if (is_empty) {
        *stream->link = stream->next;
        if (stream->next != NULL) {
            stream->next->link = stream->link;
        }
    }
    pthread_mutex_unlock(&standin_device.lock);
    return is_empty;
}

static void *work(void *arg)
{
    struct CUstream_st *stream = arg;
    uint64_t item_index = 0;

    do {
        for (;;) {
            struct standin_item *item = take(stream);
            if (item == NULL) {
                break;
            }
            hold_back(stream, item_index++);
            serve(item);
        }
    } while (!retire(stream));
    standin_kernel_fini();
    pthread_cond_destroy(&stream->changed);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
    return NULL;
}

/* The device's lock is held. */
static struct CUstream_st *stream_start(void)
{
    struct CUstream_st *stream = calloc(1, sizeof(*stream));
    pthread_attr_t attributes;
    pthread_t thread;
    int failed;

    if (stream == NULL) {
        return NULL;
    }
    pthread_mutex_init(&stream->lock, NULL);
    pthread_cond_init(&stream->changed, NULL);
    stream->tail = &stream->first;
    stream->id = ++standin_device.stream_ids;
    /* Linked first: the worker may retire before this function returns. */
    stream->next = standin_device.streams;
    stream->link = &standin_device.streams;
    standin_device.streams = stream;
    if (stream->next != NULL) {
        stream->next->link = &stream->next;
    }
    /* Threads are detached: a destroyed stream still finishes its work, and a stuck one ends with
     * the process. */
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    failed = pthread_create(&thread, &attributes, work, stream);
    pthread_attr_destroy(&attributes);
    if (failed != 0) {
        standin_device.streams = stream->next;
        if (stream->next != NULL) {
            stream->next->link = &standin_device.streams;
        }
        free(stream);
        return NULL;
    }
    return stream;
}

struct CUstream_st *standin_stream_resolve(cudaStream_t stream)
{
    if (stream != NULL) {
        return stream;
    }
    pthread_mutex_lock(&standin_device.lock);
    if (standin_device.default_stream == NULL) {
        standin_device.default_stream = stream_start();
    }
    stream = standin_device.default_stream;
    pthread_mutex_unlock(&standin_device.lock);
    return stream;
}

cudaError_t standin_stream_push(struct CUstream_st *stream, const struct standin_item *item)
{
    struct standin_item *copy = malloc(sizeof(*copy));

    if (stream == NULL || copy == NULL) {
        free(copy);
        return cudaErrorMemoryAllocation;
    }
    *copy = *item;
    copy->next = NULL;
    pthread_mutex_lock(&stream->lock);
    *stream->tail = copy;
    stream->tail = &copy->next;
    stream->length++;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    return cudaSuccess;
}

void standin_stream_await_room(cudaStream_t stream)
{
    bool has_room = standin_device.queue_length == 0;

    stream = standin_stream_resolve(stream);
    while (!has_room && stream != NULL) {
        pthread_mutex_lock(&stream->lock);
        has_room = stream->length < standin_device.queue_length;
        pthread_mutex_unlock(&stream->lock);
        sched_yield();
    }
}

void ddp_standin_stream_capture(cudaStream_t stream, bool is_on)
{
    stream = standin_stream_resolve(stream);
    pthread_mutex_lock(&stream->lock);
    stream->is_capturing = is_on;
    pthread_mutex_unlock(&stream->lock);
}

bool standin_stream_is_capturing(cudaStream_t stream)
{
    bool is_capturing;

    stream = standin_stream_resolve(stream);
    pthread_mutex_lock(&stream->lock);
    is_capturing = stream->is_capturing;
    pthread_mutex_unlock(&stream->lock);
    return is_capturing;
}

cudaError_t standin_stream_drain(struct CUstream_st *stream)
{
    struct standin_mark *mark = standin_mark_create();
    cudaError_t error = standin_stream_push_mark(stream, mark);

    if (error == cudaSuccess) {
        standin_mark_wait(mark);
        error = standin_enter();
    }
    standin_mark_unref(mark);
    return error;
}

cudaError_t standin_device_drain(void)
{
    struct standin_mark **marks = NULL;
    size_t mark_count = 0;
    cudaError_t error = cudaSuccess;

    /* Under the lock no stream retires; the waiting is done without it. */
    pthread_mutex_lock(&standin_device.lock);
    for (struct CUstream_st *stream = standin_device.streams; stream != NULL;
         stream = stream->next) {
        mark_count++;
    }
    marks = calloc(mark_count + 1, sizeof(*marks));
    mark_count = 0;
    for (struct CUstream_st *stream = standin_device.streams;
         stream != NULL && marks != NULL && error == cudaSuccess; stream = stream->next) {
        marks[mark_count] = standin_mark_create();
        error = standin_stream_push_mark(stream, marks[mark_count]);
        mark_count++;
    }
    pthread_mutex_unlock(&standin_device.lock);
    if (marks == NULL) {
        return cudaErrorMemoryAllocation;
    }
    for (size_t i = 0; i < mark_count; i++) {
        if (error == cudaSuccess) {
            standin_mark_wait(marks[i]);
        }
        standin_mark_unref(marks[i]);
    }
    free(marks);
    return error != cudaSuccess ? error : standin_enter();
}

int ddp_standin_stream_enqueue(void *stream,
                               int (*run)(void *context, const volatile int *is_cancelled),
                               void *context)
{
    const struct standin_item item = {
        .run = run, .context = context, .is_always = true, .needs_memory = true};
    cudaError_t error = standin_enter();

    if (error == cudaSuccess) {
        error = standin_stream_push(standin_stream_resolve(stream), &item);
    }
    return (int)standin_leave(error);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    cudaError_t error = standin_enter();

    *out = NULL;
    if (error == cudaSuccess && flags != cudaStreamNonBlocking) {
        error = cudaErrorInvalidValue;
    }
    if (error == cudaSuccess) {
        pthread_mutex_lock(&standin_device.lock);
        *out = stream_start();
        pthread_mutex_unlock(&standin_device.lock);
        if (*out == NULL) {
            error = cudaErrorMemoryAllocation;
        } else {
            atomic_fetch_add(&standin_device.stream_count, 1);
        }
    }
    return standin_leave(error);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t error = standin_enter();

    if (error == cudaErrorInitializationError) {
        return standin_leave(error);
    }
    if (stream == NULL) {
        return standin_leave(cudaErrorInvalidResourceHandle);
    }
    pthread_mutex_lock(&stream->lock);
    stream->is_closed = true;
    pthread_cond_signal(&stream->changed);
    pthread_mutex_unlock(&stream->lock);
    atomic_fetch_sub(&standin_device.stream_count, 1);
    return standin_leave(error);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t error = standin_enter();

    if (error == cudaSuccess) {
        error = standin_stream_drain(standin_stream_resolve(stream));
    }
    return standin_leave(error);
}
