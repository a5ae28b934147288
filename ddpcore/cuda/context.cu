/* What every operation of the CUDA device begins and ends with: the card made current, the stream
 * to enqueue on, and errors, of which some stick to the device. */
#include <cstdio>

#include "ddpcore/cuda/state.cuh"

/* Keep the text for last_error. Makes no call to the device. */
static void keep_text(ddp_cuda_device *cuda, const char *call, const char *name, const char *text)
{
    (void)snprintf(cuda->error_text, sizeof(cuda->error_text), "%s: %s: %s", call, name, text);
}

/* A sticky error comes back from every later call; any other is gone after cudaGetLastError. */
static void find_out_if_lost(ddp_cuda_device *cuda, const char *call)
{
    cudaError_t again;

    (void)cudaGetLastError();
    if (cuda->probe == NULL) {
        return;
    }
    again = cudaEventQuery(cuda->probe);
    if (again != cudaSuccess && again != cudaErrorNotReady) {
        cuda->is_lost = true;
        /* This text names the cause, which a library's own error code may not. */
        keep_text(cuda, call, cudaGetErrorName(again), cudaGetErrorString(again));
    }
    (void)cudaGetLastError();
}

ddp_status ddp_cuda_check_failed(ddp_cuda_device *cuda, cudaError_t error, const char *call)
{
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return DDP_E_DEVICE_MEMORY;
    }
    return ddp_cuda_fail(cuda, call, cudaGetErrorName(error), cudaGetErrorString(error));
}

ddp_status ddp_cuda_fail(ddp_cuda_device *cuda, const char *call, const char *name,
                         const char *text)
{
    /* The first error's text stays: later ones only repeat it. */
    if (!cuda->is_lost) {
        keep_text(cuda, call, name, text);
        find_out_if_lost(cuda, call);
    }
    return DDP_E_DEVICE;
}

ddp_status ddp_cuda_enter(ddp_cuda_device *cuda)
{
    if (cuda->is_lost) {
        return DDP_E_DEVICE;
    }
    CUDA_TRY(cuda, cudaSetDevice, cuda->ordinal);
    return DDP_OK;
}

ddp_status ddp_cuda_enter_stream(ddp_cuda_device *cuda, struct ddp_stream *stream,
                                 cudaStream_t *out)
{
    struct ddp_stream *chosen = stream != NULL ? stream : &cuda->main;

    *out = chosen->handle;
    DDP_TRY(ddp_cuda_enter(cuda));
    DDP_ASSERT(chosen->zero_serial <= cuda->memory.zero_serial);
    if (chosen->zero_serial != cuda->memory.zero_serial) {
        CUDA_TRY(cuda, cudaStreamWaitEvent, chosen->handle, cuda->memory.zeroed, 0);
        chosen->zero_serial = cuda->memory.zero_serial;
    }
    return DDP_OK;
}
