/* The store's process: a fork of the launcher that serves the keys through which ranks meet. It is
 * part of what is judged, so it is no part of the launcher: if it dies, that is a finding, and what
 * it has not given back at its end is one. It dies with its launcher. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/proc/job.h"

enum { STORE_LISTEN_FD = 3, STORE_DEATHS_FD = 4 };
/* Exit codes. */
enum { STORE_DONE, STORE_NOT_SERVED, STORE_LEAKED };
/* It has nothing left to do then. */
static const uint64_t end_grace_ns = 5 * DDP_NS_PER_S;

/* Ranks that died, as the launcher writes them. False: there will be no more, the job is over. */
static bool read_deaths(struct ddp_store_server *server)
{
    uint32_t rank;
    ssize_t size;

    do {
        size = read(STORE_DEATHS_FD, &rank, sizeof(rank));
        if (size == (ssize_t)sizeof(rank)) {
            ddp_store_server_report_death(server, rank);
        }
    } while (size > 0 || (size < 0 && errno == EINTR));
    return size != 0;
}

__attribute__((noreturn)) static void store_main(int listen_fd, int deaths_fd, pid_t launcher)
{
    struct ddp_store_server *server = NULL;
    struct ddp_mem_pool *pool = NULL;
    struct ddp_err err = {{0}};
    struct pollfd watched[2] = {{.events = POLLIN}, {.fd = STORE_DEATHS_FD, .events = POLLIN}};
    sigset_t none;
    int code = STORE_DONE;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, "ddprove-store");
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (getppid() != launcher || !harness_proc_keep_two(listen_fd, deaths_fd) ||
        ddp_mem_pool_create(&pool) != DDP_OK ||
        ddp_store_server_create(ddp_mem_pool_mem(pool), STORE_LISTEN_FD, &server, &err) != DDP_OK) {
        _exit(STORE_NOT_SERVED);
    }
    watched[0].fd = ddp_store_server_fd(server);
    do {
        (void)poll(watched, 2, -1);
        ddp_store_server_pump(server);
    } while (watched[1].revents == 0 || read_deaths(server));
    ddp_store_server_destroy(server);
    code = ddp_mem_pool_block_count(pool) > 0 ? STORE_LEAKED : STORE_DONE;
    ddp_mem_pool_destroy(pool);
    _exit(code);
}

ddp_status harness_proc_store_start(struct harness_proc_job *job)
{
    const pid_t launcher = getpid();
    int listen_fd;
    int ends[2];

    DDP_TRY(ddp_store_listen("127.0.0.1", 0, &listen_fd, &job->store_port, job->err));
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        (void)close(listen_fd);
        return ddp_err_set(job->err, DDP_E_SYSTEM, "socket of the store: %s", strerror(errno));
    }
    job->store_pid = fork();
    if (job->store_pid == 0) {
        store_main(listen_fd, ends[0], launcher);
    }
    (void)close(listen_fd);
    (void)close(ends[0]);
    job->store_fd = ends[1];
    if (job->store_pid < 0) {
        job->store_pid = 0;
        return ddp_err_set(job->err, DDP_E_SYSTEM, "fork of the store: %s", strerror(errno));
    }
    return DDP_OK;
}

void harness_proc_store_note_death(struct harness_proc_job *job, uint32_t rank)
{
    if (job->store_fd >= 0) {
        /* Fails if it has ended: see _check. */
        (void)!send(job->store_fd, &rank, sizeof(rank), MSG_NOSIGNAL);
    }
}

static void report(struct harness_proc_job *job, const siginfo_t *end)
{
    const bool is_leak = end->si_code == CLD_EXITED && end->si_status == STORE_LEAKED;
    struct harness_finding finding;

    harness_finding_init(&finding, job->mem,
                         is_leak ? HARNESS_VERDICT_RESOURCE_LEAK : HARNESS_VERDICT_CRASH_STORE,
                         HARNESS_ORACLE_LAUNCHER, HARNESS_MODE_PROVABLE);
    if (is_leak) {
        (void)snprintf(finding.text, sizeof(finding.text),
                       "the store's process did not give back all of its memory");
    } else if (end->si_code == CLD_EXITED) {
        (void)snprintf(finding.text, sizeof(finding.text),
                       "the store's process exited with code %d", end->si_status);
    } else {
        (void)snprintf(finding.text, sizeof(finding.text),
                       "the store's process was ended by signal %d (SIG%s)", end->si_status,
                       sigabbrev_np(end->si_status) != NULL ? sigabbrev_np(end->si_status) : "?");
    }
    (void)harness_conclusions_report(&job->conclusions, &finding, ddp_clock_now_ns(job->clock));
}

void harness_proc_store_check(struct harness_proc_job *job)
{
    siginfo_t end = {.si_pid = 0};

    if (job->store_pid > 0 && waitid(P_PID, (id_t)job->store_pid, &end, WEXITED | WNOHANG) == 0 &&
        end.si_pid != 0) {
        job->store_pid = 0;
        if (end.si_code != CLD_EXITED || end.si_status != STORE_DONE) {
            report(job, &end);
        }
    }
}

void harness_proc_store_stop(struct harness_proc_job *job)
{
    const uint64_t end_ns = ddp_clock_now_ns(job->clock) + end_grace_ns;

    if (job->store_fd >= 0) {
        (void)close(job->store_fd);
        job->store_fd = -1;
    }
    harness_proc_store_check(job);
    while (job->store_pid > 0) {
        /* SIGCHLD is blocked: it stays pending, and ends the wait at once. */
        const struct timespec slice = {.tv_nsec = DDP_NS_PER_S / 100};
        sigset_t ended;

        (void)sigemptyset(&ended);
        (void)sigaddset(&ended, SIGCHLD);
        (void)sigtimedwait(&ended, NULL, &slice);
        if (ddp_clock_now_ns(job->clock) > end_ns) {
            (void)kill(job->store_pid, SIGKILL);
        }
        harness_proc_store_check(job);
    }
}
