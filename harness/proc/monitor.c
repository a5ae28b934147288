/* The monitor process: a fork of the launcher that samples the job's shared memory every 2 ms, or
 * at once when it is woken, and writes its conclusions into a pipe. It dies with its launcher. The
 * launcher watches it in turn, and samples the job itself if it fails. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/proc/job.h"

enum { SAMPLE_MS = 2, FINAL_REPORT_MS = 2000 };
/* A monitor that has not sampled for so long has failed. */
static const uint64_t monitor_silence_ns = DDP_NS_PER_S;
/* If the launcher itself did not run for so long, it concludes nothing about the monitor. */
static const uint64_t launcher_pause_ns = DDP_NS_PER_S / 4;

enum { MONITOR_PIPE_FD = 3, MONITOR_WAKE_FD = 4 };

/* Write a conclusion as one line in the trace's format. It may be long: a finding may name every
 * rank. A monitor that cannot write ends as failed, and the launcher takes over. */
static void report_to_pipe(void *context, uint64_t time_ns, const struct harness_finding *finding)
{
    struct ddp_text line;
    size_t written = 0;

    (void)context;
    ddp_text_init(&line, ddp_mem_system());
    harness_trace_print_diagnosis(time_ns, finding, &line);
    if (line.is_failed) {
        _exit(1);
    }
    while (written < line.size_bytes) {
        ssize_t size = write(MONITOR_PIPE_FD, line.data + written, line.size_bytes - written);

        if (size < 0 && errno != EINTR) {
            _exit(1);
        }
        written += size > 0 ? (size_t)size : 0;
    }
    ddp_text_fini(&line);
}

bool harness_proc_keep_two(int first_fd, int second_fd)
{
    int first = fcntl(first_fd, F_DUPFD, 64);
    int second = fcntl(second_fd, F_DUPFD, 64);

    return first >= 0 && second >= 0 && dup2(first, 3) >= 0 && dup2(second, 4) >= 0 &&
           syscall(SYS_close_range, 5u, ~0u, 0u) == 0;
}

static void monitor_loop(struct harness_proc_sampler *sampler, struct ddp_clock *clock)
{
    struct pollfd wakeup = {.fd = MONITOR_WAKE_FD, .events = POLLIN};
    uint64_t count;
    bool is_over;

    do {
        uint64_t now_ns;

        if (poll(&wakeup, 1, SAMPLE_MS) > 0) {
            (void)!read(MONITOR_WAKE_FD, &count, sizeof(count));
        }
        is_over = __atomic_load_n(&sampler->head->is_over, __ATOMIC_ACQUIRE) != 0;
        now_ns = ddp_clock_now_ns(clock);
        harness_sampler_take(&sampler->base, now_ns, true);
        harness_proc_heartbeat_store(sampler->head, now_ns,
                                     harness_sampler_is_open(&sampler->base));
    } while (!is_over);
}

__attribute__((noreturn)) static void monitor_main(struct harness_proc_job *job, int pipe_fd,
                                                   pid_t launcher)
{
    struct harness_proc_sampler sampler;
    sigset_t none;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, "ddprove-monitor");
    if (getppid() != launcher || !harness_proc_keep_two(pipe_fd, job->wake_fd)) {
        _exit(1);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (harness_proc_sampler_init(&sampler, job->mem, job->config->plan, job->config->program,
                                  job->config->tables, job->head) != DDP_OK) {
        _exit(1);
    }
    sampler.base.conclusions.on_report = report_to_pipe;
    monitor_loop(&sampler, job->clock);
    _exit(sampler.base.conclusions.is_failed ? 1 : 0);
}

ddp_status harness_proc_monitor_start(struct harness_proc_job *job)
{
    pid_t launcher = getpid();
    int ends[2];

    job->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (job->wake_fd < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        return ddp_err_set(job->err, DDP_E_SYSTEM, "pipe of the monitor: %s", strerror(errno));
    }
    harness_proc_heartbeat_store(job->head, ddp_clock_now_ns(job->clock), true);
    job->monitor_pid = fork();
    if (job->monitor_pid == 0) {
        monitor_main(job, ends[1], launcher);
    }
    (void)close(ends[1]);
    job->monitor_fd = ends[0];
    if (job->monitor_pid < 0) {
        job->monitor_pid = 0;
        return ddp_err_set(job->err, DDP_E_SYSTEM, "fork of the monitor: %s", strerror(errno));
    }
    (void)fcntl(job->monitor_fd, F_SETFL, O_NONBLOCK);
    return DDP_OK;
}

void harness_proc_monitor_wake(struct harness_proc_job *job)
{
    uint64_t one = 1;

    (void)!write(job->wake_fd, &one, sizeof(one));
    harness_proc_monitor_sample(job);
}

void harness_proc_monitor_sample(struct harness_proc_job *job)
{
    const uint64_t now_ns = ddp_clock_now_ns(job->clock);

    if (job->is_sampling) {
        harness_sampler_take(&job->sampler.base, now_ns, true);
        harness_proc_heartbeat_store(job->head, now_ns,
                                     harness_sampler_is_open(&job->sampler.base));
    }
}

static ddp_status take_report(struct harness_proc_job *job, const char *line, size_t size_bytes)
{
    struct harness_finding finding;
    struct ddp_mem_pool *pool;
    uint64_t time_ns = 0;
    ddp_status status = ddp_mem_pool_create(&pool);

    if (status != DDP_OK) {
        return status;
    }
    status = harness_trace_parse_diagnosis(ddp_mem_pool_mem(pool), line, size_bytes, &time_ns,
                                           &finding, NULL);
    if (status == DDP_OK) {
        (void)harness_conclusions_report(&job->conclusions, &finding, time_ns);
    }
    ddp_mem_pool_destroy(pool);
    return status;
}

/* Take the complete lines out of what was read. */
static ddp_status take_reports(struct harness_proc_job *job)
{
    struct ddp_text *text = &job->reports;
    char *line = text->data;
    char *end;

    if (text->is_failed) {
        return DDP_E_NOMEM;
    }
    while ((end = memchr(line, '\n', text->size_bytes - (size_t)(line - text->data))) != NULL) {
        DDP_TRY(take_report(job, line, (size_t)(end - line)));
        line = end + 1;
    }
    text->size_bytes -= (size_t)(line - text->data);
    memmove(text->data, line, text->size_bytes);
    return DDP_OK;
}

void harness_proc_monitor_drain(struct harness_proc_job *job)
{
    char bytes[4096];

    while (job->monitor_fd >= 0) {
        ssize_t size = read(job->monitor_fd, bytes, sizeof(bytes));
        ddp_status status = DDP_E_IO;

        if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (size > 0) {
            ddp_text_add_bytes(&job->reports, bytes, (size_t)size);
            status = take_reports(job);
        }
        if (status != DDP_OK) {
            (void)close(job->monitor_fd);
            job->monitor_fd = -1;
        }
    }
}

static void end_monitor(struct harness_proc_job *job)
{
    if (job->monitor_pid > 0) {
        (void)kill(job->monitor_pid, SIGKILL);
        while (waitpid(job->monitor_pid, NULL, 0) < 0 && errno == EINTR) {
        }
        job->monitor_pid = 0;
    }
}

void harness_proc_monitor_stop(struct harness_proc_job *job)
{
    uint64_t end_ns = ddp_clock_now_ns(job->clock) + FINAL_REPORT_MS * DDP_NS_PER_MS;

    if (job->head == NULL || job->wake_fd < 0) {
        return;
    }
    __atomic_store_n(&job->head->is_over, 1, __ATOMIC_RELEASE);
    harness_proc_monitor_wake(job);
    while (job->monitor_fd >= 0 && ddp_clock_now_ns(job->clock) < end_ns) {
        struct pollfd reports = {.fd = job->monitor_fd, .events = POLLIN};

        (void)poll(&reports, 1, 10);
        harness_proc_monitor_drain(job);
    }
    if (job->monitor_fd >= 0) {
        harness_proc_monitor_check(job, UINT64_MAX);
        harness_proc_monitor_sample(job);
        (void)close(job->monitor_fd);
        job->monitor_fd = -1;
    }
    end_monitor(job);
    if (job->is_sampling) {
        job->is_sampling = false;
        job->conclusions.is_failed =
            job->conclusions.is_failed || job->sampler.base.conclusions.is_failed;
        harness_proc_sampler_fini(&job->sampler);
    }
}

static void report_to_job(void *context, uint64_t time_ns, const struct harness_finding *finding)
{
    struct harness_proc_job *job = context;

    (void)harness_conclusions_report(&job->conclusions, finding, time_ns);
}

void harness_proc_monitor_check(struct harness_proc_job *job, uint64_t now_ns)
{
    uint64_t heartbeat_ns = harness_proc_heartbeat_load(job->head);
    bool is_silent = now_ns != UINT64_MAX && now_ns > heartbeat_ns + monitor_silence_ns &&
                     now_ns - job->loop_ns < launcher_pause_ns;
    struct harness_finding finding;

    if (now_ns != UINT64_MAX && now_ns > heartbeat_ns && job->monitor_pid > 0) {
        uint64_t starved_ns =
            harness_lag_read(&job->monitor_lag, job->monitor_pid, heartbeat_ns, now_ns);

        is_silent = is_silent && now_ns - heartbeat_ns > monitor_silence_ns + starved_ns;
    }
    if (job->is_sampling || (job->monitor_fd >= 0 && !is_silent && now_ns != UINT64_MAX)) {
        return;
    }
    now_ns = ddp_clock_now_ns(job->clock);
    harness_finding_init(&finding, job->mem, HARNESS_VERDICT_HANG_DETECTOR, HARNESS_ORACLE_LAUNCHER,
                         HARNESS_MODE_PROVABLE);
    (void)snprintf(finding.text, sizeof(finding.text),
                   "the monitor process %s; the launcher monitors the job from here on",
                   job->monitor_fd < 0 ? "ended" : "takes no more samples");
    (void)harness_conclusions_report(&job->conclusions, &finding, now_ns);
    end_monitor(job);
    if (harness_proc_sampler_init(&job->sampler, job->mem, job->config->plan, job->config->program,
                                  job->config->tables, job->head) == DDP_OK) {
        job->is_sampling = true;
        job->sampler.base.conclusions.on_report = report_to_job;
        job->sampler.base.conclusions.report_context = job;
    }
}
