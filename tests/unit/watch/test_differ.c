/* Calls that members of a communicator did not all post alike. */
#include <signal.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000 };

/* A step of two buckets of different sizes. */
static void right_step(struct fake_job *job, uint32_t rank, uint32_t step)
{
    fake_step(job, rank, step);
    fake_done(job, rank, 0, fake_post(job, rank, 0, 100, 1));
    fake_done(job, rank, 0, fake_post(job, rank, 0, 50, 2));
}

static void begin_with_steps(struct fake_job *job, uint32_t world_size, uint32_t steps)
{
    fake_job_begin(job, world_size);
    for (uint32_t s = 0; s < steps; s++) {
        for (uint32_t r = 0; r < world_size; r++) {
            right_step(job, r, s);
        }
    }
}

CT_TEST(differ, healthy)
{
    struct fake_job job;

    begin_with_steps(&job, 3, 5);
    right_step(&job, 1, 5); /* one is ahead */
    CT_CHECK_EQ_U64(fake_look(&job, 500 * MS), 0);
    fake_job_close(&job);
}

CT_TEST(differ, each_argument)
{
    static const struct {
        uint64_t op, elem_count, bucket;
        enum harness_verdict verdict;
    } wrong[] = {
        {DDPROVE_GUEST_BROADCAST | DDPROVE_GUEST_F32 << 8 | DDPROVE_GUEST_SUM << 16, 100, 1,
         HARNESS_VERDICT_MISMATCH_OP},
        {DDPROVE_GUEST_ALL_REDUCE | DDPROVE_GUEST_F64 << 8 | DDPROVE_GUEST_SUM << 16, 100, 1,
         HARNESS_VERDICT_MISMATCH_DTYPE},
        {DDPROVE_GUEST_ALL_REDUCE | DDPROVE_GUEST_F32 << 8 | DDPROVE_GUEST_MAX << 16, 100, 1,
         HARNESS_VERDICT_MISMATCH_REDUCTION},
        {DDPROVE_GUEST_ALL_REDUCE | DDPROVE_GUEST_F32 << 8 | DDPROVE_GUEST_SUM << 16 |
             UINT64_C(2) << 32,
         100, 1, HARNESS_VERDICT_MISMATCH_ROOT},
        {DDPROVE_GUEST_ALL_REDUCE | DDPROVE_GUEST_F32 << 8 | DDPROVE_GUEST_SUM << 16, 99, 1,
         HARNESS_VERDICT_MISMATCH_COUNT},
        {DDPROVE_GUEST_ALL_REDUCE | DDPROVE_GUEST_F32 << 8 | DDPROVE_GUEST_SUM << 16, 100, 7,
         HARNESS_VERDICT_MISMATCH_BUCKET},
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const struct harness_finding *finding;
        struct fake_job job;

        fake_job_begin(&job, 3);
        fake_post(&job, 0, 0, 100, 1);
        fake_post_op(&job, 1, 0, wrong[i].op, wrong[i].elem_count, wrong[i].bucket);
        fake_post(&job, 2, 0, 100, 1);
        fake_look(&job, 0);
        finding = fake_only(&job, wrong[i].verdict, "1");
        CT_CHECK_EQ_U64(finding->op.seq, 1);
        CT_CHECK_EQ_U64(finding->op.elem_count, 100);
        CT_CHECK_EQ_U64(fake_look(&job, MS),
                        1); /* what follows in the communicator is not compared */
        fake_job_close(&job);
    }
}

/* Two ranks and no history: nobody can say who is wrong, so both are named. */
CT_TEST(differ, two_camps)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    fake_post(&job, 0, 0, 100, 1);
    fake_post(&job, 1, 0, 90, 1);
    fake_look(&job, 0);
    CT_CHECK(strstr(fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "0,1")->text,
                    "which of them is right, nothing tells") != NULL);
    fake_job_close(&job);
}

/* Two ranks: what the communicator did before says who is right. */
CT_TEST(differ, two_ranks_with_a_history)
{
    struct fake_job job;

    begin_with_steps(&job, 2, 4);
    fake_step(&job, 0, 4);
    fake_step(&job, 1, 4);
    fake_post(&job, 0, 0, 100, 1);
    fake_post(&job, 1, 0, 100, 1);
    fake_post(&job, 0, 0, 51, 2);
    fake_post(&job, 1, 0, 50, 2);
    fake_look(&job, 0);
    fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "0");
    fake_job_close(&job);
}

/* One call a step, always the same one: only the step in which it is posted tells who left it out.
 */
CT_TEST(differ, two_ranks_with_one_call_a_step)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    for (uint32_t s = 0; s < 7; s++) {
        for (uint32_t r = 0; r < 2; r++) {
            fake_step(&job, r, s);
            if (s != 5 || r != 1) {
                fake_post(&job, r, 0, 100, 1);
            }
        }
    }
    fake_look(&job, 0);
    fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "1");
    fake_job_close(&job);
}

/* The same of a call that is posted twice in a step. */
CT_TEST(differ, two_ranks_with_one_call_too_many_in_a_step)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    for (uint32_t s = 0; s < 7; s++) {
        for (uint32_t r = 0; r < 2; r++) {
            fake_step(&job, r, s);
            fake_post(&job, r, 0, 100, 1);
            if (s == 5 && r == 0) {
                fake_post(&job, r, 0, 100, 1);
            }
        }
    }
    fake_look(&job, 0);
    fake_only(&job, HARNESS_VERDICT_MISMATCH_EXTRA, "0");
    fake_job_close(&job);
}

/* Every fourth step ends with a barrier, so that not always the same comes behind a step's last
 * call; but what one rank posts there never has. */
static void check_call_of_some_steps(uint32_t last)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    for (uint32_t s = 0; s <= last; s++) {
        for (uint32_t r = 0; r < 2; r++) {
            fake_step(&job, r, s);
            if (s != last || r != 1) {
                fake_post(&job, r, 0, 100, 1);
            }
            fake_post(&job, r, 0, 8, 0);
            fake_post(&job, r, 0, 4, 0);
            if (s % 4 == 3) {
                fake_post(&job, r, 0, 1, 0);
            }
        }
    }
    fake_look(&job, 5 * MS);
    fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "1");
    fake_job_close(&job);
}

CT_TEST(differ, two_ranks_and_a_call_of_some_steps)
{
    /* behind a step that no barrier was before, and behind one that one was before */
    check_call_of_some_steps(7);
    check_call_of_some_steps(10);
    check_call_of_some_steps(11);
}

/* Steps in which the call comes now and then foretell nothing. */
CT_TEST(differ, two_ranks_with_a_call_now_and_then)
{
    static const uint32_t steps[] = {0, 2, 3, 6, 7, 9, 10, 12};
    struct fake_job job;

    fake_job_begin(&job, 2);
    for (uint32_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        for (uint32_t r = 0; r < 2; r++) {
            if (i != 6 || r != 1) {
                fake_step(&job, r, steps[i]);
                fake_post(&job, r, 0, 100, 1);
            }
        }
    }
    fake_look(&job, 0);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "0,1");
    fake_job_close(&job);
}

/* A rank may post while the others' calls are read: that was no time ago, not less. */
CT_TEST(differ, posted_after_the_look_began)
{
    struct fake_job job;

    fake_job_begin(&job, 3);
    for (uint32_t r = 0; r < 3; r++) {
        job.now_ns += MS;
        fake_post(&job, r, 0, r == 2 ? 90 : 100, 1);
    }
    job.now_ns -= MS;
    fake_look(&job, 0);
    CT_CHECK_EQ_I64(fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "2")->detect_ns, 0);
    fake_job_close(&job);
}

CT_TEST(differ, left_out)
{
    struct fake_job job;
    const struct harness_finding *finding;

    begin_with_steps(&job, 4, 3);
    for (uint32_t r = 0; r < 4; r++) {
        fake_step(&job, r, 3);
        if (r != 2) {
            fake_post(&job, r, 0, 100, 1);
        }
    }
    fake_post(&job, 2, 0, 50, 2);
    CT_CHECK_EQ_U64(fake_look(&job, 0), 0); /* the other may come next */
    fake_look(&job, 5 * MS);
    finding = fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "2");
    CT_CHECK_EQ_I64(finding->step, 3);
    CT_CHECK_EQ_I64(finding->op.bucket, 0);
    fake_job_close(&job);
}

/* The last call of a step: only the step tells, as the next one is the same on all. */
CT_TEST(differ, left_out_at_the_end)
{
    struct fake_job job;
    const struct harness_finding *finding;

    fake_job_begin(&job, 3);
    for (uint32_t s = 0; s < 4; s++) {
        for (uint32_t r = 0; r < 3; r++) {
            fake_step(&job, r, s);
            for (uint32_t call = 0; call < 2; call++) {
                if (r != 1 || s != 2 || call != 1) {
                    fake_post(&job, r, 0, 10, 0);
                }
            }
        }
    }
    fake_look(&job, 0);
    finding = fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "1");
    CT_CHECK_EQ_I64(finding->step, 2);
    fake_job_close(&job);
}

CT_TEST(differ, one_too_many)
{
    struct fake_job job;

    begin_with_steps(&job, 3, 3);
    for (uint32_t r = 0; r < 3; r++) {
        fake_step(&job, r, 3);
        fake_post(&job, r, 0, 100, 1);
        fake_post(&job, r, 0, r == 0 ? 100 : 50, r == 0 ? 1 : 2);
    }
    CT_CHECK_EQ_U64(fake_look(&job, 0), 0); /* the other may come next */
    fake_look(&job, 5 * MS);
    fake_only(&job, HARNESS_VERDICT_MISMATCH_EXTRA, "0");
    fake_job_close(&job);
}

/* The others get a moment to come; if they cannot, because the wrong call blocks them, it is said
 * without them. */
CT_TEST(differ, before_all_have_come)
{
    struct fake_job job;

    begin_with_steps(&job, 3, 5);
    for (uint32_t r = 0; r < 2; r++) {
        fake_step(&job, r, 5);
        fake_post(&job, r, 0, r == 0 ? 100 : 7, 1);
    }
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    fake_look(&job, HARNESS_WATCH_DIFFER_HOLD_NS);
    fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "1");
    fake_job_close(&job);
}

/* A long job keeps a bounded history. */
CT_TEST(differ, history_is_bounded)
{
    struct fake_job job;

    fake_job_begin(&job, 2);
    for (uint32_t s = 0; s < 20000; s++) {
        right_step(&job, 0, s);
        right_step(&job, 1, s);
        CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    }
    CT_CHECK_EQ_U64(job.watch.groups[0].members[0].posted, 40000);
    CT_CHECK(job.watch.groups[0].members[0].call_count < 3 * 4096);
    CT_CHECK_EQ_U64(job.watch.ranks[0].lost_count, 0);
    fake_job_close(&job);
}

/* Calls come in turns, and nothing lies between them: what a rank posts may be its last call again
 * or the next but one, so it is said to be another one, and no more. */
CT_TEST(differ, a_call_again_or_the_next_but_one)
{
    struct fake_job job;

    fake_job_begin(&job, 3);
    for (uint32_t i = 0; i < 9; i++) {
        for (uint32_t r = 0; r < 3; r++) {
            fake_post(&job, r, 0, i % 2 == 0 || (i == 7 && r == 1) ? 10 : 20, 0);
        }
    }
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "1");
    CT_CHECK_EQ_U64(job.findings.items[0].op.seq, 8);
    fake_job_close(&job);
}

/* What comes next is not known yet: in a loop's first round a rank that leaves the second call out
 * posts the first one again. */
CT_TEST(differ, a_call_again_before_something_new)
{
    struct fake_job job;

    fake_job_begin(&job, 3);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t r = 0; r < 3; r++) {
            fake_post(&job, r, 0, i == 3 && r == 1 ? 12 : 10 + i, 0);
        }
    }
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "1");
    fake_job_close(&job);
}

/* Of two ranks the one that did what once followed is not right for that: it may have been chance.
 */
CT_TEST(differ, once_is_no_habit)
{
    struct fake_job job;
    static const uint64_t counts[] = {10, 20, 20, 30, 20};

    fake_job_begin(&job, 2);
    for (uint32_t i = 0; i < 6; i++) {
        for (uint32_t r = 0; r < 2; r++) {
            fake_post(&job, r, 0, i < 5 ? counts[i] : r == 0 ? 20 : 40, 0);
        }
    }
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "0,1");
    fake_job_close(&job);
}

/* One call a step, and a rank that leaves it out is a step ahead with the same call: the past tells
 * in which step the call is due. */
CT_TEST(differ, the_same_call_a_step_later)
{
    for (uint32_t rounds = 2; rounds < 8; rounds += 4) {
        struct fake_job job;

        fake_job_begin(&job, 2);
        for (uint32_t step = 0; step <= rounds; step++) {
            for (uint32_t r = 0; r < 2; r++) {
                fake_step(&job, r, step + (step == rounds && r == 1 ? 1 : 0));
                fake_post(&job, r, 0, 10, 1);
            }
        }
        fake_look(&job, MS);
        fake_look(&job, 10 * MS); /* it may have taken them in another order */
        if (rounds == 2) {        /* that is no habit yet */
            (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "0,1");
        } else {
            (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "1");
        }
        fake_job_close(&job);
    }
}

/* Each step sums, takes a maximum of as many elements, and has a third call. */
enum what { SUM = 1, MAX = 2, THIRD = 4, THEN_SUM = 8, LARGE = 16 };
static void sums_and_maxima(struct fake_job *job, uint32_t rank, uint32_t step, unsigned what)
{
    const uint64_t max =
        guest_op_pack(DDPROVE_GUEST_ALL_REDUCE, DDPROVE_GUEST_F32, DDPROVE_GUEST_MAX, 0);

    fake_step(job, rank, step);
    if ((what & LARGE) != 0) {
        fake_post(job, rank, 0, 5460, 1);
        fake_post(job, rank, 0, 4160, 2);
    }
    if ((what & SUM) != 0) {
        fake_post(job, rank, 0, 8, 0);
    }
    if ((what & MAX) != 0) {
        fake_post_op(job, rank, 0, max, 8, 0);
    }
    if ((what & THEN_SUM) != 0) {
        fake_post(job, rank, 0, 8, 0);
    }
    if ((what & THIRD) != 0) {
        fake_post(job, rank, 0, 4, 0);
    }
}

/* Rank 1's steps come in two parts: what it posts first, and what it posts once that has ended. */
static void check_what_follows(uint32_t world_size, unsigned first, unsigned then,
                               enum harness_verdict verdict)
{
    struct fake_job job;

    fake_job_begin(&job, world_size);
    for (uint32_t s = 0; s < 6; s++) {
        for (uint32_t r = 0; r < world_size; r++) {
            sums_and_maxima(&job, r, s, SUM | MAX | THIRD);
        }
    }
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    for (uint32_t r = 0; r < world_size; r++) {
        sums_and_maxima(&job, r, 6, r == 1 ? first : SUM);
        fake_wait(&job, r, 0, 0, guest_arena_page(job.arena.head, r)->comms[0].posted);
    }
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0); /* what follows will tell */
    for (uint32_t r = 0; r < world_size; r++) {
        sums_and_maxima(&job, r, 6, r == 1 ? then : MAX);
    }
    fake_look(&job, HARNESS_WATCH_FIT_HOLD_NS);
    fake_only(&job, verdict, "1");
    fake_job_close(&job);
}

/* The call of a rank that waits is the next one as well as a wrong one in this place. */
CT_TEST(differ, what_follows_tells)
{
    for (uint32_t world_size = 2; world_size <= 4; world_size += 2) {
        check_what_follows(world_size, MAX, MAX, HARNESS_VERDICT_MISMATCH_REDUCTION);
        check_what_follows(world_size, MAX, THIRD, HARNESS_VERDICT_MISMATCH_MISSING);
        check_what_follows(world_size, MAX, SUM, HARNESS_VERDICT_MISMATCH_ORDER);
        check_what_follows(world_size, MAX, 0, HARNESS_VERDICT_MISMATCH_MISSING); /* no word */
    }
}

/* A rank that left several calls out posts the one behind them. */
static void check_several_left_out(uint32_t world_size)
{
    struct fake_job job;

    fake_job_begin(&job, world_size);
    for (uint32_t s = 0; s < 7; s++) {
        for (uint32_t r = 0; r < world_size; r++) {
            sums_and_maxima(&job, r, s, (s == 6 && r == 1 ? 0 : LARGE) | SUM | MAX | THIRD);
        }
    }
    fake_look(&job, 0);
    fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "1");
    fake_job_close(&job);
}

CT_TEST(differ, several_calls_left_out)
{
    check_several_left_out(4);
}

CT_TEST(differ, several_calls_left_out_by_one_of_two)
{
    check_several_left_out(2);
}

/* The library ends a rank whose call is not the others': that is no crash. Nobody is killed by it.
 */
CT_TEST(differ, a_rank_that_the_library_ends)
{
    static const int signals[] = {SIGABRT, SIGSEGV, SIGKILL, SIGTERM};

    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct fake_job job;

        begin_with_steps(&job, 3, 2);
        for (uint32_t r = 0; r < 3; r++) {
            const uint64_t seq = fake_post(&job, r, 0, r == 1 ? 7 : 100, 1);

            if (r != 1) { /* it is ended before it waits */
                fake_wait(&job, r, 0, 0, seq);
            }
        }
        fake_state(&job, 1, HARNESS_WATCH_SIGNALED, signals[i]);
        CT_CHECK_EQ_U64(fake_look(&job, 0), i < 2 ? 1 : 2);
        CT_CHECK(job.findings.items[0].verdict == HARNESS_VERDICT_MISMATCH_COUNT);
        fake_job_close(&job);
    }
}
