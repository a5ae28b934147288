/* One job of the proc driver, as its launcher sees it. Internal to the proc driver. */
#ifndef HARNESS_PROC_JOB_H
#define HARNESS_PROC_JOB_H

#include <signal.h>
#include <sys/types.h>

#include "ddpcore/store/store.h"
#include "harness/launch/launch.h"
#include "harness/proc/sampler.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_proc_rank {
    pid_t pid; /* 0: not started */
    int pid_fd;
    struct harness_process process; /* copied to the shared head at every change */
    uint64_t continue_ns;           /* when to end its planned stop; DDP_DEADLINE_NEVER = never */
    bool is_ended_by_us;            /* by the launcher, or by mpirun because another rank failed */
    bool is_stopped_at_end;
    bool is_given_up; /* killed, and the kernel has not ended it: nobody waits for it any more */
    struct harness_lag lag; /* during the linger */
};

static inline bool harness_proc_rank_is_alive(const struct harness_proc_rank *rank)
{
    return rank->pid > 0 && rank->process.state != HARNESS_PROCESS_EXITED &&
           rank->process.state != HARNESS_PROCESS_SIGNALED;
}

/* The rank was ordered to end. Only the first order counts: by the second one, the first has
 * continued a rank that was stopped. */
static inline void harness_proc_rank_note_end_order(struct harness_proc_rank *rank)
{
    if (!rank->is_ended_by_us) {
        rank->is_ended_by_us = true;
        rank->is_stopped_at_end = rank->process.state == HARNESS_PROCESS_STOPPED;
    }
}

struct harness_proc_job;
/* How ranks are started, and how their ends are learned; the rest is the same for all launchers. */
struct harness_proc_starter {
    /* Start all ranks. Ranks that are only started later, in poll, are in job->not_started_count
     * until then. */
    ddp_status (*start)(struct harness_proc_job *job);
    /* Call harness_proc_loop_note_start and _note_change for what happened to ranks since the last
     * call. *out_has_events: something did. Never blocks. Errors: the job cannot go on. */
    ddp_status (*poll)(struct harness_proc_job *job, bool *out_has_events);
    /* All ranks have ended: end and reap what else was started, and release what belongs to it.
     * Also called after a start that failed half-way. */
    void (*close)(struct harness_proc_job *job);
};
const struct harness_proc_starter *harness_proc_starter_own(void);    /* spawn.c */
const struct harness_proc_starter *harness_proc_starter_mpirun(void); /* mpirun.c */

struct harness_proc_job {
    const struct harness_launch_config *config;
    struct ddp_mem *mem;
    struct ddp_mem_pool *pool; /* strings for the ranks */
    struct ddp_clock *clock;
    struct ddp_err *err;
    uint32_t world_size;
    struct harness_proc_rank *ranks; /* [world_size] */
    uint32_t alive_count;
    uint32_t not_started_count; /* ranks that the starter still has to start */
    const struct harness_proc_starter *starter;
    struct harness_proc_mpirun *mpirun; /* of that starter */

    struct harness_proc_head *head;
    size_t head_size_bytes; /* of the whole mapping */

    int job_fd, epoll_fd, signal_fd, timer_fd, port_fd;
    sigset_t old_mask;
    pid_t
        store_pid; /* 0: none, or it has ended; rank 0 has it, at a port that port_fd keeps free */
    int store_fd;  /* to tell it of deaths; closed: the job is over */
    uint16_t store_port;
    bool is_mask_set;
    bool is_reaping; /* a rank that starts now must end */

    pid_t monitor_pid; /* 0: none */
    int monitor_fd;    /* read end of its pipe, -1 at its end */
    int wake_fd;       /* eventfd that wakes it */
    struct harness_lag monitor_lag;
    struct ddp_text reports; /* read from it: begins with a line that is not whole yet */
    struct harness_conclusions conclusions; /* conclusions so far */
    struct harness_proc_sampler sampler;    /* the launcher's own, once the monitor failed */
    bool is_sampling;                       /* it is open */

    uint64_t start_ns, ceiling_ns;
    uint64_t linger_from_ns, linger_ns; /* when it last began, and for how long */
    uint64_t linger_end_ns;             /* DDP_DEADLINE_NEVER until something was diagnosed */
    uint64_t linger_limit_ns;           /* it is never longer than until then */
    uint64_t event_count;               /* of all ranks, when that was last looked at */
    uint64_t loop_ns;                   /* when the event loop last made a step */
    int interrupt;                      /* signal that asked the launcher to end, or 0 */
};

/* store.c */
DDP_MUST_USE ddp_status harness_proc_store_start(struct harness_proc_job *job);
/* A rank ended before its group existed: nobody is to wait for it at the store. */
void harness_proc_store_note_death(struct harness_proc_job *job, uint32_t rank);
/* If the store's process has ended by itself, that is reported. */
void harness_proc_store_check(struct harness_proc_job *job);
/* All ranks have ended: end and reap it, and report what it has not given back. */
void harness_proc_store_stop(struct harness_proc_job *job);

/* monitor.c */
/* In a fork: keep these two descriptors, as 3 and 4, and no others: copies of them would keep pipes
 * and files of the launcher open. */
bool harness_proc_keep_two(int first_fd, int second_fd);
DDP_MUST_USE ddp_status harness_proc_monitor_start(struct harness_proc_job *job);
/* Read the monitor's conclusions; at the end of its pipe monitor_fd becomes -1. */
void harness_proc_monitor_drain(struct harness_proc_job *job);
/* Let the monitor take a last sample, read its conclusions, and reap it. The launcher's own sampler
 * is closed too. */
void harness_proc_monitor_stop(struct harness_proc_job *job);
/* If the monitor no longer takes samples: report that, end it, and open the launcher's own sampler.
 * now_ns: UINT64_MAX means that it has certainly failed. */
void harness_proc_monitor_check(struct harness_proc_job *job, uint64_t now_ns);
/* A sample now: by the monitor, and by the launcher's own sampler if that is open. */
void harness_proc_monitor_wake(struct harness_proc_job *job);
/* A sample by the launcher's own sampler, if that is open. */
void harness_proc_monitor_sample(struct harness_proc_job *job);
/* linger.c */
/* Set linger_end_ns: until when ranks may end by themselves, after what was concluded so far. */
void harness_proc_linger_update(struct harness_proc_job *job, uint64_t now_ns);

/* loop.c */
DDP_MUST_USE ddp_status harness_proc_loop_open(struct harness_proc_job *job);
/* Wake the loop whenever this descriptor is readable. */
DDP_MUST_USE ddp_status harness_proc_loop_add(struct harness_proc_job *job, int fd);
/* A rank runs, as ranks[rank].pid. Errors: E_SYSTEM. */
DDP_MUST_USE ddp_status harness_proc_loop_note_start(struct harness_proc_job *job, uint32_t rank);
/* A rank that was alive ended, stopped or went on: si_code and si_status as of waitid. */
void harness_proc_loop_note_change(struct harness_proc_job *job, uint32_t rank, int code,
                                   int status);
/* Until every rank has ended, or the time after a conclusion, or the ceiling, or an interrupt. */
DDP_MUST_USE ddp_status harness_proc_loop_run(struct harness_proc_job *job);
/* Not OK if a signal asked the launcher to end, at any time since the loop was opened. */
DDP_MUST_USE ddp_status harness_proc_loop_interrupted(const struct harness_proc_job *job);
/* End and reap every rank that is left. One that the kernel does not end is left behind after
 * HARNESS_ENDING_MAX_NS. */
void harness_proc_loop_reap(struct harness_proc_job *job);
void harness_proc_loop_close(struct harness_proc_job *job);

/* audit.c: what a job must not leave behind. */
struct harness_proc_audit {
    int fd_count;
    struct ddp_text shm; /* names in /dev/shm, one a line */
};
/* Open descriptors of this process; 0: they cannot be listed. */
uint64_t harness_proc_audit_descriptors(void);
void harness_proc_audit_begin(struct harness_proc_audit *audit, struct ddp_mem *mem);
/* Compare with the state at the beginning, and end processes that are left. */
void harness_proc_audit_end(struct harness_proc_audit *audit, const struct harness_proc_rank *ranks,
                            uint32_t world_size, struct harness_trace *trace);
void harness_proc_audit_fini(struct harness_proc_audit *audit);

#ifdef __cplusplus
}
#endif
#endif
