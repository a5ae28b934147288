/* Limits of time on a machine that is too busy: what a rank had no CPU for does not count. */
#include <string.h>

#include "ddpcore/base/clock.h"
#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = DDP_NS_PER_MS };

/* Ranks 0 and 1 wait in a call that rank 2 has not come to. */
static void begin_waiting(struct fake_job *job)
{
    fake_job_begin(job, 3);
    for (uint32_t r = 0; r < 2; r++) {
        fake_wait(job, r, 0, 0, fake_post(job, r, 0, 10, 0));
    }
    fake_look(job, MS);
}

CT_TEST(starved, a_rank_that_had_no_cpu_is_not_overdue)
{
    struct fake_job job;

    begin_waiting(&job);
    job.watch.ranks[2].starved_ns = 100 * (uint64_t)MS;
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns), 0);
    CT_CHECK_EQ_U64(fake_look(&job, 98 * (uint64_t)MS), 0);
    fake_look(&job, 3 * (uint64_t)MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "2");
    fake_job_close(&job);
}

/* That those had none who wait for it is no excuse. */
CT_TEST(starved, a_rank_is_overdue_whoever_else_had_no_cpu)
{
    struct fake_job job;

    begin_waiting(&job);
    job.watch.ranks[0].starved_ns = job.watch.ranks[1].starved_ns = UINT64_C(1) << 40;
    job.watch.starved_ns = UINT64_C(1) << 40;
    fake_look(&job, job.limits.silent_ns + MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "2");
    fake_job_close(&job);
}

/* All have come to a call, and it takes as long as they have no CPU to do it. */
CT_TEST(starved, a_call_may_take_longer)
{
    struct fake_job job;

    begin_waiting(&job);
    fake_wait(&job, 2, 0, 0, fake_post(&job, 2, 0, 10, 0));
    fake_look(&job, MS);
    job.watch.starved_ns = 100 * (uint64_t)MS;
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns + 99 * (uint64_t)MS), 0);
    fake_look(&job, 2 * (uint64_t)MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, "0,1,2");
    fake_job_close(&job);
}

CT_TEST(starved, ranks_that_wait_for_nobody_may_be_still_for_longer)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    job.limits.still_ns = 100 * (uint64_t)MS;
    fake_look(&job, MS);
    job.watch.starved_ns = 50 * (uint64_t)MS;
    CT_CHECK_EQ_U64(fake_look(&job, 149 * (uint64_t)MS), 0);
    fake_look(&job, 2 * (uint64_t)MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_HOST, "0,1");
    fake_job_close(&job);
}

/* Two of four differ, and the others come late for want of a CPU: they get longer to say who is
 * right, up to five times as long. */
CT_TEST(starved, members_that_differ_are_compared_with_those_that_come_late)
{
    struct fake_job job;

    fake_job_begin(&job, 4);
    (void)fake_post(&job, 0, 0, 10, 0);
    (void)fake_post(&job, 1, 0, 11, 0);
    fake_look(&job, MS);
    job.watch.starved_ns = UINT64_C(1) << 40;
    CT_CHECK_EQ_U64(fake_look(&job, 5 * HARNESS_WATCH_DIFFER_HOLD_NS - MS), 0);
    (void)fake_post(&job, 2, 0, 10, 0);
    (void)fake_post(&job, 3, 0, 10, 0);
    fake_look(&job, MS / 2);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "1");
    fake_job_close(&job);

    fake_job_begin(&job, 4);
    (void)fake_post(&job, 0, 0, 10, 0);
    (void)fake_post(&job, 1, 0, 11, 0);
    fake_look(&job, MS);
    job.watch.starved_ns = UINT64_C(1) << 40;
    CT_CHECK(fake_look(&job, 5 * HARNESS_WATCH_DIFFER_HOLD_NS) > 0);
    fake_job_close(&job);
}
