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

struct proc_rank {
    pid_t pid; /* 0: not started */
    int pid_fd;
    struct harness_process process; /* copied to the shared head at every change */
    uint64_t continue_ns;           /* when to end its planned stop; DDP_DEADLINE_NEVER = never */
    bool is_ended_by_us;            /* by the launcher, or by mpirun because another rank failed */
    bool is_stopped_at_end;
};

static inline bool proc_rank_is_alive(const struct proc_rank *rank)
{
    return rank->pid > 0 && rank->process.state != HARNESS_PROCESS_EXITED &&
           rank->process.state != HARNESS_PROCESS_SIGNALED;
}

/* It is being ended. Only the first order counts: the second finds it continued by the first. */
static inline void proc_rank_note_order(struct proc_rank *rank)
{
    if (!rank->is_ended_by_us) {
        rank->is_ended_by_us = true;
        rank->is_stopped_at_end = rank->process.state == HARNESS_PROCESS_STOPPED;
    }
}

struct proc_job;
/* Who starts the ranks, and hears of their ends. Everything else is the same for all launchers. */
struct proc_starter {
    /* Start all ranks. One that is born later, in look, is in job->unborn_count until then. */
    ddp_status (*start)(struct proc_job *job);
    /* Tell proc_loop_note_birth and proc_loop_note what became of ranks since the last call; never
     * blocks. *out_is_news: there was something. Errors: the job cannot go on. */
    ddp_status (*look)(struct proc_job *job, bool *out_is_news);
    /* All ranks have ended: end and reap whatever else was started, and release what belongs to
     * it. Also called after a start that failed half-way. */
    void (*close)(struct proc_job *job);
};
const struct proc_starter *proc_starter_own(void);    /* proc_spawn.c */
const struct proc_starter *proc_starter_mpirun(void); /* proc_mpirun.c */

/* What the monitor writes into its pipe. The finding's strings are literals of this program, which
 * lie at the same addresses in the monitor: it is a fork without exec. */
struct proc_diagnosis {
    uint64_t time_ns;
    struct harness_finding finding;
};

struct proc_job {
    const struct harness_launch_config *config;
    struct ddp_mem *mem;
    struct ddp_mem_pool *pool; /* strings for the ranks */
    struct ddp_clock *clock;
    struct ddp_err *err;
    uint32_t world_size;
    struct proc_rank *ranks; /* [world_size] */
    uint32_t alive_count;
    uint32_t unborn_count; /* ranks that the starter still has to start */
    const struct proc_starter *starter;
    struct proc_mpirun *mpirun; /* of that starter */

    struct proc_head *head;
    size_t head_size_bytes; /* of the whole mapping */

    int job_fd, epoll_fd, signal_fd, timer_fd;
    sigset_t old_mask;
    struct ddp_store_server *store;
    uint16_t store_port;
    bool is_mask_set;
    bool is_reaping; /* a rank that is born now must end */

    pid_t monitor_pid; /* 0: none */
    int monitor_fd;    /* read end of its pipe, -1 at its end */
    int poke_fd;       /* eventfd that wakes it */
    struct proc_lag monitor_lag;
    struct harness_watch said; /* conclusions so far */
    struct proc_eye eye;       /* the launcher's own, once the monitor failed */
    bool is_eye_open;

    uint64_t start_ns, ceiling_ns;
    uint64_t linger_end_ns; /* DDP_DEADLINE_NEVER until something was diagnosed */
    uint64_t loop_ns;       /* when the event loop last turned */
    int interrupt;          /* signal that asked the launcher to end, or 0 */
};

/* proc_monitor.c */
DDP_MUST_USE ddp_status proc_monitor_start(struct proc_job *job);
/* Read whatever the monitor said; at the end of its pipe monitor_fd becomes -1. */
void proc_monitor_drain(struct proc_job *job);
/* Let it look a last time, hear it out, and see it end; the launcher looks no more either. */
void proc_monitor_stop(struct proc_job *job);
/* Is it still looking? If not: say so, end it, and open the launcher's own eye. */
void proc_monitor_check(struct proc_job *job, uint64_t now_ns);
void proc_monitor_poke(struct proc_job *job);
/* proc_loop.c */
DDP_MUST_USE ddp_status proc_loop_open(struct proc_job *job);
/* Add a descriptor to the loop; it is read when proc_loop_run says so. */
DDP_MUST_USE ddp_status proc_loop_add(struct proc_job *job, int fd);
/* A rank runs, as ranks[rank].pid. Errors: E_SYSTEM. */
DDP_MUST_USE ddp_status proc_loop_note_birth(struct proc_job *job, uint32_t rank);
/* A rank that was alive ended, stopped or went on: si_code and si_status as of waitid. */
void proc_loop_note(struct proc_job *job, uint32_t rank, int code, int status);
/* Until every rank has ended, or the time after a diagnosis, or the ceiling, or an interrupt. */
DDP_MUST_USE ddp_status proc_loop_run(struct proc_job *job);
/* Not OK if a signal asked the launcher to end, at any time since the loop was opened. */
DDP_MUST_USE ddp_status proc_loop_interrupted(const struct proc_job *job);
/* End and reap every rank that is left. */
void proc_loop_reap(struct proc_job *job);
void proc_loop_close(struct proc_job *job);

/* proc_audit.c: what a job must not leave behind. */
struct proc_audit {
    int fd_count;
    struct ddp_text shm; /* names in /dev/shm, one a line */
};
void proc_audit_begin(struct proc_audit *audit, struct ddp_mem *mem);
/* Compare; ends strays. pids: of the ranks. */
void proc_audit_end(struct proc_audit *audit, const struct proc_rank *ranks, uint32_t world_size,
                    struct harness_trace *trace);
void proc_audit_fini(struct proc_audit *audit);

#ifdef __cplusplus
}
#endif
#endif
