/* CUDA runtime stand-in, for tests on machines without a GPU; nothing here is a GPU result. Events:
 * each record makes a fresh mark, so that a wait for an earlier record is not held up by a later
 * one. */
#include <stdlib.h>

#include "tests/standin/cuda/state.h"

struct standin_mark *standin_mark_create(void)
{
    struct standin_mark *mark = calloc(1, sizeof(*mark));

    if (mark != NULL) {
        pthread_mutex_init(&mark->lock, NULL);
        pthread_cond_init(&mark->changed, NULL);
        mark->ref_count = 1;
    }
    return mark;
}

struct standin_mark *standin_mark_ref(struct standin_mark *mark)
{
    pthread_mutex_lock(&mark->lock);
    mark->ref_count++;
    pthread_mutex_unlock(&mark->lock);
    return mark;
}

void standin_mark_unref(struct standin_mark *mark)
{
    bool is_last;

    if (mark == NULL) {
        return;
    }
    pthread_mutex_lock(&mark->lock);
    is_last = --mark->ref_count == 0;
    pthread_mutex_unlock(&mark->lock);
    if (is_last) {
        pthread_cond_destroy(&mark->changed);
        pthread_mutex_destroy(&mark->lock);
        free(mark);
    }
}

void standin_mark_finish(struct standin_mark *mark)
{
    pthread_mutex_lock(&mark->lock);
    mark->is_done = true;
    pthread_cond_broadcast(&mark->changed);
    pthread_mutex_unlock(&mark->lock);
}

void standin_mark_wait(struct standin_mark *mark)
{
    pthread_mutex_lock(&mark->lock);
    while (!mark->is_done) {
        pthread_cond_wait(&mark->changed, &mark->lock);
    }
    pthread_mutex_unlock(&mark->lock);
}

bool standin_mark_is_done(struct standin_mark *mark)
{
    bool is_done;

    pthread_mutex_lock(&mark->lock);
    is_done = mark->is_done;
    pthread_mutex_unlock(&mark->lock);
    return is_done;
}

static int mark_reach(void *context, const volatile int *is_cancelled)
{
    (void)is_cancelled;
    standin_mark_finish(context);
    return 0;
}

static int mark_await(void *context, const volatile int *is_cancelled)
{
    (void)is_cancelled;
    standin_mark_wait(context);
    return 0;
}

static void mark_drop(void *context)
{
    standin_mark_unref(context);
}

static cudaError_t push(struct CUstream_st *stream, struct standin_mark *mark,
                        const struct standin_item *item)
{
    cudaError_t error = cudaErrorMemoryAllocation;

    if (mark != NULL) {
        standin_mark_ref(mark);
        error = standin_stream_push(stream, item);
        if (error != cudaSuccess) {
            standin_mark_unref(mark);
        }
    }
    return error;
}

cudaError_t standin_stream_push_mark(struct CUstream_st *stream, struct standin_mark *mark)
{
    const struct standin_item item = {
        .run = mark_reach, .drop = mark_drop, .context = mark, .is_always = true};

    return push(stream, mark, &item);
}

/* The mark of the last record with a reference, NULL if there is none. */
static struct standin_mark *event_last(cudaEvent_t event)
{
    struct standin_mark *mark;

    pthread_mutex_lock(&event->lock);
    mark = event->last != NULL ? standin_mark_ref(event->last) : NULL;
    pthread_mutex_unlock(&event->lock);
    return mark;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    cudaError_t error = standin_enter();

    *out = NULL;
    if (error == cudaSuccess &&
        (flags & ~(unsigned)cudaEventBlockingSync) != cudaEventDisableTiming) {
        error = cudaErrorInvalidValue;
    }
    if (error == cudaSuccess) {
        *out = calloc(1, sizeof(**out));
        if (*out == NULL) {
            error = cudaErrorMemoryAllocation;
        } else {
            pthread_mutex_init(&(*out)->lock, NULL);
            atomic_fetch_add(&standin_device.event_count, 1);
        }
    }
    return standin_leave(error);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    cudaError_t error = standin_enter();

    if (event == NULL) {
        return standin_leave(cudaErrorInvalidResourceHandle);
    }
    standin_mark_unref(event->last);
    pthread_mutex_destroy(&event->lock);
    free(event);
    atomic_fetch_sub(&standin_device.event_count, 1);
    return standin_leave(error);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t error = standin_enter();
    struct standin_mark *mark = NULL, *old;

    if (error == cudaSuccess) {
        mark = standin_mark_create();
        error = standin_stream_push_mark(standin_stream_resolve(stream), mark);
    }
    if (error != cudaSuccess) {
        standin_mark_unref(mark);
        return standin_leave(error);
    }
    pthread_mutex_lock(&event->lock);
    old = event->last;
    event->last = mark;
    pthread_mutex_unlock(&event->lock);
    standin_mark_unref(old);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t error = standin_enter();
    struct standin_mark *mark;

    if (error != cudaSuccess) {
        return standin_leave(error);
    }
    mark = event_last(event);
    if (mark != NULL) {
        bool is_done = standin_mark_is_done(mark);
        standin_mark_unref(mark);
        /* A kernel that failed before the mark has already failed the device. */
        error = is_done ? standin_enter() : cudaErrorNotReady;
    }
    return standin_leave(error);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t error = standin_enter();
    struct standin_mark *mark;

    if (error != cudaSuccess) {
        return standin_leave(error);
    }
    mark = event_last(event);
    if (mark != NULL) {
        standin_mark_wait(mark);
        standin_mark_unref(mark);
    }
    return standin_leave(standin_enter());
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    cudaError_t error = standin_enter();
    struct standin_mark *mark;
    struct standin_item item = {.run = mark_await, .drop = mark_drop};

    if (error == cudaSuccess && flags != cudaEventWaitDefault) {
        error = cudaErrorInvalidValue;
    }
    if (error != cudaSuccess) {
        return standin_leave(error);
    }
    mark = event_last(event);
    if (mark != NULL) {
        item.context = mark;
        error = push(standin_stream_resolve(stream), mark, &item);
        standin_mark_unref(mark);
    }
    return standin_leave(error);
}
