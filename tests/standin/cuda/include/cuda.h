/* A stand-in for CUDA, for tests on machines without a GPU. Nothing that runs on it is a GPU
 * result. The driver's types for cuStreamWriteValue64, which cudaGetDriverEntryPointByVersion hands
 * out. */
#ifndef TESTS_STANDIN_CUDA_H
#define TESTS_STANDIN_CUDA_H

#include <cuda_runtime_api.h>
#include <stdint.h>

typedef enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900
} CUresult;
typedef cudaStream_t CUstream;
typedef unsigned long long CUdeviceptr;
typedef uint64_t cuuint64_t;

#define CU_STREAM_WRITE_VALUE_DEFAULT           0x0
#define CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER 0x1

/* What the driver exports, by the names that it has in its library. A stream captures while
 * ddp_standin_stream_capture says so; what is enqueued meanwhile runs all the same. */
typedef void *CUcontext;
#ifdef __cplusplus
extern "C" {
#endif
CUresult cuCtxGetCurrent(CUcontext *out);
CUresult cuMemHostRegister_v2(void *data, size_t size_bytes, unsigned flags);
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *data, unsigned flags);
CUresult cuThreadExchangeStreamCaptureMode(int *mode);
CUresult cuStreamIsCapturing(CUstream stream, int *status);
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                 unsigned flags);
#ifdef __cplusplus
}
#endif

#endif
