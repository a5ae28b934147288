/* CUDA runtime stand-in, for tests on machines without a GPU; nothing here is a GPU result. The
 * device: its start, its sticky error, versions and properties. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/standin/cuda/state.h"

struct standin_device standin_device = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t device_once = PTHREAD_ONCE_INIT;
static _Atomic bool is_forked;
static _Thread_local cudaError_t last_error;
static _Thread_local int current_card;

static uint64_t setting(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text == NULL || text[0] == '\0' ? fallback : strtoull(text, NULL, 0);
}

/* The cards that CUDA_VISIBLE_DEVICES shows: its list ends at an entry that names no card. */
static int visible_card_count(int card_count)
{
    const char *at = getenv("CUDA_VISIBLE_DEVICES");
    int count = 0;

    if (at == NULL) {
        return card_count;
    }
    for (char *end; count < card_count; at = end + 1) {
        long card = strtol(at, &end, 10);

        if (end == at || card < 0 || card >= card_count) {
            break;
        }
        count++;
        if (*end != ',') {
            break;
        }
    }
    return count;
}

static void after_fork(void)
{
    atomic_store(&is_forked, true);
}

static void device_start(void)
{
    standin_device.seed = setting("DDP_STANDIN_SEED", 0);
    standin_device.memory_bytes = setting("DDP_STANDIN_MEMORY_BYTES", UINT64_C(1) << 30);
    standin_device.failing_allocation = setting("DDP_STANDIN_FAIL_ALLOCATION", 0);
    standin_device.queue_length = setting("DDP_STANDIN_QUEUE", 0);
    standin_device.card_count = visible_card_count((int)setting("DDP_STANDIN_CARDS", 1));
    standin_device.is_guarded = setting("DDP_STANDIN_GUARD", 1) != 0;
    standin_device.has_write_value = setting("DDP_STANDIN_WRITE_VALUE", 1) != 0;
    standin_device.is_pageable_waiting =
        setting("DDP_STANDIN_PAGEABLE_WAITS", standin_device.seed == 0 ? 1 : 0) != 0;
#ifdef __SANITIZE_THREAD__
    /* The guard's lock would order threads that nothing else orders, and so hide their races from
     * ThreadSanitizer. */
    standin_device.is_guarded = false;
#endif
    if (pthread_atfork(NULL, NULL, after_fork) != 0) {
        abort();
    }
}

cudaError_t standin_enter(void)
{
    if (atomic_load(&is_forked)) {
        return cudaErrorInitializationError;
    }
    if (pthread_once(&device_once, device_start) != 0) {
        return cudaErrorInitializationError;
    }
    return (cudaError_t)atomic_load_explicit(&standin_device.error, memory_order_relaxed);
}

cudaError_t standin_leave(cudaError_t error)
{
    if (error != cudaSuccess && error != cudaErrorNotReady) {
        last_error = error;
    }
    return error;
}

uint64_t standin_mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
    return value ^ (value >> 31);
}

void ddp_standin_device_fail(int cuda_error)
{
    int none = 0;
    if (cuda_error != 0) {
        atomic_compare_exchange_strong(&standin_device.error, &none, cuda_error);
        __atomic_store_n(&standin_device.is_cancelled, 1, __ATOMIC_RELAXED);
    }
}

void ddp_standin_report_get(struct ddp_standin_report *out)
{
    *out = (struct ddp_standin_report){
        .stream_count = atomic_load(&standin_device.stream_count),
        .event_count = atomic_load(&standin_device.event_count),
        .pageable_copy_count = atomic_load(&standin_device.pageable_copy_count),
        .kernel_count = atomic_load(&standin_device.kernel_count),
        .copy_count = atomic_load(&standin_device.copy_count),
        .card_mask = atomic_load(&standin_device.card_mask),
        .captured_count = atomic_load(&standin_device.captured_count),
    };
    standin_memory_report(out);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    cudaError_t sticky = standin_enter();
    return sticky != cudaSuccess ? sticky : last_error;
}

const char *cudaGetErrorName(cudaError_t error)
{
    switch (error) {
#define X(name, number, text) \
    case name:                \
        return #name;
        STANDIN_ERROR_TABLE(X)
#undef X
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
#define X(name, number, text) \
    case name:                \
        return text;
        STANDIN_ERROR_TABLE(X)
#undef X
    }
    return "unrecognized error code";
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = standin_enter();
    *count = 0;
    if (error == cudaSuccess) {
        *count = standin_device.card_count;
        error = *count == 0 ? cudaErrorNoDevice : cudaSuccess;
    }
    return standin_leave(error);
}

static cudaError_t card_check(int card)
{
    cudaError_t error = standin_enter();
    if (error == cudaSuccess && standin_device.card_count == 0) {
        error = cudaErrorNoDevice;
    } else if (error == cudaSuccess && (card < 0 || card >= standin_device.card_count)) {
        error = cudaErrorInvalidDevice;
    }
    return error;
}

/* Since CUDA 12 it makes the card's context at once. */
cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = card_check(device);
    if (error == cudaSuccess) {
        current_card = device;
        atomic_fetch_or(&standin_device.card_mask, UINT64_C(1) << (device & 63));
    }
    return standin_leave(error);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current_card;
    return standin_leave(card_check(current_card));
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    cudaError_t error = card_check(device);
    *properties = (struct cudaDeviceProp){0};
    if (error == cudaSuccess) {
        (void)snprintf(properties->name, sizeof(properties->name), "stand-in, not a GPU");
        properties->totalGlobalMem = standin_device.memory_bytes;
        properties->major = 7;
        properties->minor = 5;
        properties->multiProcessorCount = 2;
        properties->maxThreadsPerBlock = 1024;
        properties->warpSize = 32;
        properties->canMapHostMemory = 1;
        properties->unifiedAddressing = 1;
    }
    return standin_leave(error);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceProperties(&properties, device);
    if (error != cudaSuccess) {
        return error;
    }
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = properties.maxThreadsPerBlock;
        return cudaSuccess;
    case cudaDevAttrWarpSize:
        *value = properties.warpSize;
        return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
        *value = properties.multiProcessorCount;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
        *value = properties.major;
        return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
        *value = properties.minor;
        return cudaSuccess;
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrHostRegisterSupported:
        *value = 1;
        return cudaSuccess;
    }
    return standin_leave(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceSynchronize(void)
{
    cudaError_t error = standin_enter();
    return standin_leave(error != cudaSuccess ? error : standin_device_drain());
}
