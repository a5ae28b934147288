/* Ranks that wait for ranks, not in a call: for a message, or for somebody who is not known. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000 };

/* Three ranks: the last one waits in an all-reduce. */
static void begin(struct fake_job *job)
{
    fake_job_begin(job, 3);
    job->limits = (struct harness_watch_limits){2000 * MS, 2000 * MS, 0};
    fake_wait(job, 2, 0, 0, fake_post(job, 2, 0, 10, 0));
}

CT_TEST(messages, who_waits_for_one_is_not_to_blame)
{
    struct fake_job job;
    const struct harness_finding *finding;

    begin(&job);
    fake_wait(&job, 0, 0, 0, guest_wait_pack(1, -1));
    CT_CHECK_EQ_U64(fake_look(&job, 1900 * MS), 0);
    fake_look(&job, 200 * MS);
    finding = fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "1");
    CT_CHECK(strstr(finding->text, "a message with rank 1 of world; ranks 0,2 wait") != NULL);
    CT_CHECK_EQ_U64(finding->op.seq, 0);
    fake_job_close(&job);
}

CT_TEST(messages, one_of_a_stopped_rank)
{
    struct fake_job job;

    begin(&job);
    fake_wait(&job, 2, 0, 0, 0);
    fake_wait(&job, 0, 0, 0, guest_wait_pack(1, -1));
    fake_state(&job, 1, HARNESS_WATCH_STOPPED, 19);
    CT_CHECK_EQ_U64(fake_look(&job, 10 * MS), 0);
    fake_look(&job, 100 * MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_STOPPED, "1");
    fake_job_close(&job);
}

/* It may be any rank's message: the waiting rank is not to blame, and nobody else on its account.
 */
CT_TEST(messages, of_anybody)
{
    struct fake_job job;

    begin(&job);
    fake_wait(&job, 2, 0, 0, 0);
    fake_wait(&job, 0, 0, 0, guest_wait_pack(-1, -1));
    for (int i = 0; i < 5; i++) {
        CT_CHECK_EQ_U64(fake_look(&job, 2000 * MS), 0);
    }
    fake_wait(&job, 2, 0, 0, 1);
    fake_look(&job, MS);
    fake_look(&job, 2100 * MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "1"); /* by rank 2 */
    fake_job_close(&job);
}

/* A large message takes its time, so nothing is certain before the limit. */
CT_TEST(messages, a_circle)
{
    struct fake_job job;
    const struct harness_finding *finding;

    begin(&job);
    fake_wait(&job, 2, 0, 0, 0);
    fake_wait(&job, 0, 0, 0, guest_wait_pack(1, -1));
    fake_wait(&job, 1, 0, 0, guest_wait_pack(0, -1));
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, 1900 * MS), 0);
    fake_look(&job, 200 * MS);
    finding = fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, "0,1");
    CT_CHECK(finding->mode == HARNESS_MODE_BUDGET);
    fake_job_close(&job);
}

/* Most wait in an all-reduce for one that waits for a message: who should have sent it, or whether
 * anybody should, is not known. */
CT_TEST(messages, a_circle_with_a_call)
{
    struct fake_job job;

    begin(&job);
    fake_wait(&job, 1, 0, 0, fake_post(&job, 1, 0, 10, 0));
    fake_wait(&job, 0, 0, 0, guest_wait_pack(1, -1));
    fake_look(&job, MS);
    fake_look(&job, 2100 * MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, "0,1");
    fake_job_close(&job);
}

/* It waits for one of two ranks, of which one goes on. */
CT_TEST(messages, no_circle_with_one_of_two)
{
    struct fake_job job;

    begin(&job);
    fake_wait(&job, 0, 0, 0, guest_wait_pack(1, 2));
    fake_look(&job, MS);
    fake_look(&job, 2100 * MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "1");
    fake_job_close(&job);
}

/* What a rank sent before its good end arrives after it. */
CT_TEST(messages, one_of_a_rank_that_has_ended_well)
{
    struct fake_job job;

    begin(&job);
    fake_wait(&job, 2, 0, 0, 0);
    fake_wait(&job, 0, 0, 0, guest_wait_pack(1, -1));
    fake_detach(&job, 1);
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, 1000 * MS), 0);
    fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
    CT_CHECK_EQ_U64(fake_look(&job, 400 * MS), 0);
    fake_look(&job, 200 * MS);
    (void)fake_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, "1");
    fake_job_close(&job);
}

/* All end in one moment, as their launcher ends them. One had a thread that waited and one that did
 * not come to a call. */
CT_TEST(messages, who_is_needed_took_the_others_along)
{
    struct fake_job job;

    fake_job_begin(&job, 3);
    for (uint32_t r = 0; r < 3; r++) {
        fake_comm(&job, r, 1, 2, r, 3);
        fake_wait(&job, r, 0, 0, fake_post(&job, r, 0, 10, 0));
        if (r != 1) {
            fake_wait(&job, r, 1, 1, fake_post(&job, r, 1, 10, 0));
        }
        fake_state(&job, r, HARNESS_WATCH_EXITED, -1);
    }
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_CRASH_EXITED, "1");
    fake_job_close(&job);
}

/* Which of two ranks it still waits for is not known. */
CT_TEST(messages, of_two_ranks)
{
    struct fake_job job;

    begin(&job);
    fake_wait(&job, 0, 0, 0, guest_wait_pack(1, 2));
    fake_detach(&job, 1);
    fake_wait(&job, 2, 0, 0, 0);
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, 1900 * MS), 0);
    fake_look(&job, 200 * MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "2");
    fake_job_close(&job);
}

/* Before each sum of all every rank takes part in two messages; then rank 1 takes part in `last`
 * ones and goes on to the sum, and rank 0 waits for one of it, its `own`-th. odd: in that round
 * rank 1 took part in one more. */
static void check_unsent(int rounds, int last, int own, int odd, const char *culprits)
{
    struct fake_job job;

    fake_job_begin(&job, 3);
    job.limits = (struct harness_watch_limits){2000 * MS, 2000 * MS, 0};
    for (int i = 0; i < rounds; i++) {
        for (uint32_t r = 0; r < 3; r++) {
            for (int k = 0; k < (r == 1 && i == odd ? 3 : 2); k++) {
                fake_message(&job, r, 0);
            }
            fake_done(&job, r, 0, fake_post(&job, r, 0, 10, 0));
        }
    }
    for (int k = 0; k < last; k++) {
        fake_message(&job, 1, 0);
    }
    fake_wait(&job, 1, 0, 0, fake_post(&job, 1, 0, 10, 0));
    fake_message(&job, 2, 0);
    fake_message(&job, 2, 0);
    fake_wait(&job, 2, 0, 0, fake_post(&job, 2, 0, 10, 0));
    for (int k = 1; k < own; k++) {
        fake_message(&job, 0, 0);
    }
    fake_message(&job, 0, guest_wait_pack(1, -1));
    fake_look(&job, MS);
    fake_look(&job, job.limits.silent_ns);
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, culprits);
    if (strcmp(culprits, "1") == 0) {
        CT_CHECK(strstr(job.findings.items[0].text,
                        "as rank 1 waited for messages 1 time before all_reduce") != NULL);
    }
    fake_job_close(&job);
}

/* Who has not sent one is told by how often it took part in one before: if that was always as
 * often, often enough, and the one that waits does not wait once more than ever. */
CT_TEST(messages, one_that_was_not_sent)
{
    check_unsent(12, 1, 1, -1, "1");
    check_unsent(12, 1, 2, -1, "1");
    check_unsent(12, 1, 3, -1, "0,1");
    check_unsent(12, 2, 1, -1, "0,1");
    check_unsent(12, 3, 1, -1, "0,1");
    check_unsent(7, 1, 1, -1, "0,1");
    check_unsent(12, 1, 1, 11, "0,1");
    check_unsent(12, 1, 1, 3, "1");
}
