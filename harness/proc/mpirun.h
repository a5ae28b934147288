/* mpirun as launcher: what its two halves share. proc_mpirun.c starts it and sees it end,
 * proc_mpirun_news.c hears what becomes of the ranks. Internal to the proc driver. */
#ifndef HARNESS_PROC_MPIRUN_H
#define HARNESS_PROC_MPIRUN_H

#include "harness/proc/job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The guard of a rank, as the launcher sees it. */
struct proc_mpirun_guard {
    pid_t pid; /* 0: not born */
    int fd;    /* -1: not born, or gone */
    bool is_released;
};

struct proc_mpirun {
    pid_t pid; /* 0: none, or reaped */
    bool is_ended, is_judged;
    siginfo_t end;
    int pipe_fd[2];        /* words; the writing end keeps the reading one from its end of file */
    int was_subreaper;     /* this process, before the job */
    bool has_failure;      /* a rank ended other than by exit 0; mpirun is told, or saw it */
    bool is_order_strange; /* mpirun ended a rank, and none had failed */
    uint32_t born_count;
    char log_path[4352], files_path[4352];
    struct proc_mpirun_guard *guards; /* [world_size] */
    struct proc_mpirun_guard *failed; /* of whose rank mpirun is still to be told, or NULL */
};

/* struct proc_starter.look */
DDP_MUST_USE ddp_status proc_mpirun_look(struct proc_job *job, bool *out_is_news);
/* Has it ended? */
bool proc_mpirun_is_ended(struct proc_mpirun *mpirun);
/* Nothing more is expected of this rank's guard. */
void proc_mpirun_release(struct proc_mpirun *mpirun, uint32_t rank);

#ifdef __cplusplus
}
#endif
#endif
