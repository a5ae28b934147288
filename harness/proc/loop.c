/* The launcher's event loop: ends and stops of ranks, the rendezvous store, the monitor's pipe,
 * signals, and one timer for everything that is due. A descriptor only wakes the loop; each step
 * then checks everything, which is cheap and misses nothing. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/proc/job.h"

static const uint64_t check_interval_ns = DDP_NS_PER_S / 10;
static const uint64_t sample_interval_ns = 2 * DDP_NS_PER_MS;
static const uint64_t check_starved_ns = 2 * DDP_NS_PER_MS;
static const uint64_t term_grace_ns = 100 * DDP_NS_PER_MS;

ddp_status harness_proc_loop_add(struct harness_proc_job *job, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};

    if (epoll_ctl(job->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        return ddp_err_set(job->err, DDP_E_SYSTEM, "epoll_ctl: %s", strerror(errno));
    }
    return DDP_OK;
}

ddp_status harness_proc_loop_open(struct harness_proc_job *job)
{
    sigset_t mask;

    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGINT);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGHUP);
    (void)sigaddset(&mask, SIGCHLD);
    job->is_mask_set = sigprocmask(SIG_BLOCK, &mask, &job->old_mask) == 0;
    job->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    job->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    job->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (!job->is_mask_set || job->epoll_fd < 0 || job->signal_fd < 0 || job->timer_fd < 0) {
        return ddp_err_set(job->err, DDP_E_SYSTEM, "event loop: %s", strerror(errno));
    }
    DDP_TRY(harness_proc_loop_add(job, job->signal_fd));
    return harness_proc_loop_add(job, job->timer_fd);
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

void harness_proc_loop_close(struct harness_proc_job *job)
{
    close_fd(&job->timer_fd);
    close_fd(&job->signal_fd);
    close_fd(&job->epoll_fd);
    if (job->is_mask_set) {
        (void)sigprocmask(SIG_SETMASK, &job->old_mask, NULL);
        job->is_mask_set = false;
    }
}

static void read_signals(struct harness_proc_job *job)
{
    struct signalfd_siginfo info;

    while (read(job->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGCHLD) {
            job->interrupt = (int)info.ssi_signo;
        }
    }
}

/* How long a rank is to stay stopped, by the last fault that fired in it; NEVER: for ever, or it
 * was stopped from outside. */
static uint64_t planned_stop_ns(const struct harness_proc_job *job, uint32_t rank)
{
    const struct harness_plan *plan = job->config->plan;
    const void *storage = harness_proc_recorder(job->head, rank);
    const struct ddp_page *page = storage;
    const struct ddp_event_entry *ring = ddp_recorder_ring(storage);
    uint64_t index = __atomic_load_n(&page->event_count, __ATOMIC_ACQUIRE);
    struct ddp_event_entry entry;

    for (; index > 0; index--) {
        if (ddp_ring_read(ring, job->head->ring_entry_count, index, &entry) != DDP_OK) {
            return DDP_DEADLINE_NEVER;
        }
        if (entry.event == DDP_EVENT_FAULT_FIRED) {
            const struct harness_fault *fault =
                entry.arg[0] < plan->fault_count ? &plan->faults[entry.arg[0]] : NULL;

            return fault != NULL && fault->action.kind == HARNESS_ACTION_STOP &&
                           fault->action.stop_ms > 0
                       ? fault->action.stop_ms * DDP_NS_PER_MS
                       : DDP_DEADLINE_NEVER;
        }
    }
    return DDP_DEADLINE_NEVER;
}

/* Ranks may wait at the store for a rank that ended before its group existed. Those that go on
 * after a loss meet there without the lost one. */
static void report_death(struct harness_proc_job *job, uint32_t rank)
{
    const struct ddp_page *page = harness_proc_recorder(job->head, rank);
    bool is_over = __atomic_load_n(&page->end_status, __ATOMIC_ACQUIRE) == 1 ||
                   job->config->plan->job.on_loss == HARNESS_ON_LOSS_CONTINUE;
    bool is_after_group = is_over && __atomic_load_n(&page->seq_posted, __ATOMIC_ACQUIRE) > 0;

    if (!is_after_group) {
        harness_proc_store_note_death(job, rank);
    }
}

ddp_status harness_proc_loop_note_start(struct harness_proc_job *job, uint32_t rank)
{
    struct harness_proc_rank *self = &job->ranks[rank];

    DDP_ASSERT(self->pid > 0 && self->process.state == HARNESS_PROCESS_NOT_STARTED);
    job->alive_count++;
    DDP_ASSERT(job->alive_count <= job->world_size);
    self->process = (struct harness_process){.state = HARNESS_PROCESS_RUNNING,
                                             .since_ns = ddp_clock_now_ns(job->clock)};
    __atomic_store_n(&job->head->states[rank].pid, (uint64_t)self->pid, __ATOMIC_RELAXED);
    harness_proc_state_store(&job->head->states[rank], &self->process);
    self->pid_fd = (int)syscall(SYS_pidfd_open, self->pid, 0);
    if (self->pid_fd < 0) {
        return ddp_err_set(job->err, DDP_E_SYSTEM, "pidfd_open: %s", strerror(errno));
    }
    return harness_proc_loop_add(job, self->pid_fd);
}

static void note_stop(struct harness_proc_job *job, uint32_t rank)
{
    struct harness_proc_rank *self = &job->ranks[rank];
    uint64_t stop_ns = planned_stop_ns(job, rank);

    self->process.state = HARNESS_PROCESS_STOPPED;
    self->process.is_brief = stop_ns < HARNESS_MONITOR_STOP_HOLD_NS;
    self->continue_ns = stop_ns == DDP_DEADLINE_NEVER ? stop_ns : self->process.since_ns + stop_ns;
}

void harness_proc_loop_note_change(struct harness_proc_job *job, uint32_t rank, int code,
                                   int status)
{
    struct harness_proc_rank *self = &job->ranks[rank];

    DDP_ASSERT(harness_proc_rank_is_alive(self)); /* an ended rank stays ended */
    self->process.since_ns = ddp_clock_now_ns(job->clock);
    self->process.code = status;
    self->process.is_brief = false;
    self->continue_ns = DDP_DEADLINE_NEVER;
    switch (code) {
    case CLD_EXITED:
        self->process.state = HARNESS_PROCESS_EXITED;
        break;
    case CLD_STOPPED:
    case CLD_TRAPPED:
        note_stop(job, rank);
        break;
    case CLD_CONTINUED:
        self->process.state = HARNESS_PROCESS_RUNNING;
        break;
    default:
        self->process.state = HARNESS_PROCESS_SIGNALED;
        break;
    }
    /* An end that the launcher or mpirun caused is not shown to the monitor: it is no crash. */
    if (!self->is_ended_by_us) {
        harness_proc_state_store(&job->head->states[rank], &self->process);
    }
    if (!harness_proc_rank_is_alive(self)) {
        close_fd(&self->pid_fd);
        DDP_ASSERT(job->alive_count > 0);
        job->alive_count--;
        report_death(job, rank);
    }
}

/* Learn what became of the ranks; one wake-up of the monitor for all of it. */
static ddp_status poll_ranks(struct harness_proc_job *job)
{
    bool has_events = false;
    ddp_status status = job->starter->poll(job, &has_events);

    if (has_events) {
        harness_proc_monitor_wake(job);
    }
    return status;
}

static void continue_stopped(struct harness_proc_job *job, uint64_t now_ns)
{
    for (uint32_t r = 0; r < job->world_size; r++) {
        if (harness_proc_rank_is_alive(&job->ranks[r]) && job->ranks[r].continue_ns <= now_ns) {
            job->ranks[r].continue_ns = DDP_DEADLINE_NEVER;
            (void)kill(job->ranks[r].pid, SIGCONT);
        }
    }
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void set_timer(struct harness_proc_job *job, uint64_t now_ns)
{
    uint64_t next_ns = now_ns + (job->is_sampling ? sample_interval_ns : check_interval_ns);
    struct itimerspec at = {{0, 0}, {0, 0}};

    next_ns = earlier(next_ns, job->ceiling_ns);
    /* While a rank has no CPU the linger's end moves on with the clock: looked at, but not so often
     * that the loop takes that CPU. */
    next_ns = earlier(next_ns, later(job->linger_end_ns, now_ns + check_starved_ns));
    for (uint32_t r = 0; r < job->world_size; r++) {
        next_ns = earlier(next_ns, job->ranks[r].continue_ns);
    }
    at.it_value.tv_sec = (time_t)(next_ns / DDP_NS_PER_S);
    at.it_value.tv_nsec = (long)(next_ns % DDP_NS_PER_S);
    (void)timerfd_settime(job->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Sleep until something is due or happens, then check everything. */
static ddp_status step(struct harness_proc_job *job)
{
    struct epoll_event events[16];
    uint64_t expirations;
    uint64_t now_ns;

    set_timer(job, ddp_clock_now_ns(job->clock));
    if (epoll_wait(job->epoll_fd, events, 16, -1) < 0 && errno != EINTR) {
        return ddp_err_set(job->err, DDP_E_SYSTEM, "epoll_wait: %s", strerror(errno));
    }
    (void)!read(job->timer_fd, &expirations, sizeof(expirations));
    read_signals(job);
    DDP_TRY(poll_ranks(job));
    harness_proc_store_check(job);
    harness_proc_monitor_drain(job);
    now_ns = ddp_clock_now_ns(job->clock);
    harness_proc_monitor_check(job, now_ns);
    job->loop_ns = now_ns;
    harness_proc_monitor_sample(job);
    continue_stopped(job, now_ns);
    harness_proc_linger_update(job, now_ns);
    return DDP_OK;
}

ddp_status harness_proc_loop_interrupted(const struct harness_proc_job *job)
{
    return job->interrupt == 0
               ? DDP_OK
               : ddp_err_set(job->err, DDP_E_STATE,
                             "interrupted by SIG%s; all ranks were ended, nothing was judged",
                             sigabbrev_np(job->interrupt));
}

ddp_status harness_proc_loop_run(struct harness_proc_job *job)
{
    job->loop_ns = ddp_clock_now_ns(job->clock);
    while (job->alive_count + job->not_started_count > 0 && job->loop_ns < job->linger_end_ns &&
           job->loop_ns < job->ceiling_ns) {
        DDP_TRY(step(job));
        DDP_TRY(harness_proc_loop_interrupted(job));
    }
    return DDP_OK;
}

/* The rank's whole process group, with all that the rank started. */
static void signal_group(const struct harness_proc_rank *rank, int signal_number)
{
    if (kill(-rank->pid, signal_number) != 0) {
        (void)kill(rank->pid, signal_number);
    }
}

/* The job is over, so errors of the starter are ignored. */
static void reap_until(struct harness_proc_job *job, uint64_t end_ns)
{
    (void)!poll_ranks(job);
    while (job->alive_count > 0 && ddp_clock_now_ns(job->clock) < end_ns) {
        struct epoll_event event;

        /* SIGCHLD wakes the loop too. */
        (void)epoll_wait(job->epoll_fd, &event, 1, 5);
        read_signals(job);
        (void)!poll_ranks(job);
    }
}

/* It is killed, and the kernel does not end it. The audit will find it. */
static void give_up(struct harness_proc_job *job, uint32_t rank)
{
    job->ranks[rank].is_given_up = true;
    harness_proc_loop_note_change(job, rank, CLD_KILLED, SIGKILL);
}

void harness_proc_loop_reap(struct harness_proc_job *job)
{
    job->is_reaping = true;
    for (uint32_t r = 0; r < job->world_size; r++) {
        struct harness_proc_rank *rank = &job->ranks[r];

        if (!harness_proc_rank_is_alive(rank)) {
            continue;
        }
        harness_proc_rank_note_end_order(rank);
        rank->continue_ns = DDP_DEADLINE_NEVER;
        signal_group(rank, SIGTERM);
        /* The pending SIGTERM is the first thing that a continued process sees. */
        signal_group(rank, SIGCONT);
    }
    reap_until(job, ddp_clock_now_ns(job->clock) + term_grace_ns);
    for (uint32_t r = 0; r < job->world_size; r++) {
        if (harness_proc_rank_is_alive(&job->ranks[r])) {
            signal_group(&job->ranks[r], SIGKILL);
        }
    }
    reap_until(job, ddp_clock_now_ns(job->clock) + HARNESS_ENDING_MAX_NS);
    for (uint32_t r = 0; r < job->world_size; r++) {
        if (harness_proc_rank_is_alive(&job->ranks[r])) {
            give_up(job, r);
        }
    }
    DDP_ASSERT(job->alive_count == 0);
}
