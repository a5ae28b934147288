/* Processes below one, read from /proc. */
#include "tests/unit/proc/proc_tree.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void proc_tree_nap(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};

    (void)nanosleep(&time, NULL);
}

bool proc_tree_stat(long pid, long *out_parent, char name[64], char *out_state)
{
    char path[64];
    char line[512];
    char *end;
    FILE *file;
    size_t size;

    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    size = fread(line, 1, sizeof(line) - 1, file);
    (void)fclose(file);
    line[size] = '\0';
    end = strrchr(line, ')');
    if (end == NULL || strchr(line, '(') == NULL) {
        return false;
    }
    *end = '\0';
    (void)snprintf(name, 64, "%s", strchr(line, '(') + 1);
    *out_state = end[2];
    *out_parent = strtol(end + 4, NULL, 10);
    return true;
}

/* The process is `ancestor`'s child, or, if is_deep, anywhere below it. */
static bool is_below(long pid, long ancestor, bool is_deep)
{
    long parent = pid;
    char name[64];
    char state;

    do {
        if (!proc_tree_stat(parent, &parent, name, &state)) {
            return false;
        }
        if (parent == ancestor) {
            return true;
        }
    } while (is_deep && parent > 1);
    return false;
}

static size_t find(long ancestor, bool is_deep, const char *name, long pids[PROC_TREE_MAX])
{
    DIR *folder = opendir("/proc");
    struct dirent *entry;
    size_t count = 0;

    while (folder != NULL && count < PROC_TREE_MAX && (entry = readdir(folder)) != NULL) {
        long pid = strtol(entry->d_name, NULL, 10);
        long parent;
        char its_name[64];
        char state;

        if (isdigit((unsigned char)entry->d_name[0]) &&
            proc_tree_stat(pid, &parent, its_name, &state) && state != 'Z' &&
            (name == NULL || strcmp(name, its_name) == 0) && is_below(pid, ancestor, is_deep)) {
            pids[count++] = pid;
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return count;
}

size_t proc_tree_children(long parent, const char *name, long pids[PROC_TREE_MAX])
{
    return find(parent, false, name, pids);
}

size_t proc_tree_below(long ancestor, const char *name, long pids[PROC_TREE_MAX])
{
    return find(ancestor, true, name, pids);
}

/* The process that a descriptor of `owner`'s refers to if it is a pidfd, else 0 or less. */
static long pidfd_target(long owner, const char *fd)
{
    char path[320];
    char line[128];
    long pid = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%ld/fdinfo/%s", owner, fd);
    file = fopen(path, "r");
    while (file != NULL && pid == 0 && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "Pid:", 4) == 0) {
            pid = strtol(line + 4, NULL, 10);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return pid;
}

size_t proc_tree_watched(long watcher, const long *pids, size_t count)
{
    char path[64];
    struct dirent *entry;
    size_t watched = 0;
    DIR *folder;

    (void)snprintf(path, sizeof(path), "/proc/%ld/fdinfo", watcher);
    folder = opendir(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        long target = pidfd_target(watcher, entry->d_name);

        for (size_t k = 0; k < count; k++) {
            watched += target == pids[k];
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return watched;
}

static bool is_stopped(long pid)
{
    long parent;
    char name[64];
    char state;

    return proc_tree_stat(pid, &parent, name, &state) && state == 'T';
}

bool proc_tree_await_stop(long ancestor, const char *name)
{
    for (int i = 0; i < 4000; i++) {
        long pids[PROC_TREE_MAX];
        size_t count = find(ancestor, true, name, pids);

        for (size_t k = 0; k < count; k++) {
            if (is_stopped(pids[k])) {
                return true;
            }
        }
        proc_tree_nap(5);
    }
    return false;
}

size_t proc_tree_left(const long *pids, size_t count)
{
    size_t left = 1;

    for (int i = 0; i < 2000 && left > 0; i++) {
        left = 0;
        for (size_t k = 0; k < count; k++) {
            long parent;
            char name[64];
            char state;

            left += proc_tree_stat(pids[k], &parent, name, &state) && state != 'Z';
        }
        if (left > 0) {
            proc_tree_nap(5);
        }
    }
    return left;
}
