/* What elements come to, and floats of 16 bits, against other code and by definition. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/dtype.h"
#include "harness/guest/fault.h"
#include "harness/guest/observe/half.h"
#include "harness/guest/observe/project.h"
#include "harness/guest/observe/sample.h"
#include "tests/ct.h"

static uint32_t next(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state;
}

CT_TEST(project, halves_are_those_of_the_core)
{
    uint32_t state = 1;

    for (uint32_t bits = 0; bits < 1u << 16; bits++) {
        const float f16 = guest_half_decode(DDPROVE_GUEST_F16, (uint16_t)bits);
        const float bf16 = guest_half_decode(DDPROVE_GUEST_BF16, (uint16_t)bits);
        const float core = ddp_f16_to_f32((uint16_t)bits);

        CT_CHECK(isnan(f16) ? isnan(core) != 0 : memcmp(&f16, &core, sizeof core) == 0);
        CT_CHECK(isnan(bf16) || guest_half_encode(DDPROVE_GUEST_BF16, bf16) == bits);
        CT_CHECK(isnan(f16) || guest_half_encode(DDPROVE_GUEST_F16, f16) == bits);
    }
    for (uint32_t i = 0; i < 2000000; i++) {
        /* Half of them where numbers of 16 bits lie. */
        const uint32_t bits =
            next(&state) ^ (i % 2 == 0 ? 0 : (next(&state) & 0x3fffffffu) + 0x30000000u);
        float value;

        memcpy(&value, &bits, sizeof value);
        if (!isnan(value) &&
            (guest_half_encode(DDPROVE_GUEST_F16, value) != ddp_f16_from_f32(value) ||
             guest_half_encode(DDPROVE_GUEST_BF16, value) != ddp_bf16_from_f32(value))) {
            CT_FAIL("%a", (double)value);
        }
    }
}

static struct guest_projection of(const void *data, uint64_t count, uint32_t dtype, uint64_t seed)
{
    struct guest_projection out = {.sum = 0};

    guest_project(data, count, dtype, seed,
                  GUEST_PROJECT_SUM | GUEST_PROJECT_MAGNITUDE | GUEST_PROJECT_HASH, &out);
    return out;
}

/* Element i as an element of any type. */
static void put(uint32_t dtype, void *data, int i, int value)
{
    switch ((enum ddprove_guest_dtype)dtype) {
    case DDPROVE_GUEST_F32:
        ((float *)data)[i] = (float)value;
        break;
    case DDPROVE_GUEST_F64:
        ((double *)data)[i] = value;
        break;
    case DDPROVE_GUEST_F16:
    case DDPROVE_GUEST_BF16:
        ((uint16_t *)data)[i] = guest_half_encode(dtype, (float)value);
        break;
    default: /* little-endian */
        memcpy((char *)data + (uint64_t)i * guest_dtype_size_bytes(dtype), &value,
               guest_dtype_size_bytes(dtype) < 4 ? guest_dtype_size_bytes(dtype) : 4);
    }
}

/* Moved data come to what was foretold, whatever their type; what lies beyond its reach does not
 * count. */
CT_TEST(sample, foretells_what_has_moved)
{
    for (uint32_t dtype = 0; dtype < DDPROVE_GUEST_DTYPE_COUNT; dtype++) {
        for (int count = 0; count <= 300; count += count < 6 ? 1 : 49) {
            struct guest_sample one = {.still = 0};
            struct guest_sample up = {.still = 0};
            double data[302] = {0};
            const size_t elem_bytes = guest_dtype_size_bytes(dtype);
            uint32_t state = 3;

            for (int i = 0; i <= count; i++) { /* one more, before what is looked at first */
                put(dtype, data, i, (int)(next(&state) >> 26));
            }
            guest_sample((char *)data + elem_bytes, (uint64_t)count, dtype, 9, &one);
            guest_sample(data, (uint64_t)count, dtype, 9, &up);
            if (count < 3 || dtype == DDPROVE_GUEST_BYTES) {
                CT_CHECK(one.still == 0 && one.up == 0 && one.down == 0 && one.magnitude == 0);
            } else {
                CT_CHECK(one.still == up.down && one.up == up.still);
                CT_CHECK(one.magnitude > 0 && fabs(one.still) <= one.magnitude);
                CT_CHECK(count < 50 || (one.still != one.up && one.still != one.down));
            }
        }
    }
}

/* The sign of each element, from a range in which it alone is not zero: 1 or -1, both about as
 * often, and others for another seed. The projection of all is the sum with these signs. */
CT_TEST(project, is_a_sum_with_signs)
{
    enum { COUNT = 2500 };
    static double values[COUNT], alone[COUNT];
    double sum = 0;
    int minus = 0;
    int other = 0;
    uint32_t state = 7;

    for (int i = 0; i < COUNT; i++) {
        double sign;

        values[i] = (double)(next(&state) >> 16); /* whole numbers, so no sum is rounded */
        alone[i] = 1;
        sign = of(alone, COUNT, DDPROVE_GUEST_F64, 5).sum;
        CT_CHECK(fabs(sign) == 1);
        minus += sign < 0;
        other += sign != of(alone, COUNT, DDPROVE_GUEST_F64, 6).sum;
        alone[i] = 0;
        sum += sign * values[i];
    }
    CT_CHECK(minus > COUNT / 2 - 150 && minus < COUNT / 2 + 150); /* six deviations */
    CT_CHECK(other > COUNT / 2 - 150 && other < COUNT / 2 + 150);
    CT_CHECK(of(values, COUNT, DDPROVE_GUEST_F64, 5).sum == sum);
}

/* The same numbers in every type have the same projection, wherever they lie. */
CT_TEST(project, is_the_same_for_all_types)
{
    enum { COUNT = 4099 };
    static const uint32_t dtypes[] = {DDPROVE_GUEST_F16, DDPROVE_GUEST_BF16, DDPROVE_GUEST_F32,
                                      DDPROVE_GUEST_F64, DDPROVE_GUEST_I8,   DDPROVE_GUEST_U8,
                                      DDPROVE_GUEST_I16, DDPROVE_GUEST_U16,  DDPROVE_GUEST_I32,
                                      DDPROVE_GUEST_U32, DDPROVE_GUEST_I64,  DDPROVE_GUEST_U64};
    static unsigned char data[COUNT * 8 + 1];

    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        const uint64_t size_bytes = guest_dtype_size_bytes(dtypes[d]);
        uint32_t state = 3;
        struct guest_projection got;
        double magnitude = 0;

        for (uint64_t i = 0; i < COUNT; i++) {
            const uint32_t value = next(&state) >> 25; /* below 128, so all types have it */
            const float single = (float)value;
            const double twice = value;
            const uint64_t whole = value;
            const uint16_t half = guest_half_encode(dtypes[d], single);
            const void *from = dtypes[d] == DDPROVE_GUEST_F32             ? (const void *)&single
                               : dtypes[d] == DDPROVE_GUEST_F64           ? (const void *)&twice
                               : guest_project_width_bits(dtypes[d]) != 0 ? (const void *)&whole
                                                                          : (const void *)&half;

            memcpy(data + 1 + i * size_bytes, from, size_bytes); /* nowhere near a boundary */
            magnitude += twice;
        }
        got = of(data + 1, COUNT, dtypes[d], 9);
        CT_CHECK(fabs(got.magnitude - magnitude) <= magnitude * 0x1p-16);
        if (guest_project_width_bits(dtypes[d]) != 0) {
            CT_CHECK(got.sum == 0);
            got.sum = (double)(int64_t)got.whole;
        }
        memset(data, 0, sizeof data);
        state = 3;
        for (uint64_t i = 0; i < COUNT; i++) {
            const double value = next(&state) >> 25;

            memcpy(data + 8 * i, &value, sizeof value);
        }
        CT_CHECK(got.sum == of(data, COUNT, DDPROVE_GUEST_F64, 9).sum);
    }
}

/* Ranks may run on different processors. */
CT_TEST(project, is_the_same_on_all_processors)
{
    enum { COUNT = 5000 };
    static const uint32_t dtypes[] = {DDPROVE_GUEST_F32, DDPROVE_GUEST_BF16, DDPROVE_GUEST_F64,
                                      DDPROVE_GUEST_I16, DDPROVE_GUEST_BYTES};
    static const uint64_t counts[] = {1, 255, 256, 1023, 1024, 1025, 1279, 4096, COUNT};
    static double doubles[COUNT];
    static float floats[COUNT];
    static unsigned char data[COUNT * 8 + 1];
    uint32_t state = 11;

    for (int i = 0; i < COUNT; i++) {
        doubles[i] = ldexp((double)(int32_t)next(&state), (int)(next(&state) >> 28) - 40);
        floats[i] = (float)doubles[i];
    }
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        memcpy(data + 1, dtypes[d] == DDPROVE_GUEST_F32 ? (void *)floats : (void *)doubles,
               dtypes[d] == DDPROVE_GUEST_F32 ? sizeof floats : sizeof doubles);
        for (size_t i = 2; dtypes[d] == DDPROVE_GUEST_BF16 && i < sizeof data; i += 2) {
            data[i] &= 0xbf; /* of a NaN the sign is not the same */
        }
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            for (unsigned wanted = 1; wanted < 8; wanted++) {
                struct guest_projection wide = {.sum = 0};
                struct guest_projection narrow = {.sum = 0};

                guest_project(data + 1, counts[c], dtypes[d], 7, wanted, &wide);
                CT_CHECK(guest_project_widen(0) == 0);
                guest_project(data + 1, counts[c], dtypes[d], 7, wanted, &narrow);
                (void)guest_project_widen(1);
                CT_CHECK(memcmp(&wide, &narrow, sizeof wide) == 0);
                CT_CHECK((wanted & GUEST_PROJECT_MAGNITUDE) != 0 || wide.magnitude == 0);
            }
        }
    }
}

CT_TEST(project, negative_integers)
{
    const int8_t narrow[4] = {-1, -128, 127, 5};
    const int64_t wide[4] = {-1, -128, 127, 5};

    CT_CHECK_EQ_U64(of(narrow, 4, DDPROVE_GUEST_I8, 1).whole,
                    of(wide, 4, DDPROVE_GUEST_I64, 1).whole);
}

/* Any bit changes the hash, and so do changes of place that leave the sum of bytes as it is. */
CT_TEST(project, hash)
{
    enum { BYTES = 5000 };
    static unsigned char data[BYTES];
    uint64_t before;
    uint32_t state = 1;

    for (int i = 0; i < BYTES; i++) {
        data[i] = (unsigned char)(next(&state) >> 24);
    }
    before = of(data, BYTES, DDPROVE_GUEST_BYTES, 1).hash;
    for (int i = 0; i < BYTES; i += 3) {
        data[i] ^= (unsigned char)(1u << i % 8);
        CT_CHECK(of(data, BYTES, DDPROVE_GUEST_BYTES, 1).hash != before);
        data[i] ^= (unsigned char)(1u << i % 8);
    }
    for (int i = 0; i + 2048 < BYTES; i += 4) { /* the next KiB but one has the same keys */
        unsigned char word[4];

        memcpy(word, data + i, 4);
        memcpy(data + i, data + i + 2048, 4);
        memcpy(data + i + 2048, word, 4);
        CT_CHECK(of(data, BYTES, DDPROVE_GUEST_BYTES, 1).hash != before);
        memcpy(data + i + 2048, data + i, 4);
        memcpy(data + i, word, 4);
    }
    CT_CHECK_EQ_U64(of(data, BYTES, DDPROVE_GUEST_BYTES, 1).hash, before);
    memset(data, 0, sizeof data);
    CT_CHECK(of(data, 100, DDPROVE_GUEST_BYTES, 1).hash !=
             of(data, 101, DDPROVE_GUEST_BYTES, 1).hash);
}

/* Not finite, or too large for a double: said as what it is. */
CT_TEST(project, what_is_not_finite)
{
    float floats[1100] = {0};
    double doubles[3] = {1e308, -1e308, 1e308};

    for (int i = 0; i < 1100; i++) {
        floats[i] = 3e38F;
    }
    CT_CHECK(fabs(of(floats, 1100, DDPROVE_GUEST_F32, 1).magnitude - 1100 * 3e38) <
             1100 * 3e38 * 0x1p-16);
    floats[1099] = (float)INFINITY;
    CT_CHECK(isinf(of(floats, 1100, DDPROVE_GUEST_F32, 1).magnitude));
    floats[3] = (float)NAN;
    CT_CHECK(isnan(of(floats, 1100, DDPROVE_GUEST_F32, 1).magnitude));
    CT_CHECK(isnan(of(floats, 1100, DDPROVE_GUEST_F32, 1).sum));
    CT_CHECK(isfinite(of(doubles, 3, DDPROVE_GUEST_F64, 1).magnitude));
    doubles[1] = (double)INFINITY;
    CT_CHECK(isinf(of(doubles, 3, DDPROVE_GUEST_F64, 1).magnitude));
}

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

CT_TEST(corrupt, halves)
{
    static const uint32_t dtypes[] = {DDPROVE_GUEST_F16, DDPROVE_GUEST_BF16};

    for (int d = 0; d < 2; d++) {
        struct guest_fault fault = {.action = GUEST_ACTION_SCALE, .value = bits_of(0.5)};
        uint16_t data[3];

        for (int i = 0; i < 3; i++) {
            data[i] = guest_half_encode(dtypes[d], (float)(i + 1));
        }
        CT_CHECK(guest_corrupt(data, 3, dtypes[d], &fault) != 0);
        CT_CHECK(guest_half_decode(dtypes[d], data[2]) == 1.5F);
        fault =
            (struct guest_fault){.action = GUEST_ACTION_SET, .value = bits_of(-4.25), .elem = 1};
        CT_CHECK(guest_corrupt(data, 3, dtypes[d], &fault) != 0);
        CT_CHECK(guest_half_decode(dtypes[d], data[1]) == -4.25F);
        CT_CHECK(guest_half_decode(dtypes[d], data[2]) == 1.5F);
        fault.action = GUEST_ACTION_NAN_VALUE;
        CT_CHECK(guest_corrupt(data, 3, dtypes[d], &fault) != 0);
        CT_CHECK(isnan(guest_half_decode(dtypes[d], data[1])));
        fault = (struct guest_fault){.action = GUEST_ACTION_FLIP, .value = 15, .elem = 2};
        CT_CHECK(guest_corrupt(data, 3, dtypes[d], &fault) != 0);
        CT_CHECK(guest_half_decode(dtypes[d], data[2]) == -1.5F);
        fault = (struct guest_fault){.action = GUEST_ACTION_SHIFT, .value = 1};
        CT_CHECK(guest_corrupt(data, 3, dtypes[d], &fault) != 0);
        CT_CHECK(guest_half_decode(dtypes[d], data[1]) == 0.5F && data[0] == data[1]);
        fault.action = GUEST_ACTION_ZERO;
        CT_CHECK(guest_corrupt(data, 3, dtypes[d], &fault) != 0);
        CT_CHECK(data[0] == 0 && data[1] == 0 && data[2] == 0);
    }
}

/* What would leave the data as they are did not happen. */
CT_TEST(corrupt, nothing_to_change)
{
    static const enum guest_action actions[] = {GUEST_ACTION_ZERO, GUEST_ACTION_SCALE,
                                                GUEST_ACTION_SHIFT, GUEST_ACTION_SET};
    const float one[3] = {1, 1, 1};

    for (size_t a = 0; a < sizeof actions / sizeof actions[0]; a++) {
        struct guest_fault fault = {.action = actions[a], .value = 1};
        float data[3] = {0, 0, 0};

        fault.value = actions[a] == GUEST_ACTION_SCALE ? bits_of(2.0)
                      : actions[a] == GUEST_ACTION_SET ? bits_of(0.0)
                                                       : 1;
        CT_CHECK(guest_corrupt(data, 3, DDPROVE_GUEST_F32, &fault) == 0);
        memcpy(data, one, sizeof data);
        CT_CHECK((guest_corrupt(data, 3, DDPROVE_GUEST_F32, &fault) != 0) ==
                 (actions[a] != GUEST_ACTION_SHIFT));
    }
}
