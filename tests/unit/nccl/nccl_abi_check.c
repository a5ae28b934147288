/* Compares ddpcore/nccl/abi.h with NCCL's own header, where that is installed: values, layouts, and
 * every function's type. Compiling it is the test. */
#include <nccl.h>

#include "ddpcore/nccl/abi.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " is not " #theirs)

SAME(DDP_NCCL_SUCCESS, ncclSuccess);
SAME(DDP_NCCL_CUDA_ERROR, ncclUnhandledCudaError);
SAME(DDP_NCCL_SYSTEM_ERROR, ncclSystemError);
SAME(DDP_NCCL_INTERNAL_ERROR, ncclInternalError);
SAME(DDP_NCCL_INVALID_ARGUMENT, ncclInvalidArgument);
SAME(DDP_NCCL_INVALID_USAGE, ncclInvalidUsage);
SAME(DDP_NCCL_REMOTE_ERROR, ncclRemoteError);
SAME(DDP_NCCL_IN_PROGRESS, ncclInProgress);
SAME(DDP_NCCL_U8, ncclUint8);
SAME(DDP_NCCL_I32, ncclInt32);
SAME(DDP_NCCL_I64, ncclInt64);
SAME(DDP_NCCL_F16, ncclFloat16);
SAME(DDP_NCCL_F32, ncclFloat32);
SAME(DDP_NCCL_F64, ncclFloat64);
SAME(DDP_NCCL_BF16, ncclBfloat16);
SAME(DDP_NCCL_SUM, ncclSum);
SAME(DDP_NCCL_PROD, ncclProd);
SAME(DDP_NCCL_MAX, ncclMax);
SAME(DDP_NCCL_MIN, ncclMin);

/* The table passes enums as int. */
SAME(sizeof(ncclResult_t), sizeof(int));
SAME(sizeof(ncclDataType_t), sizeof(int));
SAME(sizeof(ncclRedOp_t), sizeof(int));
SAME(sizeof(struct ddp_nccl_id), sizeof(ncclUniqueId));
SAME(_Alignof(struct ddp_nccl_id), _Alignof(ncclUniqueId));

/* A prefix of today's layout. */
SAME(offsetof(struct ddp_nccl_config, size), offsetof(ncclConfig_t, size));
SAME(offsetof(struct ddp_nccl_config, magic), offsetof(ncclConfig_t, magic));
SAME(offsetof(struct ddp_nccl_config, version), offsetof(ncclConfig_t, version));
SAME(offsetof(struct ddp_nccl_config, blocking), offsetof(ncclConfig_t, blocking));
SAME(DDP_NCCL_CONFIG_VERSION, NCCL_VERSION(2, 14, 0));

/* Their function has this type, and ours takes these arguments of that type. */
#define FUNCTION(field, symbol, result, parameters, arguments)                              \
    _Static_assert(__builtin_types_compatible_p(__typeof__(symbol), result parameters),     \
                   #symbol " has another type");                                            \
    _Static_assert(sizeof(((struct ddp_nccl_calls *)0)->field arguments) == sizeof(result), \
                   #symbol " returns something else")

#define R ncclResult_t
#define V ((void *)0)
#define N ((size_t)0)
#define I 0

void nccl_abi_check(void);
void nccl_abi_check(void)
{
    const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    DDP_ASSERT(config.magic == DDP_NCCL_CONFIG_MAGIC);
    FUNCTION(get_version, ncclGetVersion, R, (int *), (V));
    FUNCTION(get_unique_id, ncclGetUniqueId, R, (ncclUniqueId *), (V));
    FUNCTION(get_error_string, ncclGetErrorString, const char *, (R), (ncclSuccess));
    FUNCTION(get_last_error, ncclGetLastError, const char *, (ncclComm_t), (V));
    FUNCTION(init, ncclCommInitRankConfig, R,
             (ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *),
             (V, I, (struct ddp_nccl_id){{0}}, I, V));
    FUNCTION(get_async_error, ncclCommGetAsyncError, R, (ncclComm_t, ncclResult_t *), (V, V));
    FUNCTION(finalize, ncclCommFinalize, R, (ncclComm_t), (V));
    FUNCTION(destroy, ncclCommDestroy, R, (ncclComm_t), (V));
    FUNCTION(abort, ncclCommAbort, R, (ncclComm_t), (V));
    FUNCTION(group_start, ncclGroupStart, R, (void), ());
    FUNCTION(group_end, ncclGroupEnd, R, (void), ());
    FUNCTION(all_reduce, ncclAllReduce, R,
             (const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t),
             (V, V, N, ncclFloat32, ncclSum, V, V));
    FUNCTION(broadcast, ncclBroadcast, R,
             (const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t),
             (V, V, N, ncclFloat32, I, V, V));
    FUNCTION(all_gather, ncclAllGather, R,
             (const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t),
             (V, V, N, ncclFloat32, V, V));
    FUNCTION(send, ncclSend, R,
             (const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t),
             (V, N, ncclFloat32, I, V, V));
    FUNCTION(recv, ncclRecv, R, (void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t),
             (V, N, ncclFloat32, I, V, V));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
    FUNCTION(revoke, ncclCommRevoke, R, (ncclComm_t, int), (V, I));
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    SAME(DDP_NCCL_SHRINK_ABORT, NCCL_SHRINK_ABORT);
    FUNCTION(shrink, ncclCommShrink, R, (ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int),
             (V, V, I, V, V, I));
#endif
}
