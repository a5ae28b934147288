/* For how long a process had work and no CPU, whichever of its threads it was. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/clock.h"
#include "ddpcore/base/mem.h"
#include "harness/exec/job.h"
#include "harness/exec/stat.h"
#include "tests/ct.h"

static uint64_t now(void)
{
    return ddp_clock_now_ns(ddp_clock_monotonic());
}

/* To the first CPU that we may use. */
static void pin(void)
{
    cpu_set_t mine, first;
    size_t cpu = 0;

    if (sched_getaffinity(0, sizeof mine, &mine) != 0) {
        _exit(1);
    }
    while (!CPU_ISSET(cpu, &mine)) {
        cpu++;
    }
    CPU_ZERO(&first);
    CPU_SET(cpu, &first);
    if (sched_setaffinity(0, sizeof first, &first) != 0) {
        _exit(1);
    }
}

static void *spin(void *policy)
{
    const struct sched_param none = {0};

    pin();
    if (sched_setscheduler(0, *(const int *)policy, &none) != 0) {
        _exit(1);
    }
    for (;;) {
        __asm__ volatile("");
    }
}

/* A process whose first thread sleeps, and whose second one spins or, policy < 0, sleeps too. */
static pid_t start(int policy)
{
    static int own_policy;
    pthread_t thread;
    const pid_t pid = fork();

    if (pid != 0) {
        const unsigned threads = policy < 0 ? 1 : 2;
        struct exec_stat stat = {0};

        CT_CHECK(pid > 0);
        while (harness_exec_read_stat(pid, &stat) &&
               (stat.letter != 'S' || stat.threads != threads)) {
            (void)sched_yield();
        }
        CT_CHECK_EQ_I64(stat.letter, 'S');
        return pid;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    own_policy = policy;
    if (policy >= 0 && pthread_create(&thread, NULL, spin, &own_policy) != 0) {
        _exit(1);
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

/* So much of 400 ms the process was ready to run and did not, after the part that counts in full.
 */
static uint64_t starved_of(pid_t pid)
{
    struct exec_starved starved = {0};
    struct ddp_mem_pool *pool;
    const uint64_t since_ns = now() - HARNESS_LAG_START_NS;
    uint64_t now_ns, starved_ns;

    CT_CHECK(ddp_mem_pool_create(&pool) == DDP_OK);
    do {
        now_ns = now();
        starved_ns = harness_exec_starved_ns(&starved, ddp_mem_pool_mem(pool), pid, since_ns,
                                             now_ns, HARNESS_LAG_INTERVAL_NS);
        CT_CHECK(starved_ns <= now_ns - since_ns);
    } while (now_ns - since_ns < 400 * DDP_NS_PER_MS);
    harness_exec_starved_fini(&starved, ddp_mem_pool_mem(pool));
    ddp_mem_pool_destroy(pool);
    return starved_ns;
}

/* Beside a thread of a higher priority on its CPU a thread has none nearly all the time. */
CT_TEST(starved, of_a_thread_that_is_not_the_first)
{
    const pid_t rival = start(SCHED_OTHER);
    const pid_t pid = start(SCHED_IDLE);

    CT_CHECK(starved_of(pid) > 300 * DDP_NS_PER_MS);
    end(pid);
    end(rival);
}

/* Whose threads sleep waits for no CPU, whatever else the machine has to do. */
CT_TEST(starved, of_none_that_sleeps)
{
    const pid_t rival = start(SCHED_OTHER);
    const pid_t pid = start(-1);

    CT_CHECK(starved_of(pid) < 100 * DDP_NS_PER_MS);
    end(pid);
    end(rival);
}

/* Another silence, or another process, starts anew; one that is gone has no excuse. */
CT_TEST(starved, starts_anew)
{
    struct exec_starved starved = {0};
    struct ddp_mem_pool *pool;
    struct ddp_mem *mem;
    const pid_t pid = start(-1);
    const uint64_t start_ns = now();
    const uint64_t later_ns = start_ns + HARNESS_LAG_START_NS;

    CT_REQUIRE(ddp_mem_pool_create(&pool) == DDP_OK);
    mem = ddp_mem_pool_mem(pool);
    CT_CHECK_EQ_U64(harness_exec_starved_ns(&starved, mem, pid, start_ns, later_ns, 1000),
                    HARNESS_LAG_START_NS);
    CT_CHECK_EQ_U64(harness_exec_starved_ns(&starved, mem, pid, later_ns, later_ns + 10, 1000), 10);
    CT_CHECK_EQ_U64(harness_exec_starved_ns(&starved, mem, pid, later_ns, later_ns + 15, 1000), 15);
    end(pid);
    CT_CHECK_EQ_U64(harness_exec_starved_ns(&starved, mem, pid, start_ns, later_ns, 1000), 0);
    harness_exec_starved_fini(&starved, mem);
    ddp_mem_pool_destroy(pool);
}
