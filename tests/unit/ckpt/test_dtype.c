/* Elements: what their bits mean, and how far they are apart. */
#include <math.h>
#include <string.h>

#include "ddpcore/base/dtype.h"
#include "harness/ckpt/dtype.h"
#include "tests/ct.h"

CT_TEST(ckpt_dtype, knows_its_names)
{
    enum harness_ckpt_dtype dtype = HARNESS_CKPT_F32;

    for (int i = 0; i < (int)HARNESS_CKPT_DTYPE_COUNT; i++) {
        CT_CHECK(
            harness_ckpt_dtype_find(harness_ckpt_dtype_name((enum harness_ckpt_dtype)i), &dtype));
        CT_CHECK_EQ_I64((int)dtype, i);
    }
    CT_CHECK(!harness_ckpt_dtype_find("F33", &dtype));
    for (int i = 0; i < (int)DDP_DTYPE_COUNT; i++) { /* all that ddpcore writes */
        CT_CHECK(harness_ckpt_dtype_find(ddp_dtype_safetensors_name((enum ddp_dtype)i), &dtype));
        CT_CHECK_EQ_U64(harness_ckpt_dtype_bytes(dtype), ddp_dtype_size_bytes((enum ddp_dtype)i));
    }
}

/* Every 16-bit float is what ddpcore's own conversions say. */
CT_TEST(ckpt_dtype, agrees_with_the_core_on_every_half)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const double half = harness_ckpt_value(HARNESS_CKPT_F16, bits);
        const double brain = harness_ckpt_value(HARNESS_CKPT_BF16, bits);
        const double half_of_core = (double)ddp_f16_to_f32((uint16_t)bits);
        const double brain_of_core = (double)ddp_bf16_to_f32((uint16_t)bits);

        CT_REQUIRE(isnan(half_of_core) ? isnan(half) : half == half_of_core);
        CT_REQUIRE(isnan(brain_of_core) ? isnan(brain) : brain == brain_of_core);
        CT_REQUIRE(harness_ckpt_is_finite(HARNESS_CKPT_F16, bits) == (isfinite(half_of_core) != 0));
        CT_REQUIRE(harness_ckpt_is_finite(HARNESS_CKPT_BF16, bits) ==
                   (isfinite(brain_of_core) != 0));
    }
}

static uint64_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

CT_TEST(ckpt_dtype, reads_values)
{
    const double value = -0.1;
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    CT_CHECK(harness_ckpt_value(HARNESS_CKPT_F64, bits) == value);
    CT_CHECK(harness_ckpt_value(HARNESS_CKPT_F32, bits_of(1e-42F)) == (double)1e-42F);
    CT_CHECK(harness_ckpt_value(HARNESS_CKPT_F32, bits_of(-3e38F)) == (double)-3e38F);
    CT_CHECK(harness_ckpt_value(HARNESS_CKPT_I8, 0xff) == -1);
    CT_CHECK(harness_ckpt_value(HARNESS_CKPT_U8, 0xff) == 255);
    CT_CHECK(harness_ckpt_value(HARNESS_CKPT_I64, UINT64_MAX) == -1);
    CT_CHECK(harness_ckpt_value(HARNESS_CKPT_BOOL, 1) == 1);
    /* The OCP types of 8 bits: largest values, smallest ones, what is not finite. */
    CT_CHECK(harness_ckpt_value(HARNESS_CKPT_F8_E4M3, 0x7e) == 448);
    CT_CHECK(harness_ckpt_value(HARNESS_CKPT_F8_E4M3, 0x01) == 0x1p-9);
    CT_CHECK(isnan(harness_ckpt_value(HARNESS_CKPT_F8_E4M3, 0xff)));
    CT_CHECK(harness_ckpt_is_finite(HARNESS_CKPT_F8_E4M3, 0x7e));
    CT_CHECK(!harness_ckpt_is_finite(HARNESS_CKPT_F8_E4M3, 0x7f));
    CT_CHECK(harness_ckpt_value(HARNESS_CKPT_F8_E5M2, 0x7b) == 57344);
    CT_CHECK(isinf(harness_ckpt_value(HARNESS_CKPT_F8_E5M2, 0x7c)));
}

CT_TEST(ckpt_dtype, counts_steps)
{
    const uint64_t one = bits_of(1), next = bits_of(nextafterf(1, 2));

    CT_CHECK_EQ_U64(harness_ckpt_distance(HARNESS_CKPT_F32, one, next), 1);
    CT_CHECK_EQ_U64(harness_ckpt_distance(HARNESS_CKPT_F32, next, one), 1);
    CT_CHECK_EQ_U64(harness_ckpt_distance(HARNESS_CKPT_F32, bits_of(0.0F), bits_of(-0.0F)), 0);
    /* The smallest values of both signs: one step to zero, and one from it. */
    CT_CHECK_EQ_U64(harness_ckpt_distance(HARNESS_CKPT_F32, 1, 0x80000001), 2);
    CT_CHECK_EQ_U64(harness_ckpt_distance(HARNESS_CKPT_F32, one, bits_of(2)), 1U << 23);
    CT_CHECK_EQ_U64(harness_ckpt_distance(HARNESS_CKPT_I8, 0x80, 0x7f), 255);
    CT_CHECK_EQ_U64(harness_ckpt_distance(HARNESS_CKPT_U8, 0x80, 0x7f), 1);
    CT_CHECK_EQ_U64(
        harness_ckpt_distance(HARNESS_CKPT_I64, UINT64_C(0x8000000000000000), INT64_MAX),
        UINT64_MAX);
}

CT_TEST(ckpt_dtype, finds_what_is_not_finite)
{
    const float values[5] = {1, NAN, 2, -INFINITY, 3e38F};
    const int32_t whole[2] = {0x7f800000, -1};
    size_t first = 9;

    CT_CHECK_EQ_U64(harness_ckpt_not_finite(HARNESS_CKPT_F32, (const uint8_t *)values, 5, &first),
                    2);
    CT_CHECK_EQ_U64(first, 1);
    CT_CHECK_EQ_U64(harness_ckpt_not_finite(HARNESS_CKPT_I32, (const uint8_t *)whole, 2, &first),
                    0);
}
