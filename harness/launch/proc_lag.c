/* Waits that have ended are in /proc/PID/schedstat. The present one is not: a thread that is ready,
 * and whose count of slices stands still while its CPU clock does, is in one. */
#include "harness/launch/proc_lag.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ddpcore/base/clock.h"

struct reading {
    uint64_t delay_ns, slice_count, cpu_ns;
    bool is_ready; /* runs, or would */
};

static bool read_line(pid_t pid, const char *name, char *line, size_t size_bytes)
{
    char path[64];
    FILE *file;
    bool is_read;

    (void)snprintf(path, sizeof(path), "/proc/%ld/%s", (long)pid, name);
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
    uint64_t values[3];
    char *end;

    for (size_t i = 0; i < 3; i++) {
        values[i] = strtoull(line, &end, 10);
        if (end == line) {
            return false;
        }
        line = end;
    }
    out->delay_ns = values[1];
    out->slice_count = values[2];
    return true;
}

static bool read_process(pid_t pid, struct reading *out)
{
    char line[512];
    const char *end;
    clockid_t clock;
    struct timespec cpu;

    if (!read_line(pid, "stat", line, sizeof(line)) || (end = strrchr(line, ')')) == NULL ||
        strlen(end) < 3) {
        return false;
    }
    out->is_ready = end[2] == 'R';
    if (!read_line(pid, "schedstat", line, sizeof(line)) || !parse_schedstat(line, out)) {
        return false;
    }
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &cpu) != 0) {
        return false;
    }
    out->cpu_ns = (uint64_t)cpu.tv_sec * DDP_NS_PER_S + (uint64_t)cpu.tv_nsec;
    return true;
}

static uint64_t difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* The kernel counted something since the last look, or the thread was asleep: the wait that it is
 * in, if any, is new. Of the time between, what it did not run and had not waited before. */
static void begin_wait(struct proc_lag *lag, const struct reading *now, uint64_t now_ns)
{
    uint64_t spent_ns = now->cpu_ns - lag->cpu_ns + now->delay_ns - lag->delay_ns;
    uint64_t gap_ns = now_ns - lag->look_ns;

    lag->wait_ns =
        now->is_ready && lag->look_ns != 0 ? now_ns - difference(gap_ns, spent_ns) : now_ns;
    lag->wait_cpu_ns = now->cpu_ns;
}

uint64_t proc_lag_look(struct proc_lag *lag, pid_t pid, uint64_t silent_ns, uint64_t now_ns)
{
    struct reading now;
    uint64_t age_ns = difference(now_ns, silent_ns);
    uint64_t starved_ns;

    if (lag->silent_ns != silent_ns) {
        *lag = (struct proc_lag){.silent_ns = silent_ns};
    }
    if (age_ns < PROC_LAG_START_NS) {
        return age_ns;
    }
    if (!read_process(pid, &now)) {
        return 0;
    }
    if (lag->look_ns == 0) {
        lag->start_ns = now_ns;
        lag->base_delay_ns = now.delay_ns;
    }
    if (lag->look_ns == 0 || !now.is_ready || now.delay_ns != lag->delay_ns ||
        now.slice_count != lag->slice_count) {
        begin_wait(lag, &now, now_ns);
    }
    lag->look_ns = now_ns;
    lag->cpu_ns = now.cpu_ns;
    lag->delay_ns = now.delay_ns;
    lag->slice_count = now.slice_count;
    starved_ns = difference(lag->start_ns, silent_ns) + now.delay_ns - lag->base_delay_ns +
                 difference(now_ns - lag->wait_ns, now.cpu_ns - lag->wait_cpu_ns);
    /* A wait that began before the first look is counted whole when it ends. */
    return starved_ns < age_ns ? starved_ns : age_ns;
}
