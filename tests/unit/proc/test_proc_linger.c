/* Until when ranks may end by themselves after something was concluded. */
#include <sched.h>
#include <stdlib.h>

#include "harness/proc/job.h"
#include "tests/ct.h"
#include "tests/unit/proc/proc_load.h"
#include "tests/unit/proc/proc_tree.h"

enum { RANKS = 2, HEAD_BYTES = 65536, PAGE_BYTES = 4096, BUDGET_MS = 1000 };
#define HANG_LINGER_NS    (300 * DDP_NS_PER_MS)
#define DEFAULT_LINGER_NS (2 * DDP_NS_PER_S)

/* A job whose rank 1 has ended; rank 0 is a process that the test has started. */
struct rig {
    struct harness_plan plan;
    struct harness_launch_config config;
    struct harness_proc_job job;
    struct harness_proc_rank ranks[RANKS];
};

static void open_rig(struct rig *rig, pid_t pid, enum harness_semantics semantics)
{
    *rig = (struct rig){.config = {.plan = &rig->plan},
                        .ranks = {{.pid = pid}, {.pid = 1}},
                        .job = {.config = &rig->config,
                                .world_size = RANKS,
                                .ranks = rig->ranks,
                                .head = calloc(1, HEAD_BYTES),
                                .linger_end_ns = DDP_DEADLINE_NEVER}};
    CT_CHECK(rig->job.head != NULL);
    rig->job.head->recorder_offset_bytes = HEAD_BYTES - RANKS * PAGE_BYTES;
    rig->job.head->recorder_stride_bytes = PAGE_BYTES;
    rig->ranks[0].process.state = HARNESS_PROCESS_RUNNING;
    rig->ranks[1].process.state = HARNESS_PROCESS_EXITED;
    rig->plan.job.ranks = RANKS;
    rig->plan.job.semantics = semantics;
    for (unsigned phase = 0; phase < DDP_PHASE_COUNT; phase++) {
        rig->plan.job.phase_budget_ms[phase] = BUDGET_MS;
    }
    harness_conclusions_init(&rig->job.conclusions, ddp_mem_system());
}

static void close_rig(struct rig *rig)
{
    harness_conclusions_fini(&rig->job.conclusions);
    free(rig->job.head);
    proc_load_end(rig->ranks[0].pid);
}

static void conclude(struct rig *rig, enum harness_verdict verdict)
{
    struct harness_finding finding;

    harness_finding_init(&finding, ddp_mem_system(), verdict, HARNESS_ORACLE_MONITOR,
                         HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding.culprits, 1);
    CT_CHECK(harness_conclusions_report(&rig->job.conclusions, &finding, 1));
    harness_finding_free(&finding);
}

static uint64_t update(struct rig *rig, uint64_t now_ns)
{
    harness_proc_linger_update(&rig->job, now_ns);
    return rig->job.linger_end_ns;
}

static void record(struct rig *rig)
{
    struct ddp_page *page = harness_proc_recorder(rig->job.head, 0);

    page->event_count++;
}

/* Nothing ends a job about which nothing was concluded. Who sleeps has his time, and no more; after
 * a mismatch that nobody refuses it begins again with everything that is recorded. */
CT_TEST(proc_linger, begins_with_a_conclusion)
{
    struct rig rig;
    const uint64_t from_ns = ddp_clock_now_ns(ddp_clock_monotonic());
    uint64_t end_ns;

    open_rig(&rig, proc_load_start(false, -1), HARNESS_SEMANTICS_PYTORCH);
    CT_CHECK_EQ_U64(update(&rig, from_ns), DDP_DEADLINE_NEVER);
    conclude(&rig, HARNESS_VERDICT_MISMATCH_COUNT);
    CT_CHECK_EQ_U64(update(&rig, from_ns), from_ns + HANG_LINGER_NS);
    proc_load_await_sleep(rig.ranks[0].pid);
    /* What was before the first reading is not known: it is given, and stays the same. */
    end_ns = update(&rig, from_ns + HARNESS_LAG_START_NS);
    CT_CHECK_EQ_U64(end_ns, from_ns + HANG_LINGER_NS + HARNESS_LAG_START_NS);
    CT_CHECK_EQ_U64(update(&rig, end_ns), end_ns);
    record(&rig);
    CT_CHECK_EQ_U64(update(&rig, end_ns), end_ns + HANG_LINGER_NS > rig.job.linger_limit_ns
                                              ? rig.job.linger_limit_ns
                                              : end_ns + HANG_LINGER_NS);
    close_rig(&rig);
}

/* Others have two seconds, whatever is recorded: who refuses a mismatch, or has lost a rank. */
CT_TEST(proc_linger, of_ranks_that_refuse)
{
    static const enum harness_verdict verdicts[] = {HARNESS_VERDICT_MISMATCH_COUNT,
                                                    HARNESS_VERDICT_CRASH_SIGNALED};

    for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
        struct rig rig;

        open_rig(&rig, proc_load_start(false, -1), HARNESS_SEMANTICS_STRICT);
        conclude(&rig, verdicts[i]);
        CT_CHECK_EQ_U64(update(&rig, DDP_NS_PER_S), DDP_NS_PER_S + DEFAULT_LINGER_NS);
        close_rig(&rig);
    }
}

/* A rank that is ready to run and has no CPU is given that time, but not for ever; a linger that
 * was asked for is what was asked for. */
CT_TEST(proc_linger, does_not_end_while_a_rank_has_no_cpu)
{
    static const uint64_t asked_ns[] = {0, 50 * DDP_NS_PER_MS};
    pid_t rival = proc_load_start(true, SCHED_OTHER);

    for (size_t i = 0; i < sizeof(asked_ns) / sizeof(asked_ns[0]); i++) {
        struct rig rig;
        const uint64_t from_ns = ddp_clock_now_ns(ddp_clock_monotonic());
        const uint64_t limit_ns = from_ns + HANG_LINGER_NS + BUDGET_MS * DDP_NS_PER_MS;
        uint64_t now_ns = from_ns;

        open_rig(&rig, proc_load_start(true, SCHED_IDLE), HARNESS_SEMANTICS_PYTORCH);
        rig.config.linger_ns = asked_ns[i];
        conclude(&rig, HARNESS_VERDICT_MISMATCH_COUNT);
        while (now_ns < limit_ns) {
            const uint64_t end_ns = update(&rig, now_ns);

            CT_CHECK(asked_ns[i] == 0 ? end_ns > now_ns : end_ns == from_ns + asked_ns[i]);
            proc_tree_nap(5);
            now_ns = ddp_clock_now_ns(ddp_clock_monotonic());
        }
        CT_CHECK_EQ_U64(update(&rig, now_ns), asked_ns[i] == 0 ? limit_ns : from_ns + asked_ns[i]);
        close_rig(&rig);
    }
    proc_load_end(rival);
}
