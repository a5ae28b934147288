/* Each kind of residual is named, and nothing else is. */
#include <math.h>
#include <string.h>

#include "harness/sums/arith.h"
#include "harness/sums/format.h"
#include "harness/sums/residual.h"
#include "tests/ct.h"

enum { COUNT = 16 };

struct fixture {
    float raw[COUNT], expected[COUNT], before[COUNT], got[COUNT];
    struct harness_residual_input input;
    struct harness_residual residual;
};

static void fill(struct fixture *f)
{
    for (int i = 0; i < COUNT; i++) {
        f->raw[i] = sinf((float)(i + 1)) * 0.37f;
        f->before[i] = cosf((float)(i + 1)) * 0.11f;
        f->expected[i] = f->raw[i] * (1.0f / 3.0f);
        f->got[i] = f->expected[i];
    }
    f->input = (struct harness_residual_input){.expected = f->expected,
                                               .got = f->got,
                                               .before = f->before,
                                               .raw = f->raw,
                                               .scale = 1.0f / 3.0f,
                                               .count = COUNT,
                                               .dtype = DDP_DTYPE_F32};
}

static const char *classify(struct fixture *f)
{
    harness_residual_classify(&f->input, &f->residual);
    return harness_verdict_name(f->residual.verdict);
}

/* Equal tensors have no residual. */
CT_TEST(oracle_residual, equal_is_none)
{
    struct fixture f;

    fill(&f);
    CT_CHECK_STR(classify(&f), "NONE");
    CT_CHECK(!f.residual.is_set);
}

/* All zero is a lost contribution. */
CT_TEST(oracle_residual, zero_is_lost)
{
    struct fixture f;

    fill(&f);
    memset(f.got, 0, sizeof(f.got));
    CT_CHECK_STR(classify(&f), "VALUE.LOST");
}

/* Twice everywhere is a doubled contribution. */
CT_TEST(oracle_residual, twice_is_duplicated)
{
    struct fixture f;

    fill(&f);
    for (int i = 0; i < COUNT; i++) {
        f.got[i] = f.expected[i] * 2.0f;
    }
    CT_CHECK_STR(classify(&f), "VALUE.DUPLICATED");
}

/* A constant factor is stated, whether it came before the scale or after. */
CT_TEST(oracle_residual, factor_is_stated)
{
    struct fixture f;

    fill(&f);
    for (int i = 0; i < COUNT; i++) {
        f.got[i] = (f.raw[i] * 0.1f) * (1.0f / 3.0f);
    }
    CT_CHECK_STR(classify(&f), "VALUE.SCALED");
    CT_CHECK(fabs(f.residual.factor - 0.1) < 1e-7);
    for (int i = 0; i < COUNT; i++) {
        f.got[i] = f.expected[i] * 0.5f;
    }
    CT_CHECK_STR(classify(&f), "VALUE.SCALED");
    CT_CHECK(f.residual.factor >= 0.5 && f.residual.factor <= 0.5);
}

/* Factors that fp32 does not hold: rounding hides them differently in every element. */
CT_TEST(oracle_residual, factor_is_found_through_its_rounding)
{
    static const double factors[] = {0.2, 0.3, 1.0 / 3.0, 1.0 / 7.0, -0.7, 1e-3, 1.000002, 12345.6};
    struct fixture f;

    for (size_t k = 0; k < sizeof(factors) / sizeof(factors[0]); k++) {
        fill(&f);
        for (int i = 0; i < COUNT; i++) {
            f.got[i] = (float)((double)f.expected[i] * factors[k]);
        }
        CT_CHECK_STR(classify(&f), "VALUE.SCALED");
        CT_CHECK(fabs(f.residual.factor / factors[k] - 1.0) < 1e-7);
    }
}

/* One element off by two units in the last place, and there is no common factor; nor is there one
 * if an element was zero. */
CT_TEST(oracle_residual, one_element_off_the_factor_is_corrupted)
{
    struct fixture f;

    fill(&f);
    f.input.raw = NULL;
    for (int i = 0; i < COUNT; i++) {
        f.got[i] = (float)((double)f.expected[i] * 0.3);
    }
    f.got[6] = nextafterf(nextafterf(f.got[6], 9.0f), 9.0f);
    CT_CHECK_STR(classify(&f), "VALUE.CORRUPTED");
    fill(&f);
    f.expected[3] = 0.0f;
    for (int i = 0; i < COUNT; i++) {
        f.got[i] = (float)((double)f.expected[i] * 0.3);
    }
    CT_CHECK_STR(classify(&f), "VALUE.SCALED");
    f.got[3] = 1e-30f;
    CT_CHECK_STR(classify(&f), "VALUE.CORRUPTED");
}

/* Last bits that differ here and there are no factor: one would do for all elements. */
CT_TEST(oracle_residual, last_bits_are_no_factor)
{
    struct fixture f;

    fill(&f);
    for (int i = 0; i < COUNT; i += 3) {
        f.got[i] = nextafterf(f.expected[i], i % 2 == 0 ? 9.0f : -9.0f);
    }
    CT_CHECK_STR(classify(&f), "VALUE.CORRUPTED");
}

/* Elements that moved up or down are shifted by so many places. */
CT_TEST(oracle_residual, shift_is_counted)
{
    struct fixture f;

    fill(&f);
    memmove(f.got + 3, f.expected, (COUNT - 3) * sizeof(float));
    CT_CHECK_STR(classify(&f), "VALUE.SHIFTED");
    CT_CHECK_EQ_I64(f.residual.shift, 3);
    fill(&f);
    memmove(f.got, f.expected + 1, (COUNT - 1) * sizeof(float));
    CT_CHECK_STR(classify(&f), "VALUE.SHIFTED");
    CT_CHECK_EQ_I64(f.residual.shift, -1);
}

/* One element that takes its neighbour's value, where all others are alike, did not move. */
CT_TEST(oracle_residual, one_element_is_no_shift)
{
    struct fixture f;

    fill(&f);
    f.input.raw = NULL;
    for (int i = 0; i < COUNT; i++) {
        f.expected[i] = f.got[i] = i == 0 ? 0.5f : 2.0f;
    }
    f.got[0] = 2.0f;
    CT_CHECK_STR(classify(&f), "VALUE.CORRUPTED");
    CT_CHECK_EQ_U64(f.residual.differ_count, 1);
}

/* Values that repeat themselves did not move because some differ where a shift says nothing. */
CT_TEST(oracle_residual, repeated_values_are_no_shift)
{
    struct fixture f;

    fill(&f);
    f.input.raw = NULL;
    for (int i = 0; i < COUNT; i++) {
        f.expected[i] = f.got[i] = i % (COUNT / 2) == 1 ? 0.5f : i % (COUNT / 2) == 2 ? 2.0f : 0.0f;
    }
    f.got[3] = f.got[5] = 0x1p-130f;
    CT_CHECK_STR(classify(&f), "VALUE.CORRUPTED");
    CT_CHECK_EQ_U64(f.residual.differ_count, 2);
}

/* The step before's values are stale. */
CT_TEST(oracle_residual, values_of_the_step_before_are_stale)
{
    struct fixture f;

    fill(&f);
    memcpy(f.got, f.before, sizeof(f.got));
    CT_CHECK_STR(classify(&f), "VALUE.STALE");
}

/* Zeros that were there before are stale where that is likelier than that they were lost. */
CT_TEST(oracle_residual, zeros_that_stayed_are_stale_where_that_is_likelier)
{
    struct fixture f;

    fill(&f);
    memset(f.before, 0, sizeof(f.before));
    memset(f.got, 0, sizeof(f.got));
    CT_CHECK_STR(classify(&f), "VALUE.LOST");
    f.input.is_before_likely = true;
    CT_CHECK_STR(classify(&f), "VALUE.STALE");
    f.before[0] = 1.0F;
    CT_CHECK_STR(classify(&f), "VALUE.LOST");
}

/* One NaN is found at its place, whatever else differs. */
CT_TEST(oracle_residual, nan_is_nonfinite)
{
    struct fixture f;

    fill(&f);
    f.got[2] = 7.0f;
    f.got[9] = NAN;
    CT_CHECK_STR(classify(&f), "VALUE.NONFINITE");
    CT_CHECK_EQ_U64(f.residual.first, 9);
}

/* A flipped bit is named by its number, even if the flip came before the scale. */
CT_TEST(oracle_residual, flipped_bit_is_numbered)
{
    struct fixture f;
    uint32_t bits;

    fill(&f);
    bits = harness_residual_bits(f.expected[4]) ^ (UINT32_C(1) << 21);
    memcpy(&f.got[4], &bits, sizeof(bits));
    CT_CHECK_STR(classify(&f), "VALUE.CORRUPTED");
    CT_CHECK_EQ_I64(f.residual.bit, 21);
    CT_CHECK_EQ_U64(f.residual.first, 4);
    fill(&f);
    bits = harness_residual_bits(f.raw[5]) ^ (UINT32_C(1) << 20);
    memcpy(&f.got[5], &bits, sizeof(bits));
    f.got[5] *= 1.0f / 3.0f;
    CT_CHECK_STR(classify(&f), "VALUE.CORRUPTED");
    CT_CHECK_EQ_I64(f.residual.bit, 20);
}

/* What no structure explains stays corrupted, with a count and no bit. */
CT_TEST(oracle_residual, noise_is_corrupted)
{
    struct fixture f;

    fill(&f);
    f.got[1] = 3.25f;
    f.got[7] = -1.5f;
    CT_CHECK_STR(classify(&f), "VALUE.CORRUPTED");
    CT_CHECK_EQ_U64(f.residual.differ_count, 2);
    CT_CHECK_EQ_I64(f.residual.bit, -1);
}

/* The same factor in two tensors: each says within which limits it lies, and they have some in
 * common; one value alone goes along. */
CT_TEST(oracle_residual, one_factor_in_several)
{
    struct fixture a, b, one, other;

    fill(&a);
    fill(&b);
    fill(&one);
    fill(&other);
    for (int i = 0; i < COUNT; i++) { /* divided by 2, where 3 was due */
        a.got[i] = a.raw[i] * 0.5f;
        b.raw[i] = b.before[i];
        b.expected[i] = b.raw[i] * (1.0f / 3.0f);
        b.got[i] = b.raw[i] * 0.5f;
        other.got[i] = other.expected[i] * 1.25f;
    }
    one.input.count = 1;
    one.got[0] = one.raw[0] * 0.5f;
    CT_CHECK_STR(classify(&a), "VALUE.SCALED");
    CT_CHECK_STR(classify(&b), "VALUE.SCALED");
    CT_CHECK_STR(classify(&one), "VALUE.CORRUPTED");
    CT_CHECK_STR(classify(&other), "VALUE.SCALED");
    CT_CHECK(harness_residual_is_one_factor(&a.residual, &b.residual));
    CT_CHECK(harness_residual_is_one_factor(&one.residual, &a.residual));
    CT_CHECK(!harness_residual_is_one_factor(&one.residual, &one.residual));
    CT_CHECK(!harness_residual_is_one_factor(&other.residual, &a.residual));
    CT_CHECK(!harness_residual_is_one_factor(&other.residual, &one.residual));
}

static void round_all(struct fixture *f, enum harness_format format, int first, int end)
{
    for (int i = first; i < end; i++) {
        f->got[i] = harness_format_round(format, f->expected[i]);
    }
}

/* Every element rounded, after the scale or before it: the formats that do are named. */
CT_TEST(oracle_residual, rounded_is_precision)
{
    struct fixture f;

    fill(&f);
    round_all(&f, HARNESS_FORMAT_BF16, 0, COUNT);
    CT_CHECK_STR(classify(&f), "VALUE.PRECISION");
    CT_CHECK_EQ_U64(f.residual.formats, 1u << HARNESS_FORMAT_BF16);
    round_all(&f, HARNESS_FORMAT_F16, 0, COUNT);
    CT_CHECK_STR(classify(&f), "VALUE.PRECISION");
    CT_CHECK((f.residual.formats & 1u << HARNESS_FORMAT_F16) != 0);
    CT_CHECK((f.residual.formats & 1u << HARNESS_FORMAT_BF16) == 0);
    for (int i = 0; i < COUNT; i++) {
        f.got[i] = harness_format_round(HARNESS_FORMAT_TF32, f.raw[i]) * (1.0f / 3.0f);
    }
    CT_CHECK_STR(classify(&f), "VALUE.PRECISION");
    CT_CHECK((f.residual.formats & 1u << HARNESS_FORMAT_TF32) != 0);
    f.input.raw = NULL;
    CT_CHECK_STR(classify(&f), "VALUE.CORRUPTED");
}

/* One element that was not rounded, or is off by a last bit, and nothing is. */
CT_TEST(oracle_residual, nearly_rounded_is_corrupted)
{
    struct fixture f;

    fill(&f);
    round_all(&f, HARNESS_FORMAT_BF16, 0, COUNT - 1);
    CT_CHECK_STR(classify(&f), "VALUE.CORRUPTED");
    round_all(&f, HARNESS_FORMAT_BF16, 0, COUNT);
    f.got[5] = nextafterf(f.got[5], 9.0f);
    CT_CHECK_STR(classify(&f), "VALUE.CORRUPTED");
    CT_CHECK_EQ_U64(f.residual.formats, 0);
}

/* A bit that flips in each of a few values of few bits leaves what rounding does. */
CT_TEST(oracle_residual, few_that_seem_rounded_are_corrupted)
{
    struct fixture f;

    for (int count = 1; count <= 6; count++) {
        fill(&f);
        f.input.raw = NULL;
        for (int i = 0; i < COUNT; i++) {
            f.expected[i] = f.got[i] = i < count ? (float)(i + 1) + 0x1p-11f : (float)(i + 1);
        }
        round_all(&f, HARNESS_FORMAT_BF16, 0, COUNT);
        CT_CHECK_STR(classify(&f), count < 6 ? "VALUE.CORRUPTED" : "VALUE.PRECISION");
        CT_CHECK(f.residual.formats != 0);
    }
}

/* What is in 16 bits as it is was not rounded to as many, and nothing else is called so first: what
 * was there before, zeros, what is not finite. */
CT_TEST(oracle_residual, other_structures_are_not_precision)
{
    struct fixture f;

    fill(&f);
    f.input.dtype = DDP_DTYPE_BF16;
    round_all(&f, HARNESS_FORMAT_F16, 0, COUNT);
    CT_CHECK_STR(classify(&f), "VALUE.CORRUPTED");
    fill(&f);
    round_all(&f, HARNESS_FORMAT_BF16, 0, COUNT);
    memcpy(f.before, f.got, sizeof(f.got));
    CT_CHECK_STR(classify(&f), "VALUE.STALE");
    fill(&f);
    f.expected[3] = 1e6f;
    round_all(&f, HARNESS_FORMAT_F16, 0, COUNT);
    CT_CHECK_STR(classify(&f), "VALUE.NONFINITE");
}

/* One format in several tensors; few elements go along with what is named, and name nothing by
 * themselves. */
CT_TEST(oracle_residual, one_format_in_several)
{
    struct fixture a, few, two, other;

    fill(&a);
    fill(&few);
    fill(&two);
    fill(&other);
    round_all(&a, HARNESS_FORMAT_BF16, 0, COUNT);
    few.input.count = 3;
    round_all(&few, HARNESS_FORMAT_BF16, 0, 3);
    two.input.count = 2;
    two.raw[1] = two.raw[0];
    two.expected[1] = two.expected[0];
    round_all(&two, HARNESS_FORMAT_BF16, 0, 2);
    round_all(&other, HARNESS_FORMAT_F16, 0, COUNT);
    CT_CHECK_STR(classify(&a), "VALUE.PRECISION");
    CT_CHECK_STR(classify(&few), "VALUE.CORRUPTED");
    CT_CHECK_STR(classify(&two), "VALUE.SCALED");
    CT_CHECK_STR(classify(&other), "VALUE.PRECISION");
    CT_CHECK(harness_residual_is_one_format(&a.residual, &few.residual));
    CT_CHECK(harness_residual_is_one_format(&a.residual, &two.residual));
    CT_CHECK(!harness_residual_is_one_format(&few.residual, &few.residual));
    CT_CHECK(!harness_residual_is_one_format(&few.residual, &two.residual));
    CT_CHECK(!harness_residual_is_one_format(&a.residual, &other.residual));
}

/* The judge's rounding is that of the types: to nearest even, subnormals and overflow included. */
CT_TEST(oracle_residual, formats_round_as_types_do)
{
    uint32_t bits = 12345;

    for (int i = 0; i < 200000; i++) {
        float value;

        bits = bits * 1664525u + 1013904223u;
        memcpy(&value, &bits, sizeof(value));
        if (!isfinite(value)) {
            continue;
        }
        CT_REQUIRE(
            harness_residual_bits(harness_format_round(HARNESS_FORMAT_BF16, value)) ==
            harness_residual_bits(harness_arith_bf16_decode(harness_arith_bf16_encode(value))));
        /* Into f16's range, and a little beyond on both sides. */
        value = fabsf(value) > 0.0f ? ldexpf(value, ilogbf(value) / 5 - ilogbf(value)) : value;
        CT_REQUIRE(
            harness_residual_bits(harness_format_round(HARNESS_FORMAT_F16, value)) ==
            harness_residual_bits(harness_arith_f16_decode(harness_arith_f16_encode(value))));
    }
    CT_CHECK(harness_format_round(HARNESS_FORMAT_TF32, 1.0f + 0x1p-11f) == 1.0f);
    CT_CHECK(harness_format_round(HARNESS_FORMAT_TF32, 1.0f + 0x3p-11f) == 1.0f + 0x1p-9f);
    CT_CHECK(harness_format_round(HARNESS_FORMAT_TF32, -0.0f) == 0.0f);
}
