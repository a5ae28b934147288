/* Purpose: nothing of a job outlives this process, also if that is killed.
 * Idea: a child of ours, which the job knows nothing of, reads a pipe until it ends. That we were
 * done we say first; else all processes go that have the arena in their environment, wherever their
 * launcher has put them (one that starts its ranks in sessions of their own leaves them behind when
 * it is killed), and the files that were noted. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "harness/exec/job.h"

enum { DONE = '.', FILE_GONE_WITH_US = 'f', AGAIN_MS = 1 };
static const uint64_t sweep_max_ns = 10 * DDP_NS_PER_S;

/* Whether the process has this in its environment. One that has ended has none any more. */
static bool has_variable(const char *process, const char *variable)
{
    char *text = NULL;
    size_t capacity = 0;
    char path[64];
    FILE *file;
    bool has = false;

    (void)snprintf(path, sizeof path, "/proc/%.16s/environ", process);
    file = fopen(path, "re");
    while (file != NULL && !has && getdelim(&text, &capacity, '\0', file) > 0) {
        has = strcmp(text, variable) == 0;
    }
    free(text);
    if (file != NULL) {
        (void)fclose(file);
    }
    return has;
}

int harness_exec_guard_signal(const char *variable, int signal_number)
{
    DIR *processes = opendir("/proc");
    int count = 0;

    for (const struct dirent *entry = NULL;
         processes != NULL && (entry = readdir(processes)) != NULL;) {
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if (pid > 0 && pid != getpid() && has_variable(entry->d_name, variable)) {
            (void)kill(pid, signal_number);
            count++;
        }
    }
    if (processes != NULL) {
        (void)closedir(processes);
    }
    return count;
}

/* "f<inode> <path>" */
static void remove_file(const char *line)
{
    struct stat now;
    char *path;
    const uint64_t inode = strtoull(line + 1, &path, 10);

    if (*path == ' ' && lstat(path + 1, &now) == 0 && S_ISREG(now.st_mode) && now.st_ino == inode) {
        (void)unlink(path + 1);
    }
}

struct note {
    struct note *next;
    char line[];
};

/* What we say, until we end. Returns whether we said that we were done. */
static bool listen_to(int fd, struct note **out)
{
    FILE *from = fdopen(fd, "r");
    char *line = NULL;
    size_t capacity = 0;
    ssize_t size;
    bool is_done = false;

    while (from != NULL && !is_done && (size = getline(&line, &capacity, from)) > 0) {
        struct note *note =
            line[0] == FILE_GONE_WITH_US ? calloc(1, sizeof *note + (size_t)size + 1) : NULL;

        is_done = line[0] == DONE;
        if (note != NULL) {
            line[strcspn(line, "\n")] = '\0';
            memcpy(note->line, line, strlen(line) + 1);
            note->next = *out;
            *out = note;
        }
    }
    free(line);
    return is_done;
}

/* In a guard: what ends us does not end it, and nothing else of ours is held open by it. */
static void stand_apart(int fd)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGTSTP};

    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        (void)signal(ignored[i], SIG_IGN);
    }
    (void)setsid();
    (void)prctl(PR_SET_NAME, "ddprove-guard");
    if (dup2(fd, 0) != 0) {
        _exit(0);
    }
    (void)close_range(1, ~0U, 0);
}

ddp_status harness_exec_guard_fork(pid_t *pid, int *fd, struct ddp_err *err)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return ddp_err_set(err, DDP_E_SYSTEM, "pipe: %s", strerror(errno));
    }
    (void)fflush(NULL);
    *pid = fork();
    if (*pid == 0) {
        stand_apart(ends[0]);
        return DDP_OK;
    }
    (void)close(ends[0]);
    *fd = ends[1];
    if (*pid < 0) {
        (void)close(ends[1]);
        return ddp_err_set(err, DDP_E_SYSTEM, "fork: %s", strerror(errno));
    }
    return DDP_OK;
}

/* In the guard. */
__attribute__((noreturn)) static void watch_over(const char *variable)
{
    struct note *notes = NULL;

    if (!listen_to(0, &notes)) {
        const uint64_t end_ns = ddp_clock_now_ns(ddp_clock_monotonic()) + sweep_max_ns;

        /* One that was killed takes a moment to go; another may have been started meanwhile. */
        while (harness_exec_guard_signal(variable, SIGKILL) > 0 &&
               ddp_clock_now_ns(ddp_clock_monotonic()) < end_ns) {
            (void)poll(NULL, 0, AGAIN_MS);
        }
        for (; notes != NULL; notes = notes->next) {
            remove_file(notes->line);
        }
    }
    _exit(0);
}

ddp_status harness_exec_guard_start(struct exec_job *job, struct ddp_err *err)
{
    char variable[sizeof GUEST_ARENA_VARIABLE + sizeof job->arena.where];

    if (job->config->is_left) {
        return DDP_OK;
    }
    (void)snprintf(variable, sizeof variable, "%s=%s", GUEST_ARENA_VARIABLE, job->arena.where);
    DDP_TRY(harness_exec_guard_fork(&job->guard_pid, &job->guard_fd, err));
    if (job->guard_pid == 0) {
        watch_over(variable);
    }
    return DDP_OK;
}

void harness_exec_guard_note(const struct exec_job *job, uint64_t inode, const char *path)
{
    if (job->guard_pid > 0 && strchr(path, '\n') == NULL) {
        (void)dprintf(job->guard_fd, "%c%llu %s\n", FILE_GONE_WITH_US, (unsigned long long)inode,
                      path);
    }
}

void harness_exec_guard_end(struct exec_job *job)
{
    if (job->guard_pid > 0) {
        (void)dprintf(job->guard_fd, "%c\n", DONE);
        (void)close(job->guard_fd);
    }
    while (job->guard_pid > 0 && waitpid(job->guard_pid, NULL, 0) < 0 && errno == EINTR) {
    }
    job->guard_pid = 0;
}
