/* The monitor process: a fork of the launcher that looks at the job's shared memory every 2 ms, or
 * at once when it is poked, and writes what it concludes into a pipe. It dies with its launcher.
 * The launcher watches it in turn, and looks for itself if it fails. */
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

enum { TICK_MS = 2, LAST_WORDS_MS = 2000 };
/* A monitor that has not looked for so long has failed. */
static const uint64_t monitor_silence_ns = DDP_NS_PER_S;
/* Nothing is concluded about the monitor when the launcher itself did not run for so long. */
static const uint64_t launcher_pause_ns = DDP_NS_PER_S / 4;

_Static_assert(sizeof(struct proc_diagnosis) <= 4096, "one write to the pipe is atomic");

enum { MONITOR_PIPE_FD = 3, MONITOR_POKE_FD = 4 };

static void tell_pipe(void *context, uint64_t time_ns, const struct harness_finding *finding)
{
    struct proc_diagnosis diagnosis;

    (void)context;
    memset(&diagnosis, 0, sizeof(diagnosis));
    diagnosis.time_ns = time_ns;
    diagnosis.finding = *finding;
    while (write(MONITOR_PIPE_FD, &diagnosis, sizeof(diagnosis)) < 0 && errno == EINTR) {
    }
}

/* Keep the two descriptors that are needed: whatever else the launcher has open must not stay open
 * because of us. */
static bool keep_two(int pipe_fd, int poke_fd)
{
    int pipe_copy = fcntl(pipe_fd, F_DUPFD, 64);
    int poke_copy = fcntl(poke_fd, F_DUPFD, 64);

    return pipe_copy >= 0 && poke_copy >= 0 && dup2(pipe_copy, MONITOR_PIPE_FD) >= 0 &&
           dup2(poke_copy, MONITOR_POKE_FD) >= 0 && syscall(SYS_close_range, 5u, ~0u, 0u) == 0;
}

static void monitor_loop(struct proc_eye *eye, struct ddp_clock *clock)
{
    struct pollfd poked = {.fd = MONITOR_POKE_FD, .events = POLLIN};
    uint64_t count;
    bool is_over;

    do {
        uint64_t now_ns;

        if (poll(&poked, 1, TICK_MS) > 0) {
            (void)!read(MONITOR_POKE_FD, &count, sizeof(count));
        }
        is_over = __atomic_load_n(&eye->head->is_over, __ATOMIC_ACQUIRE) != 0;
        now_ns = ddp_clock_now_ns(clock);
        proc_eye_look(eye, now_ns);
        proc_beat_store(eye->head, now_ns);
    } while (!is_over);
}

__attribute__((noreturn)) static void monitor_main(struct proc_job *job, int pipe_fd,
                                                   pid_t launcher)
{
    struct proc_eye eye;
    sigset_t none;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, "ddprove-monitor");
    if (getppid() != launcher || !keep_two(pipe_fd, job->poke_fd)) {
        _exit(1);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (proc_eye_init(&eye, job->mem, job->config->plan, job->config->program, job->head) !=
        DDP_OK) {
        _exit(1);
    }
    eye.watch.tell = tell_pipe;
    eye.picture = proc_picture(job->head);
    monitor_loop(&eye, job->clock);
    _exit(eye.watch.is_failed ? 1 : 0);
}

ddp_status proc_monitor_start(struct proc_job *job)
{
    pid_t launcher = getpid();
    int ends[2];

    job->poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (job->poke_fd < 0 || pipe2(ends, O_CLOEXEC) != 0) {
        return ddp_err_set(job->err, DDP_E_SYSTEM, "pipe of the monitor: %s", strerror(errno));
    }
    proc_beat_store(job->head, ddp_clock_now_ns(job->clock));
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
    return proc_loop_add(job, job->monitor_fd);
}

void proc_monitor_poke(struct proc_job *job)
{
    uint64_t one = 1;

    (void)!write(job->poke_fd, &one, sizeof(one));
    if (job->is_eye_open) {
        proc_eye_look(&job->eye, ddp_clock_now_ns(job->clock));
    }
}

void proc_monitor_drain(struct proc_job *job)
{
    struct proc_diagnosis diagnosis;

    while (job->monitor_fd >= 0) {
        ssize_t size = read(job->monitor_fd, &diagnosis, sizeof(diagnosis));

        if (size == (ssize_t)sizeof(diagnosis)) {
            (void)harness_watch_say(&job->said, &diagnosis.finding, diagnosis.time_ns);
        } else if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        } else {
            (void)close(job->monitor_fd);
            job->monitor_fd = -1;
        }
    }
}

static void end_monitor(struct proc_job *job)
{
    if (job->monitor_pid > 0) {
        (void)kill(job->monitor_pid, SIGKILL);
        while (waitpid(job->monitor_pid, NULL, 0) < 0 && errno == EINTR) {
        }
        job->monitor_pid = 0;
    }
}

void proc_monitor_stop(struct proc_job *job)
{
    uint64_t end_ns = ddp_clock_now_ns(job->clock) + LAST_WORDS_MS * DDP_NS_PER_MS;

    if (job->head == NULL || job->poke_fd < 0) {
        return;
    }
    __atomic_store_n(&job->head->is_over, 1, __ATOMIC_RELEASE);
    proc_monitor_poke(job);
    while (job->monitor_fd >= 0 && ddp_clock_now_ns(job->clock) < end_ns) {
        struct pollfd heard = {.fd = job->monitor_fd, .events = POLLIN};

        (void)poll(&heard, 1, 10);
        proc_monitor_drain(job);
    }
    if (job->monitor_fd >= 0) {
        proc_monitor_check(job, UINT64_MAX);
        (void)close(job->monitor_fd);
        job->monitor_fd = -1;
    }
    end_monitor(job);
    if (job->is_eye_open) {
        job->is_eye_open = false;
        proc_eye_fini(&job->eye);
    }
}

static void tell_job(void *context, uint64_t time_ns, const struct harness_finding *finding)
{
    struct proc_job *job = context;

    (void)harness_watch_say(&job->said, finding, time_ns);
}

void proc_monitor_check(struct proc_job *job, uint64_t now_ns)
{
    uint64_t beat_ns = proc_beat_load(job->head);
    bool is_silent = now_ns != UINT64_MAX && now_ns > beat_ns + monitor_silence_ns &&
                     now_ns - job->loop_ns < launcher_pause_ns;
    struct harness_finding finding;

    if (now_ns != UINT64_MAX && now_ns > beat_ns && job->monitor_pid > 0) {
        uint64_t starved_ns = proc_lag_look(&job->monitor_lag, job->monitor_pid, beat_ns, now_ns);

        is_silent = is_silent && now_ns - beat_ns > monitor_silence_ns + starved_ns;
    }
    if (job->is_eye_open || (job->monitor_fd >= 0 && !is_silent && now_ns != UINT64_MAX)) {
        return;
    }
    now_ns = ddp_clock_now_ns(job->clock);
    harness_finding_init(&finding, HARNESS_VERDICT_HANG_DETECTOR, HARNESS_ORACLE_LAUNCHER,
                         HARNESS_MODE_PROVABLE);
    (void)snprintf(finding.text, sizeof(finding.text),
                   "the monitor process %s; the launcher looks "
                   "for itself from here on",
                   job->monitor_fd < 0 ? "ended" : "stopped looking");
    (void)harness_watch_say(&job->said, &finding, now_ns);
    end_monitor(job);
    if (proc_eye_init(&job->eye, job->mem, job->config->plan, job->config->program, job->head) ==
        DDP_OK) {
        job->is_eye_open = true;
        job->eye.watch.tell = tell_job;
        job->eye.watch.tell_context = job;
        job->eye.picture = proc_picture(job->head); /* its writer has ended */
        proc_eye_look(&job->eye, now_ns);
    }
}
