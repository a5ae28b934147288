/* Calls of several communicators that are launched together, on one stream: a device that has begun
 * them may be in any of them. */
#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000, STREAM = 7 };

static void begin(struct fake_job *job)
{
    fake_job_open(job, 3, 1024);
    for (uint32_t r = 0; r < 3; r++) {
        fake_attach(job, r);
        fake_comm_of(job, r, 0, 1, r, 3, GUEST_COMM_DEVICE);
        fake_lane(job, r, 0, 0, STREAM);
        if (r != 1) {
            fake_comm_of(job, r, 1, 2, r / 2, 2, GUEST_COMM_DEVICE);
            fake_lane(job, r, 1, 1, STREAM);
        }
    }
}

/* A round of a program in which each rank launches a sum of ranks 0 and 2 (place 1 of these) with
 * one of all ranks; rank 0 may make the former twice. */
static void launch_both(struct fake_job *job, bool is_twice)
{
    for (uint32_t r = 0; r < 3; r++) {
        const uint64_t half = r != 1 ? fake_post(job, r, 1, 10, 0) : 0;
        const uint64_t last = r == 0 && is_twice ? fake_post(job, r, 1, 10, 0) : half;
        const uint64_t all = fake_post(job, r, 0, 20, 0);

        if (half != 0) {
            fake_launch(job, r, 1, half, last, 2);
            fake_reach(job, r, 1, last, half - 1);
        }
        fake_launch(job, r, 0, all, all, 1);
        fake_reach(job, r, 0, all, all - 1);
        if (!is_twice) {
            fake_reach(job, r, 1, last, last);
            fake_reach(job, r, 0, all, all);
        }
    }
}

/* Rank 0 makes the sum of two ranks once more than rank 2, behind which its part of the sum of all
 * stands: that is why rank 2 does not go on, though all have launched that. With a past the rank
 * that strayed is known, without one it is a circle of both. */
static void play(struct fake_job *job, uint32_t rounds)
{
    begin(job);
    for (uint32_t round = 0; round < rounds; round++) {
        launch_both(job, false);
        CT_CHECK_EQ_U64(fake_look(job, MS), 0);
    }
    launch_both(job, true);
    fake_look(job, MS);
    CT_CHECK_EQ_U64(fake_look(job, job->limits.silent_ns - MS), 0);
    fake_look(job, 2 * (uint64_t)MS);
}

CT_TEST(watch_device, one_call_more_in_a_group)
{
    static const struct {
        uint32_t rounds;
        const char *culprits;
    } cases[] = {{2, "0,2"}, {30, "0"}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fake_job job;

        play(&job, cases[i].rounds);
        (void)fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, cases[i].culprits);
        fake_job_close(&job);
    }
}

CT_TEST(watch_device, nobody_is_overdue_who_waits_for_a_group)
{
    struct fake_job job;
    size_t overdue = 0;

    play(&job, 30);
    for (size_t i = 0; i < job.findings.count; i++) {
        overdue += job.findings.items[i].verdict == HARNESS_VERDICT_HANG_NOT_JOINED;
    }
    CT_CHECK(overdue == 0);
    fake_job_close(&job);
}

/* Ranks 0 and 2 have launched both, and rank 1 does not come to the sum of all, or to neither if it
 * belongs to both: nobody else is to blame, at no time. */
static void check_lacking(bool is_of_both)
{
    struct fake_job job;

    begin(&job);
    for (uint32_t r = 0; r < 3 && is_of_both; r++) {
        fake_comm_of(&job, r, 1, 3, r, 3, GUEST_COMM_DEVICE);
        fake_lane(&job, r, 1, 1, STREAM);
    }
    for (uint32_t r = 0; r < 3; r += 2) {
        const uint64_t half = fake_post(&job, r, 1, 10, 0);
        const uint64_t all = fake_post(&job, r, 0, 20, 0);

        fake_launch(&job, r, 1, half, half, 2);
        fake_reach(&job, r, 1, half, half - 1);
        fake_launch(&job, r, 0, all, all, 1);
        fake_reach(&job, r, 0, all, all - 1);
    }
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS), 0);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns - HARNESS_WATCH_CYCLE_HOLD_NS - MS), 0);
    fake_look(&job, 2 * (uint64_t)MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "1");
    fake_job_close(&job);
}

CT_TEST(watch_device, a_group_that_lacks_a_rank)
{
    check_lacking(false);
    check_lacking(true);
}

/* --- somebody who does not show --------------------------------------------------------------- */

/* Each of four ranks sends to the next one, in its first messages, and rank 2 does not come to
 * that. */
static void play_ring(struct fake_job *job)
{
    fake_job_open(job, 4, 1024);
    for (uint32_t r = 0; r < 4; r++) {
        fake_attach(job, r);
        fake_comm_of(job, r, 0, 1, r, 4, GUEST_COMM_DEVICE);
    }
    for (uint32_t r = 0; r < 4; r++) {
        for (uint32_t end = 0; r != 2 && end < 2; end++) {
            fake_pair(job, r, 1 + end, 10 + (end == 0 ? r : (r + 3) % 4), end,
                      end == 0 ? (r + 1) % 4 : (r + 3) % 4);
            fake_lane(job, r, end, 1 + end, STREAM);
            fake_launch(job, r, 1 + end, 1, fake_post(job, r, 1 + end, 10, 0), 1 + end);
            fake_reach(job, r, end, 1, 0);
        }
    }
    CT_CHECK_EQ_U64(fake_look(job, MS), 0);
    CT_CHECK_EQ_U64(fake_look(job, job->limits.silent_ns - MS), 0);
}

/* Others have come to all of each other's messages, and wait for it all the same. */
CT_TEST(watch_device, a_rank_that_never_sends)
{
    struct fake_job job;

    play_ring(&job);
    fake_look(&job, 2 * (uint64_t)MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "2");
    fake_job_close(&job);
}

/* It may have sent them, and not have shown that: nobody else is to blame for it. */
CT_TEST(watch_device, a_rank_that_cannot_show_what_it_sends)
{
    struct fake_job job;

    play_ring(&job);
    guest_arena_page(job.arena.head, 2)->lost_comms = 1;
    fake_look(&job, 2 * (uint64_t)MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "none");
    fake_job_close(&job);
}

/* Ranks wait for two others in a communicator: one does not come, and one could not show that it
 * has it. */
CT_TEST(watch_device, a_rank_that_cannot_show_where_it_waits)
{
    struct fake_job job;

    fake_job_open(&job, 4, 64);
    for (uint32_t r = 0; r < 4; r++) {
        fake_attach(&job, r);
        if (r != 0) {
            fake_comm(&job, r, 0, 1, r, 4);
        }
    }
    guest_arena_page(job.arena.head, 0)->lost_comms = 1;
    fake_wait(&job, 1, 0, 0, fake_post(&job, 1, 0, 10, 0));
    fake_wait(&job, 3, 0, 0, fake_post(&job, 3, 0, 10, 0));
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_look(&job, job.limits.silent_ns + MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "2");
    fake_job_close(&job);
}

/* Rank 0 drives two ranks of a communicator, so that it shows neither, and ends when all is done:
 * that of a word on the other's stream is not there yet does not mean that it left. */
CT_TEST(watch_device, a_rank_that_shows_no_more)
{
    struct fake_job job;

    fake_job_open(&job, 2, 64);
    for (uint32_t r = 0; r < 2; r++) {
        fake_attach(&job, r);
        fake_comm_of(&job, r, 0, 1, 2 * r, 3, GUEST_COMM_DEVICE);
    }
    fake_report(&job, 0, GUEST_EVENT_COMM_FREE,
                (const uint64_t[GUEST_ARG_COUNT]){1, 1, GUEST_FREE_UNSHOWN});
    guest_arena_page(job.arena.head, 0)->lost_comms = 2;
    fake_lane(&job, 1, 0, 0, STREAM);
    fake_launch(&job, 1, 0, 1, fake_post(&job, 1, 0, 10, 0), 1);
    fake_reach(&job, 1, 0, 1, 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_state(&job, 0, HARNESS_WATCH_EXITED, 0);
    CT_CHECK_EQ_U64(fake_look(&job, 100 * (uint64_t)MS), 0);
    fake_reach(&job, 1, 0, 1, 1);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_job_close(&job);
}

/* A card that cannot say how far it is: who has given it a call that rank 1 has not posted may be
 * waiting for it. */
CT_TEST(watch_device, still_on_cards_that_say_nothing)
{
    struct fake_job job;

    fake_job_open(&job, 3, 64);
    job.limits.still_ns = 2 * job.limits.silent_ns;
    for (uint32_t r = 0; r < 3; r++) {
        fake_attach(&job, r);
        fake_comm_of(&job, r, 0, 1, r, 3, GUEST_COMM_DEVICE);
        fake_launch(&job, r, 0, 1, fake_post(&job, r, 0, 10, 0), 0);
        if (r != 1) {
            fake_launch(&job, r, 0, 2, fake_post(&job, r, 0, 10, 0), 0);
        }
    }
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.still_ns), 0);
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_HOST, "1");
    fake_job_close(&job);
}
