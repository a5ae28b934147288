/* A rank that leaves an update out posts what the others post, a step behind. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000 };

/* Steps of three calls. In step AT rank 0 posts these more, or leaves the update out: then all
 * that it posts is a step behind from there on. */
static void train_with(struct fake_job *job, uint32_t ranks, const uint32_t *more, uint32_t count,
                       bool is_update_less)
{
    enum { AT = 6 };

    fake_job_begin(job, ranks);
    for (uint32_t s = 0; s <= AT + 1; s++) {
        for (uint32_t r = 0; r < ranks; r++) {
            fake_step(job, r, s - (r == 0 && s > AT && is_update_less));
            for (uint32_t c = 0; c < 3; c++) {
                fake_post(job, r, 0, 100 - 10 * (uint64_t)c, 1 + c);
            }
            for (uint32_t c = 0; s == AT && r == 0 && c < count; c++) {
                fake_post(job, r, 0, 100 - 10 * (uint64_t)more[c], 1 + more[c]);
            }
        }
    }
}

/* The same calls in the same order, an update less between them. */
CT_TEST(update_less, left_out)
{
    for (uint32_t ranks = 2; ranks <= 4; ranks += 2) {
        const struct harness_finding *finding;
        struct fake_job job;

        train_with(&job, ranks, NULL, 0, true);
        fake_look(&job, 0);
        finding = fake_only(&job, HARNESS_VERDICT_VALUE_STALE, "0");
        CT_CHECK_EQ_I64(finding->step, 6);
        CT_CHECK(strstr(finding->text, "it left an update out") != NULL);
        fake_job_close(&job);
    }
}

/* A call more, which looks like the next step's first one, is none. */
CT_TEST(update_less, the_next_call_too_early)
{
    static const uint32_t more[] = {0};
    struct fake_job job;

    train_with(&job, 2, more, 1, false);
    fake_look(&job, 0);
    fake_only(&job, HARNESS_VERDICT_MISMATCH_EXTRA, "0");
    fake_job_close(&job);
}

/* What follows is awaited, as long as the ranks go on; then nobody knows. */
CT_TEST(update_less, an_update_left_out_or_a_call_more)
{
    struct fake_job job;

    train_with(&job, 2, NULL, 0, false);
    for (uint32_t r = 0; r < 2; r++) {
        fake_step(&job, r, 8 - r);
        fake_post(&job, r, 0, 100, 1);
    }
    CT_CHECK_EQ_U64(fake_look(&job, 0), 0);
    CT_CHECK_EQ_U64(fake_look(&job, 500 * MS), 0);
    fake_look(&job, 600 * MS);
    fake_only(&job, HARNESS_VERDICT_MISMATCH_EXTRA, "1");
    fake_job_close(&job);
}

/* One call a step, which one of two ranks leaves out or makes twice: four steps before tell which
 * of them, with other calls in between that come once. So it is where buckets are built anew behind
 * the first step. */
CT_TEST(usual_in_step, of_two_ranks_one_goes_wrong)
{
    for (uint32_t steps = 3; steps <= 4; steps++) {
        for (int is_left_out = 0; is_left_out < 2; is_left_out++) {
            struct fake_job job;

            fake_job_begin(&job, 2);
            for (uint32_t s = 0; s < steps + 2; s++) {
                for (uint32_t r = 0; r < 2; r++) {
                    const uint32_t is_wrong = s == steps && r == 1;

                    fake_step(&job, r, s);
                    for (uint32_t i = 0; s == 1 && i < 2; i++) {
                        fake_post(&job, r, 0, 7 + i, 0);
                    }
                    for (uint32_t i = 0; i < (is_left_out ? 1 - is_wrong : 1 + is_wrong); i++) {
                        fake_post(&job, r, 0, 100, 1);
                    }
                }
            }
            fake_look(&job, 0);
            if (steps == 4) {
                fake_only(&job,
                          is_left_out ? HARNESS_VERDICT_MISMATCH_MISSING
                                      : HARNESS_VERDICT_MISMATCH_EXTRA,
                          "1");
            } else {
                CT_REQUIRE(job.findings.count == 1);
                CT_CHECK_EQ_U64(harness_rank_set_count(&job.findings.items[0].culprits), 2);
            }
            fake_job_close(&job);
        }
    }
}

/* --- sums beside the buckets ------------------------------------------------------------------ */

/* Steps of two buckets. Behind step `seen` all ranks make a sum of their own, as of an evaluation;
 * at the end rank 0 alone, in the place of a bucket. */
static void evaluate(struct fake_job *job, uint32_t ranks, uint32_t steps, uint32_t seen,
                     uint64_t elem_count)
{
    fake_job_begin(job, ranks);
    for (uint32_t s = 0; s <= steps; s++) {
        for (uint32_t r = 0; r < ranks; r++) {
            fake_step(job, r, s);
            if (s == seen || (s == steps && r == 0)) {
                fake_post(job, r, 0, elem_count, 0);
            }
            if (s < steps || r != 0) {
                fake_post(job, r, 0, 100, 1);
            }
            if (s < steps) {
                fake_post(job, r, 0, 50, 2);
            }
        }
    }
    fake_look(job, 0);
}

/* It is no other bucket, but one call more: of one rank of two with a past, and of one of four. */
CT_TEST(beside_buckets, by_one_rank)
{
    static const uint32_t steps_of[] = {[2] = 6, [4] = 0};

    for (uint32_t ranks = 2; ranks <= 4; ranks += 2) {
        const struct harness_finding *finding;
        struct fake_job job;

        evaluate(&job, ranks, steps_of[ranks], UINT32_MAX, 2);
        finding = fake_only(&job, HARNESS_VERDICT_MISMATCH_EXTRA, "0");
        CT_CHECK_EQ_I64(finding->step, steps_of[ranks]);
        CT_CHECK(strstr(finding->text, "it made one call more, or left out all that was due") !=
                 NULL);
        fake_job_close(&job);
    }
}

/* Who of two is right without a past, nothing tells; nor whether it has left out a step, if all
 * have made such a call before. One of as many elements may be the bucket, which its rank could not
 * tell; and whoever goes on with a bucket has made no call more. */
CT_TEST(beside_buckets, not_where_it_may_be_otherwise)
{
    struct fake_job job;

    evaluate(&job, 2, 0, UINT32_MAX, 2);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "0,1");
    fake_job_close(&job);
    evaluate(&job, 3, 6, 3, 2);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "0");
    fake_job_close(&job);
    evaluate(&job, 3, 6, UINT32_MAX, 100);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_BUCKET, "0");
    fake_job_close(&job);
    fake_job_begin(&job, 3);
    for (uint32_t r = 0; r < 3; r++) {
        fake_post(&job, r, 0, r == 0 ? 100 : 2, r == 0);
    }
    fake_look(&job, 0);
    (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_COUNT, "0");
    fake_job_close(&job);
}
