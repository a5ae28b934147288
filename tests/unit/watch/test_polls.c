/* Ranks that wait by asking again and again whether something has come. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000, WORLD = 0 };

/* Time passes in which these ranks ask, ten times a second, until something is found. */
static void ask(struct fake_job *job, uint64_t time_ns, uint32_t first, uint32_t last, uint64_t seq)
{
    for (uint64_t ns = 0; ns < time_ns && job->findings.count == 0; ns += 100 * (uint64_t)MS) {
        for (uint32_t r = first; r <= last; r++) {
            fake_poll(job, r, 0, WORLD, seq);
        }
        fake_look(job, 100 * (uint64_t)MS);
    }
}

/* Ranks 1 and 2 ask for a call that rank 0 has not posted: it is waited for, and they are not. */
CT_TEST(polls, whoever_does_not_come_is_named)
{
    struct fake_job job;

    fake_job_begin(&job, 3);
    fake_post(&job, 1, WORLD, 10, 0);
    fake_post(&job, 2, WORLD, 10, 0);
    ask(&job, job.limits.silent_ns - 200 * (uint64_t)MS, 1, 2, 1);
    CT_CHECK_EQ_U64(job.findings.count, 0);
    ask(&job, 400 * (uint64_t)MS, 1, 2, 1);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "0");
    fake_job_close(&job);
}

/* All have come; rank 0 does not go on, so that rank 1 asks in vain, and rank 2 waits for both in
 * the next call. */
CT_TEST(polls, who_asks_is_not_in_code_of_its_own)
{
    struct fake_job job;

    fake_job_begin(&job, 3);
    for (uint32_t r = 0; r < 3; r++) {
        fake_post(&job, r, WORLD, 10, 0);
    }
    fake_done(&job, 2, WORLD, 1);
    fake_wait(&job, 2, 0, WORLD, fake_post(&job, 2, WORLD, 20, 0));
    ask(&job, job.limits.silent_ns + 200 * (uint64_t)MS, 1, 1, 1);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "0");
    fake_job_close(&job);
}

/* Rank 2 lost its CPU while it wrote down what it asks for next: it waits none the less. */
CT_TEST(polls, who_is_writing_down_what_it_asks_for_waits)
{
    struct fake_job job;
    const struct harness_finding *finding;

    fake_job_begin(&job, 3);
    fake_post(&job, 1, WORLD, 10, 0);
    fake_post(&job, 2, WORLD, 10, 0);
    ask(&job, job.limits.silent_ns - 200 * (uint64_t)MS, 1, 2, 1);
    guest_arena_page(job.arena.head, 2)->threads[0].change = 1;
    ask(&job, 400 * (uint64_t)MS, 1, 1, 1);
    finding = fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "0");
    CT_CHECK(finding != NULL && harness_rank_set_has(&finding->victims, 2));
    fake_job_close(&job);
}

/* Who has asked once, and then no more, is. */
CT_TEST(polls, who_asks_no_more_is)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    fake_post(&job, 1, WORLD, 10, 0);
    fake_poll(&job, 1, 0, WORLD, 1);
    fake_post(&job, 0, WORLD, 10, 0);
    fake_wait(&job, 0, 0, WORLD, fake_post(&job, 0, WORLD, 20, 0));
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns - MS), 0);
    fake_look(&job, HARNESS_WATCH_POLL_NS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "1");
    fake_job_close(&job);
}

/* One thread asks for ever, and another one is in code of its own: the rank is. */
CT_TEST(polls, a_thread_that_asks_hides_no_other)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    fake_wait(&job, 1, 1, WORLD, 0); /* it has made a call, and waits for nothing */
    fake_wait(&job, 0, 0, WORLD, fake_post(&job, 0, WORLD, 10, 0));
    ask(&job, job.limits.silent_ns + 200 * (uint64_t)MS, 1, 1, guest_wait_pack(-1, -1));
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "1");
    fake_job_close(&job);
}

/* Two ranks ask for calls in opposite order: neither sits anywhere, so it takes the limit. */
CT_TEST(polls, a_circle)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        fake_comm(&job, r, 1, 2, r, 2);
        fake_post(&job, r, r, 10, 0);
    }
    for (uint64_t ns = 0;
         job.findings.count == 0 && ns <= job.limits.silent_ns + 100 * (uint64_t)MS;
         ns += 100 * (uint64_t)MS) {
        fake_poll(&job, 0, 0, 0, 1);
        fake_poll(&job, 1, 0, 1, 1);
        fake_look(&job, 100 * (uint64_t)MS);
        CT_CHECK(ns >= job.limits.silent_ns - 100 * (uint64_t)MS || job.findings.count == 0);
    }
    (void)fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, "0,1");
    fake_job_close(&job);
}

/* It asks for a message of a rank that is done: it may give that up. */
CT_TEST(polls, a_message_of_a_rank_that_is_done)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    fake_detach(&job, 0);
    fake_state(&job, 0, HARNESS_WATCH_EXITED, 0);
    ask(&job, 3 * HARNESS_WATCH_CYCLE_HOLD_NS, 1, 1, guest_wait_pack(0, -1));
    CT_CHECK_EQ_U64(job.findings.count, 0);
    fake_job_close(&job);
}

/* All wait, and for what is not seen of any: what is known is that nothing moves. */
CT_TEST(polls, all_wait_for_what_is_not_seen)
{
    struct fake_job job;

    fake_job_begin(&job, 3);
    job.limits.still_ns = 2 * job.limits.silent_ns;
    for (uint32_t r = 0; r < 3; r++) {
        fake_wait(&job, r, 0, WORLD, guest_wait_pack(-1, -1));
    }
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.still_ns - MS), 0);
    fake_look(&job, 2 * (uint64_t)MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, "0,1,2");
    fake_job_close(&job);
}

/* Ranks 0 and 2 are inside an exchange of neighbours that rank 1 has left behind: what each gave is
 * not compared, so it may have been rank 1's. */
CT_TEST(polls, inside_what_is_not_compared)
{
    struct fake_job job;

    fake_job_begin(&job, 3);
    for (uint32_t r = 0; r < 3; r++) {
        const uint64_t seq = fake_post_op(
            &job, r, WORLD, guest_op_pack(DDPROVE_GUEST_NEIGHBOR_ALL_GATHER, 0, 0, 0), 0, 0);

        if (r == 1) {
            fake_done(&job, r, WORLD, seq);
            fake_message(&job, r, guest_wait_pack(0, -1));
        } else {
            fake_wait(&job, r, 0, WORLD, seq);
        }
    }
    fake_look(&job, MS);
    fake_look(&job, job.limits.silent_ns + MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, "0,1,2");
    fake_job_close(&job);
}
