/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * Holds abi.h and functions.h against the nccl.h that is installed; compiled only where there is
 * one. With nccl.h's types the declarations of functions.h repeat its own, or do not compile. */
#include <nccl.h>

#define STANDIN_RESULT_T ncclResult_t
#define STANDIN_DTYPE_T  ncclDataType_t
#define STANDIN_REDOP_T  ncclRedOp_t
#define STANDIN_STREAM_T cudaStream_t
#define STANDIN_COMM_T   struct ncclComm
#define STANDIN_ID_T     ncclUniqueId
#define STANDIN_CONFIG_T ncclConfig_t
#define STANDIN_SIM_T    ncclSimInfo_t
#include "tests/standin/nccl/functions.h"

#define SAME(a, b) _Static_assert((int)(a) == (int)(b), #a " is " #b)
#define SAME_FIELD(a, b) \
    _Static_assert(offsetof(struct standin_config, a) == offsetof(ncclConfig_t, b), #a " is " #b)

SAME(STANDIN_SUCCESS, ncclSuccess);
SAME(STANDIN_CUDA_ERROR, ncclUnhandledCudaError);
SAME(STANDIN_SYSTEM_ERROR, ncclSystemError);
SAME(STANDIN_INTERNAL_ERROR, ncclInternalError);
SAME(STANDIN_INVALID_ARGUMENT, ncclInvalidArgument);
SAME(STANDIN_INVALID_USAGE, ncclInvalidUsage);
SAME(STANDIN_REMOTE_ERROR, ncclRemoteError);
SAME(STANDIN_IN_PROGRESS, ncclInProgress);
SAME(STANDIN_RESULT_COUNT, ncclNumResults);
SAME(STANDIN_INT8, ncclInt8);
SAME(STANDIN_UINT8, ncclUint8);
SAME(STANDIN_INT32, ncclInt32);
SAME(STANDIN_UINT32, ncclUint32);
SAME(STANDIN_INT64, ncclInt64);
SAME(STANDIN_UINT64, ncclUint64);
SAME(STANDIN_FLOAT16, ncclFloat16);
SAME(STANDIN_FLOAT32, ncclFloat32);
SAME(STANDIN_FLOAT64, ncclFloat64);
SAME(STANDIN_BFLOAT16, ncclBfloat16);
SAME(STANDIN_SUM, ncclSum);
SAME(STANDIN_PROD, ncclProd);
SAME(STANDIN_MAX, ncclMax);
SAME(STANDIN_MIN, ncclMin);
SAME(STANDIN_AVG, ncclAvg);
SAME(STANDIN_UNDEFINED, NCCL_CONFIG_UNDEF_INT);
SAME(sizeof(struct standin_id), sizeof(ncclUniqueId));
SAME(sizeof(ncclResult_t), sizeof(int));
SAME(sizeof(ncclDataType_t), sizeof(int));
SAME(sizeof(ncclRedOp_t), sizeof(int));
SAME(sizeof(cudaStream_t), sizeof(void *));
SAME_FIELD(size, size);
SAME_FIELD(magic, magic);
SAME_FIELD(version, version);
SAME_FIELD(blocking, blocking);
#if NCCL_VERSION_CODE >= 22800
SAME(STANDIN_DTYPE_COUNT, ncclNumTypes);
SAME(STANDIN_NO_COLOR, NCCL_SPLIT_NOCOLOR);
SAME(STANDIN_SHRINK_ABORT, NCCL_SHRINK_ABORT);
SAME(sizeof(struct standin_config), sizeof(ncclConfig_t));
SAME_FIELD(net_name, netName);
SAME_FIELD(split_share, splitShare);
SAME_FIELD(comm_name, commName);
SAME_FIELD(shrink_share, shrinkShare);
SAME_FIELD(nvlink_centric_sched, nvlinkCentricSched);
#endif
