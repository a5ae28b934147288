/* What the kernel tells of processes that are no children of ours. */
#include "harness/exec/stat.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* What /proc/PID/stat says. False: it says nothing. */
static bool read_stat_text(const char *text, struct exec_stat *out)
{
    const char *end = strrchr(text, ')'); /* a name may hold anything */

    if (end == NULL || end[1] != ' ' || end[2] == '\0') {
        return false;
    }
    *out = (struct exec_stat){.letter = end[2]};
    out->parent = end[3] == ' ' ? (pid_t)strtol(end + 4, NULL, 10) : 0;
    /* parent, process group, session, terminal and its group come before the flags; four counts of
     * faults, four of times, priority and nice value before the threads */
    for (int i = 0; i < 17 && end != NULL; i++) {
        end = strchr(end + (i == 0 ? 2 : 1), ' ');
        out->flags = i == 5 && end != NULL ? (unsigned)strtoul(end, NULL, 10) : out->flags;
    }
    out->threads = end != NULL ? (unsigned)strtoul(end, NULL, 10) : 0;
    end = strrchr(text, ' '); /* the last one */
    out->status = end != NULL ? (int)strtol(end, NULL, 10) : 0;
    return true;
}

bool harness_exec_read_stat_of(int stat_fd, struct exec_stat *out)
{
    char text[512];
    const ssize_t size = pread(stat_fd, text, sizeof text - 1, 0);

    if (size <= 0) {
        return false; /* it has been waited for */
    }
    text[size] = '\0';
    return read_stat_text(text, out);
}

/* False: there is no such process or thread. */
static bool read_stat_file(const char *path, struct exec_stat *out)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bool is_there = fd >= 0 && harness_exec_read_stat_of(fd, out);

    if (fd >= 0) {
        (void)close(fd);
    }
    return is_there;
}

int harness_exec_open_stat(pid_t pid)
{
    char path[32];

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

bool harness_exec_read_stat(pid_t pid, struct exec_stat *out)
{
    char path[32];

    (void)snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    return read_stat_file(path, out);
}

bool harness_exec_is_below(pid_t pid, pid_t ancestor)
{
    enum {
        GENERATIONS = 64
    }; /* parents change while this looks: it comes to an end all the same */
    struct exec_stat stat = {0};

    for (int i = 0; i < GENERATIONS && pid > 1 && pid != ancestor; i++) {
        pid = harness_exec_read_stat(pid, &stat) ? stat.parent : 0;
    }
    return pid == ancestor;
}

bool harness_exec_is_past_its_code(pid_t pid)
{
    char path[64];
    DIR *threads;
    bool is_past = true;

    (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    threads = opendir(path);
    for (const struct dirent *entry = NULL;
         threads != NULL && is_past && (entry = readdir(threads)) != NULL;) {
        struct exec_stat stat = {0};

        (void)snprintf(path, sizeof path, "/proc/%ld/task/%.16s/stat", (long)pid, entry->d_name);
        is_past = entry->d_name[0] == '.' || !read_stat_file(path, &stat) ||
                  (stat.flags & EXEC_FLAG_EXITING) != 0;
    }
    if (threads != NULL) {
        (void)closedir(threads);
    }
    return is_past;
}

/* What Linux 6.15 and later tell of a process that its parent has waited for (linux/pidfd.h). */
struct pidfd_info {
    uint64_t mask;
    uint64_t cgroup;
    uint32_t ids[11];
    int32_t status; /* as wait() says it */
};
enum { PIDFD_INFO_HAS_STATUS = 1 << 3 };

bool harness_exec_read_status(pid_t pid, int pid_fd, int *out)
{
    struct pidfd_info info = {.mask = PIDFD_INFO_HAS_STATUS};
    struct exec_stat stat = {0};

    if (harness_exec_read_stat(pid, &stat) &&
        (stat.letter == 'Z' || (stat.flags & EXEC_FLAG_EXITING) != 0)) {
        *out = stat.status;
        return true;
    }
    if (ioctl(pid_fd, _IOWR(0xff, 11, struct pidfd_info), &info) != 0 ||
        (info.mask & PIDFD_INFO_HAS_STATUS) == 0) {
        return false;
    }
    *out = info.status;
    return true;
}
