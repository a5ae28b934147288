/* What ranks that have nothing to do with it tell of who is right: those of a communicator of the
 * same split, or those that went another way. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000, RANKS = 4, WORLD = 0, SPLIT = 1 };

static const uint64_t product =
    DDPROVE_GUEST_ALL_REDUCE | DDPROVE_GUEST_F32 << 8 | DDPROVE_GUEST_PROD << 16;

/* All ranks, and two pairs of them. */
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

/* In each round each rank waits for a message between its calls of all and of the pairs. One makes
 * the call of all once more, and the others wait for its messages, or for those of who waits for
 * them. */
static void check_one_more(uint32_t rank, int rounds, const char *culprits, const char *words)
{
    const struct harness_finding *finding;
    struct fake_job job;

    begin_pairs(&job);
    for (int i = 0; i < rounds; i++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            fake_message(&job, r, 0);
            run(&job, r, SPLIT);
            run(&job, r, WORLD);
        }
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r == rank) {
            fake_wait(&job, r, 0, WORLD, fake_post(&job, r, WORLD, 10, 0));
        } else {
            fake_message(&job, r, guest_wait_pack((int)((r + RANKS - 1) % RANKS), -1));
        }
    }
    fake_look(&job, MS);
    fake_look(&job, job.limits.silent_ns);
    fake_look(&job, MS);
    finding = fake_only(&job, HARNESS_VERDICT_HANG_CYCLE, culprits);
    CT_CHECK(strstr(finding->text, words) != NULL);
    fake_job_close(&job);
}

CT_TEST(others, one_call_more_where_others_wait_for_messages)
{
    check_one_more(2, 10, "2", "");
}

CT_TEST(others, one_call_more_by_what_is_known)
{
    check_one_more(0, 4, "0", ", as rank 0 went on to all_reduce 5 of world");
    check_one_more(0, 1, "0,1,2,3", "wait for each other in a circle; ");
}

/* Rounds of the pairs' calls, the second pair's of as many elements more as is said; then rank 1's
 * is another one. */
static void begin_wrong(struct fake_job *job, int rounds, uint64_t more)
{
    begin_pairs(job);
    for (int i = 0; i < rounds; i++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            fake_done(job, r, SPLIT, fake_post(job, r, SPLIT, 10 + (r / 2) * more, 0));
        }
    }
    CT_CHECK_EQ_U64(fake_look(job, MS), 0);
    for (uint32_t r = 0; r < 2; r++) {
        fake_wait(job, r, 0, SPLIT,
                  r == 1 ? fake_post_op(job, r, SPLIT, product, 10, 0)
                         : fake_post(job, r, SPLIT, 10, 0));
    }
}

/* The other pair's ranks say what the program has here; they are waited for. Of three rounds a
 * pair's own past tells nothing. */
CT_TEST(others, the_other_pair_tells)
{
    struct fake_job job;

    begin_wrong(&job, 3, 0);
    CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    for (uint32_t r = 2; r < RANKS; r++) {
        fake_post(&job, r, SPLIT, 10, 0);
    }
    fake_look(&job, MS);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_REDUCTION, "1");
    fake_job_close(&job);
}

/* It does not come, or has done something else before, or for too short a time: both are named. */
CT_TEST(others, the_other_pair_does_not_tell)
{
    static const struct {
        int rounds;
        uint64_t more;
        bool comes;
    } cases[] = {{3, 0, false}, {3, 5, true}, {2, 0, true}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fake_job job;

        begin_wrong(&job, cases[i].rounds, cases[i].more);
        for (uint32_t r = 2; r < RANKS && cases[i].comes; r++) {
            fake_post(&job, r, SPLIT, 10, 0);
        }
        fake_look(&job, MS);
        fake_look(&job, HARNESS_WATCH_FIT_HOLD_NS);
        (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_REDUCTION, "0,1");
        fake_job_close(&job);
    }
}
