/* The monitor's rules, each with the first, a middle and the last rank as the culprit. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/monitor/monitor_cut.h"

enum { RANKS = CUT_RANKS };

/* A killed rank is named with signal, step, phase, operation and parameters; the others wait. */
CT_TEST(monitor, names_a_killed_rank)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_init)
    {
        const struct harness_finding *finding;

        cut_process(&job, rank, HARNESS_PROCESS_SIGNALED, 9, 3);
        finding = cut_only(&job, HARNESS_VERDICT_CRASH_SIGNALED);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        CT_CHECK_EQ_U64(harness_rank_set_count(&finding->victims), RANKS - 1);
        CT_CHECK(!harness_rank_set_has(&finding->victims, rank));
        CT_CHECK_EQ_U64(finding->mode, HARNESS_MODE_PROVABLE);
        CT_CHECK_EQ_I64(finding->step, 1);
        CT_CHECK_EQ_I64(finding->phase, DDP_PHASE_BACKWARD);
        CT_CHECK_EQ_U64(finding->op.seq, cut_seq(1, 1));
        CT_CHECK_EQ_I64(finding->op.bucket, 1);
        CT_CHECK_EQ_U64(finding->params.count, 2);
        CT_CHECK_EQ_U64(harness_list_at(&finding->params, 0), 1);
        CT_CHECK_EQ_U64(harness_list_at(&finding->params, 1), 0);
        CT_CHECK_EQ_I64(finding->detect_ns, 3 * (int64_t)CUT_MS);
        CT_CHECK(strstr(finding->text, "SIGKILL") != NULL);
        CT_CHECK(strstr(finding->text, "bucket 1: fc0.bias, fc0.weight") != NULL);
    }
}

/* A rank that exits with an error code it did not report has crashed, but not by a signal. */
CT_TEST(monitor, names_a_rank_that_exited)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_init)
    {
        const struct harness_finding *finding;

        cut_process(&job, rank, HARNESS_PROCESS_EXITED, 7, 3);
        finding = cut_only(&job, HARNESS_VERDICT_CRASH_EXITED);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        CT_CHECK(strstr(finding->text, "code 7") != NULL);
    }
}

/* exit(0) in the middle of the work is finished early, not a crash by signal. */
CT_TEST(monitor, names_a_rank_that_finished_early)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_init)
    {
        const struct harness_finding *finding;

        cut_process(&job, rank, HARNESS_PROCESS_EXITED, 0, 3);
        finding = cut_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
    }
}

/* A rank that reported success while others wait for a collective it never posted finished early,
 * whether or not its process is gone. */
CT_TEST(monitor, names_a_rank_that_reported_its_end_too_soon)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_init)
    {
        const struct harness_finding *finding;

        cut_post(&job, rank, cut_seq(1, 0));
        cut_end(&job, rank, DDP_OK);
        finding = cut_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        cut_process(&job, rank, HARNESS_PROCESS_EXITED, 0, 0);
        CT_CHECK(cut_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY) != NULL);
    }
}

/* A rank that ends before it showed anything is a crash in phase spawn, without step. */
CT_TEST(monitor, names_a_rank_killed_before_its_first_word)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_init)
    {
        const struct harness_finding *finding;

        for (uint32_t r = 0; r < RANKS; r++) {
            cut_post(&job, r, 0);
            cut_host(&job, r, DDP_PHASE_RENDEZVOUS, 1);
            job.pages[r].step = 0;
            job.pages[r].wait_kind = DDP_WAIT_STORE;
        }
        job.is_page_valid[rank] = false;
        memset(&job.pages[rank], 0, sizeof(job.pages[rank]));
        cut_process(&job, rank, HARNESS_PROCESS_SIGNALED, 11, 3);
        finding = cut_only(&job, HARNESS_VERDICT_CRASH_SIGNALED);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        CT_CHECK_EQ_I64(finding->phase, DDP_PHASE_SPAWN);
        CT_CHECK_EQ_I64(finding->step, -1);
        CT_CHECK(!finding->op.is_set);
    }
}

/* Two dead ranks are both named; the finding speaks of the first of them in time. */
CT_TEST(monitor, names_all_dead_ranks)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_init(&job, RANKS);
    cut_process(&job, 1, HARNESS_PROCESS_SIGNALED, 9, 3);
    cut_process(&job, 3, HARNESS_PROCESS_SIGNALED, 6, 8);
    finding = cut_only(&job, HARNESS_VERDICT_CRASH_SIGNALED);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 2);
    CT_CHECK(harness_rank_set_has(&finding->culprits, 1));
    CT_CHECK(harness_rank_set_has(&finding->culprits, 3));
    CT_CHECK(strstr(finding->text, "SIGABRT") != NULL);
    cut_fini(&job);
}

/* Another element count than the program's is a mismatch of that rank, without any majority. */
CT_TEST(monitor, names_a_rank_that_posted_another_count)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_init)
    {
        const struct harness_finding *finding;

        job.pages[rank].posted_count = 55;
        finding = cut_only(&job, HARNESS_VERDICT_MISMATCH_COUNT);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        CT_CHECK_EQ_U64(finding->op.elem_count, 101);
        CT_CHECK_EQ_I64(finding->op.bucket, 1);
        CT_CHECK(strstr(finding->text, "of 55 f32, sum") != NULL);
        CT_CHECK(strstr(finding->text, "program has all_reduce seq 6") != NULL);
    }
}

/* A rank that left a collective out is found by the next one that it posts; the finding is about
 * the operation left out. */
CT_TEST(monitor, names_a_rank_that_left_out_a_collective)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_init)
    {
        const struct harness_finding *finding;

        for (uint32_t r = 0; r < RANKS; r++) {
            cut_post(&job, r, cut_seq(1, 0));
            cut_wait(&job, r, cut_seq(1, 0), -1);
        }
        cut_post(&job, rank, cut_seq(1, 1));
        job.pages[rank].seq_posted = cut_seq(1, 0);
        finding = cut_only(&job, HARNESS_VERDICT_MISMATCH_MISSING);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        CT_CHECK_EQ_I64(finding->op.bucket, 0);
    }
}

/* A collective past the program's end is one too many. */
CT_TEST(monitor, names_a_rank_that_posted_past_the_end)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_init(&job, RANKS);
    cut_post(&job, 2, CUT_OPS + 1);
    finding = cut_only(&job, HARNESS_VERDICT_MISMATCH_EXTRA);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 2);
    CT_CHECK_EQ_U64(finding->op.seq, CUT_OPS + 1);
    cut_fini(&job);
}

/* If every rank deviates alike there is one finding, and all are its culprits. */
CT_TEST(monitor, blames_all_ranks_that_deviate_alike)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_init(&job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        job.pages[r].posted_count = 55;
    }
    finding = cut_only(&job, HARNESS_VERDICT_MISMATCH_COUNT);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), RANKS);
    cut_fini(&job);
}

/* A stopped rank that another waits for is named, long before any budget. */
CT_TEST(monitor, names_a_stopped_rank)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_init)
    {
        const struct harness_finding *finding;

        cut_process(&job, rank, HARNESS_PROCESS_STOPPED, 19, 90);
        finding = cut_only(&job, HARNESS_VERDICT_HANG_STOPPED);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        CT_CHECK_EQ_U64(finding->mode, HARNESS_MODE_PROVABLE);
        CT_CHECK_EQ_U64(finding->op.seq, cut_seq(1, 1));
        CT_CHECK_EQ_U64(harness_rank_set_count(&finding->victims), RANKS - 1);
    }
}

/* A stopped rank that all others have given up on is named too. */
CT_TEST(monitor, names_a_stopped_rank_that_is_left_alone)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_init(&job, RANKS);
    for (uint32_t r = 1; r < RANKS; r++) {
        cut_end(&job, r, DDP_E_TIMEOUT);
        cut_process(&job, r, HARNESS_PROCESS_EXITED, 1, 1);
    }
    cut_process(&job, 0, HARNESS_PROCESS_STOPPED, 19, 90);
    finding = cut_only(&job, HARNESS_VERDICT_HANG_STOPPED);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 0);
    cut_fini(&job);
}

struct budget_case {
    enum ddp_phase phase;
    enum harness_verdict verdict;
};

/* Silence in host code beyond the phase's budget is a hang whose name follows from the phase. */
CT_TEST(monitor, names_a_rank_silent_beyond_its_budget)
{
    static const struct budget_case cases[] = {
        {DDP_PHASE_DATA, HARNESS_VERDICT_HANG_DATA},
        {DDP_PHASE_FORWARD, HARNESS_VERDICT_HANG_NOT_JOINED},
        {DDP_PHASE_BACKWARD, HARNESS_VERDICT_HANG_NOT_JOINED},
        {DDP_PHASE_CHECKPOINT, HARNESS_VERDICT_HANG_NOT_JOINED},
        {DDP_PHASE_INIT, HARNESS_VERDICT_HANG_INIT},
        {DDP_PHASE_TEARDOWN, HARNESS_VERDICT_HANG_TEARDOWN}};
    struct cut_job job;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CUT_FOR_EACH_CULPRIT(job, rank, cut_init)
        {
            uint64_t budget_ms = ddp_phase_budget_ms(cases[i].phase);
            const struct harness_finding *finding;

            cut_post(&job, rank, cut_seq(1, 0));
            cut_host(&job, rank, cases[i].phase, budget_ms + 1);
            finding = cut_only(&job, cases[i].verdict);
            CT_REQUIRE(finding != NULL);
            cut_check_culprit(finding, rank);
            CT_CHECK_EQ_U64(finding->mode, HARNESS_MODE_BUDGET);
            CT_CHECK_EQ_U64(finding->op.seq, cut_seq(1, 1));
            cut_host(&job, rank, cases[i].phase, budget_ms);
            cut_check_silent(&job, ddp_phase_name(cases[i].phase));
        }
    }
}

/* A silent rank for whose collective no rank waits is stuck in host code. */
CT_TEST(monitor, tells_stuck_in_host_code_from_not_joined)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_init(&job, RANKS);
    cut_host(&job, 2, DDP_PHASE_BACKWARD, 2001);
    finding = cut_only(&job, HARNESS_VERDICT_HANG_HOST);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 2);
    cut_fini(&job);
}

/* A wait that has called a plug-in goes on as one while the plug-in comes back; one that does not
 * is stuck in host code, and the plug-in is named. */
CT_TEST(monitor, plugin_that_does_not_return)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_init(&job, RANKS);
    job.plan.job.collective.plugin = "./mine.so";
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_still(&job, r, CUT_LATE_MS);
        cut_wait(&job, r, cut_seq(1, 1), r == 2 ? -1 : 2);
    }
    job.pages[2].call_seq = cut_seq(1, 1);
    job.pages[2].plugin_ns = CUT_NOW_NS - CUT_LATE_MS * CUT_MS;
    finding = cut_only(&job, HARNESS_VERDICT_HANG_HOST);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 2);
    CT_CHECK(strstr(finding->text, "in the code of ./mine.so") != NULL);
    job.pages[2].plugin_ns = CUT_NOW_NS - CUT_MS;
    finding = cut_only(&job, HARNESS_VERDICT_HANG_TEARDOWN);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), RANKS);
    cut_process(&job, 2, HARNESS_PROCESS_SIGNALED, 11, 1);
    finding = cut_only(&job, HARNESS_VERDICT_CRASH_SIGNALED);
    CT_REQUIRE(finding != NULL);
    CT_CHECK(strstr(finding->text, "in the code of ./mine.so") != NULL);
    cut_fini(&job);
}

/* Nor in the next collective, if its plug-in runs while the host looks whether one is over. */
CT_TEST(monitor, plugin_that_runs_between_calls)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_init(&job, RANKS);
    job.plan.job.collective.plugin = "./mine.so";
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_post(&job, r, cut_seq(1, 0));
        cut_host(&job, r, DDP_PHASE_BACKWARD, CUT_LATE_MS);
        if (r != 2) {
            cut_wait(&job, r, cut_seq(1, 1), 2);
        }
    }
    job.pages[2].call_seq = cut_seq(1, 0);
    job.pages[2].plugin_ns = CUT_NOW_NS - CUT_LATE_MS * CUT_MS;
    finding = cut_only(&job, HARNESS_VERDICT_HANG_HOST);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 2);
    CT_CHECK_EQ_U64(finding->op.seq, cut_seq(1, 0));
    cut_fini(&job);
}

/* Others that are slow on their way to a wait: which of the two it is shows once they wait, or are
 * silent themselves. */
CT_TEST(monitor, waits_for_slow_ranks_before_it_says_not_joined)
{
    struct cut_job job;
    const struct harness_finding *finding;

    for (uint32_t rank = 0; rank < RANKS; rank++) {
        cut_init(&job, RANKS);
        for (uint32_t r = 0; r < RANKS; r++) {
            cut_post(&job, r, cut_seq(1, 0));
            cut_host(&job, r, DDP_PHASE_BACKWARD, r == rank ? CUT_LATE_MS : CUT_LATE_MS - 1);
        }
        cut_check_silent(&job, "the others may come to wait for it");
        cut_post(&job, (rank + 1) % RANKS, cut_seq(1, 1));
        cut_wait(&job, (rank + 1) % RANKS, cut_seq(1, 1), -1);
        finding = cut_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        for (uint32_t r = 0; r < RANKS; r++) {
            cut_post(&job, r, cut_seq(1, 0));
            cut_host(&job, r, DDP_PHASE_BACKWARD, CUT_LATE_MS);
        }
        finding = cut_only(&job, HARNESS_VERDICT_HANG_HOST);
        CT_REQUIRE(finding != NULL);
        CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), RANKS);
        cut_fini(&job);
    }
}

/* A process that runs and never shows anything did not join. */
CT_TEST(monitor, names_a_rank_that_never_spoke)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_init(&job, RANKS);
    job.is_page_valid[1] = false;
    memset(&job.pages[1], 0, sizeof(job.pages[1]));
    cut_process(&job, 1, HARNESS_PROCESS_RUNNING, 0, 5001);
    finding = cut_only(&job, HARNESS_VERDICT_HANG_INIT);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 1);
    CT_CHECK_EQ_I64(finding->phase, DDP_PHASE_SPAWN);
    cut_fini(&job);
}

/* A circle of waits through different groups is reported once it has lasted, with its members only.
 */
CT_TEST(monitor, names_a_circle_through_two_groups)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_init(&job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_host(&job, r, DDP_PHASE_BACKWARD, 1600);
        cut_wait(&job, r, cut_seq(1, 1), r == 1 ? 2 : 1);
        job.pages[r].comm = r == 2 ? 8 : 7;
    }
    finding = cut_only(&job, HARNESS_VERDICT_HANG_CYCLE);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(finding->mode, HARNESS_MODE_PROVABLE);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 2);
    CT_CHECK(harness_rank_set_has(&finding->culprits, 1));
    CT_CHECK(harness_rank_set_has(&finding->culprits, 2));
    cut_fini(&job);
}

/* All ranks inside the same collective: only silence beyond the budget shows that a message is
 * lost, and progress inside the wait is no silence. */
CT_TEST(monitor, calls_lost_messages_a_circle_by_budget)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_init(&job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_host(&job, r, DDP_PHASE_BACKWARD, 2001);
        cut_wait(&job, r, cut_seq(1, 1), (int32_t)((r + RANKS - 1) % RANKS));
    }
    finding = cut_only(&job, HARNESS_VERDICT_HANG_CYCLE);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(finding->mode, HARNESS_MODE_BUDGET);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), RANKS);
    job.cut.change_ns = CUT_NOW_NS - 5 * CUT_MS;
    cut_check_silent(&job, "messages still moved 5 ms ago");
    cut_fini(&job);
}

/* Ranks that wait for ever after the group was revoked show that the error path hangs. */
CT_TEST(monitor, names_waits_that_outlive_a_revocation)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_init(&job, 2);
    cut_end(&job, 0, DDP_E_UNUSED_PARAMETER);
    job.pages[0].heartbeat_ns = CUT_NOW_NS - 2500 * CUT_MS;
    job.pages[0].phase_enter_ns = job.pages[0].heartbeat_ns;
    cut_process(&job, 0, HARNESS_PROCESS_EXITED, 1, 2400);
    cut_host(&job, 1, DDP_PHASE_BACKWARD, 2600);
    cut_wait(&job, 1, cut_seq(1, 1), 0);
    finding = cut_only(&job, HARNESS_VERDICT_HANG_RECOVERY);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 1);
    cut_fini(&job);
}

/* Renumbering the ranks renumbers the culprit and changes nothing else. */
CT_TEST(monitor, does_not_depend_on_the_order_of_ranks)
{
    for (uint32_t shift = 0; shift < RANKS; shift++) {
        struct cut_job job;
        const struct harness_finding *finding;
        uint32_t rank = (1 + shift) % RANKS;

        cut_init(&job, RANKS);
        cut_process(&job, rank, HARNESS_PROCESS_STOPPED, 19, 90);
        /* The rank after it knows what it waits for, but not for whom. */
        job.pages[(2 + shift) % RANKS].wait_peer = 0;
        finding = cut_only(&job, HARNESS_VERDICT_HANG_STOPPED);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        cut_fini(&job);
    }
}

/* Crashes come before mismatches, mismatches before hangs. */
CT_TEST(monitor, orders_findings_by_certainty)
{
    struct cut_job job;

    cut_init(&job, RANKS);
    cut_process(&job, 3, HARNESS_PROCESS_SIGNALED, 9, 1);
    job.pages[1].posted_count = 55;
    cut_host(&job, 0, DDP_PHASE_DATA, 3000);
    cut_analyse(&job);
    CT_REQUIRE(job.findings.count == 3);
    CT_CHECK_EQ_U64(job.findings.items[0].verdict, HARNESS_VERDICT_CRASH_SIGNALED);
    CT_CHECK_EQ_U64(job.findings.items[1].verdict, HARNESS_VERDICT_MISMATCH_COUNT);
    CT_CHECK_EQ_U64(job.findings.items[2].verdict, HARNESS_VERDICT_HANG_DATA);
    cut_fini(&job);
}
