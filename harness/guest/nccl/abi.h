/* The part of NCCL's and the CUDA driver's ABI that the adapter uses, declared here so that neither
 * is needed to build: NCCL's functions with ints for its enumerations and void * for a stream.
 * tests/guest/nccl_abi_check.c holds all of it against nccl.h and cuda.h where they are installed.
 * Source: nccl.h of NCCL 2.28.9, cuda.h of CUDA 13.0. Internal. */
#ifndef HARNESS_GUEST_NCCL_ABI_H
#define HARNESS_GUEST_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

#define GUEST_NCCL_ID_BYTES 128

/* ncclResult_t */
enum guest_nccl_result {
    GUEST_NCCL_SUCCESS = 0,
    GUEST_NCCL_INVALID_USAGE = 5,
    GUEST_NCCL_IN_PROGRESS = 7 /* not an error: what was asked for goes on in another thread */
};

/* ncclDataType_t. X(NCCL's name, its number, the guest library's name) */
#define GUEST_NCCL_DTYPE_TABLE(X) \
    X(ncclInt8, 0, I8)            \
    X(ncclUint8, 1, U8)           \
    X(ncclInt32, 2, I32)          \
    X(ncclUint32, 3, U32)         \
    X(ncclInt64, 4, I64)          \
    X(ncclUint64, 5, U64)         \
    X(ncclFloat16, 6, F16)        \
    X(ncclFloat32, 7, F32)        \
    X(ncclFloat64, 8, F64)        \
    X(ncclBfloat16, 9, BF16)      \
    X(ncclFloat8e4m3, 10, F8E4M3) \
    X(ncclFloat8e5m2, 11, F8E5M2)

/* ncclRedOp_t. Greater numbers are operators that the program has made. */
#define GUEST_NCCL_REDOP_TABLE(X) \
    X(ncclSum, 0, SUM)            \
    X(ncclProd, 1, PROD)          \
    X(ncclMax, 2, MAX)            \
    X(ncclMin, 3, MIN)            \
    X(ncclAvg, 4, AVG)

/* In NCCL's header these have types of their own, with which nccl_abi_check.c declares the same
 * functions once more. */
#ifndef GUEST_NCCL_RESULT
struct ncclComm;
struct guest_nccl_id {
    char internal[GUEST_NCCL_ID_BYTES];
};
#define GUEST_NCCL_RESULT int
#define GUEST_NCCL_DTYPE  int
#define GUEST_NCCL_REDOP  int
#define GUEST_NCCL_COMM   struct ncclComm *
#define GUEST_NCCL_STREAM void *
#define GUEST_NCCL_ID     struct guest_nccl_id
#define GUEST_NCCL_CONFIG void
#define GUEST_NCCL_SIM    void
#endif

/* What the adapter defines in NCCL's place. */
#define GUEST_NCCL_EXPORT   __attribute__((visibility("default")))
#define X(name, parameters) GUEST_NCCL_EXPORT GUEST_NCCL_RESULT nccl##name parameters;
#include "harness/guest/nccl/function.def"
#undef X

/* The CUDA driver's: CUresult, CUstream, CUdeviceptr, CUcontext. */
enum {
    GUEST_CUDA_SUCCESS = 0,
    GUEST_CUDA_REGISTER_PORTABLE = 1,  /* CU_MEMHOSTREGISTER_PORTABLE */
    GUEST_CUDA_REGISTER_DEVICEMAP = 2, /* CU_MEMHOSTREGISTER_DEVICEMAP */
    GUEST_CUDA_CAPTURE_NONE = 0,       /* CU_STREAM_CAPTURE_STATUS_NONE */
    GUEST_CUDA_CAPTURE_RELAXED = 2,    /* CU_STREAM_CAPTURE_MODE_RELAXED */
    GUEST_CUDA_WRITE_VALUE_DEFAULT = 0 /* CU_STREAM_WRITE_VALUE_DEFAULT: behind all earlier work */
};
/* X(field, symbol, parameters) */
#define GUEST_CUDA_CALL_TABLE(X)                                                              \
    X(context_current, cuCtxGetCurrent, (void **context))                                     \
    X(host_register, cuMemHostRegister_v2, (void *memory, size_t size_bytes, unsigned flags)) \
    X(host_address, cuMemHostGetDevicePointer_v2,                                             \
      (unsigned long long *out, void *memory, unsigned flags))                                \
    X(capture_mode, cuThreadExchangeStreamCaptureMode, (int *mode))                           \
    X(stream_capture, cuStreamIsCapturing, (void *stream, int *status))                       \
    X(stream_write, cuStreamWriteValue64_v2,                                                  \
      (void *stream, unsigned long long address, uint64_t value, unsigned flags))

#endif
