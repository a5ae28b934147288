/* Ranks that ended because a call failed for which others had not come. */
#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000, HOLD = 1100 * MS };

/* In these ranks' last call something failed, and the program ended by that. */
static void give_up(struct fake_job *job, uint32_t rank)
{
    fake_launch(job, rank, 0, 0, 0, GUEST_LAUNCH_FAILED);
    fake_state(job, rank, HARNESS_WATCH_EXITED, 1);
}

static void begin(struct fake_job *job, uint32_t world_size)
{
    fake_job_begin(job, world_size);
    for (uint32_t r = 0; r < world_size; r++) {
        fake_step(job, r, 4);
        fake_done(job, r, 0, fake_post(job, r, 0, 10, 0));
    }
    (void)fake_post(job, 0, 0, 10, 0);
    fake_look(job, MS);
}

/* It is blamed, and not the one that waited for it; but not before it has had time to end by an
 * error of its own. */
CT_TEST(gave_up, for_a_rank_that_lives)
{
    struct fake_job job;
    const struct harness_finding *finding;

    begin(&job, 2);
    give_up(&job, 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_look(&job, HOLD);
    finding = fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "1");
    CT_CHECK_EQ_U64(finding->op.seq, 2);
    CT_CHECK_EQ_I64(finding->step, 4);
    CT_CHECK_STR(finding->text, "rank 1 never posted all_reduce 2 of world (10 f32, sum); rank 0 "
                                "waited for it until that failed, and exited with code 1");
    fake_job_close(&job);
}

CT_TEST(gave_up, for_a_rank_that_was_done)
{
    struct fake_job job;
    const struct harness_finding *finding;

    begin(&job, 2);
    fake_detach(&job, 1);
    give_up(&job, 0);
    fake_look(&job, MS);
    finding = fake_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, "1");
    CT_CHECK_EQ_U64(finding->op.seq, 2);
    CT_CHECK_STR(finding->text, "rank 1 said that it was done while others wait for it, step 4, "
                                "before posting all_reduce 2 of world (10 f32, sum)");
    fake_job_close(&job);
}

/* Of an error of the rank's own, others know nothing, and come. */
CT_TEST(gave_up, while_the_others_came)
{
    struct fake_job job;

    begin(&job, 2);
    (void)fake_post(&job, 1, 0, 10, 0);
    give_up(&job, 0);
    fake_look(&job, HOLD);
    fake_only(&job, HARNESS_VERDICT_CRASH_EXITED, "0");
    fake_job_close(&job);
}

/* Two wait for the third. */
CT_TEST(gave_up, two_of_three)
{
    struct fake_job job;

    begin(&job, 3);
    (void)fake_post(&job, 1, 0, 10, 0);
    give_up(&job, 0);
    give_up(&job, 1);
    fake_look(&job, MS);
    fake_look(&job, HOLD);
    CT_CHECK_EQ_U64(job.findings.count, 2); /* one for each, of the same rank */
    for (size_t i = 0; i < job.findings.count; i++) {
        CT_CHECK(job.findings.items[i].verdict == HARNESS_VERDICT_HANG_NOT_JOINED);
        CT_CHECK(harness_rank_set_count(&job.findings.items[i].culprits) == 1 &&
                 harness_rank_set_has(&job.findings.items[i].culprits, 2));
    }
    fake_job_close(&job);
}

/* The third one was killed: what the second one owes follows from that. */
CT_TEST(gave_up, while_another_one_crashed)
{
    struct fake_job job;

    begin(&job, 3);
    fake_state(&job, 2, HARNESS_WATCH_SIGNALED, 9);
    give_up(&job, 0);
    fake_look(&job, HOLD);
    fake_only(&job, HARNESS_VERDICT_CRASH_SIGNALED, "2");
    fake_job_close(&job);
}

/* It waits itself, so that it is not known who keeps it. */
CT_TEST(gave_up, for_a_rank_that_waits)
{
    struct fake_job job;

    begin(&job, 2);
    fake_comm(&job, 1, 1, 9, 0, 2);
    fake_wait(&job, 1, 0, 1, fake_post(&job, 1, 1, 5, 0));
    give_up(&job, 0);
    fake_look(&job, HOLD);
    for (size_t i = 0; i < job.findings.count; i++) {
        CT_CHECK(job.findings.items[i].verdict != HARNESS_VERDICT_HANG_NOT_JOINED);
    }
    fake_job_close(&job);
}

/* A launcher has ended the rank that did not come. */
CT_TEST(gave_up, and_a_launcher_ended_the_rest)
{
    struct fake_job job;

    begin(&job, 2);
    job.watch.ranks[0].is_of_launcher = job.watch.ranks[1].is_of_launcher = true;
    give_up(&job, 0);
    fake_look(&job, MS);
    fake_state(&job, 1, HARNESS_WATCH_SIGNALED, 15);
    fake_look(&job, MS);
    fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "1");
    fake_job_close(&job);
}

/* It waited for one that has never shown itself; of how many there are, only the ranks themselves
 * know. */
CT_TEST(gave_up, for_a_rank_that_never_came)
{
    struct fake_job job;

    fake_job_open(&job, 64, 256);
    for (uint32_t r = 0; r < 3; r++) {
        if (r != 1) {
            fake_attach(&job, r);
            guest_arena_page(job.arena.head, r)->world_size = 3;
            fake_comm(&job, r, 0, 9, r, 3);
            fake_wait(
                &job, r, 0, 0,
                fake_post_op(&job, r, 0, guest_op_pack(DDPROVE_GUEST_COMM_CREATE, 0, 0, 0), 0, 0));
        }
    }
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_wait(&job, 0, 0, 0, 0);
    give_up(&job, 0);
    fake_look(&job, MS);
    fake_only(&job, HARNESS_VERDICT_LAUNCH_MISSING_RANK, "1");
    fake_job_close(&job);
}

/* Two members differ, and end by what their library says of that, before the others have come:
 * those tell who is right, and are not missed meanwhile. */
CT_TEST(gave_up, two_differ_before_the_others_come)
{
    struct fake_job job;

    fake_job_begin(&job, 4);
    fake_post(&job, 1, 0, 24, 1);
    fake_post(&job, 2, 0, 104, 1);
    for (uint32_t r = 1; r <= 2; r++) {
        give_up(&job, r);
    }
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_post(&job, 0, 0, 24, 1);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_post(&job, 3, 0, 24, 1);
    fake_look(&job, MS);
    fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "2");
    fake_job_close(&job);
}

/* Nobody else comes: both are named, and those that have not come are not. */
CT_TEST(gave_up, two_differ_and_nobody_comes)
{
    struct fake_job job;

    fake_job_begin(&job, 4);
    fake_post(&job, 1, 0, 24, 1);
    fake_post(&job, 2, 0, 104, 1);
    for (uint32_t r = 1; r <= 2; r++) {
        give_up(&job, r);
    }
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_look(&job, HARNESS_WATCH_DIFFER_HOLD_NS);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "1,2");
    fake_job_close(&job);
}

/* The rank that takes fewer elements is refused by a peer, while another one has not yet come to
 * the call before, which does not block. Then a launcher ends the rest: what they have posted tells
 * who is wrong, and nobody is missed that would have come. */
CT_TEST(gave_up, refused_before_all_came_to_the_call_before)
{
    struct fake_job job;
    const struct harness_finding *finding;
    size_t accused;

    fake_job_begin(&job, 4);
    for (uint32_t r = 0; r < 4; r++) {
        job.watch.ranks[r].is_of_launcher = true;
        fake_done(&job, r, 0, fake_post(&job, r, 0, 16, 0));
    }
    for (uint32_t r = 0; r < 3; r++) {
        (void)fake_post(&job, r, 0, 48, 0);
        fake_wait(&job, r, 0, 0, fake_post(&job, r, 0, r == 1 ? 7 : 16, 0));
    }
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_state(&job, 1, HARNESS_WATCH_EXITED, 15);
    accused = fake_look(&job, MS);
    CT_CHECK_EQ_U64(accused, 0);
    for (uint32_t r = 0; r < 4; r++) {
        if (r != 1) {
            fake_state(&job, r, HARNESS_WATCH_SIGNALED, 15);
        }
    }
    fake_look(&job, MS);
    if (accused == 0) {
        finding = fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "1");
        CT_CHECK_EQ_U64(finding->op.seq, 3);
    }
    fake_job_close(&job);
}

/* A rank ends with 0 inside its last call, and owes none: those whose call fails by that are not to
 * blame. */
CT_TEST(ends, a_rank_leaves_inside_its_last_call)
{
    struct fake_job job;

    fake_job_begin(&job, 3);
    for (uint32_t r = 0; r < 3; r++) {
        fake_post(&job, r, 0, 10, 1);
    }
    fake_look(&job, MS);
    fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    for (uint32_t r = 0; r < 3; r += 2) {
        fake_launch(&job, r, 0, 0, 0, GUEST_LAUNCH_FAILED);
        fake_state(&job, r, HARNESS_WATCH_EXITED, 1);
    }
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, "1");
    fake_job_close(&job);
}

/* A rank ends with 0 before a call, or inside it; the other one fails in it, ends by that error,
 * and waits no more when both are seen. Who has had the result owes nothing. */
CT_TEST(ends, a_rank_fails_in_a_call_that_another_one_owes)
{
    enum { HAD_IT, LEFT_INSIDE, LEFT_BEFORE, CASES };

    for (int owes = HAD_IT; owes < CASES; owes++) {
        struct fake_job job;

        fake_job_begin(&job, 2);
        fake_post(&job, 0, 0, 10, 1);
        if (owes != LEFT_BEFORE) {
            fake_post(&job, 1, 0, 10, 1);
        }
        if (owes == HAD_IT) {
            fake_done(&job, 1, 0, 1);
        }
        fake_launch(&job, 0, 0, 0, 0, GUEST_LAUNCH_FAILED);
        fake_state(&job, 1, HARNESS_WATCH_EXITED, 0);
        fake_state(&job, 0, HARNESS_WATCH_EXITED, 1);
        fake_look(&job, MS);
        if (owes != HAD_IT) {
            (void)fake_only(&job, HARNESS_VERDICT_CRASH_FINISHED_EARLY, "1");
        } else {
            (void)fake_only(&job, HARNESS_VERDICT_CRASH_EXITED, "0");
        }
        fake_job_close(&job);
    }
}
