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
    CUDA_ERROR_NOT_SUPPORTED = 801
} CUresult;
typedef cudaStream_t CUstream;
typedef unsigned long long CUdeviceptr;
typedef uint64_t cuuint64_t;

#define CU_STREAM_WRITE_VALUE_DEFAULT           0x0
#define CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER 0x1

#endif
