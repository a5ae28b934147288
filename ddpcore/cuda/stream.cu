/* Streams, events, copies, and words that the device stores into shared host memory. */
#include <unistd.h>

#include "ddpcore/cuda/intrinsic.cuh"
#include "ddpcore/cuda/launch.cuh"
#include "ddpcore/cuda/state.cuh"

enum { WRITE_VALUE_VERSION = 11070, NOT_SUPPORTED = 801 /* CUDA_ERROR_NOT_SUPPORTED */ };

static cudaEvent_t event_of(struct ddp_device_event *event)
{
    return reinterpret_cast<cudaEvent_t>(event);
}

static ddp_status cuda_copy(struct ddp_device *device, struct ddp_stream *stream, void *target,
                            const void *source, size_t size_bytes)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    cudaStream_t handle;

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &handle));
    if (size_bytes > 0) {
        CUDA_TRY(cuda, cudaMemcpyAsync, target, source, size_bytes, cudaMemcpyDefault, handle);
    }
    return DDP_OK;
}

static ddp_status cuda_zero(struct ddp_device *device, struct ddp_stream *stream, void *target,
                            size_t size_bytes)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    cudaStream_t handle;

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &handle));
    if (size_bytes > 0) {
        CUDA_TRY(cuda, cudaMemsetAsync, target, 0, size_bytes, handle);
    }
    return DDP_OK;
}

static ddp_status cuda_stream_create(struct ddp_device *device, struct ddp_stream **out)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    struct ddp_stream *stream;
    ddp_status status;

    *out = NULL;
    DDP_TRY(ddp_cuda_enter(cuda));
    stream = static_cast<struct ddp_stream *>(ddp_mem_array(device->mem, 1, sizeof(*stream)));
    if (stream == NULL) {
        return DDP_E_NOMEM;
    }
    status = ddp_cuda_check(cuda, cudaStreamCreateWithFlags(&stream->handle, cudaStreamNonBlocking),
                            "cudaStreamCreateWithFlags");
    if (status != DDP_OK) {
        ddp_mem_free(device->mem, stream);
        return status;
    }
    *out = stream;
    return DDP_OK;
}

/* Make the default stream wait for all work of `handle`, because it will reuse its workspace. */
static ddp_status join_default(ddp_cuda_device *cuda, cudaStream_t handle)
{
    CUDA_TRY(cuda, cudaEventRecord, cuda->probe, handle);
    CUDA_TRY(cuda, cudaStreamWaitEvent, cuda->main.handle, cuda->probe, 0);
    return DDP_OK;
}

static void cuda_stream_destroy(struct ddp_device *device, struct ddp_stream *stream)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);

    if (stream == NULL) {
        return;
    }
    if (stream->workspace != NULL) {
        if (ddp_cuda_enter(cuda) == DDP_OK) {
            (void)join_default(cuda, stream->handle);
        }
        ddp_cuda_free(device, DDP_SPACE_DEVICE, stream->workspace);
    }
    ddp_cuda_blas_forget(cuda, stream);
    /* Returns at once; work that is already enqueued still runs. */
    (void)cudaStreamDestroy(stream->handle);
    ddp_mem_free(device->mem, stream);
}

static ddp_status cuda_event_create(struct ddp_device *device, struct ddp_device_event **out)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    cudaEvent_t event;

    *out = NULL;
    DDP_TRY(ddp_cuda_enter(cuda));
    CUDA_TRY(cuda, cudaEventCreateWithFlags, &event, cudaEventDisableTiming);
    *out = reinterpret_cast<struct ddp_device_event *>(event);
    return DDP_OK;
}

static void cuda_event_destroy(struct ddp_device *device, struct ddp_device_event *event)
{
    (void)device;
    if (event != NULL) {
        (void)cudaEventDestroy(event_of(event));
    }
}

static ddp_status cuda_event_record(struct ddp_device *device, struct ddp_device_event *event,
                                    struct ddp_stream *stream)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    cudaStream_t handle;

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &handle));
    CUDA_TRY(cuda, cudaEventRecord, event_of(event), handle);
    return DDP_OK;
}

static ddp_status cuda_event_query(struct ddp_device *device, struct ddp_device_event *event)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    cudaError_t error;

    DDP_TRY(ddp_cuda_enter(cuda));
    error = cudaEventQuery(event_of(event));
    if (error == cudaErrorNotReady) {
        return DDP_PENDING;
    }
    return ddp_cuda_check(cuda, error, "cudaEventQuery");
}

static ddp_status cuda_stream_wait_event(struct ddp_device *device, struct ddp_stream *stream,
                                         struct ddp_device_event *event)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    cudaStream_t handle;

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &handle));
    CUDA_TRY(cuda, cudaStreamWaitEvent, handle, event_of(event), 0);
    return DDP_OK;
}

static void *cuda_native_stream(struct ddp_device *device, struct ddp_stream *stream)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    cudaStream_t handle;

    if (ddp_cuda_enter_stream(cuda, stream, &handle) != DDP_OK) {
        /* Work that the caller enqueues on it fails with the device's error. */
        handle = stream != NULL ? stream->handle : cuda->main.handle;
    }
    return handle;
}

static ddp_cuda_map *find_map(ddp_cuda_device *cuda, const unsigned char *at)
{
    for (ddp_cuda_map &map : cuda->maps) {
        if (map.memory != NULL && at >= map.memory &&
            static_cast<size_t>(at - map.memory) < map.size_bytes) {
            return &map;
        }
    }
    return NULL;
}

static ddp_status cuda_map(struct ddp_device *device, void *memory, size_t size_bytes)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    ddp_cuda_map *map = cuda->maps;
    void *view = NULL;
    ddp_status status;

    DDP_TRY(ddp_cuda_enter(cuda));
    if (size_bytes == 0 || size_bytes % page != 0 ||
        reinterpret_cast<uintptr_t>(memory) % page != 0) {
        return DDP_E_INVALID;
    }
    while (map < cuda->maps + DDP_CUDA_MAPS && map->memory != NULL) {
        map++;
    }
    if (map == cuda->maps + DDP_CUDA_MAPS) {
        return DDP_E_OVERFLOW;
    }
    CUDA_TRY(cuda, cudaHostRegister, memory, size_bytes,
             cudaHostRegisterPortable | cudaHostRegisterMapped);
    status = ddp_cuda_check(cuda, cudaHostGetDevicePointer(&view, memory, 0),
                            "cudaHostGetDevicePointer");
    if (status != DDP_OK) {
        (void)cudaHostUnregister(memory);
        return status;
    }
    map->memory = static_cast<unsigned char *>(memory);
    map->size_bytes = size_bytes;
    map->device_view = static_cast<unsigned char *>(view);
    return DDP_OK;
}

static void cuda_unmap(struct ddp_device *device, void *memory)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    ddp_cuda_map *map = find_map(cuda, static_cast<const unsigned char *>(memory));

    if (map != NULL) {
        (void)ddp_cuda_enter(cuda);
        (void)cudaHostUnregister(map->memory);
        *map = ddp_cuda_map();
    }
}

struct store_args {
    uint64_t *word;
    uint64_t value;
};

static __global__ void store_kernel(store_args args)
{
    ddp_cuda_publish(args.word, args.value);
}

static ddp_status cuda_store_word(struct ddp_device *device, struct ddp_stream *stream,
                                  uint64_t *word, uint64_t value)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);
    const unsigned char *at = reinterpret_cast<const unsigned char *>(word);
    const ddp_cuda_map *map = find_map(cuda, at);
    cudaStream_t handle;
    unsigned char *view;

    DDP_TRY(ddp_cuda_enter_stream(cuda, stream, &handle));
    if (map == NULL || reinterpret_cast<uintptr_t>(word) % sizeof(*word) != 0) {
        return DDP_E_INVALID;
    }
    view = map->device_view + (at - map->memory);
    if (cuda->write_value != NULL) {
        /* Flags 0: the write comes after a fence for everything that the stream wrote before. */
        int result =
            cuda->write_value(handle, reinterpret_cast<unsigned long long>(view), value, 0);
        if (result != NOT_SUPPORTED) {
            /* Codes of the driver are the runtime's. */
            return ddp_cuda_check(cuda, static_cast<cudaError_t>(result), "cuStreamWriteValue64");
        }
        cuda->write_value = NULL;
    }
    return ddp_cuda_launch(cuda, store_kernel,
                           store_args{reinterpret_cast<uint64_t *>(view), value}, 1, 1, handle);
}

void ddp_cuda_stream_fill_ops(struct ddp_device_ops *ops)
{
    ops->copy = cuda_copy;
    ops->zero = cuda_zero;
    ops->stream_create = cuda_stream_create;
    ops->stream_destroy = cuda_stream_destroy;
    ops->event_create = cuda_event_create;
    ops->event_destroy = cuda_event_destroy;
    ops->event_record = cuda_event_record;
    ops->event_query = cuda_event_query;
    ops->stream_wait_event = cuda_stream_wait_event;
    ops->native_stream = cuda_native_stream;
    ops->map = cuda_map;
    ops->unmap = cuda_unmap;
    ops->store_word = cuda_store_word;
}

/* NULL if the driver has no cuStreamWriteValue64. */
static ddp_cuda_write_value *find_write_value()
{
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    void *entry = NULL;
    cudaError_t error;

#if CUDART_VERSION >= 12050
    error = cudaGetDriverEntryPointByVersion("cuStreamWriteValue64", &entry, WRITE_VALUE_VERSION,
                                             cudaEnableDefault, &result);
#else
    error = cudaGetDriverEntryPoint("cuStreamWriteValue64", &entry, cudaEnableDefault, &result);
#endif
    if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) {
        (void)cudaGetLastError();
        return NULL;
    }
    return reinterpret_cast<ddp_cuda_write_value *>(entry);
}

ddp_status ddp_cuda_stream_init(ddp_cuda_device *cuda)
{
    CUDA_TRY(cuda, cudaEventCreateWithFlags, &cuda->probe, cudaEventDisableTiming);
    CUDA_TRY(cuda, cudaStreamCreateWithFlags, &cuda->main.handle, cudaStreamNonBlocking);
    cuda->write_value = find_write_value();
    return ddp_cuda_preload(cuda, store_kernel);
}

void ddp_cuda_stream_fini(ddp_cuda_device *cuda)
{
    for (ddp_cuda_map &map : cuda->maps) {
        if (map.memory != NULL) {
            (void)cudaHostUnregister(map.memory);
        }
    }
    if (cuda->main.handle != NULL) {
        (void)cudaStreamDestroy(cuda->main.handle);
    }
    if (cuda->probe != NULL) {
        (void)cudaEventDestroy(cuda->probe);
    }
}
