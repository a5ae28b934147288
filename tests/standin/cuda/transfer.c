/* CUDA runtime stand-in, for tests on machines without a GPU; nothing here is a GPU result. Copies,
 * fills, and the driver's cuStreamWriteValue64. */
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/cuda/state.h"

struct transfer {
    void *target;
    const void *source; /* NULL: fill with value */
    size_t size_bytes;
    int value;
};

static int transfer_run(void *context, const volatile int *is_cancelled)
{
    const struct transfer *transfer = context;

    (void)is_cancelled;
    atomic_fetch_add_explicit(&standin_device.copy_count, 1, memory_order_relaxed);
    if (transfer->source != NULL) {
        memcpy(transfer->target, transfer->source, transfer->size_bytes);
    } else {
        memset(transfer->target, transfer->value, transfer->size_bytes);
    }
    return 0;
}

static cudaError_t push_copy(cudaStream_t stream, const void *context, size_t context_bytes,
                             int (*run)(void *context, const volatile int *is_cancelled))
{
    struct standin_item item = {.run = run, .drop = free, .needs_memory = true};
    cudaError_t error = cudaErrorMemoryAllocation;

    item.context = malloc(context_bytes);
    if (item.context != NULL) {
        memcpy(item.context, context, context_bytes);
        error = standin_stream_push(standin_stream_resolve(stream), &item);
    }
    if (error != cudaSuccess) {
        free(item.context);
    }
    return error;
}

static bool kind_fits(enum cudaMemcpyKind kind, enum standin_place target,
                      enum standin_place source)
{
    bool is_to_device = target == STANDIN_DEVICE, is_from_device = source == STANDIN_DEVICE;

    switch (kind) {
    case cudaMemcpyHostToHost:
        return !is_to_device && !is_from_device;
    case cudaMemcpyHostToDevice:
        return is_to_device && !is_from_device;
    case cudaMemcpyDeviceToHost:
        return !is_to_device && is_from_device;
    case cudaMemcpyDeviceToDevice:
        return is_to_device && is_from_device;
    case cudaMemcpyDefault:
        return true;
    }
    return false;
}

cudaError_t cudaMemcpyAsync(void *target, const void *source, size_t size_bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    const struct transfer transfer = {target, source, size_bytes, 0};
    cudaError_t error = standin_enter();
    enum standin_place to, from;

    if (error != cudaSuccess || size_bytes == 0) {
        return standin_leave(error);
    }
    if (target == NULL || source == NULL) {
        return standin_leave(cudaErrorInvalidValue);
    }
    to = standin_memory_place(target, size_bytes);
    from = standin_memory_place(source, size_bytes);
    if (to == STANDIN_OUTSIDE || from == STANDIN_OUTSIDE || !kind_fits(kind, to, from)) {
        return standin_leave(cudaErrorInvalidValue);
    }
    error = push_copy(stream, &transfer, sizeof(transfer), transfer_run);
    if (error == cudaSuccess && (to == STANDIN_PAGEABLE || from == STANDIN_PAGEABLE)) {
        atomic_fetch_add(&standin_device.pageable_copy_count, 1);
        if (standin_device.is_pageable_waiting) {
            error = standin_stream_drain(standin_stream_resolve(stream));
        }
    }
    return standin_leave(error);
}

cudaError_t cudaMemsetAsync(void *target, int value, size_t size_bytes, cudaStream_t stream)
{
    const struct transfer transfer = {target, NULL, size_bytes, value};
    cudaError_t error = standin_enter();
    enum standin_place place;

    if (error != cudaSuccess || size_bytes == 0) {
        return standin_leave(error);
    }
    place = target == NULL ? STANDIN_OUTSIDE : standin_memory_place(target, size_bytes);
    if (place != STANDIN_DEVICE && place != STANDIN_PINNED) {
        return standin_leave(cudaErrorInvalidValue);
    }
    return standin_leave(push_copy(stream, &transfer, sizeof(transfer), transfer_run));
}

struct word {
    uint64_t *address;
    uint64_t value;
};

static int word_run(void *context, const volatile int *is_cancelled)
{
    const struct word *word = context;

    (void)is_cancelled;
    __atomic_store_n(word->address, word->value, __ATOMIC_RELEASE);
    return 0;
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned flags)
{
    const struct word word = {(uint64_t *)(uintptr_t)address, value};
    cudaError_t error = standin_enter();
    enum standin_place place;

    if (error != cudaSuccess) {
        return (CUresult)error;
    }
    if (!standin_device.has_write_value) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (standin_stream_is_capturing(stream)) {
        atomic_fetch_add(&standin_device.captured_count, 1);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    place = standin_memory_place(word.address, sizeof(value));
    if (flags != CU_STREAM_WRITE_VALUE_DEFAULT || address % sizeof(value) != 0 ||
        (place != STANDIN_DEVICE && place != STANDIN_PINNED)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    standin_stream_await_room(stream);
    return (CUresult)push_copy(stream, &word, sizeof(word), word_run);
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status)
{
    cudaError_t error = standin_enter();
    CUresult (*found)(CUstream, CUdeviceptr, cuuint64_t, unsigned) = cuStreamWriteValue64_v2;
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;

    *function = NULL;
    if (error == cudaSuccess && flags != cudaEnableDefault) {
        error = cudaErrorInvalidValue;
    }
    if (strcmp(symbol, "cuStreamWriteValue64") != 0) {
        result = cudaDriverEntryPointSymbolNotFound;
    } else if (version < 8000 || version > CUDART_VERSION) {
        result = cudaDriverEntryPointVersionNotSufficent;
    } else if (error == cudaSuccess) {
        memcpy(function, &found, sizeof(found));
    }
    if (status != NULL) {
        *status = result;
    } else if (error == cudaSuccess && result != cudaDriverEntryPointSuccess) {
        error = cudaErrorSymbolNotFound;
    }
    return standin_leave(error);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status)
{
    return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}
