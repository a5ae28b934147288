/* Purpose: a folder that is for one job alone is left behind by no end of this process, also if
 * that is killed.
 * Idea: a child of ours listens until we end. Unless we say that the folder stays, it goes: at once
 * if we say so, else as soon as no process of the job lives that could put more into it. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/file.h"
#include "harness/exec/job.h"

enum { STAYS = '.', GOES = 'r', LOOK_FIRST_MS = 1, LOOK_LAST_MS = 1000 };

/* A job that is left may go on for hours: it is looked for less and less often. */
static void wait_for_end(const char *variable)
{
    for (int ms = LOOK_FIRST_MS; harness_exec_guard_signal(variable, 0) > 0;
         ms = ms < LOOK_LAST_MS ? 2 * ms : ms) {
        (void)poll(NULL, 0, ms);
    }
}

/* In the guard. What we say is the folder, and behind its zero one letter. */
__attribute__((noreturn)) static void watch_over(const char *name)
{
    FILE *from = fdopen(0, "r");
    struct ddp_err err = {{0}};
    char variable[PATH_MAX + 64];
    char *folder = NULL;
    size_t capacity = 0;
    int said = EOF;

    if (from == NULL || getdelim(&folder, &capacity, '\0', from) <= 1) {
        _exit(0); /* there is none yet */
    }
    said = fgetc(from);
    if (said == EOF) {
        (void)snprintf(variable, sizeof variable, "%.63s=%s", name, folder);
        wait_for_end(variable);
    }
    _exit(said != STAYS && ddp_files_remove_tree(folder, &err) != DDP_OK);
}

/* Returns whether the guard has it all. */
static bool tell(const struct harness_exec_folder *self, const char *data, size_t size_bytes)
{
    return write(self->guard_fd, data, size_bytes) == (ssize_t)size_bytes;
}

ddp_status harness_exec_folder_make(const char *variable, char *name,
                                    struct harness_exec_folder *out, struct ddp_err *err)
{
    pid_t pid;

    DDP_TRY(harness_exec_guard_fork(&pid, &out->guard_fd, err));
    if (pid == 0) {
        watch_over(variable);
    }
    out->guard_pid = pid;
    if (mkdtemp(name) == NULL) {
        return ddp_err_set(err, DDP_E_SYSTEM, "%s: %s", name, strerror(errno));
    }
    if (realpath(name, out->path) == NULL || !tell(out, out->path, strlen(out->path) + 1)) {
        const int error = errno;

        (void)rmdir(name);
        return ddp_err_set(err, DDP_E_SYSTEM, "%s: %s", name, strerror(error));
    }
    return DDP_OK;
}

ddp_status harness_exec_folder_end(struct harness_exec_folder *self, bool is_kept,
                                   struct ddp_err *err)
{
    const char letter = is_kept ? STAYS : GOES;
    int code = 0;

    if (self->guard_pid == 0) {
        return DDP_OK;
    }
    (void)tell(self, &letter, 1);
    (void)close(self->guard_fd);
    while (waitpid(self->guard_pid, &code, 0) < 0 && errno == EINTR) {
    }
    self->guard_pid = 0;
    return code == 0 ? DDP_OK : ddp_err_set(err, DDP_E_IO, "cannot remove %s", self->path);
}
