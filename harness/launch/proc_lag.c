/* Waits that have ended are in /proc/PID/task/TID/schedstat. The present one is not: a thread that
 * is ready, and whose slices and time on a CPU stand still, is in one. */
#include "harness/launch/proc_lag.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    uint64_t ran_ns, delay_ns, slices;
    bool is_ready; /* runs, or would */
};

static bool read_line(pid_t pid, pid_t tid, const char *name, char *line, size_t size_bytes)
{
    char path[96];
    FILE *file;
    bool is_read;

    (void)snprintf(path, sizeof(path), "/proc/%ld/task/%ld/%s", (long)pid, (long)tid, name);
    file = fopen(path, "re");
    is_read = file != NULL && fgets(line, (int)size_bytes, file) != NULL;
    if (file != NULL) {
        (void)fclose(file);
    }
    return is_read;
}

/* "ran waited slices": see the kernel's sched-stats.rst. */
static bool parse_schedstat(const char *line, struct reading *out)
{
    uint64_t *const values[] = {&out->ran_ns, &out->delay_ns, &out->slices};
    char *end;

    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        *values[i] = strtoull(line, &end, 10);
        if (end == line) {
            return false;
        }
        line = end;
    }
    return true;
}

static bool read_thread(pid_t pid, pid_t tid, struct reading *out)
{
    char line[512];
    const char *end;

    if (!read_line(pid, tid, "stat", line, sizeof(line)) || (end = strrchr(line, ')')) == NULL ||
        strlen(end) < 3) {
        return false;
    }
    out->is_ready = end[2] == 'R';
    return read_line(pid, tid, "schedstat", line, sizeof(line)) && parse_schedstat(line, out);
}

static uint64_t difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static struct proc_lag_thread *thread_of(struct proc_lag *lag, pid_t tid, bool *out_is_new)
{
    for (size_t i = 0; i < lag->thread_count; i++) {
        if (lag->threads[i].tid == tid) {
            *out_is_new = false;
            return &lag->threads[i];
        }
    }
    *out_is_new = true;
    return lag->thread_count < PROC_LAG_THREADS_MAX ? &lag->threads[lag->thread_count++] : NULL;
}

/* How long the thread has waited since it was first looked at. */
static uint64_t look_at_thread(struct proc_lag *lag, pid_t pid, pid_t tid, uint64_t now_ns)
{
    struct reading now;
    bool is_new;
    struct proc_lag_thread *thread;

    if (!read_thread(pid, tid, &now) || (thread = thread_of(lag, tid, &is_new)) == NULL) {
        return 0;
    }
    if (is_new) {
        *thread = (struct proc_lag_thread){.tid = tid, .base_delay_ns = now.delay_ns};
    }
    if (is_new || !now.is_ready || now.delay_ns != thread->delay_ns ||
        now.slices != thread->slices) {
        /* The wait that it is in, if any, is new. Of the time since the last look: what it did not
         * run, nor had waited before. */
        uint64_t spent_ns = now.ran_ns - thread->ran_ns + now.delay_ns - thread->delay_ns;
        bool is_waiting = !is_new && now.is_ready;

        thread->wait_ns =
            is_waiting ? now_ns - difference(now_ns - lag->look_ns, spent_ns) : now_ns;
        thread->wait_ran_ns = now.ran_ns;
    }
    thread->ran_ns = now.ran_ns;
    thread->delay_ns = now.delay_ns;
    thread->slices = now.slices;
    return now.delay_ns - thread->base_delay_ns +
           difference(now_ns - thread->wait_ns, now.ran_ns - thread->wait_ran_ns);
}

/* Of all threads, the longest. */
static uint64_t look_at_threads(struct proc_lag *lag, pid_t pid, uint64_t now_ns)
{
    char path[64];
    struct dirent *entry;
    uint64_t longest_ns = 0;
    DIR *folder;

    (void)snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
    folder = opendir(path);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        uint64_t waited_ns = tid > 0 ? look_at_thread(lag, pid, tid, now_ns) : 0;

        longest_ns = waited_ns > longest_ns ? waited_ns : longest_ns;
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return longest_ns;
}

uint64_t proc_lag_look(struct proc_lag *lag, pid_t pid, uint64_t silent_ns, uint64_t now_ns)
{
    uint64_t age_ns = difference(now_ns, silent_ns);
    uint64_t gap_ns, waited_ns;

    if (lag->silent_ns != silent_ns) {
        lag->silent_ns = silent_ns;
        lag->look_ns = 0;
        lag->thread_count = 0;
    }
    if (age_ns < PROC_LAG_START_NS) {
        return age_ns;
    }
    gap_ns = now_ns - lag->look_ns;
    if (lag->look_ns != 0 && gap_ns < PROC_LAG_INTERVAL_NS) {
        return lag->starved_ns + gap_ns;
    }
    if (lag->look_ns == 0) {
        lag->start_ns = now_ns;
    }
    waited_ns = look_at_threads(lag, pid, now_ns);
    lag->look_ns = now_ns;
    /* A wait that began before the first look is counted whole when it ends. */
    waited_ns += lag->thread_count > 0 ? lag->start_ns - silent_ns : 0;
    lag->starved_ns = waited_ns < age_ns ? waited_ns : age_ns;
    return lag->starved_ns;
}
