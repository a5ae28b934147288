/* Silence that is a process's own, and silence that a busy machine is to blame for. */
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "harness/launch/lag.h"
#include "tests/ct.h"
#include "tests/unit/proc/proc_tree.h"

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

/* To the first CPU that we may use. */
static void pin(void)
{
    cpu_set_t mine, first;
    size_t cpu = 0;

    if (sched_getaffinity(0, sizeof(mine), &mine) != 0) {
        _exit(1);
    }
    while (!CPU_ISSET(cpu, &mine)) {
        cpu++;
    }
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    if (sched_setaffinity(0, sizeof(first), &first) != 0) {
        _exit(1);
    }
}

/* A child that sleeps or spins for ever; policy: its scheduling, on the first CPU that we may use
 * if it is not -1. */
static pid_t start(bool spins, int policy)
{
    const struct sched_param none = {0};
    pid_t pid = fork();

    if (pid != 0) {
        return pid;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (policy != -1) {
        pin();
        if (sched_setscheduler(0, policy, &none) != 0) {
            _exit(1);
        }
    }
    while (spins) {
        __asm__ volatile("");
    }
    for (;;) {
        (void)pause();
    }
}

static void end(pid_t pid)
{
    CT_CHECK(kill(pid, SIGKILL) == 0);
    CT_CHECK(waitpid(pid, NULL, 0) == pid);
}

static void await_sleep(pid_t pid)
{
    long parent;
    char name[64], state = '?';

    for (int i = 0; i < 4000 && state != 'S'; i++) {
        proc_tree_nap(5);
        CT_CHECK(proc_tree_stat(pid, &parent, name, &state));
    }
    CT_CHECK_EQ_I64(state, 'S');
}

/* A sleeping process needs no CPU: from the first reading on, all of its silence counts. */
CT_TEST(lag, sleep_is_silence)
{
    struct harness_lag lag = {0};
    pid_t pid = start(false, -1);
    uint64_t silent_ns, first_ns;

    await_sleep(pid);
    silent_ns = now() - HARNESS_LAG_START_NS;
    first_ns = harness_lag_read(&lag, pid, silent_ns, silent_ns + HARNESS_LAG_START_NS);
    CT_CHECK_EQ_U64(first_ns, HARNESS_LAG_START_NS);
    for (uint64_t i = 1; i <= 5; i++) {
        CT_CHECK_EQ_U64(harness_lag_read(&lag, pid, silent_ns, silent_ns + i * DDP_NS_PER_S),
                        first_ns);
    }
    CT_CHECK_EQ_U64(harness_lag_read(&lag, pid, silent_ns + 5, silent_ns + 6),
                    1); /* a sign of life */
    end(pid);
}

/* A process that spins is silent by its own doing for as long as it has a CPU, however little of
 * the time that is. */
CT_TEST(lag, spinning_is_silence)
{
    struct harness_lag lag = {0};
    pid_t pid = start(true, -1);
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
    end(pid);
}

/* A process that is ready beside one with a higher priority has no CPU nearly all the time. That
 * holds during a wait too, which the kernel counts only when it ends. */
CT_TEST(lag, waiting_for_a_cpu_is_not)
{
    struct harness_lag lag = {0};
    pid_t rival = start(true, SCHED_OTHER);
    pid_t pid = start(true, SCHED_IDLE);
    uint64_t silent_ns = now(), age_ns, own_ns;

    do {
        uint64_t now_ns = now();

        age_ns = now_ns - silent_ns;
        own_ns = age_ns - harness_lag_read(&lag, pid, silent_ns, now_ns);
    } while (age_ns < 400 * DDP_NS_PER_MS);
    CT_CHECK(own_ns < 100 * DDP_NS_PER_MS);
    end(pid);
    end(rival);
}

/* Without counts from the kernel, all of the silence counts. */
CT_TEST(lag, unknown_is_none)
{
    struct harness_lag lag = {0};
    pid_t pid = start(false, -1);

    end(pid);
    CT_CHECK_EQ_U64(harness_lag_read(&lag, pid, 1, DDP_NS_PER_S), 0);
}
