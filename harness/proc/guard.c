/* A guard waits for signals (its rank changed, mpirun orders it to end, or the launcher releases
 * it), for the end of the launcher (its pipe) and for the end of its parent, mpirun. It lives on
 * after its rank until it is released. When a guard ends, mpirun sees a process end; so the
 * launcher decides when mpirun learns of a failure and begins to end the other ranks. */
#include "harness/proc/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/text.h"
#include "ddpcore/store/store.h"
#include "harness/proc/env.h"

/* Between SIGTERM and SIGKILL to a rank that is to end. */
static const uint64_t term_grace_ns = 100 * DDP_NS_PER_MS;

enum { WATCH_SIGNALS, WATCH_LAUNCHER, WATCH_PARENT, WATCH_COUNT };

struct guard {
    uint32_t rank;
    pid_t rank_pid, launcher_pid;
    int job_fd;
    struct pollfd watched[WATCH_COUNT];
    bool is_ordered;  /* the rank was ordered to end */
    bool is_deserted; /* the launcher or mpirun has ended */
    bool is_released;
    uint64_t kill_ns; /* when an ordered end becomes SIGKILL */
    siginfo_t end;    /* si_pid != 0: the rank has ended */
};

static ddp_status system_error(struct ddp_err *err, const char *what)
{
    return ddp_err_set(err, DDP_E_SYSTEM, "guard of a rank: %s: %s", what, strerror(errno));
}

static ddp_status open_signals(struct guard *guard, struct ddp_err *err)
{
    static const int numbers[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, HARNESS_PROC_GUARD_RELEASE,
                                  SIGPIPE};
    sigset_t mask;

    (void)sigemptyset(&mask);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        (void)sigaddset(&mask, numbers[i]);
    }
    guard->watched[WATCH_SIGNALS].fd = sigprocmask(SIG_BLOCK, &mask, NULL) == 0
                                           ? signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK)
                                           : -1;
    return guard->watched[WATCH_SIGNALS].fd >= 0 ? DDP_OK : system_error(err, "signalfd");
}

static ddp_status open_parent(struct guard *guard, struct ddp_err *err)
{
    pid_t parent = getppid();

    guard->watched[WATCH_PARENT].fd = (int)syscall(SYS_pidfd_open, parent, 0);
    if (guard->watched[WATCH_PARENT].fd < 0) {
        return system_error(err, "pidfd_open");
    }
    return getppid() == parent ? DDP_OK
                               : ddp_err_set(err, DDP_E_STATE, "guard of a rank: mpirun is gone");
}

/* "12/3/4": three numbers that fit a pid. */
static bool read_numbers(const char *text, uint64_t *out)
{
    for (int i = 0; i < 3; i++) {
        size_t size = strcspn(text, "/");
        char one[16];

        if (size >= sizeof(one) || (text[size] == '/') != (i < 2)) {
            return false;
        }
        memcpy(one, text, size);
        one[size] = '\0';
        if (ddp_text_parse_u64(one, &out[i]) != DDP_OK || out[i] > INT32_MAX) {
            return false;
        }
        text += size + 1;
    }
    return true;
}

/* Open the launcher's descriptors through its /proc folder, since mpirun passes none on. */
static ddp_status open_launcher(struct guard *guard, struct ddp_err *err)
{
    const char *text = getenv(HARNESS_PROC_ENV_GUARD);
    uint64_t number[3] = {0}; /* process, memory, pipe */
    char path[64];

    if (text == NULL || !read_numbers(text, number)) {
        return ddp_err_set(err, DDP_E_PARSE,
                           HARNESS_PROC_ENV_GUARD " is not PID/MEMORY/PIPE; `rank` is "
                                                  "started by `ddprove run`");
    }
    guard->launcher_pid = (pid_t)number[0];
    (void)snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fd/%" PRIu64, number[0], number[1]);
    guard->job_fd = open(path, O_RDWR | O_CLOEXEC);
    (void)snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fd/%" PRIu64, number[0], number[2]);
    guard->watched[WATCH_LAUNCHER].fd = open(path, O_WRONLY | O_CLOEXEC);
    return guard->job_fd >= 0 && guard->watched[WATCH_LAUNCHER].fd >= 0 ? DDP_OK
                                                                        : system_error(err, path);
}

static ddp_status start_rank(struct guard *guard, struct ddp_err *err)
{
    struct ddp_mem_pool *pool;
    struct harness_proc_env env;
    const char *run_dir = getenv("DDPROVE_RUN_DIR");
    ddp_status status;
    int error;

    if (run_dir == NULL) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "DDPROVE_RUN_DIR is not set");
    }
    DDP_TRY(ddp_mem_pool_create(&pool));
    status = harness_proc_env_init(&env, ddp_mem_pool_mem(pool));
    if (status == DDP_OK) {
        harness_proc_env_add(&env, HARNESS_PROC_ENV_PARENT "=%ld", (long)getpid());
        harness_proc_env_add(&env, HARNESS_PROC_ENV_GUARD "=");
        status = harness_proc_env_inherit(&env, NULL, err);
    }
    if (status == DDP_OK) {
        error = harness_proc_rank_spawn(harness_launch_self_path(), env.items, run_dir, guard->rank,
                                        guard->job_fd, &guard->rank_pid);
        if (error != 0) {
            status = ddp_err_set(err, DDP_E_SYSTEM, "rank %" PRIu32 " cannot be started: %s",
                                 guard->rank, strerror(error));
        }
    }
    ddp_mem_pool_destroy(pool);
    return status;
}

static void report(const struct guard *guard, enum harness_proc_report_kind kind,
                   const siginfo_t *info)
{
    struct harness_proc_guard_report message = {.rank = guard->rank,
                                                .kind = kind,
                                                .guard_pid = getpid(),
                                                .rank_pid = guard->rank_pid,
                                                .code = info != NULL ? info->si_code : 0,
                                                .status = info != NULL ? info->si_status : 0};

    while (write(guard->watched[WATCH_LAUNCHER].fd, &message, sizeof(message)) < 0 &&
           errno == EINTR) {
    }
}

static bool is_rank_over(const struct guard *guard)
{
    return guard->end.si_pid != 0;
}

static void signal_rank(const struct guard *guard, int number)
{
    if (kill(-guard->rank_pid, number) != 0) {
        (void)kill(guard->rank_pid, number);
    }
}

/* Order the rank to end, unless it has ended already. */
static void order_end(struct guard *guard)
{
    if (guard->is_ordered || is_rank_over(guard)) {
        return;
    }
    guard->is_ordered = true;
    guard->kill_ns = ddp_clock_deadline_ns(ddp_clock_monotonic(), term_grace_ns);
    report(guard, HARNESS_PROC_REPORT_ORDERED, NULL);
    signal_rank(guard, SIGTERM);
    /* The pending SIGTERM is the first thing that a continued process sees. */
    signal_rank(guard, SIGCONT);
}

static void read_signals(struct guard *guard)
{
    struct signalfd_siginfo info;

    while (read(guard->watched[WATCH_SIGNALS].fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        switch (info.ssi_signo) {
        case HARNESS_PROC_GUARD_RELEASE:
            guard->is_released = guard->is_released || (pid_t)info.ssi_pid == guard->launcher_pid;
            break;
        case SIGTERM:
        case SIGINT:
        case SIGHUP:
            order_end(guard);
            break;
        default:
            break;
        }
    }
}

/* Report what the rank did. It is not reaped: see struct harness_proc_guard_report. */
static void poll_rank(struct guard *guard)
{
    siginfo_t info;

    while (!is_rank_over(guard)) {
        memset(&info, 0, sizeof(info));
        if (waitid(P_PID, (id_t)guard->rank_pid, &info,
                   WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0) {
            return;
        }
        if (info.si_code == CLD_STOPPED || info.si_code == CLD_CONTINUED ||
            info.si_code == CLD_TRAPPED) {
            (void)waitid(P_PID, (id_t)guard->rank_pid, &info, WSTOPPED | WCONTINUED | WNOHANG);
        } else {
            guard->end = info;
        }
        report(guard, HARNESS_PROC_REPORT_CHANGED, &info);
    }
}

static int timeout_ms(const struct guard *guard)
{
    uint64_t now_ns = ddp_clock_now_ns(ddp_clock_monotonic());

    if (!guard->is_ordered || is_rank_over(guard)) {
        return -1;
    }
    return now_ns >= guard->kill_ns ? 5 : (int)((guard->kill_ns - now_ns) / DDP_NS_PER_MS) + 1;
}

/* The launcher or mpirun has ended; true only the first time. */
static bool is_gone(struct guard *guard, int who)
{
    if ((guard->watched[who].revents & (POLLIN | POLLERR)) == 0) {
        return false;
    }
    (void)close(guard->watched[who].fd);
    guard->watched[who].fd = -1;
    guard->watched[who].revents = 0;
    guard->is_deserted = true;
    return true;
}

static void watch_rank(struct guard *guard)
{
    report(guard, HARNESS_PROC_REPORT_STARTED, NULL);
    poll_rank(guard);
    while (!is_rank_over(guard) || !(guard->is_released || guard->is_deserted)) {
        (void)poll(guard->watched, WATCH_COUNT, timeout_ms(guard));
        /* First what the rank did before the order to end: that was its own doing. */
        poll_rank(guard);
        read_signals(guard);
        poll_rank(guard);
        if (is_gone(guard, WATCH_PARENT)) {
            order_end(guard);
        }
        /* Without a launcher, no report is read and nothing waits for the rank: kill it at once. */
        if (is_gone(guard, WATCH_LAUNCHER)) {
            signal_rank(guard, SIGKILL);
        }
        if (guard->is_ordered && !is_rank_over(guard) &&
            ddp_clock_now_ns(ddp_clock_monotonic()) >= guard->kill_ns) {
            signal_rank(guard, SIGKILL);
        }
    }
    (void)waitid(P_PID, (id_t)guard->rank_pid, &guard->end, WEXITED);
}

/* End in the same way as the rank: with its exit code, or by its signal. */
static int leave(const siginfo_t *end)
{
    const struct rlimit none = {0, 0};
    sigset_t mask;

    if (end->si_code == CLD_EXITED) {
        return end->si_status;
    }
    (void)setrlimit(RLIMIT_CORE, &none); /* the rank itself has dumped core, if that is enabled */
    (void)signal(end->si_status, SIG_DFL);
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, end->si_status);
    (void)sigprocmask(SIG_UNBLOCK, &mask, NULL);
    (void)raise(end->si_status);
    return 128 + end->si_status;
}

int harness_proc_guard_main(void)
{
    struct guard guard = {.watched = {{-1, POLLIN, 0}, {-1, 0, 0}, {-1, POLLIN, 0}}};
    struct ddp_rendezvous rendezvous;
    struct ddp_err err = {""};
    ddp_status status = open_signals(&guard, &err);

    status = status == DDP_OK ? open_parent(&guard, &err) : status;
    status = status == DDP_OK ? open_launcher(&guard, &err) : status;
    status = status == DDP_OK
                 ? ddp_rendezvous_parse(harness_proc_env_lookup, NULL, &rendezvous, &err)
                 : status;
    if (status == DDP_OK) {
        guard.rank = rendezvous.rank;
        status = start_rank(&guard, &err);
    }
    if (status != DDP_OK) {
        (void)fprintf(stderr, "ddprove: %s\n", err.text);
        return 1;
    }
    watch_rank(&guard);
    return leave(&guard.end);
}
