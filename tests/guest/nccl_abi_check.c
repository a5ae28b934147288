/* Holds what the NCCL adapter declares for itself against the nccl.h and cuda.h that are installed;
 * compiled only where they are. With nccl.h's types the declarations of function.def repeat its
 * own, or do not compile. */
#include <cuda.h>
#include <nccl.h>
#include <stdint.h>

#define GUEST_NCCL_RESULT ncclResult_t
#define GUEST_NCCL_DTYPE  ncclDataType_t
#define GUEST_NCCL_REDOP  ncclRedOp_t
#define GUEST_NCCL_COMM   ncclComm_t
#define GUEST_NCCL_STREAM cudaStream_t
#define GUEST_NCCL_ID     ncclUniqueId
#define GUEST_NCCL_CONFIG ncclConfig_t
#define GUEST_NCCL_SIM    ncclSimInfo_t
#include "harness/guest/nccl/abi.h"

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a " is " #b)

SAME(GUEST_NCCL_SUCCESS, ncclSuccess);
SAME(GUEST_NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME(GUEST_NCCL_IN_PROGRESS, ncclInProgress);
#define X(name, number, id) SAME(number, name);
GUEST_NCCL_DTYPE_TABLE(X)
GUEST_NCCL_REDOP_TABLE(X)
#undef X
SAME(GUEST_NCCL_ID_BYTES, NCCL_UNIQUE_ID_BYTES);
SAME(sizeof(ncclUniqueId), GUEST_NCCL_ID_BYTES);
SAME(sizeof(ncclResult_t), sizeof(int));
SAME(sizeof(ncclDataType_t), sizeof(int));
SAME(sizeof(ncclRedOp_t), sizeof(int));
SAME(sizeof(cudaStream_t), sizeof(void *));

SAME(GUEST_CUDA_SUCCESS, CUDA_SUCCESS);
SAME(GUEST_CUDA_REGISTER_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE);
SAME(GUEST_CUDA_REGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP);
SAME(GUEST_CUDA_CAPTURE_NONE, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(GUEST_CUDA_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(GUEST_CUDA_WRITE_VALUE_DEFAULT, CU_STREAM_WRITE_VALUE_DEFAULT);
SAME(sizeof(CUresult), sizeof(int));
SAME(sizeof(CUdeviceptr), sizeof(unsigned long long));
SAME(sizeof(CUstreamCaptureMode), sizeof(int));
SAME(sizeof(CUstreamCaptureStatus), sizeof(int));

/* A function of the driver may be called as the adapter does if its parameters are the same but for
 * pointers to other types; cuda.h's macros give these names to its newest versions. */
#define SAME_FUNCTION(function, type) \
    _Static_assert(_Generic(&function, type : 1, default : 0), #function " has other parameters")
SAME_FUNCTION(cuCtxGetCurrent, CUresult (*)(CUcontext *));
SAME_FUNCTION(cuMemHostRegister_v2, CUresult (*)(void *, size_t, unsigned));
SAME_FUNCTION(cuMemHostGetDevicePointer_v2, CUresult (*)(CUdeviceptr *, void *, unsigned));
SAME_FUNCTION(cuThreadExchangeStreamCaptureMode, CUresult (*)(CUstreamCaptureMode *));
SAME_FUNCTION(cuStreamIsCapturing, CUresult (*)(CUstream, CUstreamCaptureStatus *));
SAME_FUNCTION(cuStreamWriteValue64_v2, CUresult (*)(CUstream, CUdeviceptr, cuuint64_t, unsigned));
