/* Progress words beside a hang that are no finding about the device: other causes, slow work, ends
 * of jobs. */
#include "tests/ct.h"
#include "tests/unit/monitor/monitor_cut.h"

/* LATE: just beyond the budget of every phase that these cases use; LAST: just within. */
enum { RANKS = CUT_RANKS, LATE_MS = CUT_LATE_MS, LAST_MS = CUT_LATE_MS - 1 };

/* The findings are the same with these words and without them. */
static void check_words_add_nothing(struct cut_job *job, enum harness_verdict verdict)
{
    struct harness_findings without;

    job->cut.progress = NULL;
    cut_analyse(job);
    without = job->findings;
    job->cut.progress = job->progress;
    cut_analyse(job);
    CT_REQUIRE(without.count > 0 && job->findings.count == without.count);
    CT_CHECK_STR(harness_verdict_name(without.items[0].verdict), harness_verdict_name(verdict));
    for (size_t i = 0; i < without.count; i++) {
        CT_CHECK_STR(job->findings.items[i].text, without.items[i].text);
    }
}

/* Deaths, stops and mismatches stay what they are; devices that wait for them add nothing. */
CT_TEST(monitor_device_healthy, leaves_other_causes_alone)
{
    struct cut_job job;

    CUT_FOR_EACH_CULPRIT(job, rank, cut_open_device)
    {
        /* Others' compute may wait behind their collectives, its own is as it left it. */
        cut_compute(&job, 1, DDP_MARK_BACKWARD, 0, 1);
        cut_compute(&job, rank, DDP_MARK_FORWARD, 0, 1);
        cut_comm(&job, rank, cut_seq(1, 1), CUT_COMM_BEFORE);
        cut_process(&job, rank, HARNESS_PROCESS_SIGNALED, 9, LATE_MS);
        check_words_add_nothing(&job, HARNESS_VERDICT_CRASH_SIGNALED);
        cut_process(&job, rank, HARNESS_PROCESS_STOPPED, 19, LATE_MS);
        check_words_add_nothing(&job, HARNESS_VERDICT_HANG_STOPPED);
        cut_process(&job, rank, HARNESS_PROCESS_RUNNING, 0, LATE_MS);
        cut_compute(&job, rank, DDP_MARK_IDLE, 0, 0);
        job.pages[rank].revoke_rank = rank + 1;
        check_words_add_nothing(&job, HARNESS_VERDICT_HANG_RECOVERY);
        job.pages[rank].revoke_rank = 0;
        job.pages[rank].posted_count = 55;
        check_words_add_nothing(&job, HARNESS_VERDICT_MISMATCH_COUNT);
    }
}

/* A kernel that nothing else holds up is reported beside an unrelated crash. */
CT_TEST(monitor_device_healthy, tells_a_stuck_kernel_beside_a_death)
{
    struct cut_job job;

    cut_open_device(&job, RANKS);
    cut_process(&job, 1, HARNESS_PROCESS_SIGNALED, 9, LATE_MS);
    cut_compute(&job, 2, DDP_MARK_FORWARD, 0, 1);
    cut_comm(&job, 2, cut_seq(1, 1), CUT_COMM_BEFORE);
    cut_analyse(&job);
    CT_REQUIRE(job.findings.count == 2);
    CT_CHECK_EQ_U64(job.findings.items[0].verdict, HARNESS_VERDICT_CRASH_SIGNALED);
    CT_CHECK_EQ_U64(job.findings.items[1].verdict, HARNESS_VERDICT_HANG_DEVICE_COMPUTE);
    cut_check_culprit(&job.findings.items[1], 2);
    cut_fini(&job);
}

/* A host that waits for its stuck kernel is no second finding, also when the others gave up first.
 */
CT_TEST(monitor_device_healthy, a_stuck_kernel_explains_its_host)
{
    struct cut_job job;

    cut_open_device(&job, RANKS);
    cut_process(&job, 1, HARNESS_PROCESS_SIGNALED, 9, LATE_MS);
    cut_post(&job, 2, cut_seq(1, 0));
    cut_comm(&job, 2, cut_seq(1, 0), CUT_COMM_ENDED);
    cut_host(&job, 2, DDP_PHASE_LOSS, LATE_MS);
    cut_compute(&job, 2, DDP_MARK_FORWARD, 2, 1);
    cut_analyse(&job);
    CT_REQUIRE(job.findings.count == 2);
    CT_CHECK_EQ_U64(job.findings.items[1].verdict, HARNESS_VERDICT_HANG_DEVICE_COMPUTE);
    cut_check_culprit(&job.findings.items[1], 2);
    cut_fini(&job);
}

/* A host that stays in a call while the job ends is reported as without words, unless its device
 * waits for the rank that has ended: that holds the host up, and is reported as that. */
CT_TEST(monitor_device_healthy, does_not_excuse_a_host_that_does_not_end)
{
    const struct harness_finding *finding;
    struct cut_job job;

    cut_open_device(&job, RANKS);
    cut_process(&job, 1, HARNESS_PROCESS_SIGNALED, 9, LATE_MS);
    cut_host(&job, 2, DDP_PHASE_BACKWARD, LATE_MS);
    cut_analyse(&job);
    CT_REQUIRE(job.findings.count == 2);
    finding = &job.findings.items[1];
    CT_CHECK(finding->verdict == HARNESS_VERDICT_HANG_DEVICE_COMM);
    cut_check_culprit(finding, 2);
    CT_CHECK(finding->op.is_set && finding->op.seq == cut_seq(1, 1));
    CT_CHECK_STR(finding->text,
                 "a collective started and does not end on rank 2 in step 1, backward, its "
                 "host silent behind it for 2001 ms; rank 1 ended without it: all_reduce seq 6 "
                 "(bucket 1: fc0.bias, fc0.weight)");
    cut_comm(&job, 2, cut_seq(1, 1), CUT_COMM_BEFORE);
    check_words_add_nothing(&job, HARNESS_VERDICT_CRASH_SIGNALED);
    cut_comm(&job, 2, cut_seq(1, 1), CUT_COMM_ENDED);
    check_words_add_nothing(&job, HARNESS_VERDICT_CRASH_SIGNALED);
    cut_comm(&job, 2, cut_seq(1, 1), CUT_COMM_INSIDE);
    cut_process(&job, 1, HARNESS_PROCESS_RUNNING, 0, LATE_MS);
    job.pages[1].revoke_rank = 2;
    check_words_add_nothing(&job, HARNESS_VERDICT_HANG_HOST);
    cut_fini(&job);
}

/* Within the budget, in an unstable cut, or while a word moved not long ago, there is no finding.
 */
CT_TEST(monitor_device_healthy, keeps_silent_about_a_slow_kernel)
{
    struct cut_job job;

    cut_open_device(&job, RANKS);
    cut_compute(&job, 2, DDP_MARK_FORWARD, 1, 3);
    cut_comm(&job, 2, cut_seq(1, 1), CUT_COMM_BEFORE);
    cut_still(&job, 2, LAST_MS);
    cut_check_silent(&job, "a kernel within its budget");
    cut_still(&job, 2, LATE_MS);
    job.progress_ns[2] = CUT_NOW_NS - 5 * CUT_MS;
    cut_check_silent(&job, "a word moved 5 ms ago");
    job.progress_ns[2] = 0;
    job.cut.is_stable = false;
    cut_check_silent(&job, "words move right now");
    job.cut.is_stable = true;
    CT_CHECK(cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMPUTE) != NULL);
    cut_fini(&job);
}

/* The same for a collective: one rank that is not still, or not there yet, clears all. */
CT_TEST(monitor_device_healthy, keeps_silent_about_a_slow_collective)
{
    struct cut_job job;

    for (uint32_t r = 0; r < RANKS; r++) {
        cut_open_device(&job, RANKS);
        cut_still(&job, r, LAST_MS);
        cut_check_silent(&job, "one rank was alive within the budget");
        cut_comm(&job, r, cut_seq(1, 1), CUT_COMM_BEFORE);
        cut_check_silent(&job, "one rank is about to start it");
        cut_compute(&job, r, DDP_MARK_BACKWARD, 0, 1);
        cut_check_silent(&job, "one rank still computes");
        cut_fini(&job);
    }
}

/* Sequence numbers of two groups are not compared. */
CT_TEST(monitor_device_healthy, does_not_mix_groups)
{
    struct cut_job job;

    cut_open_device(&job, RANKS);
    job.pages[3].comm = 8;
    cut_analyse(&job);
    for (size_t i = 0; i < job.findings.count; i++) {
        CT_CHECK(job.findings.items[i].verdict != HARNESS_VERDICT_HANG_DEVICE_COMM);
    }
    cut_fini(&job);
}

/* A circle of waits is provable only while no device works; then it is found by budget. */
CT_TEST(monitor_device_healthy, proves_no_circle_while_a_device_works)
{
    struct cut_job job;
    const struct harness_finding *finding;

    for (int working = 0; working < 4; working++) {
        cut_init(&job, RANKS);
        cut_map(&job);
        for (uint32_t r = 0; r < RANKS; r++) {
            cut_still(&job, r, 1600);
            cut_wait(&job, r, cut_seq(1, 1), r == 1 ? 2 : 1);
            job.pages[r].comm = r == 2 ? 8 : 7;
            cut_comm(&job, r, cut_seq(1, 0), CUT_COMM_ENDED);
        }
        if (working == 0) {
            finding = cut_only(&job, HARNESS_VERDICT_HANG_CYCLE);
            CT_REQUIRE(finding != NULL);
            CT_CHECK_EQ_U64(finding->mode, HARNESS_MODE_PROVABLE);
        } else if (working == 1) {
            cut_compute(&job, 3, DDP_MARK_BACKWARD, 0, 1);
        } else if (working == 2) {
            cut_compute(&job, 3, DDP_MARK_BACKWARD, 0, 0);
        } else {
            cut_comm(&job, 3, cut_seq(1, 1), CUT_COMM_INSIDE);
        }
        if (working != 0) {
            cut_check_silent(&job, "a device works");
        }
        cut_fini(&job);
    }
}

/* One rank alone: its collectives and kernels end by themselves, or it is to blame. */
CT_TEST(monitor_device_healthy, a_world_of_one)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_open_device(&job, 1);
    finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMM);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 0);
    cut_comm(&job, 0, cut_seq(1, 1), CUT_COMM_BEFORE);
    CT_CHECK(cut_only(&job, HARNESS_VERDICT_HANG_NOT_LAUNCHED) != NULL);
    cut_compute(&job, 0, DDP_MARK_FORWARD, 0, 1);
    CT_CHECK(cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMPUTE) != NULL);
    cut_fini(&job);
}

/* Ranks end one after the other. Words of ranks that have ended prove nothing, nor do those of a
 * rank that waits at the store. */
CT_TEST(monitor_device_healthy, keeps_silent_at_the_end_of_a_job)
{
    struct cut_job job;

    cut_init(&job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_post(&job, r, CUT_OPS);
        cut_host(&job, r, DDP_PHASE_TEARDOWN, 1);
        job.pages[r].seq_done = CUT_OPS;
    }
    cut_map(&job);
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_compute(&job, r, DDP_MARK_OPTIMIZER, 0, 1);
        cut_comm(&job, r, CUT_OPS, CUT_COMM_INSIDE);
        cut_end(&job, r, DDP_OK);
        cut_still(&job, r, LATE_MS);
        cut_check_silent(&job, "one reported its end");
        cut_process(&job, r, HARNESS_PROCESS_EXITED, 0, LATE_MS);
        cut_check_silent(&job, "its process is gone");
    }
    cut_fini(&job);
    cut_open_device(&job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        cut_host(&job, r, DDP_PHASE_RENDEZVOUS, r == 1 ? 2 * 5000 : 10);
    }
    cut_compute(&job, 1, DDP_MARK_FORWARD, 0, 1);
    job.pages[1].wait_kind = DDP_WAIT_STORE;
    job.progress_ns[1] = 0;
    cut_check_silent(&job, "one waits at the store");
    cut_fini(&job);
    cut_open_device(&job, 1);
    cut_end(&job, 0, DDP_OK);
    cut_still(&job, 0, 2 * 5000);
    check_words_add_nothing(&job, HARNESS_VERDICT_HANG_TEARDOWN);
    cut_fini(&job);
}

/* A collective whose end the host has seen has ended, whatever the next mark shows. */
CT_TEST(monitor_device_healthy, believes_the_host)
{
    struct cut_job job;

    cut_open_device(&job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        job.pages[r].seq_done = cut_seq(1, 1);
        cut_host(&job, r, DDP_PHASE_CHECKPOINT, LATE_MS);
    }
    cut_check_silent(&job, "all write a checkpoint");
    cut_fini(&job);
}

/* A host that is silent behind its own device is not accused of what another rank was found for;
 * with nothing else found it is. */
CT_TEST(monitor_device_healthy, excuses_a_host_behind_its_device)
{
    struct cut_job job;
    const struct harness_finding *finding;

    cut_open_device(&job, RANKS);
    cut_host(&job, 0, DDP_PHASE_BACKWARD, LATE_MS);
    cut_compute(&job, 2, DDP_MARK_FORWARD, 0, 1);
    cut_comm(&job, 2, cut_seq(1, 1), CUT_COMM_BEFORE);
    finding = cut_only(&job, HARNESS_VERDICT_HANG_DEVICE_COMPUTE);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 2);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->victims), RANKS - 1);
    cut_compute(&job, 2, DDP_MARK_IDLE, 0, 0);
    cut_still(&job, 2, 10);
    finding = cut_only(&job, HARNESS_VERDICT_HANG_HOST);
    CT_REQUIRE(finding != NULL);
    cut_check_culprit(finding, 0);
    cut_fini(&job);
}
