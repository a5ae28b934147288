/* Purpose: where the ranks of a hang stand, as another program sees it from outside: py-spy for
 * Python, else eu-stack of elfutils.
 * Idea: neither is linked, and one that is not installed, hangs or fails leaves the verdict as it
 * is. The guest library has allowed it (PR_SET_PTRACER), where the system asks. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/exec/job.h"

enum { STACKS_MAX = 8, TOOL_MS = 3000 };

static bool is_python(pid_t pid)
{
    char link[32];
    char program[PATH_MAX];
    const char *name;
    ssize_t size;

    (void)snprintf(link, sizeof link, "/proc/%ld/exe", (long)pid);
    size = readlink(link, program, sizeof program - 1);
    program[size > 0 ? size : 0] = '\0';
    name = strrchr(program, '/');
    return name != NULL && strncmp(name + 1, "python", strlen("python")) == 0;
}

__attribute__((noreturn)) static void become_tool(char *const *command, int out_fd,
                                                  const sigset_t *mask)
{
    const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    (void)sigprocmask(SIG_SETMASK, mask, NULL);
    if (dup2(null_fd, 0) >= 0 && dup2(out_fd, 1) >= 0 && dup2(null_fd, 2) >= 0) {
        (void)execvp(command[0], command);
    }
    _exit(127);
}

/* Run a tool to its end, or for some seconds. Returns whether it ended well. */
static bool run_tool(const struct exec_job *job, char *const *command, int out_fd)
{
    struct pollfd end = {.events = POLLIN};
    const pid_t pid = fork();
    int code = 0;

    if (pid == 0) {
        become_tool(command, out_fd, &job->old_mask);
    }
    if (pid < 0) {
        return false;
    }
    end.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (end.fd < 0 || poll(&end, 1, TOOL_MS) <= 0) {
        (void)kill(pid, SIGKILL);
    }
    while (waitpid(pid, &code, 0) < 0 && errno == EINTR) {
    }
    if (end.fd >= 0) {
        (void)close(end.fd);
    }
    return WIFEXITED(code) && WEXITSTATUS(code) == 0;
}

/* Where it goes: a file of the run folder, or memory for whoever asks. */
static int open_stack(const struct harness_exec_config *config, uint32_t rank)
{
    char path[PATH_MAX];

    if (config->log_dir == NULL) {
        return memfd_create("ddprove-stack", MFD_CLOEXEC);
    }
    (void)snprintf(path, sizeof path, "%s/rank%" PRIu32 ".stack", config->log_dir, rank);
    return open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

/* eu-stack says 1 if it could not read all of it. */
static void take_stack(const struct exec_job *job, uint32_t rank)
{
    const struct harness_exec_config *config = job->config;
    const pid_t pid = harness_exec_pid(job, rank);
    char number[16];
    char text[4096];
    char *py_spy[] = {(char *)(uintptr_t) "py-spy", (char *)(uintptr_t) "dump",
                      (char *)(uintptr_t) "--pid", number, NULL};
    char *eu_stack[] = {(char *)(uintptr_t) "eu-stack", (char *)(uintptr_t) "-p", number, NULL};
    ssize_t size;
    int fd;

    (void)snprintf(number, sizeof number, "%ld", (long)pid);
    fd = open_stack(config, rank);
    if (fd < 0) {
        return;
    }
    if (!is_python(pid) || !run_tool(job, py_spy, fd)) {
        (void)run_tool(job, eu_stack, fd);
    }
    size = pread(fd, text, sizeof text - 1, 0);
    if (size > 0 && config->on_stack != NULL) { /* else there is no tool, or it was not allowed */
        text[size] = '\0';
        config->on_stack(config->context, rank, text);
    }
    (void)close(fd);
}

void harness_exec_take_stacks(struct exec_job *job)
{
    for (size_t i = 0; i < job->findings->count; i++) {
        const struct harness_finding *finding = &job->findings->items[i];

        for (uint32_t r = 0; harness_verdict_family(finding->verdict) == HARNESS_FAMILY_HANG &&
                             r < job->watch->world_size && job->stack_count < STACKS_MAX;
             r++) {
            if (!job->ranks[r].has_stack && harness_exec_pid(job, r) > 0 &&
                !harness_watch_is_gone(job->watch, r) &&
                (harness_rank_set_has(&finding->culprits, r) ||
                 harness_rank_set_has(&finding->victims, r))) {
                job->ranks[r].has_stack = true;
                job->stack_count++;
                take_stack(job, r);
            }
        }
    }
}
