/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * What the library exports beside NCCL's functions. Look the functions up by name with dlsym. */
#ifndef TESTS_STANDIN_NCCL_HOOKS_H
#define TESTS_STANDIN_NCCL_HOOKS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Replace the script (script.c says what it may hold); NULL or "" clears it. Affects calls that
 * start afterwards. Returns 0, or 4 with the reason in ncclGetLastError. */
__attribute__((visibility("default"))) int ddp_nccl_standin_script(const char *text);
typedef int ddp_nccl_standin_script_fn(const char *text);

/* Works of this communicator (ncclComm_t) that were enqueued on a stream and have not ended. */
__attribute__((visibility("default"))) uint64_t ddp_nccl_standin_pending(void *comm);
typedef uint64_t ddp_nccl_standin_pending_fn(void *comm);

/* Communicators of this process that are neither destroyed nor aborted. */
__attribute__((visibility("default"))) uint64_t ddp_nccl_standin_comm_count(void);
typedef uint64_t ddp_nccl_standin_comm_count_fn(void);

#ifdef __cplusplus
}
#endif
#endif
