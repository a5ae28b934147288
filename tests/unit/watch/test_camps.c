/* Who is named where members of a communicator posted different calls, in drawn jobs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/watch/drawn_job.h"

enum { MS = 1000000 };

/* How many jobs were found to differ first, and who was named. */
struct tally {
    uint64_t mismatches, alone, among, victims;
};

static void look(struct drawn_job *drawn)
{
    if (drawn->job.findings.count == 0 && ddp_prng_below(&drawn->prng, 4) == 0) {
        fake_look(&drawn->job, 0);
    }
}

/* The culprit is named, alone; it is named with others; it is not. */
static void count_named(const struct drawn_job *drawn, uint64_t seed, struct tally *tally)
{
    const struct harness_findings *findings = &drawn->job.findings;
    bool is_in = false;
    bool is_alone = true;

    for (size_t i = 0; i < findings->count; i++) {
        const struct harness_rank_set *named = &findings->items[i].culprits;

        is_in = is_in || harness_rank_set_has(named, drawn->culprit);
        is_alone = is_alone && harness_rank_set_count(named) == 1 &&
                   harness_rank_set_has(named, drawn->culprit);
    }
    tally->mismatches++;
    tally->alone += is_in && is_alone;
    tally->among += is_in && !is_alone;
    tally->victims += !is_in;
    if (!is_in) {
        (void)printf("seed %" PRIu64 ", fault %d of rank %u of %u: %s\n", seed, (int)drawn->fault,
                     drawn->culprit, drawn->world_size, findings->items[0].text);
    }
}

static struct tally judge_many(const char *what, const struct drawn_shape *shape)
{
    enum { JOBS = 150 };
    static struct drawn_job drawn;
    struct tally tally = {0};

    for (uint64_t seed = 0; seed < JOBS; seed++) {
        const struct harness_findings *findings = &drawn.job.findings;

        drawn_job_open(&drawn, seed + 100000 * (uint64_t)shape->rounds, shape);
        drawn.on_move = look;
        (void)drawn_job_play(&drawn);
        if (findings->count == 0) {
            fake_look(&drawn.job, 1);
            fake_look(&drawn.job, HARNESS_WATCH_SURE_HOLD_NS);
        }
        if (findings->count > 0 &&
            harness_verdict_family(findings->items[0].verdict) == HARNESS_FAMILY_MISMATCH) {
            count_named(&drawn, seed, &tally);
        }
        drawn_job_close(&drawn);
    }
    (void)printf("%s%s, round %" PRIu32 " goes wrong: %" PRIu64 " differ, %" PRIu64
                 " culprits named alone, %" PRIu64 " with others, %" PRIu64 " not\n",
                 what, shape->has_async ? ", calls under way together" : "", shape->rounds + 1,
                 tally.mismatches, tally.alone, tally.among, tally.victims);
    return tally;
}

/* Most often the culprit is named alone, of programs that repeat themselves nearly always. Where
 * two ranks contradict each other in a program that goes its own way each round, the past of the
 * others can mislead: of 4,000, 14 times. */
CT_TEST(camps, drawn_jobs)
{
    static const uint32_t all_rounds[] = {0, 2, 4, 6, 10, 20};
    static const char *const words[] = {"the same", "some more", "as often as it comes", "both"};

    uint64_t mismatches = 0;
    uint64_t victims = 0;

    for (uint32_t way = 0; way < 8; way++) {
        for (size_t i = 0; i < sizeof all_rounds / sizeof all_rounds[0]; i++) {
            const struct drawn_shape shape = {.rounds = all_rounds[i],
                                              .has_async = way >= 4,
                                              .has_extras = way % 4 == 1 || way % 4 == 3,
                                              .is_irregular = way % 4 >= 2};

            const struct tally tally = judge_many(words[way % 4], &shape);

            mismatches += tally.mismatches;
            victims += tally.victims;
            if (way % 4 == 0) {
                CT_CHECK_EQ_U64(tally.victims, 0);
                CT_CHECK(shape.rounds < 6 || tally.alone * 10 >= tally.mismatches * 9);
            }
        }
    }
    CT_CHECK(mismatches >= 1000);
    CT_CHECK(victims * 200 <= mismatches);
}

/* A rank that has announced no step may take part in another one's steps: only calls of ranks that
 * have are of a step. */
CT_TEST(camps, ranks_without_steps)
{
    for (uint32_t is_late = 0; is_late < 2; is_late++) {
        struct fake_job job;

        fake_job_begin(&job, 3);
        for (uint32_t step = 0; step < 6; step++) {
            for (uint32_t r = 0; r < 3; r++) {
                if (r > 0) { /* rank 0 is nobody's learner */
                    fake_step(&job, r, step + (step == 5 && r == 2 ? is_late : 0));
                }
                fake_post(&job, r, 0, 10, 1);
            }
        }
        fake_look(&job, MS);
        fake_look(&job, 10 * MS);
        if (is_late == 0) {
            CT_CHECK_EQ_U64(job.findings.count, 0);
        } else {
            (void)fake_only(&job, HARNESS_VERDICT_MISMATCH_MISSING, "2");
        }
        fake_job_close(&job);
    }
}
