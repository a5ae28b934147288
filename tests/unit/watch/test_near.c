/* Calls of neighbours, which need these alone, and calls that nobody makes, which need nobody. */
#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000, RANKS = 4, WORLD = 0 };

static void tell_near(struct fake_job *job, uint32_t rank, uint64_t first, uint64_t second)
{
    fake_report(job, rank, GUEST_EVENT_NEAR,
                (const uint64_t[GUEST_ARG_COUNT]){WORLD + 1, first, second});
}

static uint64_t exchange(struct fake_job *job, uint32_t rank)
{
    return fake_post_op(job, rank, WORLD, guest_op_pack(DDPROVE_GUEST_NEIGHBOR_ALL_TO_ALL, 0, 0, 0),
                        0, 0);
}

/* All have made one exchange, and rank 0 waits in the second one. */
static void begin(struct fake_job *job, uint64_t first, uint64_t second)
{
    fake_job_begin(job, RANKS);
    tell_near(job, 0, first, second);
    for (uint32_t r = 0; r < RANKS; r++) {
        fake_done(job, r, WORLD, exchange(job, r));
    }
    fake_wait(job, 0, 0, WORLD, exchange(job, 0));
}

static void look(struct fake_job *job)
{
    fake_look(job, MS);
    fake_look(job, job->limits.silent_ns + MS);
}

CT_TEST(near, others_are_not_needed)
{
    struct fake_job job;

    begin(&job, guest_near_pack(1, 0), 0);
    look(&job);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "1");
    fake_job_close(&job);
}

/* Whoever is only sent to is needed where nobody else is. */
CT_TEST(near, receivers_come_last)
{
    struct fake_job job;

    begin(&job, guest_near_pack(1, 0), guest_near_pack(2, 1));
    look(&job);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "1");
    fake_job_close(&job);

    begin(&job, guest_near_pack(1, 0), guest_near_pack(2, 1));
    fake_done(&job, 1, WORLD, exchange(&job, 1));
    look(&job);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "2");
    fake_job_close(&job);
}

/* A rank may have no neighbours at all, and another one may not say who they are. */
CT_TEST(near, none_told_and_nothing_told)
{
    struct fake_job job;

    begin(&job, 0, 0);
    look(&job);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, "0"); /* it needs nobody, and does not end */
    fake_job_close(&job);

    fake_job_begin(&job, 2);
    fake_wait(&job, 0, 0, WORLD, exchange(&job, 0));
    look(&job);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "1");
    fake_job_close(&job);
}

/* Of other calls of the communicator all members are needed. */
CT_TEST(near, other_calls_need_all)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    tell_near(&job, 0, 0, 0);
    fake_wait(&job, 0, 0, WORLD, fake_post(&job, 0, WORLD, 10, 0));
    look(&job);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "1");
    fake_job_close(&job);
}

/* A rank showed a call that it never made, and says so: it is not compared, and nobody waits. */
CT_TEST(near, what_was_never_made)
{
    struct fake_job job;

    fake_job_begin(&job, 3);
    fake_post(&job, 0, WORLD, 2, 0);
    fake_report(&job, 0, GUEST_EVENT_COMM_FREE,
                (const uint64_t[GUEST_ARG_COUNT]){WORLD + 1, 1, GUEST_FREE_UNMADE});
    for (uint32_t r = 1; r < 3; r++) {
        fake_done(&job, r, WORLD, fake_post(&job, r, WORLD, 64, 0));
    }
    look(&job);
    CT_CHECK_EQ_U64(job.findings.count, 0);
    fake_job_close(&job);
}
