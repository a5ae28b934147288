/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * What the library exports beside NCCL's functions. Look the functions up by name with dlsym. */
#ifndef TESTS_STANDIN_NCCL_HOOKS_H
#define TESTS_STANDIN_NCCL_HOOKS_H

#include <stdbool.h>
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

/* Calls and jobs that the script makes hang, at this moment. */
__attribute__((visibility("default"))) uint64_t ddp_nccl_standin_hanging(void);

/* In turns, for tests in which ranks share one thread and time is a number of turns: what are
 * threads otherwise goes on in ddp_nccl_standin_turn alone, each until it waits, in the order in
 * which they were started; sockets are local ones. Calls that block (abort, destroy, shrink) need
 * threads of the caller's. Switch it on and off in the thread that calls ddp_nccl_standin_turn;
 * when it is switched off, no communicator may be left. */
__attribute__((visibility("default"))) void ddp_nccl_standin_turns(bool is_on);
__attribute__((visibility("default"))) void ddp_nccl_standin_turn(void);
/* In turns, collectives go to this device: poll(work) is called when the stream reaches the work,
 * again until it returns true. NULL: every communicator runs its own. */
typedef void ddp_nccl_standin_enqueue_fn(void *stream, bool (*poll)(void *work), void *work);
__attribute__((visibility("default"))) void
ddp_nccl_standin_device(ddp_nccl_standin_enqueue_fn *enqueue);
/* Line `index` of the log of calls since turns were last switched on, or NULL: "<n>: <function>",
 * for collectives and messages with the count and the reduction, root, type or peer. Communicators
 * are numbered from 0 as they are made. The caller's ncclCommGetAsyncError are only
 * counted. */
__attribute__((visibility("default"))) const char *ddp_nccl_standin_call(uint64_t index);
__attribute__((visibility("default"))) uint64_t ddp_nccl_standin_asked(void);

/* Communicators of this process that are neither destroyed nor aborted. */
__attribute__((visibility("default"))) uint64_t ddp_nccl_standin_comm_count(void);
typedef uint64_t ddp_nccl_standin_comm_count_fn(void);

#ifdef __cplusplus
}
#endif
#endif
