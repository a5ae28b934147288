/* A thread that is killed first has SIGKILL pending, until it comes back from what it does in the
 * kernel; then it is marked as ended by a signal, and dumps core if it is to; then as exiting. All
 * threads of a process are killed together. One alone may exit by itself, or be killed by another
 * one that calls exec, so the process is at its end only if all of them are. */
#include "harness/launch/ending.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kernel's PF_EXITING and PF_SIGNALED. */
enum { FLAG_EXITING = 0x4, FLAG_SIGNALED = 0x400, FLAGS_PLACE = 7 };
enum { TEXT_BYTES = 4096 };

/* False: there is no such thread any more. "": it cannot be read. */
static bool read_text(pid_t pid, const char *thread, const char *name, char *out)
{
    char path[96];
    ssize_t size = -1;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%ld/task/%.16s/%s", (long)pid, thread, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        size = read(fd, out, TEXT_BYTES - 1);
    }
    out[size > 0 ? size : 0] = '\0';
    if (size < 0 && (errno == ENOENT || errno == ESRCH)) {
        size = 0;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return size != 0;
}

/* The flags of a thread, and the letter of its state. The name before them may hold anything. */
static unsigned flags_of(const char *stat, char *letter)
{
    const char *at = strrchr(stat, ')');

    *letter = '?';
    if (at != NULL && at[1] == ' ') {
        *letter = at[2];
    }
    for (int i = 0; i < FLAGS_PLACE && at != NULL; i++) {
        at = strchr(at + 1, ' ');
    }
    return at != NULL ? (unsigned)strtoul(at, NULL, 10) : 0;
}

static bool is_kill_pending(const char *status)
{
    static const char *const names[] = {"\nSigPnd:", "\nShdPnd:"};
    bool is_so = false;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *at = strstr(status, names[i]);

        is_so = is_so || (at != NULL &&
                          (strtoull(at + strlen(names[i]), NULL, 16) >> (SIGKILL - 1) & 1) != 0);
    }
    return is_so;
}

static bool is_marked(const char *stat)
{
    char letter;
    const unsigned flags = flags_of(stat, &letter);

    return letter == 'Z' || letter == 'X' || (flags & (FLAG_EXITING | FLAG_SIGNALED)) != 0;
}

bool harness_ending_is_told(const char *stat, const char *status)
{
    return is_marked(stat) || is_kill_pending(status);
}

/* One that is gone is at its end. SIGKILL wakes a thread that sleeps until something happens, so of
 * such a one it is not pending. */
static bool is_thread_ending(pid_t pid, const char *thread, int *out_status)
{
    char stat[TEXT_BYTES], status[TEXT_BYTES] = "";
    char letter;
    const char *last;
    unsigned flags;

    if (!read_text(pid, thread, "stat", stat)) {
        return true;
    }
    flags = flags_of(stat, &letter);
    if (!is_marked(stat) && letter != 'S') {
        (void)read_text(pid, thread, "status", status);
    }
    last = strrchr(stat, ' ');
    *out_status = last != NULL ? (int)strtol(last, NULL, 10) : 0;
    /* By which signal, is told late. */
    if (is_kill_pending(status) || (*out_status == 0 && (flags & FLAG_SIGNALED) != 0)) {
        *out_status = SIGKILL;
    }
    return harness_ending_is_told(stat, status);
}

void harness_ending_read(pid_t pid, struct harness_ending *out)
{
    char name[32];
    DIR *threads;
    int status = 0;

    *out = (struct harness_ending){.is_so = false};
    (void)snprintf(name, sizeof name, "%ld", (long)pid);
    if (kill(pid, 0) != 0 && errno == ESRCH) {
        *out = (struct harness_ending){.is_so = true, .is_over = true};
        return;
    }
    if (!is_thread_ending(pid, name, &out->status)) {
        out->status = 0;
        return;
    }
    (void)snprintf(name, sizeof name, "/proc/%ld/task", (long)pid);
    threads = opendir(name);
    out->is_so = threads != NULL; /* it has at least the one thread that was read */
    for (const struct dirent *entry = NULL;
         threads != NULL && out->is_so && (entry = readdir(threads)) != NULL;) {
        out->is_so = entry->d_name[0] == '.' || is_thread_ending(pid, entry->d_name, &status);
    }
    if (threads != NULL) {
        (void)closedir(threads);
    }
    out->status = out->is_so ? out->status : 0;
}
