/* The loop: wake up for a child's end, a signal, or every 2 ms; read, judge, say, and end what is
 * to be ended. */
#include "harness/exec/exec.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "harness/exec/job.h"

enum { SAMPLE_NS = 2000000, RING_ENTRIES = 1 << 14 };
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
    for (uint32_t r = 0; job->ranks != NULL && r < job->watch.world_size; r++) {
        close_fd(job->ranks[r].pid_fd);
    }
    ddp_mem_free(job->config->mem, job->ranks);
    ddp_mem_free(job->config->mem, job->children);
    if (job->watch.mem != NULL) {
        harness_watch_fini(&job->watch);
    }
    harness_watch_arena_destroy(&job->arena);
    close_fd(job->signal_fd);
    close_fd(job->timer_fd);
    if (job->is_mask_set) {
        (void)sigprocmask(SIG_SETMASK, &job->old_mask, NULL);
    }
}

static ddp_status open_job(struct exec_job *job, struct ddp_err *err)
{
    const uint32_t world_size =
        job->config->ranks > 0 ? job->config->ranks : HARNESS_EXEC_RANKS_MAX;

    DDP_TRY(harness_watch_arena_create(world_size, RING_ENTRIES, &job->arena, err));
    DDP_TRY(harness_watch_init(&job->watch, job->config->mem, job->arena.head));
    job->child_count = job->config->ranks > 0 ? job->config->ranks : 1;
    job->children = ddp_mem_array(job->config->mem, job->child_count, sizeof *job->children);
    job->ranks = ddp_mem_array(job->config->mem, world_size, sizeof *job->ranks);
    if (job->children == NULL || job->ranks == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t r = 0; r < world_size; r++) {
        job->ranks[r].pid_fd = -1;
    }
    return open_loop(job, err);
}

/* Every culprit of a kind of error is said once. */
static bool is_said(const struct exec_job *job, const struct harness_finding *finding)
{
    for (size_t i = 0; i < job->findings->count; i++) {
        const struct harness_finding *earlier = &job->findings->items[i];

        if (earlier->verdict == finding->verdict &&
            harness_rank_set_is_subset(&finding->culprits, &earlier->culprits)) {
            return true;
        }
    }
    return false;
}

/* What is left of the job is to end: first it is asked to. */
static void end(struct exec_job *job, uint64_t now_ns, int signal_number)
{
    if (job->end_ns == UINT64_MAX) {
        job->end_ns = now_ns + grace_ns;
        harness_exec_signal(job, signal_number);
    }
}

/* Judge what shows now. Nothing that happens while the job is being ended is anybody's fault. */
static ddp_status judge(struct exec_job *job)
{
    struct ddp_mem_pool *pool;
    struct harness_findings now;

    DDP_TRY(ddp_mem_pool_create(&pool));
    harness_findings_init(&now, ddp_mem_pool_mem(pool));
    harness_watch_analyse(&job->watch, &job->config->limits, &now);
    for (size_t i = 0; i < now.count; i++) {
        if (!is_said(job, &now.items[i])) {
            harness_findings_add(job->findings, &now.items[i]);
            job->config->on_finding(job->config->context, &now.items[i]);
        }
    }
    ddp_mem_pool_destroy(pool);
    return job->watch.is_failed || job->findings->is_failed ? DDP_E_NOMEM : DDP_OK;
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

static ddp_status step(struct exec_job *job)
{
    struct pollfd wake[2] = {{.fd = job->signal_fd, .events = POLLIN},
                             {.fd = job->timer_fd, .events = POLLIN}};
    const size_t before = job->findings->count;
    uint64_t expirations;
    uint64_t now_ns;

    (void)poll(wake, 2, -1);
    (void)!read(job->timer_fd, &expirations, sizeof expirations);
    now_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    read_signals(job, now_ns);
    /* Ends first: what a process wrote before it ended is then read. */
    harness_exec_follow(job, now_ns);
    harness_watch_read(&job->watch, now_ns);
    if (job->end_ns == UINT64_MAX) {
        DDP_TRY(judge(job));
    }
    if (job->findings->count > before && !job->config->is_left) {
        end(job, now_ns, SIGTERM);
    }
    if (now_ns >= job->end_ns) {
        harness_exec_signal(job, SIGKILL);
    }
    return DDP_OK;
}

static void summarise(const struct exec_job *job, struct harness_exec_result *out)
{
    for (uint32_t i = 0; i < job->child_count; i++) {
        out->exit_code = job->children[i].exit_code > out->exit_code ? job->children[i].exit_code
                                                                     : out->exit_code;
    }
    for (uint32_t r = 0; r < job->watch.world_size; r++) {
        out->seen_count += job->watch.ranks[r].is_attached;
        out->lost_comm_count += job->watch.ranks[r].lost_comm_count;
    }
    out->interrupt = job->interrupt;
}

ddp_status harness_exec_run(const struct harness_exec_config *config,
                            struct harness_exec_result *out, struct ddp_err *err)
{
    struct exec_job job = {.config = config,
                           .arena = {.fd = -1},
                           .findings = &out->findings,
                           .signal_fd = -1,
                           .timer_fd = -1,
                           .end_ns = UINT64_MAX};
    ddp_status status;

    *out = (struct harness_exec_result){.exit_code = 0};
    harness_findings_init(&out->findings, config->mem);
    status = open_job(&job, err);
    status = status == DDP_OK ? harness_exec_start(&job, err) : status;
    while (status == DDP_OK && job.alive_count > 0) {
        status = step(&job);
    }
    if (status != DDP_OK) {
        harness_exec_signal(&job, SIGKILL);
        while (job.alive_count > 0) {
            (void)poll(&(struct pollfd){.fd = job.signal_fd, .events = POLLIN}, 1, 10);
            harness_exec_follow(&job, ddp_clock_now_ns(ddp_clock_monotonic()));
        }
    }
    summarise(&job, out);
    close_job(&job);
    return status;
}
