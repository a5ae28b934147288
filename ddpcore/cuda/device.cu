/* The CUDA device: which cards there are, creation, destruction, and the table of operations. */
#include <cstdio>

#include "ddpcore/cuda/cuda.h"
#include "ddpcore/cuda/layers.cuh"
#include "ddpcore/cuda/state.cuh"

static const char *cuda_last_error(struct ddp_device *device)
{
    return ddp_cuda_of(device)->error_text;
}

/* Also ends a creation that failed half-way. */
static void cuda_destroy(struct ddp_device *device)
{
    ddp_cuda_device *cuda = ddp_cuda_of(device);

    (void)cudaSetDevice(cuda->ordinal);
    ddp_cuda_fault_stop(cuda);
    (void)cudaDeviceSynchronize();
    ddp_cuda_blas_destroy(cuda);
    ddp_cuda_memory_fini(cuda);
    ddp_cuda_stream_fini(cuda);
    /* An error of the calls above must not show up in the next device's calls. */
    (void)cudaGetLastError();
    ddp_mem_free(device->mem, cuda);
}

static struct ddp_device_ops make_ops()
{
    struct ddp_device_ops ops = {};

    ops.name = "cuda";
    ops.is_host_memory = false;
    ops.alloc = ddp_cuda_alloc;
    ops.free = ddp_cuda_free;
    ops.reduce = ddp_cuda_reduce;
    ops.scale = ddp_cuda_scale;
    ops.inject = ddp_cuda_inject;
    ops.last_error = cuda_last_error;
    ops.destroy = cuda_destroy;
    ddp_cuda_stream_fill_ops(&ops);
    return ops;
}

static const struct ddp_device_ops cuda_ops = make_ops();

/* A thread starts out on card 0. A library that saves and restores its caller's card would create a
 * context on card 0. */
static void enter_thread(int32_t ordinal)
{
    (void)cudaSetDevice(ordinal);
}

/* Text for an error before there is a device that could keep it, with what would help. */
static ddp_status explain(struct ddp_err *err, cudaError_t error, const char *call)
{
    (void)cudaGetLastError();
    switch (error) {
    case cudaErrorMemoryAllocation:
        return ddp_err_set(err, DDP_E_DEVICE_MEMORY,
                           "the CUDA card has too little free memory (%s: %s)", call,
                           cudaGetErrorString(error));
    case cudaErrorNoDevice:
        return ddp_err_set(err, DDP_E_NOT_FOUND,
                           "no CUDA card (%s: %s); the cpu device needs none, and "
                           "CUDA_VISIBLE_DEVICES hides cards",
                           cudaGetErrorName(error), cudaGetErrorString(error));
    case cudaErrorInsufficientDriver:
    case cudaErrorStubLibrary:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
        return ddp_err_set(err, DDP_E_NOT_FOUND,
                           "no usable NVIDIA driver (%s: %s); install one for CUDA %d.%d or newer, "
                           "or use the cpu device",
                           cudaGetErrorName(error), cudaGetErrorString(error),
                           CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    default:
        return ddp_err_set(err, DDP_E_DEVICE, "%s: %s: %s", call, cudaGetErrorName(error),
                           cudaGetErrorString(error));
    }
}

static ddp_status find_card(int32_t ordinal, struct ddp_device_cuda_info *out, struct ddp_err *err)
{
    struct cudaDeviceProp properties;
    int driver_version = 0;
    int runtime_version = 0;
    int card_count = 0;
    cudaError_t error;

    *out = ddp_device_cuda_info();
    if (cudaDriverGetVersion(&driver_version) == cudaSuccess &&
        cudaRuntimeGetVersion(&runtime_version) == cudaSuccess) {
        out->driver_version = static_cast<uint32_t>(driver_version);
        out->runtime_version = static_cast<uint32_t>(runtime_version);
    }
    error = cudaGetDeviceCount(&card_count);
    if (error != cudaSuccess) {
        return explain(err, error, "cudaGetDeviceCount");
    }
    out->card_count = static_cast<uint32_t>(card_count);
    if (ordinal < 0 || ordinal >= card_count) {
        return ddp_err_set(err, DDP_E_NOT_FOUND,
                           "no CUDA card %d; %d visible, counted from 0 (CUDA_VISIBLE_DEVICES "
                           "hides cards)",
                           ordinal, card_count);
    }
    error = cudaGetDeviceProperties(&properties, ordinal);
    if (error != cudaSuccess) {
        return explain(err, error, "cudaGetDeviceProperties");
    }
    (void)snprintf(out->name, sizeof(out->name), "%s", properties.name);
    out->compute_capability = static_cast<uint32_t>(properties.major * 10 + properties.minor);
    out->memory_bytes = properties.totalGlobalMem;
    return DDP_OK;
}

ddp_status ddp_device_cuda_query(int32_t ordinal, struct ddp_device_cuda_info *out,
                                 struct ddp_err *err)
{
    return find_card(ordinal, out, err);
}

static ddp_status preload(ddp_cuda_device *cuda)
{
    DDP_TRY(ddp_cuda_reduce_preload(cuda));
    DDP_TRY(ddp_cuda_scale_preload(cuda));
    DDP_TRY(ddp_cuda_math_preload(cuda));
    return ddp_cuda_layers_preload(cuda);
}

/* Everything that needs a context. After a failure cuda_destroy frees the parts that were made. */
static ddp_status open_card(ddp_cuda_device *cuda, const struct ddp_device_cuda_config *config,
                            struct ddp_err *err)
{
    CUDA_TRY(cuda, cudaSetDevice, cuda->ordinal);
    CUDA_TRY(cuda, cudaDeviceGetAttribute, &cuda->sm_count, cudaDevAttrMultiProcessorCount,
             cuda->ordinal);
    DDP_TRY(ddp_cuda_stream_init(cuda));
    DDP_TRY(ddp_cuda_memory_init(cuda));
    DDP_TRY(ddp_cuda_fault_init(cuda));
    DDP_TRY(preload(cuda));
    return ddp_cuda_blas_create(cuda, config->cublas_path, config->is_fast, err);
}

ddp_status ddp_device_cuda_create(struct ddp_mem *mem, const struct ddp_device_cuda_config *config,
                                  struct ddp_device **out, struct ddp_err *err)
{
    struct ddp_device_cuda_info info;
    ddp_cuda_device *cuda;
    ddp_status status;

    *out = NULL;
    DDP_TRY(find_card(config->ordinal, &info, err));
    cuda = static_cast<ddp_cuda_device *>(ddp_mem_array(mem, 1, sizeof(*cuda)));
    if (cuda == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the CUDA device");
    }
    cuda->base.ops = &cuda_ops;
    cuda->base.math = ddp_cuda_math();
    cuda->base.layers = ddp_cuda_layers();
    cuda->base.hints = &ddp_device_no_hints;
    cuda->base.mem = mem;
    cuda->base.thread = {enter_thread, config->ordinal};
    cuda->ordinal = config->ordinal;
    cuda->capability_major = static_cast<int>(info.compute_capability / 10);
    status = open_card(cuda, config, err);
    if (status != DDP_OK) {
        if (status == DDP_E_DEVICE) {
            (void)ddp_err_set(err, status, "CUDA card %d (%s, compute capability %u.%u): %s",
                              config->ordinal, info.name, info.compute_capability / 10,
                              info.compute_capability % 10, cuda->error_text);
        } else if (status == DDP_E_NOMEM || status == DDP_E_DEVICE_MEMORY) {
            (void)ddp_err_set(err, status, "CUDA card %d (%s): %s", config->ordinal, info.name,
                              ddp_status_text(status));
        }
        cuda_destroy(&cuda->base);
        return status;
    }
    *out = &cuda->base;
    return DDP_OK;
}
