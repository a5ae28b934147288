/* Starting a job's processes: what is in a rank's environment, and where its output goes. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ddpcore/base/text.h"
#include "harness/exec/job.h"

static bool is_free(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool can_bind =
        fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;

    if (fd >= 0) {
        (void)close(fd);
    }
    return can_bind;
}

int harness_exec_reserve_port(uint16_t port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    /* Behind a zero it is no file, lives as long as the socket, and in this network alone. */
    const int size = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "ddprove-port-%u", port);
    const socklen_t size_bytes =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)size);

    if (fd >= 0 && bind(fd, (const struct sockaddr *)&name, size_bytes) == 0 && is_free(port)) {
        return fd;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return -1;
}

/* A port that is free now, for the program's own rendezvous. It lies below those that the system
 * gives to connections, so that none takes it before the program does. The program takes it late,
 * or never, so no other ddprove may give it away meanwhile. */
static uint16_t free_port(struct exec_job *job)
{
    enum { FIRST = 20000, COUNT = 12000, TRIES = 1000 };
    static unsigned jobs;
    const unsigned from = (unsigned)getpid() * 7919u + jobs++ * 101u;

    for (unsigned i = 0; i < TRIES && job->port_fd < 0; i++) {
        const uint16_t port = (uint16_t)(FIRST + (from + i) % COUNT);

        job->port_fd = harness_exec_reserve_port(port);
        if (job->port_fd >= 0) {
            return port;
        }
    }
    return FIRST;
}

static void set_number(const char *name, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    (void)setenv(name, text, 1);
}

/* However long they are: what is cut off of a list of folders is missed much later. */
static void set_list(const char *variable, const char *first, const char *rest)
{
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    ddp_text_add(&text, "%s:%s", first, rest);
    if (!text.is_failed) {
        (void)setenv(variable, ddp_text_str(&text), 1);
    }
    ddp_text_fini(&text);
}

/* In front of what the job would load anyway. */
static void add_in_front(const char *variable, const char *path)
{
    const char *inherited = getenv(variable);

    if (inherited != NULL) {
        set_list(variable, path, inherited);
    } else {
        (void)setenv(variable, path, 1);
    }
}

/* The package, and the library that it is to load, which lies two folders above. */
static void add_python(const char *folder)
{
    char library[4096 + 64];

    add_in_front("PYTHONPATH", folder);
    (void)snprintf(library, sizeof library, "%s/../../libddprove_guest.so.1", folder);
    (void)setenv("DDPROVE_GUEST_LIBRARY", library, 0);
}

/* A program that comes with ddprove is found without its path. */
static void add_search_dir(const char *dir)
{
    const char *inherited = getenv("PATH");

    set_list("PATH", inherited != NULL ? inherited : "/usr/bin:/bin", dir);
}

/* In the child: what it prints goes into a file of the run folder. Returns 0, or errno. */
static int open_log(const struct exec_job *job, uint32_t rank)
{
    char path[4096];
    int fd;

    if (job->config->ranks > 0) {
        (void)snprintf(path, sizeof path, "%s/rank%" PRIu32 ".log", job->config->log_dir, rank);
    } else {
        (void)snprintf(path, sizeof path, "%s/launcher.log", job->config->log_dir);
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND, 0666);
    return fd >= 0 && dup2(fd, 1) >= 0 && dup2(fd, 2) >= 0 ? 0 : errno;
}

/* In the child. Reports errno through the pipe if the command cannot be executed. */
__attribute__((noreturn)) static void become(const struct exec_job *job, uint32_t rank,
                                             uint16_t port, pid_t parent, int error_fd)
{
    const uint32_t ranks = job->config->ranks;
    int error;

    (void)setpgid(0, 0);
    if (!job->config->is_left) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    (void)sigprocmask(SIG_SETMASK, &job->old_mask, NULL);
    (void)setenv(GUEST_ARENA_VARIABLE, job->arena.where, 1);
    if (job->config->preload != NULL) {
        add_in_front("LD_PRELOAD", job->config->preload);
    }
    if (job->config->python_dir != NULL) {
        add_python(job->config->python_dir);
    }
    for (size_t i = 0; i < job->config->variable_count; i++) {
        (void)setenv(job->config->variables[i].name, job->config->variables[i].value, 0);
    }
    if (ranks > 0) {
        set_number("RANK", rank);
        set_number("LOCAL_RANK", rank);
        set_number("WORLD_SIZE", ranks);
        set_number("LOCAL_WORLD_SIZE", ranks);
        (void)setenv("MASTER_ADDR", "127.0.0.1", 1);
        set_number("MASTER_PORT", port);
    }
    harness_exec_take_launch(job, rank);
    if (job->config->search_dir != NULL) {
        add_search_dir(job->config->search_dir);
    }
    error = job->config->log_dir != NULL ? open_log(job, rank) : 0;
    if (error == 0 && getppid() == parent) {
        (void)execvp(job->config->command[0], job->config->command);
        error = errno;
    }
    (void)!write(error_fd, &error, sizeof error);
    _exit(127);
}

static ddp_status start_one(struct exec_job *job, uint32_t index, uint16_t port,
                            struct ddp_err *err)
{
    const pid_t parent = getpid();
    int ends[2];
    int error = 0;
    pid_t pid;
    ssize_t size;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return ddp_err_set(err, DDP_E_SYSTEM, "pipe: %s", strerror(errno));
    }
    pid = fork();
    if (pid == 0) {
        become(job, index, port, parent, ends[1]);
    }
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return ddp_err_set(err, DDP_E_SYSTEM, "fork: %s", strerror(errno));
    }
    job->children[index].pid = pid;
    job->children[index].started_pid = pid;
    if (job->config->ranks > 0) {
        job->watch->ranks[index].state = HARNESS_WATCH_RUNNING;
    }
    job->alive_count++;
    do {
        size = read(ends[0], &error, sizeof error);
    } while (size < 0 && errno == EINTR);
    (void)close(ends[0]);
    if (size == (ssize_t)sizeof error) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "%s cannot be started: %s",
                           job->config->command[0], strerror(error));
    }
    return DDP_OK;
}

ddp_status harness_exec_start(struct exec_job *job, struct ddp_err *err)
{
    const uint16_t port = free_port(job);

    (void)fflush(NULL);
    for (uint32_t i = 0; i < job->child_count; i++) {
        if (job->config->ranks == 0 || harness_exec_pass_launch(job, i)) {
            DDP_TRY(start_one(job, i, port, err));
        }
    }
    return DDP_OK;
}
