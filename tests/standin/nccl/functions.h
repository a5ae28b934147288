/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * NCCL's functions, as far as the stand-in has them: what each does is said in nccl.h of 2.28.9.
 * The enumerations are ints here and a stream is a void *; abi_check.c declares the same functions
 * with nccl.h's types and lets the compiler compare. */
#ifndef TESTS_STANDIN_NCCL_FUNCTIONS_H
#define TESTS_STANDIN_NCCL_FUNCTIONS_H

#include "tests/standin/nccl/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef STANDIN_RESULT_T
#define STANDIN_RESULT_T int
#define STANDIN_DTYPE_T  int
#define STANDIN_REDOP_T  int
#define STANDIN_STREAM_T void *
#define STANDIN_COMM_T   struct standin_comm
#define STANDIN_ID_T     struct standin_id
#define STANDIN_CONFIG_T struct standin_config
#define STANDIN_SIM_T    void
#endif
#define STANDIN_EXPORT __attribute__((visibility("default")))

STANDIN_EXPORT STANDIN_RESULT_T ncclGetVersion(int *version);
STANDIN_EXPORT STANDIN_RESULT_T ncclGetUniqueId(STANDIN_ID_T *id);
STANDIN_EXPORT const char *ncclGetErrorString(STANDIN_RESULT_T result);
STANDIN_EXPORT const char *ncclGetLastError(STANDIN_COMM_T *comm);

STANDIN_EXPORT STANDIN_RESULT_T ncclCommInitRank(STANDIN_COMM_T **comm, int rank_count,
                                                 STANDIN_ID_T id, int rank);
STANDIN_EXPORT STANDIN_RESULT_T ncclCommInitRankConfig(STANDIN_COMM_T **comm, int rank_count,
                                                       STANDIN_ID_T id, int rank,
                                                       STANDIN_CONFIG_T *config);
STANDIN_EXPORT STANDIN_RESULT_T ncclCommFinalize(STANDIN_COMM_T *comm);
STANDIN_EXPORT STANDIN_RESULT_T ncclCommDestroy(STANDIN_COMM_T *comm);
STANDIN_EXPORT STANDIN_RESULT_T ncclCommAbort(STANDIN_COMM_T *comm);
STANDIN_EXPORT STANDIN_RESULT_T ncclCommGetAsyncError(STANDIN_COMM_T *comm,
                                                      STANDIN_RESULT_T *async_error);
STANDIN_EXPORT STANDIN_RESULT_T ncclCommCount(STANDIN_COMM_T *comm, int *count);
STANDIN_EXPORT STANDIN_RESULT_T ncclCommCuDevice(STANDIN_COMM_T *comm, int *device);
STANDIN_EXPORT STANDIN_RESULT_T ncclCommUserRank(STANDIN_COMM_T *comm, int *rank);
/* Not in libddp_nccl_standin_old.so. */
STANDIN_EXPORT STANDIN_RESULT_T ncclGroupSimulateEnd(STANDIN_SIM_T *info);
STANDIN_EXPORT STANDIN_RESULT_T ncclCommRevoke(STANDIN_COMM_T *comm, int flags);
STANDIN_EXPORT STANDIN_RESULT_T ncclCommSplit(STANDIN_COMM_T *comm, int color, int key,
                                              STANDIN_COMM_T **child, STANDIN_CONFIG_T *config);
STANDIN_EXPORT STANDIN_RESULT_T ncclCommShrink(STANDIN_COMM_T *comm, int *exclude,
                                               int exclude_count, STANDIN_COMM_T **child,
                                               STANDIN_CONFIG_T *config, int flags);

STANDIN_EXPORT STANDIN_RESULT_T ncclAllReduce(const void *send, void *recv, size_t count,
                                              STANDIN_DTYPE_T dtype, STANDIN_REDOP_T redop,
                                              STANDIN_COMM_T *comm, STANDIN_STREAM_T stream);
STANDIN_EXPORT STANDIN_RESULT_T ncclBroadcast(const void *send, void *recv, size_t count,
                                              STANDIN_DTYPE_T dtype, int root, STANDIN_COMM_T *comm,
                                              STANDIN_STREAM_T stream);
STANDIN_EXPORT STANDIN_RESULT_T ncclReduce(const void *send, void *recv, size_t count,
                                           STANDIN_DTYPE_T dtype, STANDIN_REDOP_T redop, int root,
                                           STANDIN_COMM_T *comm, STANDIN_STREAM_T stream);
STANDIN_EXPORT STANDIN_RESULT_T ncclAllGather(const void *send, void *recv, size_t send_count,
                                              STANDIN_DTYPE_T dtype, STANDIN_COMM_T *comm,
                                              STANDIN_STREAM_T stream);
STANDIN_EXPORT STANDIN_RESULT_T ncclReduceScatter(const void *send, void *recv, size_t recv_count,
                                                  STANDIN_DTYPE_T dtype, STANDIN_REDOP_T redop,
                                                  STANDIN_COMM_T *comm, STANDIN_STREAM_T stream);
STANDIN_EXPORT STANDIN_RESULT_T ncclSend(const void *send, size_t count, STANDIN_DTYPE_T dtype,
                                         int peer, STANDIN_COMM_T *comm, STANDIN_STREAM_T stream);
STANDIN_EXPORT STANDIN_RESULT_T ncclRecv(void *recv, size_t count, STANDIN_DTYPE_T dtype, int peer,
                                         STANDIN_COMM_T *comm, STANDIN_STREAM_T stream);
STANDIN_EXPORT STANDIN_RESULT_T ncclGroupStart(void);
STANDIN_EXPORT STANDIN_RESULT_T ncclGroupEnd(void);

#ifdef __cplusplus
}
#endif
#endif
