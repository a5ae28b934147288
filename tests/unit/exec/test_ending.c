/* As long as a rank is at its end, nobody is said to hang. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ddpcore/base/mem.h"
#include "harness/exec/job.h"
#include "harness/launch/ending.h"
#include "tests/ct.h"

enum { RANKS = 2, START_NS = 1000 };

struct rig {
    struct ddp_mem_pool *pool;
    struct harness_watch watch;
    struct exec_rank ranks[RANKS];
    struct harness_exec_config config;
    struct exec_job job;
    struct harness_findings findings;
};

static void rig_open(struct rig *rig, pid_t pid)
{
    struct ddp_err err = {{0}};

    *rig = (struct rig){.config = {.ranks = 0}};
    rig->job = (struct exec_job){.config = &rig->config, .watch = &rig->watch, .ranks = rig->ranks};
    CT_REQUIRE(ddp_mem_pool_create(&rig->pool) == DDP_OK);
    CT_REQUIRE(harness_watch_arena_create(RANKS, 16, &rig->job.arena, &err) == DDP_OK);
    CT_REQUIRE(harness_watch_init(&rig->watch, ddp_mem_pool_mem(rig->pool), rig->job.arena.head) ==
               DDP_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        rig->watch.ranks[r].state = HARNESS_WATCH_RUNNING;
        rig->ranks[r].pid_fd = -1;
        rig->ranks[r].pid = r == 1 ? pid : getpid();
    }
}

static void rig_close(struct rig *rig)
{
    harness_watch_fini(&rig->watch);
    harness_watch_arena_destroy(&rig->job.arena);
    ddp_mem_pool_destroy(rig->pool);
}

/* So many findings are left of a hang of rank 0, a rank that never came, and a mismatch. */
static size_t left_at(struct rig *rig, uint64_t now_ns)
{
    static const enum harness_verdict verdicts[] = {HARNESS_VERDICT_HANG_NOT_JOINED,
                                                    HARNESS_VERDICT_MISMATCH_COUNT,
                                                    HARNESS_VERDICT_LAUNCH_MISSING_RANK};

    harness_findings_init(&rig->findings, ddp_mem_pool_mem(rig->pool));
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
        struct harness_finding finding;

        harness_finding_init(&finding, rig->findings.mem, verdicts[i], HARNESS_ORACLE_MONITOR,
                             HARNESS_MODE_BUDGET);
        harness_findings_add(&rig->findings, &finding);
    }
    rig->watch.now_ns = now_ns;
    harness_exec_hold_hangs(&rig->job, &rig->findings);
    return rig->findings.count;
}

CT_TEST(exec_ending, holds_hangs_for_so_long)
{
    const pid_t pid = fork();
    struct rig rig;
    siginfo_t info;

    if (pid == 0) {
        for (;;) {
            (void)pause();
        }
    }
    rig_open(&rig, pid);
    CT_CHECK_EQ_U64(left_at(&rig, START_NS), 3);
    CT_CHECK(kill(pid, SIGKILL) == 0);
    CT_CHECK(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) == 0);
    CT_CHECK_EQ_U64(left_at(&rig, 2 * START_NS), 1);
    CT_CHECK_EQ_U64(rig.findings.items[0].verdict, HARNESS_VERDICT_MISMATCH_COUNT);
    CT_CHECK(rig.watch.ranks[1].is_ending && rig.watch.ranks[1].state == HARNESS_WATCH_RUNNING);
    CT_CHECK(!rig.watch.ranks[0].is_ending);
    /* When it is given up, it is known who it was. */
    CT_CHECK_EQ_U64(left_at(&rig, 2 * START_NS + HARNESS_ENDING_MAX_NS), 1);
    CT_CHECK(rig.watch.ranks[1].state == HARNESS_WATCH_SIGNALED && rig.watch.ranks[1].is_unended);
    CT_CHECK_EQ_I64(rig.watch.ranks[1].code, SIGKILL);
    CT_CHECK_EQ_U64(rig.watch.ranks[1].since_ns, 2 * START_NS);
    CT_CHECK_EQ_U64(left_at(&rig, 3 * START_NS + HARNESS_ENDING_MAX_NS), 3);
    CT_CHECK(waitpid(pid, NULL, 0) == pid);
    rig_close(&rig);
}
