/* Element types and 16-bit floats. */
#include <math.h>
#include <string.h>

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/prng.h"
#include "tests/ct.h"

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Names of types and operations parse back; sizes are those of the table. */
CT_TEST(dtype, names_round_trip)
{
    enum ddp_dtype dtype;
    enum ddp_redop redop;

    for (unsigned i = 0; i < DDP_DTYPE_COUNT; i++) {
        CT_CHECK_OK(ddp_dtype_parse(ddp_dtype_name((enum ddp_dtype)i), &dtype));
        CT_CHECK_EQ_U64(dtype, i);
    }
    for (unsigned i = 0; i < DDP_REDOP_COUNT; i++) {
        CT_CHECK_OK(ddp_redop_parse(ddp_redop_name((enum ddp_redop)i), &redop));
        CT_CHECK_EQ_U64(redop, i);
    }
    CT_CHECK_STATUS(ddp_dtype_parse("f8", &dtype), DDP_E_NOT_FOUND);
    CT_CHECK_STATUS(ddp_redop_parse("avg", &redop), DDP_E_NOT_FOUND);
    CT_CHECK_EQ_U64(ddp_dtype_size_bytes(DDP_DTYPE_BF16), 2);
    CT_CHECK_EQ_U64(ddp_dtype_size_bytes(DDP_DTYPE_F64), 8);
    CT_CHECK_STR(ddp_dtype_safetensors_name(DDP_DTYPE_BF16), "BF16");
}

/* Every half that is not NaN survives the way to float and back, and has the value that its fields
 * say; NaNs stay NaNs. */
CT_TEST(dtype, f16_all_values)
{
    for (uint32_t bits = 0; bits < 65536; bits++) {
        int exponent = (int)(bits >> 10 & 31);
        double mantissa = (double)(bits & 1023);
        double magnitude =
            exponent == 0 ? ldexp(mantissa, -24) : ldexp(1024 + mantissa, exponent - 25);
        float value = ddp_f16_to_f32((uint16_t)bits);

        if (exponent == 31) {
            CT_CHECK((bits & 1023) != 0 ? isnan(value) : isinf(value));
        } else {
            CT_CHECK((double)fabsf(value) == magnitude);
        }
        CT_CHECK((signbit(value) != 0) == (bits >> 15 != 0));
        if (isnan(value)) {
            CT_CHECK(isnan(ddp_f16_to_f32(ddp_f16_from_f32(value))));
        } else {
            CT_CHECK_EQ_U64(ddp_f16_from_f32(value), bits);
        }
    }
}

/* Between neighbouring halves: below the middle goes down, above goes up, the middle to even. The
 * step past the largest finite half has its middle at 65520. */
CT_TEST(dtype, f16_rounds_to_nearest_even)
{
    for (uint32_t bits = 0; bits < 0x7c00; bits++) {
        double low = (double)ddp_f16_to_f32((uint16_t)bits);
        double high = bits == 0x7bff ? 65536.0 : (double)ddp_f16_to_f32((uint16_t)(bits + 1));
        float middle = (float)((low + high) / 2);
        uint32_t even = (bits & 1) == 0 ? bits : bits + 1;

        CT_CHECK_EQ_U64(ddp_f16_from_f32(middle), even);
        CT_CHECK_EQ_U64(ddp_f16_from_f32(nextafterf(middle, 0.0f)), bits);
        CT_CHECK_EQ_U64(ddp_f16_from_f32(nextafterf(middle, INFINITY)), bits + 1);
        CT_CHECK_EQ_U64(ddp_f16_from_f32(-middle), even | 0x8000);
    }
    CT_CHECK_EQ_U64(ddp_f16_from_f32(float_of(1)), 0);
    CT_CHECK_EQ_U64(ddp_f16_from_f32(3.0e38f), 0x7c00);
}

/* The same for bfloat16, over every finite value. */
CT_TEST(dtype, bf16_rounds_to_nearest_even)
{
    for (uint32_t bits = 0; bits < 0x7f80; bits++) {
        uint32_t middle = bits << 16 | 0x8000;
        uint32_t even = (bits & 1) == 0 ? bits : bits + 1;

        CT_CHECK_EQ_U64(ddp_bf16_from_f32(ddp_bf16_to_f32((uint16_t)bits)), bits);
        CT_CHECK_EQ_U64(ddp_bf16_from_f32(float_of(middle)), even);
        CT_CHECK_EQ_U64(ddp_bf16_from_f32(float_of(middle - 1)), bits);
        CT_CHECK_EQ_U64(ddp_bf16_from_f32(float_of(middle + 1)), bits + 1);
        CT_CHECK_EQ_U64(ddp_bf16_from_f32(float_of(middle | 0x80000000u)), even | 0x8000);
    }
    CT_CHECK_EQ_U64(ddp_bf16_from_f32(INFINITY), 0x7f80);
    CT_CHECK_EQ_U64(ddp_bf16_from_f32(-INFINITY), 0xff80);
}

/* A NaN whose payload lies only in the bits that are dropped stays a NaN in both formats. */
CT_TEST(dtype, nan_never_becomes_infinity)
{
    CT_CHECK(isnan(ddp_bf16_to_f32(ddp_bf16_from_f32(float_of(0x7f800001)))));
    CT_CHECK(isnan(ddp_bf16_to_f32(ddp_bf16_from_f32(float_of(0xffffffff)))));
    CT_CHECK(isnan(ddp_f16_to_f32(ddp_f16_from_f32(float_of(0x7f800001)))));
    CT_CHECK(isnan(ddp_f16_to_f32(ddp_f16_from_f32(float_of(0xffffffff)))));
}
