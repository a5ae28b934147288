/* Runs somebody else's program and watches it: starts its ranks, or the launcher that starts them,
 * follows their processes, reads the arena, and says what is wrong. */
#ifndef HARNESS_EXEC_EXEC_H
#define HARNESS_EXEC_EXEC_H

#include "harness/watch/analyse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A program that starts its ranks itself (mpirun, torchrun) may have so many. */
#define HARNESS_EXEC_RANKS_MAX 256

struct harness_exec_config {
    struct ddp_mem *mem;
    char *const *command; /* ends with NULL */
    uint32_t ranks;       /* copies to start, each told who it is by torchrun's variables; 0: one, a
                             launcher */
    const char *preload;  /* a library to load into every process of the job; NULL: none */
    bool is_left;         /* after a failure the job goes on; else it is ended */
    struct harness_watch_limits limits;
    /* What was found, as soon as it was; each culprit of a kind of error once. */
    void (*on_finding)(void *context, const struct harness_finding *finding);
    void *context;
};

struct harness_exec_result {
    struct harness_findings findings;
    uint32_t seen_count;      /* ranks that have shown themselves */
    uint64_t lost_comm_count; /* communicators that ranks could not show */
    int exit_code;            /* the worst of the processes started: 128 + N after signal N */
    int interrupt;            /* the signal that ended it all; 0: none did */
};

/* Returns once every process that was started has ended. Signals that end this process are passed
 * on to them; they end with it. findings: in a pool, released with harness_exec_result_fini.
 * Errors: E_NOT_FOUND, the command cannot be started; E_SYSTEM, E_NOMEM. */
DDP_MUST_USE ddp_status harness_exec_run(const struct harness_exec_config *config,
                                         struct harness_exec_result *out, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
