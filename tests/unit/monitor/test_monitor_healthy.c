/* Moments of healthy runs, and of runs that end in good order: the monitor must keep silent. */
#include <string.h>

#include "harness/monitor/graph.h"
#include "tests/ct.h"
#include "tests/unit/monitor/monitor_cut.h"

enum { RANKS = 4 };

/* All ranks wait in a ring inside the same collective: messages are under way. */
CT_TEST(monitor_healthy, waits_inside_one_collective)
{
    struct cut_job job;

    cut_init(&job, RANKS);
    cut_check_silent(&job, "ring of waits");
    cut_fini(&job);
}

/* One rank waits at a collective that the others are about to post, or has run ahead by one. */
CT_TEST(monitor_healthy, a_rank_ahead_of_the_others)
{
    struct cut_job job;

    for (uint32_t ahead = 0; ahead < RANKS; ahead++) {
        cut_init(&job, RANKS);
        for (uint32_t r = 0; r < RANKS; r++) {
            if (r != ahead) {
                cut_post(&job, r, cut_seq(1, 0));
                cut_host(&job, r, DDP_PHASE_BACKWARD, 1900);
            }
        }
        cut_check_silent(&job, "one waits, the others compute");
        cut_post(&job, ahead, cut_seq(2, 0));
        cut_wait(&job, ahead, cut_seq(2, 0), -1);
        job.pages[ahead].step = 2;
        cut_check_silent(&job, "one is in the next step");
        cut_fini(&job);
    }
}

/* Ranks end in good order one after the other, with and without a process, while the rest are
 * still inside the last barrier that these have completed. */
CT_TEST(monitor_healthy, ranks_end_one_by_one)
{
    struct cut_job job;

    cut_init(&job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_post(&job, r, CUT_OPS);
        cut_host(&job, r, DDP_PHASE_TEARDOWN, 1);
        cut_wait(&job, r, CUT_OPS, -1);
    }
    cut_check_silent(&job, "all in the last barrier");
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_end(&job, r, DDP_OK);
        cut_check_silent(&job, "one reported its end");
        cut_process(&job, r, HARNESS_PROCESS_EXITED, 0, 0);
        cut_check_silent(&job, "its process is gone");
    }
    cut_fini(&job);
}

/* Ranks are not born, or have shown nothing yet, or wait at the store for each other. */
CT_TEST(monitor_healthy, ranks_come_up)
{
    struct cut_job job;

    cut_init(&job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        memset(&job.pages[r], 0, sizeof(job.pages[r]));
        job.is_page_valid[r] = false;
        cut_process(&job, r, HARNESS_PROCESS_NOT_STARTED, 0, 0);
    }
    cut_check_silent(&job, "nobody is born");
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_process(&job, r, HARNESS_PROCESS_RUNNING, 0, 4000);
        cut_check_silent(&job, "some have shown nothing");
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        job.is_page_valid[r] = true;
        cut_host(&job, r, DDP_PHASE_RENDEZVOUS, 4000);
        job.pages[r].wait_kind = DDP_WAIT_STORE;
        cut_check_silent(&job, "some wait at the store");
    }
    cut_post(&job, 1, 1);
    cut_host(&job, 1, DDP_PHASE_INIT, 1);
    cut_wait(&job, 1, 1, 0);
    cut_check_silent(&job, "one is through, and waits for one that is not");
    cut_fini(&job);
}

/* One waits in the first collective for those that are still at the store, and these wait for none
 * that has left it: no circle of waits. */
CT_TEST(monitor_healthy, the_store_is_left_one_by_one)
{
    struct cut_job job;

    cut_init(&job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_post(&job, r, 0);
        cut_host(&job, r, DDP_PHASE_INIT, CUT_LATE_MS);
        job.pages[r].wait_kind = DDP_WAIT_STORE;
    }
    cut_post(&job, 1, 1);
    cut_wait(&job, 1, 1, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        CT_CHECK(!harness_graph_has_edge(&job.cut, r, 1));
        CT_CHECK_EQ_I64(harness_graph_has_edge(&job.cut, 1, r) ? 1 : 0, r != 1 ? 1 : 0);
    }
    cut_check_silent(&job, "no circle of waits");
    cut_fini(&job);
}

/* A checkpoint takes longer than any other phase may, but not longer than its own budget. */
CT_TEST(monitor_healthy, a_slow_checkpoint)
{
    struct cut_job job;

    cut_init(&job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_host(&job, r, DDP_PHASE_CHECKPOINT, 9000);
        if (r != 0) {
            cut_wait(&job, r, cut_seq(2, 0), 0);
        }
    }
    cut_check_silent(&job, "rank 0 writes for 9 s");
    cut_fini(&job);
}

/* What a busy machine took of a rank's time is not the rank's silence. */
CT_TEST(monitor_healthy, a_rank_without_a_cpu)
{
    uint64_t starved_ns[RANKS] = {0};
    struct cut_job job;

    cut_init(&job, RANKS);
    job.plan.job.phase_budget_ms[DDP_PHASE_FORWARD] = 400;
    cut_host(&job, 1, DDP_PHASE_FORWARD, 900);
    job.cut.starved_ns = starved_ns;
    starved_ns[1] = 500 * CUT_MS;
    cut_check_silent(&job, "silent for 900 ms, 500 of them without a CPU");
    starved_ns[1] = 499 * CUT_MS;
    CT_CHECK(cut_only(&job, HARNESS_VERDICT_HANG_HOST) != NULL);
    starved_ns[1] = 1000 * CUT_MS;
    cut_check_silent(&job, "without a CPU for longer than it is silent");
    cut_fini(&job);
}

/* A stop that is short, or that no rank waits for, is no hang; a cut that is not stable proves
 * none.
 */
CT_TEST(monitor_healthy, a_stop_that_does_not_matter)
{
    struct cut_job job;

    cut_init(&job, RANKS);
    cut_process(&job, 1, HARNESS_PROCESS_STOPPED, 19, 60);
    cut_check_silent(&job, "stopped for 60 ms");
    cut_process(&job, 1, HARNESS_PROCESS_STOPPED, 19, 5000);
    job.processes[1].is_brief = true;
    cut_check_silent(&job, "the injector is late to end a stop of 60 ms");
    cut_process(&job, 1, HARNESS_PROCESS_STOPPED, 19, 90);
    job.cut.is_stable = false;
    cut_check_silent(&job, "pages still change");
    job.cut.is_stable = true;
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r != 1) {
            cut_host(&job, r, DDP_PHASE_FORWARD, 5);
        }
    }
    cut_check_silent(&job, "nobody waits");
    cut_fini(&job);
}

/* A rank that just went on after a stop is not blamed for the time in which it could not run. */
CT_TEST(monitor_healthy, a_rank_that_was_continued)
{
    struct cut_job job;

    cut_init(&job, RANKS);
    cut_host(&job, 2, DDP_PHASE_FORWARD, 2500);
    cut_process(&job, 2, HARNESS_PROCESS_RUNNING, 0, 1);
    cut_check_silent(&job, "continued 1 ms ago");
    cut_fini(&job);
}

/* After a revocation or an error the job ends in good order: waits are no evidence, and ranks that
 * report an error and exit with 1 have not crashed. */
CT_TEST(monitor_healthy, a_group_that_ends_in_good_order)
{
    struct cut_job job;

    cut_init(&job, RANKS);
    job.pages[2].revoke_rank = 2 + 1;
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_host(&job, r, DDP_PHASE_BACKWARD, 300);
        cut_wait(&job, r, cut_seq(1, 1), r == 1 ? 2 : 1);
        job.pages[r].comm = r;
    }
    cut_check_silent(&job, "revoked");
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_end(&job, r, r == 2 ? DDP_E_UNUSED_PARAMETER : DDP_E_REVOKED);
        cut_check_silent(&job, "one reported an error");
        cut_process(&job, r, HARNESS_PROCESS_EXITED, 1, 0);
        cut_check_silent(&job, "and exited with 1");
    }
    cut_fini(&job);
}

/* A job of one rank has nothing to wait for. */
CT_TEST(monitor_healthy, a_world_of_one)
{
    struct cut_job job;

    cut_init(&job, 1);
    job.pages[0].wait_peer = 0;
    cut_check_silent(&job, "one rank");
    cut_fini(&job);
}

/* A process that waits and does not look any more whether it may go on is stuck inside the wait,
 * unless it had no CPU; if it looks, all of them wait for each other. */
CT_TEST(monitor_stuck, wait_that_does_not_look)
{
    uint64_t starved_ns[RANKS] = {0};
    struct cut_job job;
    const struct harness_finding *finding;

    cut_init(&job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_still(&job, r, 2 * CUT_LATE_MS);
        cut_wait(&job, r, cut_seq(1, 1), (int32_t)((r + 1) % RANKS));
        job.pages[r].call_seq = cut_seq(1, 1);
        job.pages[r].polls.polled_ns = CUT_NOW_NS - CUT_MS;
    }
    job.pages[1].polls.polled_ns = CUT_NOW_NS - 200 * CUT_MS;
    finding = cut_only(&job, HARNESS_VERDICT_HANG_HOST);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 1);
    starved_ns[1] = 150 * CUT_MS;
    job.cut.starved_ns = starved_ns;
    finding = cut_only(&job, HARNESS_VERDICT_HANG_CYCLE);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), RANKS);
    cut_fini(&job);
}
