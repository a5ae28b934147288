/* The loop: wake up for a process's end, a signal, or every 2 ms; read, judge, say, and end what is
 * to be ended. */
#include "harness/exec/exec.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "harness/exec/job.h"
#include "harness/launch/ending.h"
#include "harness/results/results.h"

enum { SAMPLE_NS = 2000000, RING_ENTRIES = 1 << 14, WAKES_OWN = 2 };
/* After a crash or a hang the other ranks get so long to come to where they wait: it shows what the
 * culprit owes, and whether others have gone the same way. */
static const uint64_t settle_ns = 10 * DDP_NS_PER_MS;
static const uint64_t linger_max_ns = DDP_NS_PER_S;
/* A job that is ended gets so long to end by itself. */
static const uint64_t grace_ns = 3 * DDP_NS_PER_S;

static ddp_status open_loop(struct exec_job *job, struct ddp_err *err)
{
    static const int awaited[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
    const struct itimerspec every = {{0, SAMPLE_NS}, {0, SAMPLE_NS}};
    sigset_t mask;

    (void)sigemptyset(&mask);
    for (size_t i = 0; i < sizeof awaited / sizeof awaited[0]; i++) {
        (void)sigaddset(&mask, awaited[i]);
    }
    job->is_mask_set = sigprocmask(SIG_BLOCK, &mask, &job->old_mask) == 0;
    job->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    job->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (!job->is_mask_set || job->signal_fd < 0 || job->timer_fd < 0 ||
        timerfd_settime(job->timer_fd, 0, &every, NULL) != 0) {
        return ddp_err_set(err, DDP_E_SYSTEM, "event loop: %s", strerror(errno));
    }
    return DDP_OK;
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

static void close_job(struct exec_job *job)
{
    for (uint32_t r = 0; job->ranks != NULL && r < job->watch->world_size; r++) {
        close_fd(job->ranks[r].pid_fd);
        close_fd(job->ranks[r].stat_fd);
        harness_exec_starved_fini(&job->ranks[r].still, job->config->mem);
        harness_exec_starved_fini(&job->ranks[r].needed, job->config->mem);
    }
    ddp_mem_free(job->config->mem, job->ranks);
    ddp_mem_free(job->config->mem, job->late);
    ddp_mem_free(job->config->mem, job->wakes);
    ddp_mem_free(job->config->mem, job->children);
    harness_observed_destroy(job->observed);
    job->watch->arena = NULL; /* what was read of it is the record's */
    harness_watch_arena_destroy(&job->arena);
    close_fd(job->signal_fd);
    close_fd(job->timer_fd);
    close_fd(job->port_fd);
    if (job->is_mask_set) {
        (void)sigprocmask(SIG_SETMASK, &job->old_mask, NULL);
    }
}

/* What ranks are to report of their data. */
static ddp_status ask_for_values(const struct harness_exec_config *config,
                                 struct guest_arena *arena, struct ddp_err *err)
{
    arena->is_observed = config->is_observed;
    arena->observed_every = config->observed_every;
    if (config->keep_end == 0) {
        return DDP_OK;
    }
    if (strlen(config->keep_folder) >= sizeof arena->keep_folder) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "%s: a folder for data has a path of up to %zu bytes",
                           config->keep_folder, sizeof arena->keep_folder - 1);
    }
    arena->keep_first = config->keep_first;
    arena->keep_end = config->keep_end;
    memcpy(arena->keep_folder, config->keep_folder, strlen(config->keep_folder) + 1);
    return DDP_OK;
}

/* Who takes down the program, and who compares it. */
static ddp_status open_learned(struct exec_job *job, struct ddp_err *err)
{
    const struct harness_exec_config *config = job->config;
    const uint32_t told = config->ranks > 0 ? config->ranks : config->world_size;

    if (config->is_learning) {
        DDP_TRY(harness_learner_create(config->mem, job->watch, &job->learner));
    }
    if (config->against == NULL) {
        return DDP_OK;
    }
    if (told != 0 && config->against->world_size != told) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "the learned program is of %u ranks, and the job has %u",
                           config->against->world_size, told);
    }
    return harness_against_create(config->mem, job->watch, config->against, &job->against);
}

static ddp_status open_job(struct exec_job *job, struct ddp_err *err)
{
    const struct harness_exec_config *config = job->config;
    const uint32_t world_size = config->ranks > 0        ? config->ranks
                                : config->world_size > 0 ? config->world_size
                                                         : HARNESS_EXEC_RANKS_MAX;

    DDP_TRY(harness_watch_arena_create(world_size, RING_ENTRIES, &job->arena, err));
    if (job->config->plan != NULL) {
        harness_exec_arm(job->config->plan, job->arena.head);
    }
    job->arena.head->is_meeting = 1;
    DDP_TRY(ask_for_values(job->config, job->arena.head, err));
    DDP_TRY(harness_watch_init(job->watch, job->config->mem, job->arena.head));
    DDP_TRY(harness_observed_create(job->watch, &job->observed));
    DDP_TRY(open_learned(job, err));
    job->watch->stated_size = config->ranks > 0 ? config->ranks : config->world_size;
    job->child_count = job->config->ranks > 0 ? job->config->ranks : 1;
    job->children = ddp_mem_array(job->config->mem, job->child_count, sizeof *job->children);
    job->ranks = ddp_mem_array(job->config->mem, world_size, sizeof *job->ranks);
    job->late = ddp_mem_array(job->config->mem, world_size, sizeof *job->late);
    job->wakes = ddp_mem_array(job->config->mem, WAKES_OWN + world_size, sizeof *job->wakes);
    if (job->children == NULL || job->ranks == NULL || job->late == NULL || job->wakes == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t r = 0; r < world_size; r++) {
        job->ranks[r].pid_fd = -1;
        job->ranks[r].stat_fd = -1;
    }
    return open_loop(job, err);
}

/* Every rank that is no culprit waits, or cannot go on, and has for a while. */
static bool has_settled(const struct exec_job *job)
{
    if (harness_watch_unchanged_ns(job->watch) < settle_ns) {
        return false;
    }
    for (uint32_t r = 0; r < job->watch->world_size; r++) {
        const struct harness_watch_rank *rank = &job->watch->ranks[r];
        bool is_culprit = false;

        for (size_t i = 0; i < job->findings->count; i++) {
            is_culprit = is_culprit || harness_rank_set_has(&job->findings->items[i].culprits, r);
        }
        if (rank->is_attached && !rank->is_detached && !is_culprit &&
            rank->state == HARNESS_WATCH_RUNNING && !harness_watch_is_waiting(job->watch, r)) {
            return false;
        }
    }
    return true;
}

/* What is left of the job is to end: first it is asked to. */
static void end(struct exec_job *job, uint64_t now_ns, int signal_number)
{
    if (job->end_ns == UINT64_MAX) {
        harness_exec_take_stacks(job);
        job->end_ns = now_ns + grace_ns;
        harness_exec_signal(job, signal_number);
    }
}

/* Judge what shows now. Nothing that happens while the job is being ended is anybody's fault. */
static ddp_status judge(struct exec_job *job)
{
    struct ddp_mem_pool *pool;
    struct harness_findings now;
    ddp_status status;

    DDP_TRY(ddp_mem_pool_create(&pool));
    harness_findings_init(&now, ddp_mem_pool_mem(pool));
    /* The program that is known says more than the ranks of each other. */
    status = job->against != NULL ? harness_against_judge(job->against, &now) : DDP_OK;
    harness_watch_analyse(job->watch, &job->config->limits, &now);
    harness_exec_hold_hangs(job, &now);
    harness_results_judge(job->watch, &now);
    if (status == DDP_OK && job->learner != NULL) {
        status = harness_learner_look(job->learner);
    }
    harness_observed_judge(job->observed, job->findings, &now);
    /* What nobody judges does not go on for ever either. */
    if (harness_watch_leave_out(&now, job->config->without) && job->linger_ns == UINT64_MAX) {
        job->linger_ns = job->watch->now_ns + linger_max_ns;
    }
    harness_exec_say(job, &now);
    harness_exec_say_late(job, ddp_mem_pool_mem(pool));
    ddp_mem_pool_destroy(pool);
    return job->watch->is_failed || job->findings->is_failed ||
                   harness_observed_is_failed(job->observed)
               ? DDP_E_NOMEM
               : status;
}

static void read_signals(struct exec_job *job, uint64_t now_ns)
{
    struct signalfd_siginfo info;

    while (read(job->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD) {
            job->interrupt = (int)info.ssi_signo;
            end(job, now_ns, job->interrupt);
        }
    }
}

/* Something was found just now. What follows from a mismatch is confusion: nobody waits for it. */
static void linger(struct exec_job *job, uint64_t now_ns)
{
    const struct harness_finding *last = &job->findings->items[job->findings->count - 1];
    const enum harness_family family = harness_verdict_family(last->verdict);

    if (family != HARNESS_FAMILY_CRASH && family != HARNESS_FAMILY_HANG) {
        job->linger_ns = now_ns;
    } else if (job->linger_ns == UINT64_MAX) {
        job->linger_ns = now_ns + linger_max_ns;
    }
}

/* Until it is time to look. Ranks that are no children of ours tell their end by themselves. */
static void wait_for_news(struct exec_job *job)
{
    const uint32_t world_size = job->watch->world_size;
    nfds_t count = WAKES_OWN;
    uint64_t expirations;

    job->wakes[0] = (struct pollfd){.fd = job->signal_fd, .events = POLLIN};
    job->wakes[1] = (struct pollfd){.fd = job->timer_fd, .events = POLLIN};
    for (uint32_t r = 0; r < world_size; r++) {
        if (job->ranks[r].pid_fd >= 0) {
            job->wakes[count++] = (struct pollfd){.fd = job->ranks[r].pid_fd, .events = POLLIN};
        }
    }
    (void)poll(job->wakes, count, -1);
    (void)!read(job->timer_fd, &expirations, sizeof expirations);
}

static ddp_status step(struct exec_job *job)
{
    const size_t before = job->findings->count;
    uint64_t now_ns;

    wait_for_news(job);
    now_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    read_signals(job, now_ns);
    harness_exec_look(job, now_ns);
    harness_exec_continue(job, now_ns);
    harness_exec_note_claims(job);
    harness_exec_note_starved(job, now_ns);
    if (job->end_ns == UINT64_MAX) {
        DDP_TRY(judge(job));
    }
    if (job->findings->count > before && !job->config->is_left) {
        linger(job, now_ns);
    }
    if (job->findings->count > 0 && job->config->is_left) {
        harness_exec_take_stacks(job);
    }
    if (job->linger_ns != UINT64_MAX &&
        (now_ns - job->watch->starved_ns >= job->linger_ns || has_settled(job))) {
        end(job, now_ns, SIGTERM);
    }
    if (now_ns >= job->end_ns) {
        harness_exec_signal(job, SIGKILL);
    }
    return DDP_OK;
}

/* The command has ended, and ranks that it started live on and have not said that they are done: it
 * may have told them to end just now. */
static bool has_outlived(const struct exec_job *job)
{
    for (uint32_t r = 0; r < job->watch->world_size; r++) {
        if (job->ranks[r].pid_fd >= 0 && !job->watch->ranks[r].is_detached) {
            return true;
        }
    }
    return false;
}

/* What is left was killed so long ago that the kernel may never end it. */
static bool is_given_up(const struct exec_job *job)
{
    const uint64_t now_ns = ddp_clock_now_ns(ddp_clock_monotonic());

    return now_ns >= job->end_ns && now_ns - job->end_ns >= HARNESS_ENDING_MAX_NS;
}

/* The command has ended, and ranks that it started may be about to show themselves. */
static bool may_come(const struct exec_job *job)
{
    uint32_t come = 0;

    for (uint32_t r = 0; r < job->watch->world_size; r++) {
        come += job->watch->ranks[r].is_attached;
    }
    return job->config->ranks == 0 && come < job->config->world_size &&
           kill(-job->children[0].started_pid, 0) == 0;
}

/* Ranks that have lost their launcher go on for a while. */
static bool goes_on(struct exec_job *job)
{
    const uint64_t now_ns = ddp_clock_now_ns(ddp_clock_monotonic());

    if (job->alive_count > 0) {
        return !is_given_up(job);
    }
    if (job->end_ns != UINT64_MAX || !(has_outlived(job) || may_come(job))) {
        return false;
    }
    job->alone_ns = job->alone_ns == UINT64_MAX ? now_ns : job->alone_ns;
    return now_ns - job->alone_ns < grace_ns;
}

static void summarise(struct exec_job *job, struct harness_exec_result *out)
{
    int worst = 0;

    for (uint32_t i = 0; i < job->child_count; i++) {
        const struct exec_child *child = &job->children[i];
        const int code = child->pid != 0 ? 128 + SIGKILL : child->exit_code; /* given up */

        worst = code > worst ? code : worst;
    }
    out->record.exit_code = worst;
    out->record.is_ended = job->end_ns != UINT64_MAX || has_outlived(job);
    for (uint32_t r = 0; r < job->watch->world_size; r++) {
        out->seen_count += job->watch->ranks[r].is_attached;
        out->lost_comms += job->watch->ranks[r].lost_comms;
    }
    out->interrupt = job->interrupt;
    if (job->watch->mem != NULL) {
        harness_results_finish(job->watch);
        out->tally = job->watch->tally;
        harness_watch_account(job->watch, &out->record.accounts);
        if (job->observed != NULL) {
            harness_observed_account(job->observed, &out->record.accounts);
        }
        if (job->against != NULL) {
            harness_against_account(job->against, &out->record.accounts);
        }
        harness_watch_account_without(&out->record.accounts, job->config->without);
        if (job->learner != NULL) {
            out->learned = harness_learner_end(job->learner);
        }
    }
}

struct harness_watch_limits harness_exec_limits(uint64_t timeout_ns)
{
    /* Where nobody waits, all may have much to do. */
    enum { STILL_TIMES = 10 };
    const uint64_t limit_ns = timeout_ns != 0 ? timeout_ns : UINT64_MAX;

    return (struct harness_watch_limits){limit_ns, limit_ns, STILL_TIMES * timeout_ns};
}

ddp_status harness_exec_run(const struct harness_exec_config *config,
                            struct harness_exec_result *out, struct ddp_err *err)
{
    struct exec_job job = {.config = config,
                           .arena = {.fd = -1},
                           .watch = &out->record.watch,
                           .findings = &out->record.findings,
                           .signal_fd = -1,
                           .timer_fd = -1,
                           .port_fd = -1,
                           .linger_ns = UINT64_MAX,
                           .alone_ns = UINT64_MAX,
                           .end_ns = UINT64_MAX};
    ddp_status status;

    *out = (struct harness_exec_result){.interrupt = 0};
    harness_findings_init(&out->record.findings, config->mem);
    status = open_job(&job, err);
    status = status == DDP_OK ? harness_exec_guard_start(&job, err) : status;
    status = status == DDP_OK ? harness_exec_start(&job, err) : status;
    while (status == DDP_OK && goes_on(&job)) {
        status = step(&job);
    }
    if (status == DDP_OK && job.end_ns == UINT64_MAX) {
        harness_observed_end(job.observed);
        status = judge(&job);
    }
    if (status != DDP_OK) {
        job.end_ns = ddp_clock_now_ns(ddp_clock_monotonic());
        harness_exec_signal(&job, SIGKILL);
        while (job.alive_count > 0 && !is_given_up(&job)) {
            (void)poll(&(struct pollfd){.fd = job.signal_fd, .events = POLLIN}, 1, 10);
            harness_exec_follow(&job, ddp_clock_now_ns(ddp_clock_monotonic()));
        }
    }
    if (!config->is_left) {
        harness_exec_signal(&job, SIGKILL); /* ranks that outlive their launcher */
        harness_exec_remove_shared(&job);
    }
    harness_exec_guard_end(&job);
    summarise(&job, out);
    close_job(&job);
    return status;
}
