/* Silence that is a process's own, and silence that a busy machine is to blame for. */
#include <sched.h>
#include <stdint.h>
#include <time.h>

#include "ddpcore/base/clock.h"
#include "harness/launch/lag.h"
#include "tests/ct.h"
#include "tests/unit/proc/proc_load.h"

static uint64_t now(void)
{
    return ddp_clock_now_ns(ddp_clock_monotonic());
}

static uint64_t cpu_of(pid_t pid)
{
    clockid_t clock;
    struct timespec cpu = {0, 0};

    CT_CHECK(clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &cpu) == 0);
    return (uint64_t)cpu.tv_sec * DDP_NS_PER_S + (uint64_t)cpu.tv_nsec;
}

/* A sleeping process needs no CPU: from the first reading on, all of its silence counts. */
CT_TEST(lag, sleep_is_silence)
{
    struct harness_lag lag = {0};
    pid_t pid = proc_load_start(false, -1);
    uint64_t silent_ns, first_ns;

    proc_load_await_sleep(pid);
    silent_ns = now() - HARNESS_LAG_START_NS;
    first_ns = harness_lag_read(&lag, pid, silent_ns, silent_ns + HARNESS_LAG_START_NS);
    CT_CHECK_EQ_U64(first_ns, HARNESS_LAG_START_NS);
    for (uint64_t i = 1; i <= 5; i++) {
        CT_CHECK_EQ_U64(harness_lag_read(&lag, pid, silent_ns, silent_ns + i * DDP_NS_PER_S),
                        first_ns);
    }
    CT_CHECK_EQ_U64(harness_lag_read(&lag, pid, silent_ns + 5, silent_ns + 6),
                    1); /* a sign of life */
    proc_load_end(pid);
}

/* A process that spins is silent by its own doing for as long as it has a CPU, however little of
 * the time that is. */
CT_TEST(lag, spinning_is_silence)
{
    struct harness_lag lag = {0};
    pid_t pid = proc_load_start(true, -1);
    uint64_t cpu_ns = cpu_of(pid); /* first: it runs while this process has no CPU */
    uint64_t silent_ns = now() - HARNESS_LAG_START_NS, start_ns = now();
    uint64_t slowest_ns = 0, own_ns;

    (void)harness_lag_read(&lag, pid, silent_ns, start_ns);
    do {
        uint64_t now_ns = now();
        uint64_t lag_ns = harness_lag_read(&lag, pid, silent_ns, now_ns);
        uint64_t took_ns = now() - now_ns;

        own_ns = now_ns - silent_ns - lag_ns;
        slowest_ns = took_ns > slowest_ns ? took_ns : slowest_ns;
        /* Time for which it did not run does not count, up to the error of a reading, which is
         * larger if the reader had no CPU in the middle of one. */
        CT_CHECK(own_ns <= cpu_of(pid) - cpu_ns + 20 * DDP_NS_PER_MS + slowest_ns);
    } while (own_ns < 100 * DDP_NS_PER_MS);
    proc_load_end(pid);
}

/* A process that is ready beside one with a higher priority has no CPU nearly all the time. That
 * holds during a wait too, which the kernel counts only when it ends. */
CT_TEST(lag, waiting_for_a_cpu_is_not)
{
    struct harness_lag lag = {0};
    pid_t rival = proc_load_start(true, SCHED_OTHER);
    pid_t pid = proc_load_start(true, SCHED_IDLE);
    uint64_t silent_ns = now(), age_ns, own_ns;

    do {
        uint64_t now_ns = now();

        age_ns = now_ns - silent_ns;
        own_ns = age_ns - harness_lag_read(&lag, pid, silent_ns, now_ns);
    } while (age_ns < 400 * DDP_NS_PER_MS);
    CT_CHECK(own_ns < 100 * DDP_NS_PER_MS);
    proc_load_end(pid);
    proc_load_end(rival);
}

/* Without counts from the kernel, all of the silence counts. */
CT_TEST(lag, unknown_is_none)
{
    struct harness_lag lag = {0};
    pid_t pid = proc_load_start(false, -1);

    proc_load_end(pid);
    CT_CHECK_EQ_U64(harness_lag_read(&lag, pid, 1, DDP_NS_PER_S), 0);
}
