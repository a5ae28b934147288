/* Which calls are judged, and which of several findings is the first. What a call's data come to is
 * written by hand here. */
#include <math.h>
#include <string.h>

#include "harness/guest/observe/sums.h"
#include "harness/results/results.h"
#include "tests/ct.h"
#include "tests/unit/watch/fake_rank.h"

enum { MS = 1000000 };

/* A sum of f32 of one element; in, out: that element. Returns the call's number. */
static uint64_t sum(struct fake_job *job, uint32_t rank, uint32_t place, double in, double out)
{
    const uint64_t seq = fake_post(job, rank, place, 1, 0);

    fake_value(job, rank, place, seq, true, in);
    fake_value(job, rank, place, seq, false, out);
    fake_done(job, rank, place, seq);
    return seq;
}

static void begin(struct fake_job *job, uint32_t world_size)
{
    fake_job_begin(job, world_size);
    job->arena.head->is_observed = 1;
}

static void expect(const struct fake_job *job, size_t index, enum harness_verdict verdict,
                   uint32_t culprit)
{
    CT_REQUIRE(index < job->findings.count);
    CT_CHECK_STR(harness_verdict_name(job->findings.items[index].verdict),
                 harness_verdict_name(verdict));
    CT_CHECK(harness_rank_set_count(&job->findings.items[index].culprits) == 1 &&
             harness_rank_set_has(&job->findings.items[index].culprits, culprit));
}

CT_TEST(sums, a_call_is_judged_once_and_when_all_have_ended_it)
{
    struct fake_job job;

    begin(&job, 2);
    (void)sum(&job, 0, 0, 1, 1);
    CT_CHECK_EQ_U64(fake_look(&job, 1), 0);
    CT_CHECK_EQ_U64(job.watch.tally.judged, 0);
    (void)sum(&job, 1, 0, 5, 1); /* what rank 1 put in is missing */
    CT_CHECK_EQ_U64(fake_look(&job, 1), 1);
    expect(&job, 0, HARNESS_VERDICT_VALUE_LOST, 1);
    CT_CHECK_EQ_U64(fake_look(&job, 1), 1);
    CT_CHECK_EQ_U64(job.watch.tally.judged, 1);
    fake_job_close(&job);
}

/* Of each block of calls one is drawn, and a program that makes a call for each of its buckets in
 * turns has all of them drawn, also if a block is as long as a turn. */
CT_TEST(sums, what_is_drawn)
{
    enum { EVERY = 5, BLOCKS = 200 };
    uint32_t of_turn[EVERY] = {0};

    for (uint64_t block = 0; block < BLOCKS; block++) {
        uint32_t drawn = 0;

        for (uint64_t i = 0; i < EVERY; i++) {
            const bool is_drawn = guest_is_drawn(EVERY, 7, 1 + block * EVERY + i);

            drawn += is_drawn;
            of_turn[i] += is_drawn;
            CT_CHECK(guest_is_drawn(1, 7, 1 + block * EVERY + i));
            CT_CHECK(guest_is_drawn(0, 7, 1 + block * EVERY + i));
        }
        CT_CHECK_EQ_U64(drawn, 1);
    }
    for (uint32_t i = 0; i < EVERY; i++) {
        CT_CHECK(of_turn[i] > BLOCKS / EVERY / 2);
    }
}

/* Calls that are not drawn are no missing evidence, and no judged ones. What was to be reported of
 * a call that is drawn, and was not, is missing; what was reported all the same is judged. */
CT_TEST(sums, passed_over)
{
    enum { EVERY = 4, CALLS = 16 };
    struct fake_job job;
    uint64_t drawn_count = 0;

    begin(&job, 2);
    job.arena.head->observed_every = EVERY;
    CT_CHECK_EQ_U64(fake_look(&job, 1), 0);
    CT_REQUIRE(job.watch.group_count == 1);
    for (uint64_t seq = 1; seq <= CALLS; seq++) {
        const bool is_drawn = guest_is_drawn(EVERY, job.watch.groups[0].key, seq);

        for (uint32_t r = 0; r < 2; r++) {
            if (is_drawn || seq == CALLS) {
                CT_CHECK_EQ_U64(sum(&job, r, 0, 1, 2), seq);
            } else {
                fake_done(&job, r, 0, fake_post(&job, r, 0, 1, 0));
            }
        }
        drawn_count += is_drawn || seq == CALLS;
    }
    CT_CHECK_EQ_U64(fake_look(&job, 1), 0);
    CT_CHECK_EQ_U64(job.watch.tally.judged, drawn_count);
    CT_CHECK_EQ_U64(job.watch.tally.unjudged[HARNESS_WATCH_UNJUDGED_PASSED_OVER],
                    CALLS - drawn_count);
    job.arena.head->observed_every = 1;
    for (uint32_t r = 0; r < 2; r++) {
        fake_done(&job, r, 0, fake_post(&job, r, 0, 1, 0));
    }
    CT_CHECK_EQ_U64(fake_look(&job, 1), 0);
    CT_CHECK_EQ_U64(job.watch.tally.unjudged[HARNESS_WATCH_UNJUDGED_HIDDEN], 1);
    job.arena.head->observed_every = EVERY; /* one that is drawn is judged, and found */
    while (!guest_is_drawn(EVERY, job.watch.groups[0].key, job.watch.groups[0].summed_seq + 1)) {
        for (uint32_t r = 0; r < 2; r++) {
            fake_done(&job, r, 0, fake_post(&job, r, 0, 1, 0));
        }
        CT_CHECK_EQ_U64(fake_look(&job, 1), 0);
    }
    (void)sum(&job, 0, 0, 1, 1);
    (void)sum(&job, 1, 0, 5, 1);
    CT_CHECK_EQ_U64(fake_look(&job, 1), 1);
    expect(&job, 0, HARNESS_VERDICT_VALUE_LOST, 1);
    fake_job_close(&job);
}

CT_TEST(sums, nobody_asked)
{
    struct fake_job job;

    begin(&job, 2);
    job.arena.head->is_observed = 0;
    (void)sum(&job, 0, 0, 1, 1);
    (void)sum(&job, 1, 0, 2, 1);
    CT_CHECK_EQ_U64(fake_look(&job, 1), 0);
    fake_job_close(&job);
}

/* Rounding is no error, and what is more than that is one. */
CT_TEST(sums, bound)
{
    struct fake_job job;

    begin(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        (void)sum(&job, r, 0, 1, 2 * (1 + 0x1p-24)); /* half a unit in the last place of 2 */
        (void)sum(&job, r, 0, 1, 2 * (1 + 0x1p-22));
    }
    CT_CHECK_EQ_U64(fake_look(&job, 1), 1);
    CT_CHECK_EQ_U64(job.findings.items[0].op.seq, 2);
    fake_job_close(&job);
}

/* A NaN spreads. The rank that had the first one is named, in whatever communicator, and it is said
 * once. */
CT_TEST(sums, the_first_nan)
{
    struct fake_job job;

    begin(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        fake_comm(&job, r, 1, 5, r, 2);
    }
    for (uint32_t r = 0; r < 2; r++) {
        (void)sum(&job, r, 1, r == 1 ? (double)NAN : 1, (double)NAN);
    }
    job.now_ns += 1000;
    for (uint32_t r = 0; r < 2; r++) {
        (void)sum(&job, r, 0, (double)NAN, (double)NAN);
    }
    CT_CHECK_EQ_U64(fake_look(&job, 1), 1);
    expect(&job, 0, HARNESS_VERDICT_VALUE_NONFINITE, 1);
    for (uint32_t r = 0; r < 2; r++) {
        (void)sum(&job, r, 0, (double)NAN, (double)NAN);
    }
    CT_CHECK_EQ_U64(fake_look(&job, 1), 1);
    CT_CHECK_EQ_U64(job.watch.tally.judged, 2);
    CT_CHECK_EQ_U64(job.watch.tally.unjudged[HARNESS_WATCH_UNJUDGED_NOT_FINITE], 1);
    fake_job_close(&job);
}

CT_TEST(sums, what_is_left_is_counted)
{
    struct fake_job job;

    begin(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        (void)sum(&job, r, 0, 1, 2);
        (void)fake_post_op(&job, r, 0, DDPROVE_GUEST_BARRIER, 0, 0); /* brings no data */
    }
    (void)sum(&job, 0, 0, 1, 2);
    (void)fake_post(&job, 1, 0, 1, 0); /* does not end */
    (void)fake_post(&job, 0, 0, 1, 0);
    (void)fake_post(&job, 1, 0, 2, 0); /* differs */
    (void)fake_post(&job, 1, 0, 2, 0);
    CT_CHECK_EQ_U64(fake_look(&job, 5 * MS), 1); /* of two ranks either may be wrong */
    harness_results_finish(&job.watch);
    CT_CHECK_EQ_U64(job.watch.tally.judged, 1);
    CT_CHECK_EQ_U64(job.watch.tally.unjudged[HARNESS_WATCH_UNJUDGED_UNENDED], 1);
    CT_CHECK_EQ_U64(job.watch.tally.unjudged[HARNESS_WATCH_UNJUDGED_DIFFER], 2);
    CT_CHECK(!job.watch.tally.has_lost);
    fake_job_close(&job);
}

/* A device's data are its own: every call that has some is counted, once, and none is judged. */
CT_TEST(sums, of_devices_are_not_shown)
{
    struct fake_job job;

    begin(&job, 2);
    for (uint32_t r = 0; r < 2; r++) {
        fake_comm_of(&job, r, 1, 2, r, 2, GUEST_COMM_DEVICE);
    }
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t r = 0; r < 2; r++) {
            (void)fake_post(&job, r, 1, 1, 0);
        }
        CT_CHECK_EQ_U64(fake_look(&job, MS), 0);
    }
    harness_results_finish(&job.watch);
    CT_CHECK_EQ_U64(job.watch.tally.judged, 0);
    CT_CHECK_EQ_U64(job.watch.tally.unjudged[HARNESS_WATCH_UNJUDGED_HIDDEN], 3);
    CT_CHECK_EQ_U64(job.watch.tally.unjudged[HARNESS_WATCH_UNJUDGED_UNENDED], 0);
    fake_job_close(&job);
}
