/* Runs somebody else's program and watches it: starts its ranks, or the launcher that starts them,
 * follows their processes, reads the arena, and says what is wrong. */
#ifndef HARNESS_EXEC_EXEC_H
#define HARNESS_EXEC_EXEC_H

#include <limits.h>

#include "harness/observed/learned.h"
#include "harness/plan/plan.h"
#include "harness/record/record.h"
#include "harness/watch/analyse.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A program that starts its ranks itself (mpirun, torchrun) may have so many. */
#define HARNESS_EXEC_RANKS_MAX 256

/* An environment variable that the job gets unless it is set already. */
struct harness_exec_variable {
    const char *name, *value;
};

/* What follows from how long one wait may take; 0: for ever. */
struct harness_watch_limits harness_exec_limits(uint64_t timeout_ns);

struct harness_exec_config {
    struct ddp_mem *mem;
    char *const *command; /* ends with NULL */
    uint32_t ranks;       /* copies to start, each told who it is by torchrun's variables; 0: one, a
                             launcher */
    uint32_t world_size;  /* of a launcher's job; 0: it is not known */
    const char *preload;  /* a library to load into every process of the job; NULL: none */
    const char *python_dir; /* a folder for PYTHONPATH, with PyTorch's adapter; NULL: none */
    const struct harness_plan *plan; /* whose faults are armed; NULL: none */
    const char
        *log_dir; /* rank<N>.log, or launcher.log: what the processes print, and rank<N>.stack
                     of ranks that hang; NULL: output goes where this program's does */
    const char *search_dir; /* where the command is looked for after PATH; NULL: nowhere else */
    const struct harness_exec_variable *variables;
    size_t variable_count;
    bool is_left; /* after a failure the job goes on; else it is ended */
    struct harness_watch_limits limits;
    bool is_observed;        /* results are judged, from what ranks report of their data, */
    uint64_t observed_every; /* of one call in so many of each communicator; 0 or 1: of all */
    const bool *without;     /* [HARNESS_ORACLE_COUNT]: these judge nothing; NULL: all do */
    /* Of these steps, from the first to before the end, data are kept in a folder, and results
     * judged bit for bit; keep_end 0: of none. keep_folder: an absolute path. */
    uint64_t keep_first, keep_end;
    const char *keep_folder;
    bool is_learning;                      /* the program of the job is taken down */
    const struct harness_learned *against; /* and must be this one; NULL: it may be any */
    /* What was found, as soon as it was; each culprit of a kind of error once.
     * NULL: nobody asks. */
    void (*on_finding)(void *context, const struct harness_finding *finding);
    /* A rank's end was said before anybody had come to the call that it owes, which is known now:
     * what was found, in full. NULL: nobody asks. */
    void (*on_owed)(void *context, const struct harness_finding *finding);
    /* What is no finding: whom others have waited for in a call for a while. NULL: nobody asks. */
    void (*on_late)(void *context, const char *text);
    /* Where a rank of a hang stands, as a tool of the system says it. NULL: nobody asks. */
    void (*on_stack)(void *context, uint32_t rank, const char *text);
    void *context;
};

struct harness_exec_result {
    struct harness_watch_record record;    /* its exit code: 128 + N after signal N */
    uint32_t seen_count;                   /* ranks that have shown themselves */
    uint64_t lost_comms;                   /* communicators that ranks could not show */
    int interrupt;                         /* the signal that ended it all; 0: none did */
    struct harness_watch_tally tally;      /* of results */
    const struct harness_learned *learned; /* NULL: nobody asked, nothing was posted, or what was is
                                              not known in full */
};

/* Returns once every process that was started has ended. Signals that end this process are passed
 * on to them; they end with it. All of *out is in config->mem, a pool. Errors: E_NOT_FOUND, the
 * command cannot be started; E_SYSTEM, E_NOMEM. */
DDP_MUST_USE ddp_status harness_exec_run(const struct harness_exec_config *config,
                                         struct harness_exec_result *out, struct ddp_err *err);

/* adapter.c */
/* The library that is to be preloaded for an adapter, or PyTorch's folder: beside the folder of the
 * running program, in ../lib, where the build and an installation have it. self_path: that program.
 * Errors: E_NOT_FOUND, it was not built; E_INVALID, the path is too long. */
DDP_MUST_USE ddp_status harness_exec_adapter_path(enum harness_guest_adapter adapter,
                                                  const char *self_path, char *out,
                                                  size_t size_bytes, struct ddp_err *err);

/* What an adapter needs, into preload or python_dir, which point to path then. NONE: PyTorch's, if
 * it is there, for any Python that the job starts. Errors: as above. */
DDP_MUST_USE ddp_status harness_exec_load_adapter(struct harness_exec_config *config,
                                                  enum harness_guest_adapter adapter,
                                                  const char *self_path, char *path,
                                                  size_t size_bytes, struct ddp_err *err);

/* folder.c */
/* A folder for one job, which goes with it. Zeroed: there is none. */
struct harness_exec_folder {
    char path[PATH_MAX];
    int guard_pid; /* removes it if this process ends before _end */
    int guard_fd;
};
/* Makes it of this name (as of mkdtemp); the job's processes know it by this variable. However this
 * process ends, it is removed, once no process that knows it lives. Errors: E_SYSTEM, and then
 * there is no folder. */
DDP_MUST_USE ddp_status harness_exec_folder_make(const char *variable, char *name,
                                                 struct harness_exec_folder *out,
                                                 struct ddp_err *err);
/* From now on it stays, or has been removed. Errors: E_IO, it could not be. */
DDP_MUST_USE ddp_status harness_exec_folder_end(struct harness_exec_folder *self, bool is_kept,
                                                struct ddp_err *err);

/* learned.c */
/* The learned program in a folder. mem: a pool. Errors: E_NOT_FOUND, E_IO, E_PARSE. */
DDP_MUST_USE ddp_status harness_exec_read_learned(struct ddp_mem *mem, const char *folder,
                                                  struct harness_learned *out, struct ddp_err *err);
/* Makes the folder. Errors: E_IO, E_NOMEM. */
DDP_MUST_USE ddp_status harness_exec_write_learned(const struct harness_learned *learned,
                                                   const char *folder, struct ddp_err *err);

/* arm.c */
/* Write the plan's faults into the arena, before any rank has attached. */
void harness_exec_arm(const struct harness_plan *plan, struct guest_arena *arena);

#ifdef __cplusplus
}
#endif
#endif
