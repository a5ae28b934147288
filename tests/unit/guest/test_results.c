/* Results of collectives: who reads what ranks report of their data judges them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/file.h"
#include "harness/guest/fault.h"
#include "tests/ct.h"
#include "tests/unit/guest/results.h"

static void expect_unjudged(const struct trial *trial, enum harness_watch_unjudged reason)
{
    const struct outcome got = results_run(trial);

    if (got.count != 0 || got.tally.judged != 0 || got.tally.unjudged[reason] != 1) {
        CT_FAIL("kind %u, type %u, reason %d: %zu findings, %llu judged", trial->kind, trial->dtype,
                (int)reason, got.count, (unsigned long long)got.tally.judged);
    }
}

static void expect_nothing(const struct trial *trial)
{
    const struct outcome got = results_run(trial);

    /* Rounding to few bits may hide a contribution. */
    const bool is_narrow = trial->dtype == DDPROVE_GUEST_F16 || trial->dtype == DDPROVE_GUEST_BF16;

    if (got.count != 0 ||
        got.tally.judged + (is_narrow ? got.tally.unjudged[HARNESS_WATCH_UNJUDGED_BLIND] : 0) !=
            1) {
        CT_FAIL("kind %u, type %u, %u ranks, %llu elements: %zu findings, %llu judged: %s",
                trial->kind, trial->dtype, trial->size, (unsigned long long)trial->count, got.count,
                (unsigned long long)got.tally.judged, got.text);
    }
}

/* --- tampering
 * ----------------------------------------------------------------------------------------------------
 */

static void add_to_element(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    (void)rank;
    results_put(trial->dtype, out, out_count / 2,
                results_get(trial->dtype, out, out_count / 2) + 0.25);
}

static void add_on_one(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    if (rank == trial->who) {
        add_to_element(trial, rank, out, out_count);
    }
}

/* The last bit: no more than rounding. */
static void nudge_on_one(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    (void)out_count;
    if (rank == trial->who) {
        *(unsigned char *)out ^= 1;
    }
}

static void divide(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    (void)rank;
    for (uint64_t i = 0; i < out_count; i++) {
        results_put(trial->dtype, out, i, results_get(trial->dtype, out, i) / trial->size);
    }
}

static void spoil(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    (void)rank;
    results_put(trial->dtype, out, out_count - 1, (double)NAN);
}

/* The largest of 0 and -0 may be either. */
static void negate_zero(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    results_put(trial->dtype, out, out_count - 1, rank == trial->who ? -0.0 : 0.0);
}

/* The last element is 0, and on one rank the largest negative number below it. */
static void least_for_zero(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    negate_zero(trial, rank, out, out_count);
    if (rank == trial->who) {
        const size_t elem_bytes = guest_dtype_size_bytes(trial->dtype);

        ((unsigned char *)out)[(out_count - 1) * elem_bytes] |= 1;
    }
}

/* Two elements change places, on all ranks. */
static void swap(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    const double first = results_get(trial->dtype, out, 3);

    (void)rank;
    results_put(trial->dtype, out, 3, results_get(trial->dtype, out, out_count - 2));
    results_put(trial->dtype, out, out_count - 2, first);
}

/* --- tests
 * --------------------------------------------------------------------------------------------------------
 */

static const uint32_t kinds[] = {DDPROVE_GUEST_ALL_REDUCE,     DDPROVE_GUEST_REDUCE,
                                 DDPROVE_GUEST_REDUCE_SCATTER, DDPROVE_GUEST_BROADCAST,
                                 DDPROVE_GUEST_GATHER,         DDPROVE_GUEST_ALL_GATHER,
                                 DDPROVE_GUEST_SCATTER,        DDPROVE_GUEST_ALL_TO_ALL};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

CT_TEST(results, healthy)
{
    static const uint32_t dtypes[] = {DDPROVE_GUEST_F32,  DDPROVE_GUEST_F64, DDPROVE_GUEST_F16,
                                      DDPROVE_GUEST_BF16, DDPROVE_GUEST_I32, DDPROVE_GUEST_I64,
                                      DDPROVE_GUEST_U8};

    for (size_t k = 0; k < KINDS; k++) {
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
            struct trial trial = results_trial(kinds[k], dtypes[d], 1 + (uint32_t)(k + d) % 4,
                                               dtypes[d] == DDPROVE_GUEST_BF16 ? 40 : 257 + 13 * d);

            trial.root = trial.size - 1;
            expect_nothing(&trial);
        }
    }
}

/* Divided once, before or after; in place; in pieces of all lengths. */
CT_TEST(results, healthy_sums)
{
    static const uint64_t counts[] = {1, 255, 256, 1023, 1024, 1025, 3000};
    struct trial trial = results_sum(3);

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        trial.count = counts[i];
        trial.is_in_place = i % 2 == 0;
        expect_nothing(&trial);
    }
    trial.redop = DDPROVE_GUEST_AVG;
    trial.is_in_place = false;
    expect_nothing(&trial);
    trial.redop = DDPROVE_GUEST_MAX;
    CT_CHECK_EQ_U64(results_run(&trial).tally.compared, 1);
    trial.tamper = negate_zero;
    expect_nothing(&trial);
}

CT_TEST(results, contributions)
{
    struct trial trial = results_sum(4);

    trial.weight[2] = -1;
    results_expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 2,
                   "as if rank 2's contribution were left out");
    trial.weight[2] = 1;
    results_expect(&trial, HARNESS_VERDICT_VALUE_DUPLICATED, 1 << 2, "counted twice");
    trial.weight[2] = -0.5;
    results_expect(&trial, HARNESS_VERDICT_VALUE_SCALED, 1 << 2, "multiplied by 0.5");
    trial.weight[2] = 0.37; /* any rank's, by some factor */
    results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, RESULTS_ALL,
                   "do not tell the ranks apart");
    trial.weight[2] = 0;
    trial.tamper = divide;
    results_expect(&trial, HARNESS_VERDICT_VALUE_SCALED, RESULTS_ALL,
                   "all of it were multiplied by 0.25");
    trial.tamper = add_to_element;
    results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, RESULTS_ALL, "off by");
    trial.tamper = NULL;
    trial.dtype = DDPROVE_GUEST_I32;
    trial.weight[0] = -1;
    results_expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 0, "rank 0");
    trial.kind = DDPROVE_GUEST_REDUCE_SCATTER;
    results_expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 0, "rank 0");
    trial.dtype = DDPROVE_GUEST_F64;
    trial.kind = DDPROVE_GUEST_REDUCE;
    results_expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 0, "rank 0");
}

/* A few elements whose sum with random signs is near zero: another sum of them, with other signs,
 * tells whose contribution it is. It also refutes what explains the first one by chance. */
CT_TEST(results, two_sums_tell_more)
{
    static const uint32_t seeds[] = {42, 329, 1190, 1764, 2051, 2338, 2912};
    struct trial trial = results_trial(DDPROVE_GUEST_ALL_REDUCE, DDPROVE_GUEST_F32, 4, 10);

    trial.weight[2] = 1;
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        trial.seed = seeds[i];
        results_expect(&trial, HARNESS_VERDICT_VALUE_DUPLICATED, 1 << 2, "counted twice");
    }
    trial.weight[2] = 0.37;
    trial.seed = 2064; /* rank 1's contribution times 0.5 changes the first one by as much */
    results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, RESULTS_ALL,
                   "do not tell the ranks apart");
}

/* Ranks put in the same: whose contribution is missing cannot be told, of two ranks not even
 * whether it is not the whole that was halved. */
CT_TEST(results, who_cannot_be_told)
{
    struct trial trial = results_sum(3);

    trial.is_equal = true;
    trial.weight[1] = -1;
    results_expect(&trial, HARNESS_VERDICT_VALUE_LOST, RESULTS_ALL,
                   "rank 1's contribution were left out or");
    trial.size = 2;
    results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, RESULTS_ALL,
                   "or all of it were multiplied by 0.5");
}

CT_TEST(results, replicas)
{
    struct trial trial = results_sum(3);

    trial.who = 1;
    trial.tamper = add_on_one;
    results_expect(&trial, HARNESS_VERDICT_VALUE_DIVERGED, 1 << 1, "ranks 0,2 and of rank 1");
    trial.size = 2; /* the sum says who is wrong */
    results_expect(&trial, HARNESS_VERDICT_VALUE_DIVERGED, 1 << 1, "they are off by");
    trial.tamper = nudge_on_one; /* and here it does not */
    results_expect(&trial, HARNESS_VERDICT_VALUE_DIVERGED, RESULTS_ALL,
                   "who is right cannot be told");
    trial.size = 3;
    results_expect(&trial, HARNESS_VERDICT_VALUE_DIVERGED, 1 << 1, "ranks 0,2 and of rank 1");
}

/* Of operations that are no sums: a single bit, however little it is among the other elements. The
 * largest of 0 and -0 may be either, and nothing else that looks like it. */
CT_TEST(results, replicas_of_other_operations)
{
    static const uint32_t redops[] = {DDPROVE_GUEST_MAX, DDPROVE_GUEST_MIN, DDPROVE_GUEST_PROD};
    static const uint32_t dtypes[] = {DDPROVE_GUEST_F64, DDPROVE_GUEST_F32, DDPROVE_GUEST_F16,
                                      DDPROVE_GUEST_BF16, DDPROVE_GUEST_I64};

    for (size_t i = 0; i < 15; i++) {
        struct trial trial = results_trial(DDPROVE_GUEST_ALL_REDUCE, dtypes[i / 3], 3, 1000);

        trial.redop = redops[i % 3];
        trial.who = 1;
        trial.tamper = nudge_on_one;
        results_expect(&trial, HARNESS_VERDICT_VALUE_DIVERGED, 1 << 1, "ranks 0,2 and of rank 1");
        if (trial.redop != DDPROVE_GUEST_PROD && trial.dtype != DDPROVE_GUEST_I64) {
            trial.tamper = negate_zero;
            expect_nothing(&trial);
            trial.tamper = least_for_zero;
            results_expect(&trial, HARNESS_VERDICT_VALUE_DIVERGED, 1 << 1,
                           "ranks 0,2 and of rank 1");
        }
    }
}

CT_TEST(results, moves)
{
    for (size_t k = 3; k < KINDS; k++) {
        struct trial trial = results_trial(kinds[k], DDPROVE_GUEST_F32, 3, 100);

        trial.tamper = swap; /* in one place of the whole, or of each part */
        results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, RESULTS_ALL,
                       "what came out is not what was put in");
    }
    for (size_t k = 4; k < 6; k++) {
        struct trial trial = results_trial(kinds[k], DDPROVE_GUEST_F32, 3, 100);

        trial.weight[1] = -1;
        results_expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 1, "rank 1's contribution");
    }
    for (size_t k = 3; k < 6; k += 2) {
        struct trial trial = results_trial(kinds[k], DDPROVE_GUEST_BF16, 4, 100);

        trial.who = 2;
        trial.tamper = nudge_on_one;
        results_expect(&trial, HARNESS_VERDICT_VALUE_DIVERGED, 1 << 2, "ranks 0,1,3 and of rank 2");
    }
}

CT_TEST(results, not_finite)
{
    struct trial trial = results_sum(3);

    trial.who = 2;
    trial.bad_input = (double)NAN;
    results_expect(&trial, HARNESS_VERDICT_VALUE_NONFINITE, 1 << 2, "put in a NaN");
    trial.bad_input = (double)INFINITY;
    results_expect(&trial, HARNESS_VERDICT_VALUE_NONFINITE, 1 << 2, "an infinite value");
    /* 32 of them are too many for a float, none is infinite, and against their rounding what others
     * put in is nothing. */
    trial.bad_input = 3e38;
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_BLIND);
    trial.bad_input = 0;
    trial.tamper = spoil;
    results_expect(&trial, HARNESS_VERDICT_VALUE_NONFINITE, RESULTS_ALL, "cannot be too large");
}

CT_TEST(results, input_changes_in_flight)
{
    struct trial trial = results_sum(3);

    trial.is_changed = true;
    trial.who = 1;
    results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, 1 << 1,
                   "changed while the call was in flight");
}

static double change;

static void change_element(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    (void)rank;
    results_put(trial->dtype, out, out_count / 2,
                results_get(trial->dtype, out, out_count / 2) + change);
}

/* The least change of one element that sums show lies below twice what rounding explains, and
 * nothing above that is missed. */
CT_TEST(results, the_least_change_that_shows)
{
    struct trial trial = results_sum(4);

    trial.tamper = change_element;
    for (int is_double = 0; is_double < 2; is_double++) {
        double bound = 0;
        double least = 0;

        trial.dtype = is_double != 0 ? DDPROVE_GUEST_F64 : DDPROVE_GUEST_F32;
        for (change = 1; change > 1e-20; change /= 2) {
            const struct outcome outcome = results_run(&trial);

            if (outcome.count > 0) {
                const char *said = strstr(outcome.text, "rounding explains ");

                least = change;
                bound = said != NULL ? strtod(said + strlen("rounding explains "), NULL) : 0;
            } else {
                CT_CHECK(bound > 0 && change <= 2.02 * bound); /* it is said with three digits */
            }
        }
        (void)printf("%s: rounding explains %.3g; the least change that was seen is %.3g\n",
                     is_double != 0 ? "f64" : "f32", bound, least);
        CT_CHECK(least > 0 && least <= 4.04 * bound);
    }
}

/* What a fault does to a contribution happens on its way. */
CT_TEST(results, of_faults)
{
    struct trial trial = results_sum(3);

    trial.fault = (struct guest_fault){.point = GUEST_POINT_POST,
                                       .rank = 1 + 1,
                                       .hit = 1,
                                       .times = 1,
                                       .action = GUEST_ACTION_ZERO};
    results_expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 1,
                   "rank 1's contribution were left out");
    trial.is_in_place = true;
    results_expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 1,
                   "rank 1's contribution were left out");
    trial.is_in_place = false; /* all parts, one for each member */
    trial.kind = DDPROVE_GUEST_REDUCE_SCATTER;
    results_expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 1,
                   "rank 1's contribution were left out");
}

CT_TEST(results, not_judged)
{
    struct trial trial = results_sum(3);

    trial.is_hidden = true;
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_HIDDEN);
    trial.is_hidden = false;
    trial.is_of_device = true;
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_HIDDEN);
    trial = results_trial(DDPROVE_GUEST_ALL_REDUCE, DDPROVE_GUEST_BF16, 5, 3000);
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_BLIND);
    trial = results_trial(DDPROVE_GUEST_SCAN, DDPROVE_GUEST_F32, 3, 30);
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_KIND);
    trial = results_trial(DDPROVE_GUEST_REDUCE, DDPROVE_GUEST_F32, 3, 30);
    trial.redop = DDPROVE_GUEST_MAX;
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_ONE_RESULT);
    trial.kind = DDPROVE_GUEST_ALL_REDUCE;
    trial.redop = DDPROVE_GUEST_USER;
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_KIND);
    trial.redop = DDPROVE_GUEST_MAX;
    trial.bad_input = (double)NAN;
    trial.tamper = spoil;
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_NOT_FINITE);
}

/* --- data that were kept
 * --------------------------------------------------------------------------------------------------------
 */

/* Element 17 of the sum, with a bit of one contribution flipped. */
static void flip_input(const struct trial *trial, uint32_t rank, void *out, uint64_t out_count)
{
    void *in[RESULTS_RANKS_MAX];
    uint32_t bits;

    (void)rank;
    (void)out_count;
    for (uint32_t r = 0; r < trial->size; r++) {
        in[r] = calloc(1, 8 * RESULTS_COUNT_MAX);
        results_fill(trial, r, in[r], trial->count);
    }
    memcpy(&bits, (float *)in[trial->who] + 17, sizeof bits);
    bits ^= 1u << 24;
    memcpy((float *)in[trial->who] + 17, &bits, sizeof bits);
    results_put(trial->dtype, out, 17, results_sum_at(trial, in, 17));
    for (uint32_t r = 0; r < trial->size; r++) {
        free(in[r]);
    }
}

static void flip_sign_of_result(const struct trial *trial, uint32_t rank, void *out,
                                uint64_t out_count)
{
    (void)rank;
    (void)out_count;
    results_put(trial->dtype, out, 17, -results_get(trial->dtype, out, 17));
}

CT_TEST(results, kept)
{
    char folder[] = "/tmp/ddprove_results.XXXXXX";
    struct ddp_err err = {{0}};
    struct trial trial = results_sum(4);

    CT_REQUIRE(mkdtemp(folder) != NULL);
    trial.folder = folder;
    CT_CHECK_EQ_U64(results_run(&trial).tally.bitwise, 1);
    trial.dtype = DDPROVE_GUEST_F64;
    CT_CHECK_EQ_U64(results_run(&trial).tally.bitwise, 1);
    trial.dtype = DDPROVE_GUEST_F32;
    trial.is_backward = true;
    trial.is_in_place = true;
    CT_CHECK_EQ_U64(results_run(&trial).tally.bitwise, 1);
    trial.redop = DDPROVE_GUEST_AVG;
    CT_CHECK_EQ_U64(results_run(&trial).tally.bitwise, 1);
    trial.redop = DDPROVE_GUEST_SUM;
    trial.who = 2;
    trial.tamper = flip_input;
    results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, 1 << 2,
                   "rank 2's contribution with bit 24 flipped");
    trial.kind = DDPROVE_GUEST_REDUCE;
    trial.is_in_place = false;
    results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, 1 << 2, "element 17 is");
    trial.tamper = flip_sign_of_result;
    results_expect(&trial, HARNESS_VERDICT_VALUE_CORRUPTED, RESULTS_ALL,
                   "the result itself with a bit flipped");
    trial.tamper = NULL;
    trial.weight[1] = -1;
    results_expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 1,
                   "rank 1's contribution multiplied by 0");
    trial.dtype = DDPROVE_GUEST_BF16; /* here projections see nothing */
    trial.count = 100;
    results_expect(&trial, HARNESS_VERDICT_VALUE_LOST, 1 << 1,
                   "rank 1's contribution multiplied by 0");
    trial.folder = NULL;
    expect_unjudged(&trial, HARNESS_WATCH_UNJUDGED_BLIND);
    CT_CHECK(ddp_files_remove_tree(folder, &err) == DDP_OK);
}
