/* Hosts that get stuck before they have enqueued all rounds of a collective by schedule. */
#include "tests/ct.h"
#include "tests/unit/monitor/monitor_cut.h"

/* LATE: just beyond the budget of every phase that these cases use; LAST: just within. */
enum { RANKS = CUT_RANKS, LATE_MS = CUT_LATE_MS, LAST_MS = CUT_LATE_MS - 1 };

/* A collective by schedule is enqueued round by round. A host that gets stuck in its own code
 * before it has enqueued all holds up all devices: it is named, whoever has been silent for longer.
 */
CT_TEST(monitor_device_rounds, blames_a_host_that_owes_rounds)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        const struct harness_finding *finding;

        for (uint32_t r = 0; r < RANKS; r++) {
            cut_still(&job, r, LATE_MS + 300);
        }
        cut_host(&job, rank, DDP_PHASE_BACKWARD, LATE_MS);
        cut_comm(&job, rank, cut_seq(1, 1), CUT_COMM_OPEN);
        job.progress[rank].rounds_left = 3;
        finding = cut_only(&job, HARNESS_VERDICT_HANG_HOST);
        CT_REQUIRE(finding != NULL);
        cut_check_others_wait(finding, rank);
    }
}

/* A host that is silent behind a device in such a collective is not named for it: its device waits
 * for the host that owes rounds, also while that one is only slow. */
CT_TEST(monitor_device_rounds, excuses_a_host_behind_rounds_that_are_owed)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        const struct harness_finding *finding;

        cut_host(&job, 1, DDP_PHASE_BACKWARD, LATE_MS);
        cut_host(&job, rank, DDP_PHASE_BACKWARD, LATE_MS);
        cut_comm(&job, rank, cut_seq(1, 1), CUT_COMM_OPEN);
        job.progress[rank].rounds_left = 3;
        finding = cut_only(&job, HARNESS_VERDICT_HANG_HOST);
        CT_REQUIRE(finding != NULL);
        cut_check_culprit(finding, rank);
        cut_still(&job, rank, LAST_MS);
        cut_check_silent(&job, "its host may still come by");
        /* Of two that owe rounds both are named. */
        cut_still(&job, rank, LATE_MS);
        cut_comm(&job, 1, cut_seq(1, 1), CUT_COMM_OPEN);
        job.progress[1].rounds_left = 1;
        finding = cut_only(&job, HARNESS_VERDICT_HANG_HOST);
        CT_REQUIRE(finding != NULL);
        CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 2);
    }
}

/* The same host also owes the next collective, which the others have posted. */
CT_TEST(monitor_device_rounds, tells_not_joined_from_rounds_that_are_owed)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        const struct harness_finding *finding;

        for (uint32_t r = 0; r < RANKS; r++) {
            job.pages[r].seq_done = cut_seq(0, 1);
            cut_wait(&job, r, cut_seq(1, 0), -1);
            cut_comm(&job, r, cut_seq(1, 0), CUT_COMM_INSIDE);
        }
        cut_post(&job, rank, cut_seq(1, 0));
        cut_host(&job, rank, DDP_PHASE_BACKWARD, LATE_MS);
        cut_comm(&job, rank, cut_seq(1, 0), CUT_COMM_OPEN);
        job.progress[rank].rounds_left = 1;
        finding = cut_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED);
        CT_REQUIRE(finding != NULL);
        cut_check_others_wait(finding, rank);
        CT_CHECK_EQ_U64(finding->op.seq, cut_seq(1, 1));
    }
}

/* Rounds that are left are no excuse for a device while the host looks after them; nor are those of
 * a collective whose end is marked. */
CT_TEST(monitor_device_rounds, blames_all_if_the_host_comes_by)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        const struct harness_finding *finding;

        job.progress[rank].rounds_left = 3;
        for (int is_open = 0; is_open < 2; is_open++) {
            cut_comm(&job, rank, cut_seq(1, 1), is_open ? CUT_COMM_OPEN : CUT_COMM_INSIDE);
            finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMM);
            CT_REQUIRE(finding != NULL);
            CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), RANKS);
        }
        cut_host(&job, rank, DDP_PHASE_BACKWARD, LATE_MS);
        cut_comm(&job, rank, cut_seq(1, 1), CUT_COMM_INSIDE);
        CT_CHECK(cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMM) != NULL);
    }
}
