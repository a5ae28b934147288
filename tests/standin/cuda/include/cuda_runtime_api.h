/* A stand-in for the CUDA runtime, for tests on machines without a GPU. Nothing that runs on it is
 * a GPU result.
 *
 * The calls of the CUDA runtime that ddprove's device makes, with their names, values and semantics
 * (CUDA Toolkit 13, "CUDA Runtime API"): streams are queues with a thread each, events are points
 * in them, errors of kernels come late and stick. What it narrows: only cudaStreamNonBlocking
 * streams, only events without timing; stream NULL is a stream like the others. */
#ifndef TESTS_STANDIN_CUDA_RUNTIME_API_H
#define TESTS_STANDIN_CUDA_RUNTIME_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_STANDIN_CUDA 1
#define CUDART_VERSION   13000

/* X(name, number, text) */
#define STANDIN_ERROR_TABLE(X)                                                  \
    X(cudaSuccess, 0, "no error")                                               \
    X(cudaErrorInvalidValue, 1, "invalid argument")                             \
    X(cudaErrorMemoryAllocation, 2, "out of memory")                            \
    X(cudaErrorInitializationError, 3, "initialization error")                  \
    X(cudaErrorInvalidConfiguration, 9, "invalid configuration argument")       \
    X(cudaErrorInvalidMemcpyDirection, 21, "invalid copy direction for memcpy") \
    X(cudaErrorStubLibrary, 34, "CUDA driver is a stub library")                \
    X(cudaErrorInsufficientDriver, 35,                                          \
      "CUDA driver version is insufficient for CUDA runtime version")           \
    X(cudaErrorInvalidDeviceFunction, 98, "invalid device function")            \
    X(cudaErrorNoDevice, 100, "no CUDA-capable device is detected")             \
    X(cudaErrorInvalidDevice, 101, "invalid device ordinal")                    \
    X(cudaErrorECCUncorrectable, 214, "uncorrectable ECC error encountered")    \
    X(cudaErrorInvalidResourceHandle, 400, "invalid resource handle")           \
    X(cudaErrorSymbolNotFound, 500, "named symbol not found")                   \
    X(cudaErrorNotReady, 600, "device not ready")                               \
    X(cudaErrorIllegalAddress, 700, "an illegal memory access was encountered") \
    X(cudaErrorLaunchTimeout, 702, "the launch timed out and was terminated")   \
    X(cudaErrorHostMemoryAlreadyRegistered, 712,                                \
      "part or all of the requested memory range is already mapped")            \
    X(cudaErrorHostMemoryNotRegistered, 713,                                    \
      "pointer does not correspond to a registered memory region")              \
    X(cudaErrorLaunchFailure, 719, "unspecified launch failure")                \
    X(cudaErrorNotSupported, 801, "operation not supported")                    \
    X(cudaErrorSystemDriverMismatch, 803,                                       \
      "system has unsupported display driver / cuda driver combination")        \
    X(cudaErrorCompatNotSupportedOnDevice, 804,                                 \
      "forward compatibility was attempted on non supported HW")                \
    X(cudaErrorUnknown, 999, "unknown error")

enum cudaError {
#define X(name, number, text) name = (number),
    STANDIN_ERROR_TABLE(X)
#undef X
};
typedef enum cudaError cudaError_t;

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

enum cudaMemcpyKind {
    cudaMemcpyHostToHost = 0,
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};

enum cudaDeviceAttr {
    cudaDevAttrMaxThreadsPerBlock = 1,
    cudaDevAttrWarpSize = 10,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrCanMapHostMemory = 19,
    cudaDevAttrUnifiedAddressing = 41,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrCanUseHostPointerForRegisteredMem = 91,
    cudaDevAttrHostRegisterSupported = 99
};

enum cudaDriverEntryPointQueryResult {
    cudaDriverEntryPointSuccess = 0,
    cudaDriverEntryPointSymbolNotFound = 1,
    cudaDriverEntryPointVersionNotSufficent = 2
};

#define cudaStreamDefault        0x00
#define cudaStreamNonBlocking    0x01
#define cudaEventDefault         0x00
#define cudaEventBlockingSync    0x01
#define cudaEventDisableTiming   0x02
#define cudaEventWaitDefault     0x00
#define cudaHostAllocDefault     0x00
#define cudaHostAllocPortable    0x01
#define cudaHostAllocMapped      0x02
#define cudaHostRegisterDefault  0x00
#define cudaHostRegisterPortable 0x01
#define cudaHostRegisterMapped   0x02
#define cudaEnableDefault        0x00

/* The fields that ddprove reads. */
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    int major, minor;
    int multiProcessorCount;
    int maxThreadsPerBlock;
    int warpSize;
    int canMapHostMemory;
    int unifiedAddressing;
};

struct cudaFuncAttributes {
    int maxThreadsPerBlock;
};

cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorName(cudaError_t error);
const char *cudaGetErrorString(cudaError_t error);

cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device);
cudaError_t cudaDeviceSynchronize(void);
/* Knows "cuStreamWriteValue64". */
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status);
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status);

/* Every kernel may have blocks of 1024 threads. What CUDA does on the side is needed here: it loads
 * the kernel. Otherwise CUDA does so at the first launch, which may wait for kernels that run, so
 * the stand-in refuses such a launch (cudaErrorInvalidDeviceFunction). */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel);

/* Device memory is not the host's to touch: while no stream works on it, an access by the host is a
 * segmentation fault (unless DDP_STANDIN_GUARD=0, and not under ThreadSanitizer, which sees the
 * race instead). Fresh memory holds NaNs. cudaFree and cudaFreeHost wait for all streams. */
cudaError_t cudaMalloc(void **out, size_t size_bytes);
cudaError_t cudaFree(void *data);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaHostAlloc(void **out, size_t size_bytes, unsigned flags);
cudaError_t cudaFreeHost(void *data);
cudaError_t cudaHostRegister(void *data, size_t size_bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *data);
cudaError_t cudaHostGetDevicePointer(void **out, void *data, unsigned flags);
/* With host memory that is not page-locked it returns when the copy is done, as CUDA mostly does;
 * with DDP_STANDIN_PAGEABLE_WAITS=0, which a seed implies, earlier, as CUDA may where the card
 * reads such memory itself. */
cudaError_t cudaMemcpyAsync(void *target, const void *source, size_t size_bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void *target, int value, size_t size_bytes, cudaStream_t stream);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

#ifdef __cplusplus
}
#endif
#endif
