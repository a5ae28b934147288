/* CUDA driver stand-in, for tests on machines without a GPU; nothing here is a GPU result. The
 * calls of the driver that tools make, which find it in the process whatever runtime the program
 * has. */
#include <cuda.h>

#include "tests/standin/cuda/state.h"

/* As after the runtime's first call: there is always one. */
CUresult cuCtxGetCurrent(CUcontext *out)
{
    const cudaError_t error = standin_enter();

    *out = error == cudaSuccess ? &standin_device : NULL;
    return (CUresult)error;
}

CUresult cuMemHostRegister_v2(void *data, size_t size_bytes, unsigned flags)
{
    return (CUresult)cudaHostRegister(data, size_bytes, flags);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *data, unsigned flags)
{
    void *address = NULL;
    const cudaError_t error = cudaHostGetDevicePointer(&address, data, flags);

    *out = (CUdeviceptr)(uintptr_t)address;
    return (CUresult)error;
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
    static _Thread_local int current; /* CU_STREAM_CAPTURE_MODE_GLOBAL */
    const int before = current;

    current = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, int *status)
{
    *status = standin_stream_is_capturing(stream) ? 1 : 0; /* CU_STREAM_CAPTURE_STATUS_ACTIVE */
    return (CUresult)standin_enter();
}
