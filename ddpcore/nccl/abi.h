/* The part of NCCL's ABI that is used, declared here so that no header of NCCL or CUDA is needed to
 * build. tests/unit/nccl/nccl_abi_check.c holds all of it against nccl.h. Internal. */
#ifndef DDPCORE_NCCL_ABI_H
#define DDPCORE_NCCL_ABI_H

#include "ddpcore/nccl/nccl.h"

/* ncclResult_t */
enum ddp_nccl_result {
    DDP_NCCL_SUCCESS = 0,
    DDP_NCCL_CUDA_ERROR = 1,
    DDP_NCCL_SYSTEM_ERROR = 2,
    DDP_NCCL_INTERNAL_ERROR = 3,
    DDP_NCCL_INVALID_ARGUMENT = 4,
    DDP_NCCL_INVALID_USAGE = 5,
    DDP_NCCL_REMOTE_ERROR = 6,
    DDP_NCCL_IN_PROGRESS = 7
};

/* ncclDataType_t: the types that base/dtype.h has. */
enum ddp_nccl_dtype {
    DDP_NCCL_U8 = 1,
    DDP_NCCL_I32 = 2,
    DDP_NCCL_I64 = 4,
    DDP_NCCL_F16 = 6,
    DDP_NCCL_F32 = 7,
    DDP_NCCL_F64 = 8,
    DDP_NCCL_BF16 = 9
};

/* ncclRedOp_t */
enum ddp_nccl_redop { DDP_NCCL_SUM = 0, DDP_NCCL_PROD = 1, DDP_NCCL_MAX = 2, DDP_NCCL_MIN = 3 };

#define DDP_NCCL_SHRINK_ABORT 1

struct ddp_nccl_comm_handle; /* ncclComm */
/* ncclUniqueId; passed by value. */
struct ddp_nccl_id {
    char internal[DDP_NCCL_ID_BYTES];
};

/* ncclConfig_t as 2.14 had it, the first version with `blocking`. Later versions append fields and
 * stay with the rule that makes this work: the library copies `size` bytes over its defaults, then
 * puts back the defaults of every field that came after `version` (init.cc, parseCommConfig). That
 * covers the padding behind `blocking` too, where later layouts hold cgaClusterSize. */
struct ddp_nccl_config {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
};
#define DDP_NCCL_CONFIG_MAGIC   0xcafebeefu
#define DDP_NCCL_CONFIG_VERSION 21400u

/* X(field, symbol, result type, parameters): what every supported version has. */
#define DDP_NCCL_CALL_TABLE(X)                                                                 \
    X(get_version, ncclGetVersion, int, (int *version))                                        \
    X(get_unique_id, ncclGetUniqueId, int, (struct ddp_nccl_id * id))                          \
    X(get_error_string, ncclGetErrorString, const char *, (int result))                        \
    X(get_last_error, ncclGetLastError, const char *, (struct ddp_nccl_comm_handle * comm))    \
    X(init, ncclCommInitRankConfig, int,                                                       \
      (struct ddp_nccl_comm_handle * *out, int count, struct ddp_nccl_id id, int member,       \
       struct ddp_nccl_config *config))                                                        \
    X(get_async_error, ncclCommGetAsyncError, int,                                             \
      (struct ddp_nccl_comm_handle * comm, int *result))                                       \
    X(finalize, ncclCommFinalize, int, (struct ddp_nccl_comm_handle * comm))                   \
    X(destroy, ncclCommDestroy, int, (struct ddp_nccl_comm_handle * comm))                     \
    X(abort, ncclCommAbort, int, (struct ddp_nccl_comm_handle * comm))                         \
    X(group_start, ncclGroupStart, int, (void))                                                \
    X(group_end, ncclGroupEnd, int, (void))                                                    \
    X(all_reduce, ncclAllReduce, int,                                                          \
      (const void *input, void *output, size_t count, int dtype, int redop,                    \
       struct ddp_nccl_comm_handle *comm, void *stream))                                       \
    X(broadcast, ncclBroadcast, int,                                                           \
      (const void *input, void *output, size_t count, int dtype, int root,                     \
       struct ddp_nccl_comm_handle *comm, void *stream))                                       \
    X(all_gather, ncclAllGather, int,                                                          \
      (const void *input, void *output, size_t count, int dtype,                               \
       struct ddp_nccl_comm_handle *comm, void *stream))                                       \
    X(send, ncclSend, int,                                                                     \
      (const void *data, size_t count, int dtype, int peer, struct ddp_nccl_comm_handle *comm, \
       void *stream))                                                                          \
    X(recv, ncclRecv, int,                                                                     \
      (void *data, size_t count, int dtype, int peer, struct ddp_nccl_comm_handle *comm,       \
       void *stream))

/* The same for what only newer versions have; NULL where it is missing. */
#define DDP_NCCL_OPTIONAL_TABLE(X)                                                               \
    X(revoke, ncclCommRevoke, int, (struct ddp_nccl_comm_handle * comm, int flags)) /* 2.28.7 */ \
    X(shrink, ncclCommShrink, int,                                                               \
      (struct ddp_nccl_comm_handle * comm, int *excluded, int excluded_count,                    \
       struct ddp_nccl_comm_handle **out, struct ddp_nccl_config *config, int flags)) /* 2.27 */

struct ddp_nccl_calls {
#define X(field, symbol, result, parameters) result(*field) parameters;
    DDP_NCCL_CALL_TABLE(X)
    DDP_NCCL_OPTIONAL_TABLE(X)
#undef X
};

struct ddp_nccl_library {
    struct ddp_mem *mem;
    void *handle; /* of dlopen */
    struct ddp_nccl_calls calls;
    uint32_t version;
};

/* What the library says about a result: "<what>: <its name for the result> (<its last error>)". */
ddp_status ddp_nccl_err(const struct ddp_nccl_library *library, int result, const char *what,
                        struct ddp_err *err);
int ddp_nccl_dtype_of(enum ddp_dtype dtype);
int ddp_nccl_redop_of(enum ddp_redop redop);

#endif
