/* mpirun as launcher: what its two files share. mpirun.c starts it and sees it end, guard_events.c
 * learns from the guards what becomes of the ranks. Internal to the proc driver. */
#ifndef HARNESS_PROC_MPIRUN_H
#define HARNESS_PROC_MPIRUN_H

#include "harness/proc/job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The guard of a rank, as the launcher sees it. */
struct harness_proc_mpirun_guard {
    pid_t pid; /* 0: not started */
    int fd;    /* -1: not started, or gone */
    bool is_released;
};

struct harness_proc_mpirun {
    pid_t pid;     /* 0: none, or reaped */
    pid_t cleaner; /* removes mpirun's files if the launcher is killed; 0: none */
    bool is_ended, is_checked;
    siginfo_t end;
    int pipe_fd[2];           /* of reports; our own writing end keeps the reading one open */
    int was_subreaper;        /* this process, before the job */
    bool has_failure;         /* a rank ended other than by exit 0 */
    bool is_order_unprovoked; /* mpirun ordered a rank to end, and none had failed */
    uint32_t started_count;
    char log_path[4352], files_path[4352];
    struct harness_proc_mpirun_guard *guards; /* [world_size] */
    struct harness_proc_mpirun_guard
        *failed; /* the first of a failed rank, to be released; or NULL */
};

/* struct harness_proc_starter.poll */
DDP_MUST_USE ddp_status harness_proc_mpirun_poll(struct harness_proc_job *job,
                                                 bool *out_has_events);
/* Whether mpirun has ended. */
bool harness_proc_mpirun_is_ended(struct harness_proc_mpirun *mpirun);
/* Let this rank's guard end. */
void harness_proc_mpirun_release(struct harness_proc_mpirun *mpirun, uint32_t rank);

#ifdef __cplusplus
}
#endif
#endif
