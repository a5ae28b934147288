/* Numbers that are put in, and whether what comes out is right. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "harness/lab/conforming.h"
#include "harness/lab/element.h"
#include "harness/lab/numbers.h"
#include "tests/ct.h"

enum { RANKS = 16, ELEMS = 1003, ARENA_BYTES = 65536 };

static struct harness_lab_shared *make_shared(enum ddp_dtype dtype, enum ddp_redop redop)
{
    struct harness_lab_shared *shared =
        calloc(1, sizeof *shared + (size_t)RANKS * HARNESS_LAB_AREAS * ARENA_BYTES);

    DDP_ASSERT(shared != NULL);
    shared->arena_at = sizeof *shared;
    shared->arena_bytes = ARENA_BYTES;
    shared->request.kind = DDP_COLL_ALL_REDUCE;
    shared->request.ranks = RANKS;
    shared->trial = (struct harness_lab_trial){
        .dtype = dtype, .redop = redop, .elem_count = ELEMS, .calls = 1, .is_wide = true};
    return shared;
}

static double combine(enum ddp_redop redop, double a, double b)
{
    return redop == DDP_REDOP_SUM   ? a + b
           : redop == DDP_REDOP_MAX ? fmax(a, b)
           : redop == DDP_REDOP_MIN ? fmin(a, b)
                                    : a * b;
}

/* What ranks should have; cut: every sum is cut short to the next narrower type. */
static void reduce(struct harness_lab_shared *shared, bool is_cut)
{
    enum ddp_dtype dtype = shared->trial.dtype;

    for (size_t i = 0; i < ELEMS; i++) {
        double sum = harness_lab_load(harness_lab_area(shared, 0, HARNESS_LAB_INPUT), i, dtype);

        for (uint32_t r = 1; r < RANKS; r++) {
            sum =
                combine(shared->trial.redop, sum,
                        harness_lab_load(harness_lab_area(shared, r, HARNESS_LAB_INPUT), i, dtype));
        }
        if (is_cut) {
            sum = dtype == DDP_DTYPE_F32 ? (double)ddp_f16_to_f32(ddp_f16_from_f32((float)sum))
                                         : (double)(float)sum;
        }
        for (uint32_t r = 0; r < RANKS; r++) {
            harness_lab_store(harness_lab_area(shared, r, HARNESS_LAB_EXPECTED), i, dtype,
                              (int64_t)sum);
        }
    }
}

/* All types but i64, whose sums doubles do not hold. */
CT_TEST(numbers, wide_ones_are_right_in_every_type)
{
    for (int dtype = 0; dtype < DDP_DTYPE_COUNT; dtype++) {
        for (int redop = 0; redop < DDP_REDOP_COUNT && dtype != DDP_DTYPE_I64; redop++) {
            struct harness_lab_shared *shared =
                make_shared((enum ddp_dtype)dtype, (enum ddp_redop)redop);
            struct harness_lab_wrong wrong;

            harness_lab_put_whole(shared, 0, 0);
            reduce(shared, false);
            if (!harness_lab_judge_whole(shared, 0, 0, &wrong)) {
                CT_FAIL("%s %s: %s", ddp_dtype_name((enum ddp_dtype)dtype),
                        ddp_redop_name((enum ddp_redop)redop), wrong.text);
            }
            free(shared);
        }
    }
}

CT_TEST(numbers, wide_ones_fill_their_type)
{
    static const enum ddp_dtype dtypes[] = {DDP_DTYPE_F32, DDP_DTYPE_F64, DDP_DTYPE_I32};

    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        struct harness_lab_shared *shared = make_shared(dtypes[i], DDP_REDOP_SUM);
        struct harness_lab_wrong wrong;

        harness_lab_put_whole(shared, 0, 0);
        reduce(shared, true);
        if (harness_lab_judge_whole(shared, 0, 0, &wrong)) {
            CT_FAIL("sums of %s that were cut short are taken for right",
                    ddp_dtype_name(dtypes[i]));
        }
        free(shared);
    }
}

CT_TEST(numbers, wide_bytes_have_their_highest_bit)
{
    struct harness_lab_shared *shared = make_shared(DDP_DTYPE_U8, DDP_REDOP_MAX);
    const unsigned char *input = harness_lab_area(shared, 0, HARNESS_LAB_INPUT);
    size_t high = 0;

    harness_lab_put_whole(shared, 0, 0);
    for (size_t i = 0; i < ELEMS; i++) {
        high += input[i] >> 7;
    }
    CT_CHECK(high > ELEMS / 4 && high < ELEMS - ELEMS / 4);
    free(shared);
}

CT_TEST(numbers, whose_contribution_is_missing_or_twice)
{
    for (int is_twice = 0; is_twice < 2; is_twice++) {
        struct harness_lab_shared *shared = make_shared(DDP_DTYPE_F32, DDP_REDOP_SUM);
        float *output = harness_lab_area(shared, 3, HARNESS_LAB_EXPECTED);
        struct harness_lab_wrong wrong = {.text = ""};
        const float *input;

        shared->request.ranks = 4;
        input = harness_lab_area(shared, 2, HARNESS_LAB_INPUT);
        harness_lab_put_whole(shared, 0, 0);
        for (size_t i = 0; i < ELEMS; i++) {
            for (uint32_t r = 0; r < 4; r++) {
                const float *term = harness_lab_area(shared, r, HARNESS_LAB_INPUT);
                for (uint32_t to = 0; to < 4; to++) {
                    ((float *)harness_lab_area(shared, to, HARNESS_LAB_EXPECTED))[i] += term[i];
                }
            }
        }
        output[5] += is_twice ? input[5] : -input[5];
        CT_CHECK(!harness_lab_judge_whole(shared, 0, 0, &wrong));
        CT_CHECK(wrong.rank == 3 && wrong.elem == 5);
        if (strstr(wrong.text, is_twice ? "rank 2 is in it twice" : "rank 2 is missing") == NULL) {
            CT_FAIL("\"%s\"", wrong.text);
        }
        free(shared);
    }
}

CT_TEST(numbers, any_ones_may_be_rounded_in_every_order_and_no_more)
{
    struct harness_lab_shared *shared = make_shared(DDP_DTYPE_F32, DDP_REDOP_SUM);
    struct harness_lab_wrong wrong;

    harness_lab_put_any(shared);
    for (size_t i = 0; i < ELEMS; i++) {
        for (uint32_t to = 0; to < RANKS; to++) {
            float *output = harness_lab_area(shared, to, HARNESS_LAB_EXPECTED);

            output[i] = 0;
            for (uint32_t k = 0; k < RANKS; k++) { /* each rank begins with its own */
                output[i] +=
                    ((float *)harness_lab_area(shared, (to + k) % RANKS, HARNESS_LAB_INPUT))[i];
            }
        }
    }
    CT_CHECK(harness_lab_judge_any(shared, &wrong));
    ((float *)harness_lab_area(shared, 7, HARNESS_LAB_EXPECTED))[100] *= 1.001f;
    if (harness_lab_judge_any(shared, &wrong)) {
        CT_FAIL("a sum that is a thousandth too large is taken for rounded");
    } else {
        CT_CHECK(wrong.rank == 7 && wrong.elem == 100);
    }
    free(shared);
}

CT_TEST(numbers, counts_are_those_that_a_collective_takes)
{
    static struct harness_conforming run = {.taken = {0, 3, 6, 999}, .taken_count = 4};

    CT_CHECK_EQ_U64(harness_conform_count(&run, 1003), 1003); /* nothing was refused */
    run.is_choosy = true;
    if (harness_conform_count(&run, 1003) != 999) {
        CT_FAIL("a count that was not taken is asked for");
    }
    CT_CHECK_EQ_U64(harness_conform_count(&run, 5), 3);
    CT_CHECK_EQ_U64(harness_conform_count(&run, 1), 3);
    run.taken_count = 0;
    CT_CHECK_EQ_U64(harness_conform_count(&run, 64), 64); /* none is known */
}
