/* Processes: their ends and stops. A rank is a child of ours, or of a launcher that is; then the
 * kernel tells its end through a pidfd, and its stop is read from /proc. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/exec/job.h"
#include "harness/exec/stat.h"
#include "harness/launch/ending.h"

static void set_state(struct exec_job *job, uint32_t rank, enum harness_watch_state state, int code,
                      uint64_t now_ns)
{
    struct harness_watch_rank *self = &job->watch->ranks[rank];

    if (self->state != state || self->code != code) {
        self->state = state;
        self->code = code;
        self->since_ns = self->is_ending ? self->ending_ns : now_ns;
        self->is_ending = false;
        job->watch->change_ns = now_ns;
        job->has_end = job->has_end || harness_watch_is_gone(job->watch, rank);
    }
}

/* The rank whose process this is, if it has shown itself; else the one it was started as.
 * world_size: none. */
static uint32_t rank_of(const struct exec_job *job, uint32_t child)
{
    for (uint32_t r = 0; r < job->watch->world_size; r++) {
        if (job->ranks[r].pid == job->children[child].pid) {
            return r;
        }
    }
    return job->config->ranks > 0 && job->ranks[child].pid == 0 ? child : job->watch->world_size;
}

static enum harness_watch_state state_of(const siginfo_t *info)
{
    switch (info->si_code) {
    case CLD_EXITED:
        return HARNESS_WATCH_EXITED;
    case CLD_KILLED:
    case CLD_DUMPED:
        return HARNESS_WATCH_SIGNALED;
    case CLD_STOPPED:
    case CLD_TRAPPED:
        return HARNESS_WATCH_STOPPED;
    default:
        return HARNESS_WATCH_RUNNING;
    }
}

static void follow_child(struct exec_job *job, uint32_t index, uint64_t now_ns)
{
    struct exec_child *child = &job->children[index];

    while (child->pid != 0) {
        const uint32_t rank = rank_of(job, index);
        enum harness_watch_state state;
        siginfo_t info;

        memset(&info, 0, sizeof info);
        if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WSTOPPED | WCONTINUED | WNOHANG) !=
                0 ||
            info.si_pid == 0) {
            return;
        }
        state = state_of(&info);
        if (state == HARNESS_WATCH_EXITED || state == HARNESS_WATCH_SIGNALED) {
            child->exit_code =
                state == HARNESS_WATCH_EXITED ? info.si_status : 128 + info.si_status;
            child->pid = 0;
            job->alive_count--;
        }
        if (rank < job->watch->world_size) {
            set_state(job, rank, state, state == HARNESS_WATCH_RUNNING ? 0 : info.si_status,
                      now_ns);
        }
    }
}

pid_t harness_exec_pid(const struct exec_job *job, uint32_t rank)
{
    return job->ranks[rank].pid > 0                            ? job->ranks[rank].pid
           : job->config->ranks > 0 && rank < job->child_count ? job->children[rank].pid
                                                               : 0;
}

/* It is shown as it will have ended: nobody waits for that any more. */
static void give_up(struct exec_job *job, uint32_t rank, int status)
{
    struct harness_watch_rank *self = &job->watch->ranks[rank];
    const bool is_signaled = WIFSIGNALED(status);

    self->is_unended = true;
    set_state(job, rank, is_signaled ? HARNESS_WATCH_SIGNALED : HARNESS_WATCH_EXITED,
              is_signaled ? WTERMSIG(status) : WEXITSTATUS(status), job->watch->now_ns);
}

bool harness_exec_look_for_endings(struct exec_job *job, uint64_t now_ns)
{
    bool is_any = false;

    for (uint32_t r = 0; r < job->watch->world_size; r++) {
        struct harness_watch_rank *self = &job->watch->ranks[r];
        const pid_t pid = harness_exec_pid(job, r);
        struct harness_ending ending = {.is_so = false};

        if (pid > 0 && !harness_watch_is_gone(job->watch, r)) {
            harness_ending_read(pid, &ending);
        }
        self->ending_ns = self->is_ending ? self->ending_ns : now_ns;
        self->is_ending = ending.is_so;
        is_any = is_any || ending.is_so;
        if (ending.is_so && !ending.is_over && now_ns - self->ending_ns >= HARNESS_ENDING_MAX_NS) {
            give_up(job, r, ending.status);
        }
    }
    return is_any;
}

static bool is_detached(const struct exec_job *job, uint32_t rank)
{
    const struct guest_page *page = guest_arena_page(job->arena.head, rank);

    return __atomic_load_n(&page->is_ended, __ATOMIC_ACQUIRE) != 0;
}

/* It has ended, or is about to. Where nobody tells how, it has ended well if it had said that it
 * was done. What it said last may not have been read yet. */
static void set_end(struct exec_job *job, uint32_t rank, uint64_t now_ns)
{
    const struct exec_rank *self = &job->ranks[rank];
    int status = 0;

    if (!harness_exec_read_status(self->pid, self->pid_fd, &status)) {
        set_state(job, rank, HARNESS_WATCH_EXITED, is_detached(job, rank) ? 0 : -1, now_ns);
    } else if (WIFSIGNALED(status)) {
        set_state(job, rank, HARNESS_WATCH_SIGNALED, WTERMSIG(status), now_ns);
    } else {
        set_state(job, rank, HARNESS_WATCH_EXITED, WEXITSTATUS(status), now_ns);
    }
}

/* A rank that is no child of ours. */
static void follow_other(struct exec_job *job, uint32_t rank, uint64_t now_ns)
{
    struct exec_rank *self = &job->ranks[rank];
    struct pollfd end = {.fd = self->pid_fd, .events = POLLIN};
    struct exec_stat stat = {0};

    if (!harness_exec_read_stat_of(self->stat_fd, &stat) || poll(&end, 1, 0) > 0) {
        set_end(job, rank, now_ns);
        (void)close(self->pid_fd);
        (void)close(self->stat_fd);
        self->pid_fd = self->stat_fd = -1;
    } else if ((stat.flags & EXEC_FLAG_EXITING) != 0 && harness_exec_is_past_its_code(self->pid) &&
               (stat.status != 0 || is_detached(job, rank))) { /* 0: the kernel is not so far yet */
        set_end(job, rank, now_ns);
    } else if (!job->watch->ranks[rank].is_unended) {
        set_state(job, rank,
                  stat.letter == 'T' || stat.letter == 't' ? HARNESS_WATCH_STOPPED
                                                           : HARNESS_WATCH_RUNNING,
                  0, now_ns);
    }
}

/* A child of ours, or one that was: its end is known. */
static bool is_child(const struct exec_job *job, pid_t pid)
{
    for (uint32_t i = 0; i < job->child_count; i++) {
        if (job->children[i].started_pid == pid) {
            return true;
        }
    }
    return false;
}

/* It may go on. */
static void tell_met(const struct exec_job *job, uint32_t rank)
{
    struct guest_page *page = guest_arena_page(job->arena.head, rank);

    __atomic_store_n(&page->is_met, 1, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, &page->is_met, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A rank has shown itself: from now on its process is known. */
static void meet(struct exec_job *job, uint32_t rank, uint64_t now_ns)
{
    struct exec_rank *self = &job->ranks[rank];

    self->pid = (pid_t)job->watch->ranks[rank].pid;
    if (job->watch->ranks[rank].state ==
        HARNESS_WATCH_UNKNOWN) { /* a child may be stopped by now */
        set_state(job, rank, HARNESS_WATCH_RUNNING, 0, now_ns);
    }
    if (!is_child(job, self->pid)) {
        job->watch->ranks[rank].is_of_launcher = true;
        harness_exec_note_shared(job, self->pid);
        self->pid_fd = (int)syscall(SYS_pidfd_open, self->pid, 0);
        self->stat_fd = harness_exec_open_stat(self->pid);
        if (self->pid_fd < 0) {
            set_end(job, rank, now_ns);
        }
    }
    tell_met(job, rank);
}

/* Nothing has changed for a while: has a rank's process other threads, which might still come? */
static void count_threads(struct exec_job *job)
{
    for (uint32_t r = 0; r < job->watch->world_size; r++) {
        struct exec_stat stat = {0};

        job->watch->ranks[r].is_alone =
            job->ranks[r].pid > 0 && harness_watch_is_waiting(job->watch, r) &&
            harness_exec_read_stat(job->ranks[r].pid, &stat) && stat.threads == 1;
    }
}

static bool is_unmet(const struct exec_job *job, uint32_t rank)
{
    return job->ranks[rank].pid == 0 && job->watch->ranks[rank].pid != 0;
}

static bool has_unmet(const struct exec_job *job)
{
    for (uint32_t r = 0; r < job->watch->world_size; r++) {
        if (is_unmet(job, r)) {
            return true;
        }
    }
    return false;
}

void harness_exec_follow(struct exec_job *job, uint64_t now_ns)
{
    for (uint32_t r = 0; r < job->watch->world_size; r++) {
        if (is_unmet(job, r)) {
            meet(job, r, now_ns);
        }
    }
    for (uint32_t i = 0; i < job->child_count; i++) {
        follow_child(job, i, now_ns);
    }
    for (uint32_t r = 0; r < job->watch->world_size; r++) {
        if (job->ranks[r].pid_fd >= 0) {
            follow_other(job, r, now_ns);
        }
    }
    if (job->has_end) { /* whose end had begun before? */
        (void)harness_exec_look_for_endings(job, now_ns);
    }
    if (now_ns - job->watch->change_ns >= HARNESS_WATCH_SURE_HOLD_NS / 2) {
        count_threads(job);
    }
}

void harness_exec_look(struct exec_job *job, uint64_t now_ns)
{
    do { /* ends first: what a process wrote before it ended is then read */
        harness_exec_follow(job, now_ns);
        harness_watch_read(job->watch, now_ns);
    } while (has_unmet(job));
}

/* Ranks that are no children of ours: their launcher may be gone. */
static void kill_others(const struct exec_job *job)
{
    for (uint32_t r = 0; job->ranks != NULL && r < job->watch->world_size; r++) {
        if (job->ranks[r].pid_fd >= 0) {
            (void)syscall(SYS_pidfd_send_signal, job->ranks[r].pid_fd, SIGKILL, NULL, 0);
        }
    }
}

void harness_exec_signal(const struct exec_job *job, int signal_number)
{
    for (uint32_t i = 0; i < job->child_count; i++) {
        if (job->children[i].pid > 0) {
            (void)kill(-job->children[i].pid, signal_number);
            (void)kill(-job->children[i].pid,
                       SIGCONT); /* a stopped process takes no signal but this and SIGKILL */
        }
    }
    if (signal_number == SIGKILL) {
        kill_others(job);
    }
}
