/* A job in progress. Internal to harness/exec. */
#ifndef HARNESS_EXEC_JOB_H
#define HARNESS_EXEC_JOB_H

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

#include "harness/exec/exec.h"
#include "harness/launch/lag.h"
#include "harness/observed/observed.h"
#include "harness/watch/analyse.h"
#include "harness/watch/arena.h"

/* A process that this one has started. */
struct exec_child {
    pid_t pid;         /* 0: ended */
    pid_t started_pid; /* also after its end */
    int exit_code;
};

struct exec_thread {
    pid_t tid;
    uint64_t since_ns;
    struct harness_lag lag;
};

/* For how long a process has had work and no CPU to do it on, since some moment. Zeroed at first.
 */
struct exec_starved {
    pid_t pid;
    uint64_t since_ns, read_ns, starved_ns; /* read_ns: 0: not read since */
    struct exec_thread *threads;
    uint32_t thread_count, thread_capacity;
};

/* A rank's process, however it was started. */
struct exec_rank {
    pid_t pid;   /* 0: none is known */
    int pid_fd;  /* of one that is no child of ours; -1 */
    int stat_fd; /* of such a one, what the kernel tells of it; -1 */
    bool has_stack;
    pid_t rival_pid; /* the last other process that said to be this rank; 0: none has */
    uint32_t continued[GUEST_FAULTS_MAX]; /* stops of each fault that this process has ended */
    struct exec_starved still;            /* since anything of the job last moved */
    struct exec_starved needed;           /* since others have waited for it */
};

struct exec_shared;

struct exec_job {
    const struct harness_exec_config *config;
    struct harness_watch_arena arena;
    struct harness_watch *watch;       /* the result's */
    struct harness_findings *findings; /* likewise */
    struct harness_observed *observed; /* models and samples, judged */
    struct harness_learner *learner;   /* NULL: nobody asks */
    struct harness_against *against;   /* likewise */
    struct exec_child *children;
    uint32_t child_count, alive_count;
    struct exec_rank *ranks;         /* [watch.world_size] */
    struct harness_watch_late *late; /* likewise */
    sigset_t old_mask;
    bool is_mask_set;
    int signal_fd, timer_fd;
    struct pollfd *wakes;       /* what the loop waits for: these, and ranks' ends */
    uint32_t stack_count;       /* taken so far */
    struct exec_shared *shared; /* files of the ranks' MPI */
    int port_fd;                /* keeps the job's port; -1 */
    pid_t guard_pid;            /* ends the job if this process is killed; 0: there is none */
    int guard_fd;               /* what it is told; when this closes it acts */
    bool has_end;               /* some rank has ended */
    uint64_t linger_ns; /* something is wrong: until then the others may come to where they wait;
                           UINT64_MAX: nothing is */
    uint64_t alone_ns;  /* since when ranks live on without their launcher; UINT64_MAX: none does */
    uint64_t end_ns;    /* when what is left is killed; UINT64_MAX: it is not being ended */
    int interrupt;
};

/* start.c */
/* From now on no other ddprove takes this port of the loopback network, until the descriptor that
 * is returned is closed; -1: one has it, or it is in use. */
int harness_exec_reserve_port(uint16_t port);
/* Start the command's processes, each as leader of a process group. Errors: E_NOT_FOUND,
 * E_SYSTEM.
 */
ddp_status harness_exec_start(struct exec_job *job, struct ddp_err *err);
/* guard.c */
/* From now on the job ends, and with it the files that are noted, also if this process is killed;
 * until _end. Nothing of that if the job is to be left. Errors: E_SYSTEM. */
ddp_status harness_exec_guard_start(struct exec_job *job, struct ddp_err *err);
void harness_exec_guard_note(const struct exec_job *job, uint64_t inode, const char *path);
void harness_exec_guard_end(struct exec_job *job);
/* A child that outlives us, whatever ends us. In it *pid is 0, and descriptor 0 reads what we write
 * to fd, until we close it or end. Errors: E_SYSTEM, with *pid below 1. */
ddp_status harness_exec_guard_fork(pid_t *pid, int *fd, struct ddp_err *err);
/* To every process but ourselves that has this in its environment ("NAME=value"); 0 is no signal.
 * Returns how many there are. */
int harness_exec_guard_signal(const char *variable, int signal_number);
/* launch.c */
/* A rank is about to be started: notes the plan's faults in that. False: it is to be left out. */
bool harness_exec_pass_launch(struct exec_job *job, uint32_t rank);
/* In the child that is to be the rank: do what these faults ask for. */
void harness_exec_take_launch(const struct exec_job *job, uint32_t rank);
/* Let ranks go on whose stop has lasted as long as its fault says. */
void harness_exec_continue(struct exec_job *job, uint64_t now_ns);
/* Tell the watch which ranks' processes say that they are others. */
void harness_exec_note_claims(struct exec_job *job);

/* ending.c */
/* As long as some rank is at its end, nobody is said to hang: take such findings out. */
void harness_exec_hold_hangs(struct exec_job *job, struct harness_findings *inout);

/* process.c */
/* Note which ranks are at their end; false: none. One that has been for HARNESS_ENDING_MAX_NS
 * counts as gone from now on. */
bool harness_exec_look_for_endings(struct exec_job *job, uint64_t now_ns);
/* Learn what became of the processes, and tell the watch. */
void harness_exec_follow(struct exec_job *job, uint64_t now_ns);
/* The same, and read what ranks have shown: also of those that only now have shown themselves it is
 * learnt what became of them, since one of them may have ended because another one did. */
void harness_exec_look(struct exec_job *job, uint64_t now_ns);
/* The process of a rank, also of one that has not shown itself yet; 0: it is not known. */
pid_t harness_exec_pid(const struct exec_job *job, uint32_t rank);
/* starved.c: for how much of the time from since_ns to now_ns some thread of the process was ready
 * to run without a CPU. It is read again after interval_ns; the time since the last reading, and
 * that before the first one, count in full. Another pid or since_ns starts anew. */
uint64_t harness_exec_starved_ns(struct exec_starved *self, struct ddp_mem *mem, pid_t pid,
                                 uint64_t since_ns, uint64_t now_ns, uint64_t interval_ns);
void harness_exec_starved_fini(struct exec_starved *self, struct ddp_mem *mem);
/* Tell the watch which ranks are late for want of a CPU. */
void harness_exec_note_starved(struct exec_job *job, uint64_t now_ns);
/* say.c: add what is new of what one look has found, and tell whoever is to be told. */
void harness_exec_say(struct exec_job *job, struct harness_findings *now);
/* The same of ranks that others wait for, as long as nothing is found. mem: a pool. */
void harness_exec_say_late(struct exec_job *job, struct ddp_mem *mem);
/* shared.c: a rank's process shows which files its MPI has in shared memory; nothing of the job
 * lives any more, so that those that are still there go. */
void harness_exec_note_shared(struct exec_job *job, pid_t pid);
void harness_exec_remove_shared(struct exec_job *job);
/* stack.c: the stacks of the ranks that hangs are about, in the log folder: rank<N>.stack. */
void harness_exec_take_stacks(struct exec_job *job);
/* A signal for all that is left. */
void harness_exec_signal(const struct exec_job *job, int signal_number);

#endif
