/* Who is named of ranks that hold each other: who left a call out, never one that waits for it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/watch/drawn_job.h"

enum { MS = 1000000, RANKS = 4, WORLD = 0, SPLIT = 1, ROUNDS = 20 };

/* --- drawn jobs
 * ---------------------------------------------------------------------------------------------------
 */

/* How many jobs ended in a circle, and who was named: the culprit alone, others with it, others
 * without it. */
struct tally {
    uint64_t circles, alone, among, victims;
};

static void judge_one(uint64_t seed, const struct drawn_shape *shape, struct tally *tally)
{
    static struct drawn_job drawn;
    const struct harness_findings *findings = &drawn.job.findings;

    drawn_job_open(&drawn, seed, shape);
    if (drawn_job_play(&drawn)) {
        fake_look(&drawn.job, MS);
        fake_look(&drawn.job, HARNESS_WATCH_SURE_HOLD_NS);
        if (findings->count == 1 && findings->items[0].verdict == HARNESS_VERDICT_HANG_CYCLE) {
            const struct harness_rank_set *named = &findings->items[0].culprits;
            const bool is_in = harness_rank_set_has(named, drawn.culprit);
            const bool is_alone = harness_rank_set_count(named) == 1;

            tally->circles++;
            tally->alone += is_in && is_alone;
            tally->among += is_in && !is_alone;
            tally->victims += !is_in;
            if (!is_in) {
                (void)printf("seed %" PRIu64 ", fault %d of rank %u: %s\n", seed, (int)drawn.fault,
                             drawn.culprit, findings->items[0].text);
            }
        }
    }
    drawn_job_close(&drawn);
}

static struct tally judge_many(const char *what, const struct drawn_shape *shape)
{
    enum { JOBS = 200 };
    struct tally tally = {0};

    for (uint64_t seed = 0; seed < JOBS; seed++) {
        judge_one(seed + 100000 * (uint64_t)shape->rounds, shape, &tally);
    }
    (void)printf("%s%s, round %" PRIu32 " goes wrong: %" PRIu64 " circles, %" PRIu64
                 " culprits named alone, %" PRIu64 " with others\n",
                 what, shape->has_async ? ", calls under way together" : "", shape->rounds + 1,
                 tally.circles, tally.alone, tally.among);
    CT_CHECK(tally.circles >= JOBS / 4);
    return tally;
}

static const uint32_t all_rounds[] = {0, 2, 4, 6, 10, 20};

/* A program that does the same in every round. Without a past the ranks are told apart only where
 * most of them contradict one; with one they nearly always are. */
CT_TEST(circle, drawn_jobs_that_repeat)
{
    for (uint32_t way = 0; way < 2; way++) {
        for (size_t i = 0; i < sizeof all_rounds / sizeof all_rounds[0]; i++) {
            const struct drawn_shape shape = {.rounds = all_rounds[i], .has_async = way == 1};
            const struct tally tally = judge_many("the same", &shape);

            CT_CHECK_EQ_U64(tally.victims, 0);
            CT_CHECK(tally.alone * 100 >= tally.circles * (shape.rounds >= 20   ? 75
                                                           : shape.rounds >= 10 ? 60
                                                                                : 40));
        }
    }
}

/* A program of which some rounds have more calls than others, regularly or not. What is new may be
 * taken for wrong where few ranks contradict each other: of 40,000 circles, once. */
CT_TEST(circle, drawn_jobs_that_change)
{
    struct tally sum = {0};

    for (uint32_t way = 0; way < 6; way++) {
        static const char *const words[] = {"some more", "as often as it comes", "both"};

        for (size_t i = 0; i < sizeof all_rounds / sizeof all_rounds[0]; i++) {
            const struct drawn_shape shape = {.rounds = all_rounds[i],
                                              .has_async = way >= 3,
                                              .has_extras = way % 3 != 1,
                                              .is_irregular = way % 3 != 0};
            const struct tally tally = judge_many(words[way % 3], &shape);

            sum.circles += tally.circles;
            sum.victims += tally.victims;
        }
    }
    CT_CHECK(sum.victims * 1000 <= sum.circles);
}

/* --- four ranks, and two pairs of them
 * ----------------------------------------------------------------------------
 */

static void begin_pairs(struct fake_job *job)
{
    fake_job_begin(job, RANKS);
    for (uint32_t r = 0; r < RANKS; r++) {
        fake_comm(job, r, SPLIT, 10 + r / 2, r % 2, 2);
    }
}

static void run(struct fake_job *job, uint32_t rank, uint32_t place)
{
    job->now_ns += 1000;
    fake_done(job, rank, place, fake_post(job, rank, place, 10, 0));
}

static void stay_in(struct fake_job *job, uint32_t rank, uint32_t place)
{
    job->now_ns += 1000;
    fake_wait(job, rank, 0, place, fake_post(job, rank, place, 10, 0));
}

/* First the pairs, then all. */
static void run_rounds(struct fake_job *job, int count)
{
    for (int i = 0; i < count; i++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            run(job, r, SPLIT);
            run(job, r, WORLD);
        }
    }
}

/* One rank leaves out its call of the pair, or that of all: whoever is next to it waits. */
static void leave_out(struct fake_job *job, uint32_t rank, uint32_t place)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r == rank) {
            if (place == WORLD) {
                run(job, r, SPLIT);
            }
            stay_in(job, r, place == WORLD ? SPLIT : WORLD);
        } else if (place == SPLIT && r == (rank ^ 1)) {
            stay_in(job, r, SPLIT);
        } else {
            run(job, r, SPLIT);
            stay_in(job, r, WORLD);
        }
    }
}

CT_TEST(circle, left_out_in_each_position)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t place = WORLD; place <= SPLIT; place++) {
            for (int has_idle = 0; has_idle < 2; has_idle++) {
                const char name[] = {(char)('0' + rank), '\0'};
                const struct harness_finding *finding;
                struct fake_job job;

                begin_pairs(&job);
                run_rounds(&job, ROUNDS);
                leave_out(&job, rank, place);
                for (uint32_t r = 0; has_idle != 0 && r < RANKS; r++) {
                    fake_wait(&job, r, 1, 0, 0); /* a thread that has made a call, and may again */
                }
                CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
                if (has_idle != 0) {
                    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns), 0);
                    fake_look(&job, MS);
                } else {
                    fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS);
                }
                finding = fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, name);
                CT_CHECK(finding->mode ==
                         (has_idle != 0 ? HARNESS_MODE_BUDGET : HARNESS_MODE_PROVABLE));
                CT_CHECK_STR(finding->guest.comm, place == WORLD ? "world" : "group");
                CT_CHECK_EQ_U64(finding->op.seq, ROUNDS + 1);
                CT_CHECK_EQ_U64(harness_rank_set_count(&finding->victims), RANKS - 1);
                fake_job_close(&job);
            }
        }
    }
}

/* In the first round nothing is known: both sides are shown, and not those who wait for them. */
CT_TEST(circle, left_out_without_a_past)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t place = WORLD; place <= SPLIT; place++) {
            const struct harness_finding *finding;
            struct fake_job job;

            begin_pairs(&job);
            leave_out(&job, rank, place);
            fake_look(&job, MS);
            fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS);
            finding = fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, rank < 2 ? "0,1" : "2,3");
            CT_CHECK(strstr(finding->text, ", and others for them;") != NULL);
            CT_CHECK_EQ_U64(harness_rank_set_count(&finding->victims), RANKS - 2);
            CT_CHECK(strstr(finding->text, " of world (") != NULL &&
                     strstr(finding->text, " of group (") != NULL);
            fake_job_close(&job);
        }
    }
}

/* After three rounds a rank's own past foretells nothing yet. All others did the same, and it did
 * not. With two ranks nobody is left to ask. */
CT_TEST(circle, the_others_tell_where_the_past_is_short)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        for (uint32_t place = WORLD; place <= SPLIT; place++) {
            const char name[] = {(char)('0' + rank), '\0'};
            const struct harness_finding *finding;
            struct fake_job job;

            begin_pairs(&job);
            run_rounds(&job, 3);
            leave_out(&job, rank, place);
            fake_look(&job, MS);
            fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS);
            finding = fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, name);
            CT_CHECK_STR(finding->guest.comm, place == WORLD ? "world" : "group");
            CT_CHECK_EQ_U64(finding->op.seq, 4);
            fake_job_close(&job);
        }
    }
}

/* Each rank waits for a message before its call of the pairs, and one leaves the call of all out:
 * it waits for the next message. Or the message itself was left out, behind the pairs' call by way
 * of exception: then who forgot it is not known. */
static void check_message_instead(uint32_t rank, bool is_message_due, const char *culprits)
{
    struct fake_job job;

    begin_pairs(&job);
    for (int i = 0; i < 4; i++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            if (!is_message_due) {
                fake_message(&job, r, 0);
            }
            run(&job, r, SPLIT);
            if (is_message_due) {
                fake_message(&job, r, 0);
            }
            if (i < 3) {
                run(&job, r, WORLD);
            } else if (r != rank) {
                stay_in(&job, r, WORLD);
            }
        }
    }
    fake_message(&job, rank, guest_wait_pack((int)((rank + 1) % RANKS), -1));
    fake_look(&job, MS);
    fake_look(&job, job.limits.silent_ns);
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, culprits);
    fake_job_close(&job);
}

CT_TEST(circle, a_message_is_waited_for_in_place_of_a_call)
{
    check_message_instead(0, false, "0");
    check_message_instead(3, false, "3");
    check_message_instead(0, true, "0,1");
    check_message_instead(3, true, "0,3");
}

/* All ranks go on to something new, a second call of the pairs, and rank 0 leaves it out. The
 * others are those that do what they never did. */
CT_TEST(circle, what_others_do_too_is_new_and_not_wrong)
{
    struct fake_job job;

    begin_pairs(&job);
    run_rounds(&job, ROUNDS);
    for (uint32_t r = 0; r < RANKS; r++) {
        run(&job, r, SPLIT);
        if (r == 1) {
            stay_in(&job, r, SPLIT);
        } else {
            if (r > 1) {
                run(&job, r, SPLIT);
            }
            stay_in(&job, r, WORLD);
        }
    }
    fake_look(&job, MS);
    fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS);
    CT_CHECK(fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, "0,1")->detect_ns > 0);
    fake_job_close(&job);
}

/* Two communicators of the same two ranks. One takes them in the other order: with a past it is
 * known which one, without it both are named; either way both calls are. */
CT_TEST(circle, opposite_order)
{
    for (int rounds = 0; rounds <= 30; rounds += 30) {
        for (uint32_t rank = 0; rank < 2; rank++) {
            const struct harness_finding *finding;
            struct fake_job job;

            fake_job_begin(&job, 2);
            for (uint32_t r = 0; r < 2; r++) {
                fake_comm(&job, r, SPLIT, 2, r, 2);
                for (int i = 0; i < rounds; i++) {
                    run(&job, r, WORLD);
                    run(&job, r, SPLIT);
                    run(&job, r, SPLIT);
                }
                stay_in(&job, r, r == rank ? SPLIT : WORLD);
            }
            fake_look(&job, MS);
            fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS);
            finding = fake_only(&job, HARNESS_VERDICT_HANG_CYCLE,
                                rounds == 0 ? "0,1"
                                : rank == 0 ? "0"
                                            : "1");
            CT_CHECK(strstr(finding->text, " of world (") != NULL &&
                     strstr(finding->text, " of group (") != NULL);
            fake_job_close(&job);
        }
    }
}

/* --- what a late rank owes
 * ----------------------------------------------------------------------------------------
 */

/* The others have begun two calls, and wait for the second. */
CT_TEST(owed, the_first_call_is_named)
{
    struct fake_job job;
    const struct harness_finding *finding;

    begin_pairs(&job);
    for (uint32_t r = 1; r < RANKS; r++) {
        job.now_ns += 1000;
        fake_post(&job, r, SPLIT, 20, 0);
        stay_in(&job, r, WORLD);
    }
    fake_look(&job, MS);
    fake_look(&job, job.limits.silent_ns);
    finding = fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "0");
    CT_CHECK_STR(finding->guest.comm, "group");
    CT_CHECK_EQ_U64(finding->op.elem_count, 20);
    fake_job_close(&job);
}

/* Of four members of a communicator two were seen, and three ranks may be the others: those that
 * wait are not to blame. */
CT_TEST(endless, members_that_were_never_seen)
{
    struct fake_job job;
    const struct harness_finding *finding;

    fake_job_begin(&job, 5);
    for (uint32_t r = 0; r < 2; r++) {
        fake_comm(&job, r, SPLIT, 10, r, 4);
        stay_in(&job, r, SPLIT);
    }
    fake_look(&job, MS);
    CT_CHECK_EQ_U64(fake_look(&job, job.limits.silent_ns - 1), 0);
    fake_look(&job, 1);
    finding = fake_only(&job, HARNESS_VERDICT_HANG_NOT_JOINED, "none");
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->victims), 2);
    CT_CHECK(strstr(finding->text, "of 4 members of a communicator only 2 have shown") != NULL);
    fake_job_close(&job);
}

/* All have posted the call, and one of them does not go on to wait for it: it is stuck before its
 * next one. */
CT_TEST(endless, a_rank_that_does_not_wait_for_what_it_posted)
{
    struct fake_job job;
    const struct harness_finding *finding;

    fake_job_begin(&job, 3);
    for (uint32_t r = 0; r < 3; r++) {
        const uint64_t seq = fake_post(&job, r, WORLD, 10, 0);

        if (r != 1) {
            fake_post(&job, r, WORLD, 20, 0);
            fake_wait(&job, r, 0, WORLD, seq);
        }
    }
    fake_look(&job, MS);
    fake_look(&job, job.limits.silent_ns);
    finding = fake_only(&job, HARNESS_VERDICT_HANG_HOST, "1");
    CT_CHECK_EQ_U64(finding->op.seq, 2);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->victims), 2);
    fake_job_close(&job);
}

/* All have come to a call and the others have gone on to the next one, in which they wait for the
 * one that is still inside. */
CT_TEST(endless, a_rank_inside_what_others_have_the_result_of)
{
    struct fake_job job;
    const struct harness_finding *finding;

    fake_job_begin(&job, 3);
    for (uint32_t r = 0; r < 3; r++) {
        fake_wait(&job, r, 0, WORLD, fake_post(&job, r, WORLD, 10, 0));
    }
    for (uint32_t r = 0; r < 3; r += 2) {
        fake_wait(&job, r, 0, WORLD, 0);
        fake_done(&job, r, WORLD, 1);
        fake_wait(&job, r, 0, WORLD, fake_post(&job, r, WORLD, 20, 0));
    }
    fake_look(&job, MS);
    fake_look(&job, job.limits.silent_ns);
    finding = fake_only(&job, HARNESS_VERDICT_HANG_HOST, "1");
    CT_CHECK_EQ_U64(finding->op.seq, 1);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->victims), 2);
    CT_CHECK(strstr(finding->text, "of which others have the result") != NULL);
    fake_job_close(&job);
}

/* --- messages, one way and back
 * ----------------------------------------------------------------------------
 */

enum { THERE = 1, BACK = 2 };

static uint64_t message(struct fake_job *job, uint32_t rank, uint32_t place)
{
    job->now_ns += 1000;
    return fake_post_op(job, rank, place, guest_op_pack(DDPROVE_GUEST_SEND, 0, 0, 0), 8, 0);
}

/* Rank 1 sends, rank 0 answers; in the end rank 1 waits for an answer to what it has not sent. */
static void check_message_left_out(int rounds, const char *culprits)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        fake_comm(&job, r, THERE, 20, r, 2);
        fake_comm(&job, r, BACK, 21, r, 2);
    }
    for (int i = 0; i < rounds; i++) {
        for (uint32_t r = 0; r < 2; r++) {
            fake_done(&job, r, THERE, message(&job, r, THERE));
            fake_done(&job, r, BACK, message(&job, r, BACK));
        }
    }
    fake_wait(&job, 0, 0, THERE, message(&job, 0, THERE));
    fake_wait(&job, 1, 0, BACK, message(&job, 1, BACK));
    fake_look(&job, MS);
    fake_look(&job, HARNESS_WATCH_CYCLE_HOLD_NS);
    (void)fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, culprits);
    fake_job_close(&job);
}

/* Who left a message out is told from its past, if that is long enough. */
CT_TEST(circle, a_message_left_out)
{
    check_message_left_out(5, "0,1");
    check_message_left_out(16, "1");
}
