/* /proc/PID/schedstat counts waits for a CPU that have ended. A thread is in a wait that has not
 * ended if it is ready to run and neither its time slices nor its time on a CPU increase. */
#include "harness/launch/lag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct reading {
    uint64_t ran_ns, delay_ns, slices;
    bool is_ready; /* runs, or waits for a CPU */
};

static bool read_line(pid_t tid, const char *name, char *line, size_t size_bytes)
{
    char path[64];
    FILE *file;
    bool is_read;

    (void)snprintf(path, sizeof(path), "/proc/%ld/%s", (long)tid, name);
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

static bool read_thread(pid_t tid, struct reading *out)
{
    char line[512];
    const char *end;

    if (!read_line(tid, "stat", line, sizeof(line)) || (end = strrchr(line, ')')) == NULL ||
        strlen(end) < 3) {
        return false;
    }
    out->is_ready = end[2] == 'R';
    return read_line(tid, "schedstat", line, sizeof(line)) && parse_schedstat(line, out);
}

static uint64_t difference(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* The kernel's counts changed since the last reading, or the thread was asleep: if it waits now,
 * that wait is new. It lasts for the time since the last reading, less run time and earlier waits.
 */
static void begin_wait(struct harness_lag *lag, const struct reading *now, uint64_t now_ns)
{
    uint64_t spent_ns = now->ran_ns - lag->ran_ns + now->delay_ns - lag->delay_ns;
    uint64_t gap_ns = now_ns - lag->read_ns;
    bool is_waiting = lag->is_known && now->is_ready;

    lag->wait_ns = is_waiting ? now_ns - difference(gap_ns, spent_ns) : now_ns;
    lag->wait_ran_ns = now->ran_ns;
}

/* How long the thread has waited since the first reading; 0 if that is not known. */
static uint64_t read_waits(struct harness_lag *lag, pid_t tid, uint64_t now_ns)
{
    bool was_known = lag->is_known;
    struct reading now;

    if (!read_thread(tid, &now)) {
        lag->is_known = false;
        return 0;
    }
    if (!was_known) {
        lag->base_delay_ns = now.delay_ns;
    }
    if (!was_known || !now.is_ready || now.delay_ns != lag->delay_ns || now.slices != lag->slices) {
        begin_wait(lag, &now, now_ns);
    }
    lag->is_known = true;
    lag->ran_ns = now.ran_ns;
    lag->delay_ns = now.delay_ns;
    lag->slices = now.slices;
    return now.delay_ns - lag->base_delay_ns +
           difference(now_ns - lag->wait_ns, now.ran_ns - lag->wait_ran_ns);
}

uint64_t harness_lag_read(struct harness_lag *lag, pid_t tid, uint64_t silent_ns, uint64_t now_ns)
{
    uint64_t age_ns = difference(now_ns, silent_ns);
    uint64_t waited_ns;

    if (lag->silent_ns != silent_ns) {
        *lag = (struct harness_lag){.silent_ns = silent_ns};
    }
    if (age_ns < HARNESS_LAG_START_NS) {
        return age_ns;
    }
    if (lag->is_known && now_ns - lag->read_ns < HARNESS_LAG_INTERVAL_NS) {
        return lag->starved_ns + now_ns - lag->read_ns;
    }
    if (lag->start_ns == 0) {
        lag->start_ns = now_ns;
    }
    waited_ns = read_waits(lag, tid, now_ns);
    waited_ns += lag->is_known ? lag->start_ns - silent_ns : 0;
    lag->read_ns = now_ns;
    /* When a wait ends that began before the first reading, the kernel adds all of it. */
    lag->starved_ns = waited_ns < age_ns ? waited_ns : age_ns;
    return lag->starved_ns;
}

uint64_t harness_lag_self_ns(void)
{
    struct reading reading;
    char line[128];

    return read_line(getpid(), "schedstat", line, sizeof(line)) && parse_schedstat(line, &reading)
               ? reading.delay_ns
               : 0;
}
