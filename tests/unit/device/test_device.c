/* The device contract, arithmetic: reduce and scale in every dtype against scalar arithmetic, at
 * odd sizes and starts, with guard bytes around what is written. Runs on every device. */
#include <math.h>
#include <string.h>

#include "tests/unit/device/device_bench.h"

static const size_t sizes[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 63, 511, 512, 513, 1025};
enum { SIZE_COUNT = sizeof(sizes) / sizeof(sizes[0]) };

/* Elements by which target and source are off an aligned address: both aligned, alike, unlike. */
static const size_t leads[][2] = {{0, 0}, {1, 1}, {1, 0}, {3, 7}};
enum { LEAD_COUNT = sizeof(leads) / sizeof(leads[0]) };

static const enum ddp_dtype floats[] = {DDP_DTYPE_F32, DDP_DTYPE_F16, DDP_DTYPE_BF16,
                                        DDP_DTYPE_F64};
enum { FLOAT_COUNT = sizeof(floats) / sizeof(floats[0]) };

enum { TARGET, SOURCE };

/* Element i of a range of dtype as a double, exact except for i64 beyond 2^53. */
static double load_elem(const void *data, enum ddp_dtype dtype, size_t i)
{
    const unsigned char *at = (const unsigned char *)data + i * ddp_dtype_size_bytes(dtype);
    union {
        float f32;
        double f64;
        uint16_t u16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
    } value;

    memcpy(&value, at, ddp_dtype_size_bytes(dtype));
    switch (dtype) {
    case DDP_DTYPE_F32:
        return (double)value.f32;
    case DDP_DTYPE_F64:
        return value.f64;
    case DDP_DTYPE_F16:
        return (double)ddp_f16_to_f32(value.u16);
    case DDP_DTYPE_BF16:
        return (double)ddp_bf16_to_f32(value.u16);
    case DDP_DTYPE_I32:
        return (double)value.i32;
    case DDP_DTYPE_I64:
        return (double)value.i64;
    default:
        return (double)value.u8;
    }
}

static void store_elem(void *data, enum ddp_dtype dtype, size_t i, double number)
{
    unsigned char *at = (unsigned char *)data + i * ddp_dtype_size_bytes(dtype);
    union {
        float f32;
        double f64;
        uint16_t u16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
    } value = {.f64 = number};

    if (dtype == DDP_DTYPE_F32) {
        value.f32 = (float)number;
    } else if (dtype == DDP_DTYPE_F16) {
        value.u16 = ddp_f16_from_f32((float)number);
    } else if (dtype == DDP_DTYPE_BF16) {
        value.u16 = ddp_bf16_from_f32((float)number);
    } else if (dtype == DDP_DTYPE_I32) {
        value.i32 = (int32_t)number;
    } else if (dtype == DDP_DTYPE_I64) {
        value.i64 = (int64_t)number;
    } else if (dtype == DDP_DTYPE_U8) {
        value.u8 = (uint8_t)number;
    }
    memcpy(at, &value, ddp_dtype_size_bytes(dtype));
}

/* The expected element: in double for the wide types (rounding to float twice through double is
 * rounding once), in float for the narrow ones. */
static double expected_reduce(enum ddp_dtype dtype, enum ddp_redop op, double a, double b)
{
    bool is_half = dtype == DDP_DTYPE_F16 || dtype == DDP_DTYPE_BF16;

    switch (op) {
    case DDP_REDOP_SUM:
        return is_half ? (double)((float)a + (float)b) : a + b;
    case DDP_REDOP_PROD:
        return is_half ? (double)((float)a * (float)b) : a * b;
    case DDP_REDOP_MAX:
        return fmax(a, b);
    default:
        return fmin(a, b);
    }
}

static void fill_random(void *data, enum ddp_dtype dtype, size_t count, struct ddp_prng *prng)
{
    bool is_float = dtype != DDP_DTYPE_I32 && dtype != DDP_DTYPE_I64 && dtype != DDP_DTYPE_U8;

    for (size_t i = 0; i < count; i++) {
        /* The second term makes doubles that no float holds. */
        double value = is_float ? (double)ddp_prng_uniform(prng) * 8.0 - 4.0 +
                                      (double)ddp_prng_uniform(prng) * 0x1p-26
                                : (double)ddp_prng_below(prng, 16);
        store_elem(data, dtype, i, value);
    }
}

static void check_reduce(struct bench *bench, enum ddp_dtype dtype, enum ddp_redop op, size_t count,
                         const size_t lead[2])
{
    size_t bytes = ddp_dtype_size_bytes(dtype);
    unsigned char *target = (unsigned char *)bench_begin(bench, TARGET, bytes, count, lead[0]);
    unsigned char *source = (unsigned char *)bench_begin(bench, SOURCE, bytes, count, lead[1]);
    struct ddp_prng prng = ddp_prng_make(count, "test/reduce");
    struct ddp_mem *mem = ddp_mem_system();
    unsigned char *expected = (unsigned char *)ddp_mem_array(mem, count, bytes);
    void *on_target;
    void *on_source;

    CT_REQUIRE(expected != NULL);
    fill_random(target, dtype, count, &prng);
    fill_random(source, dtype, count, &prng);
    for (size_t i = 0; i < count; i++) {
        store_elem(
            expected, dtype, i,
            expected_reduce(dtype, op, load_elem(target, dtype, i), load_elem(source, dtype, i)));
    }
    on_target = bench_push(bench, TARGET);
    on_source = bench_push(bench, SOURCE);
    CT_CHECK_OK(bench->ops->reduce(bench->device, NULL, on_target, on_source, count, dtype, op));
    CT_CHECK_BYTES(bench_pull(bench, TARGET), expected, count * bytes);
    ddp_mem_free(mem, expected);
}

/* Every dtype and operation gives the once-rounded result, element by element, at odd sizes and
 * odd starts, and writes nothing else. */
CT_TEST(device, reduces_every_dtype_and_op)
{
    struct bench bench;

    BENCH_OPEN(&bench);
    for (unsigned dtype = 0; dtype < DDP_DTYPE_COUNT; dtype++) {
        for (unsigned op = 0; op < DDP_REDOP_COUNT; op++) {
            for (size_t s = 0; s < SIZE_COUNT; s++) {
                for (size_t l = 0; l < LEAD_COUNT; l++) {
                    check_reduce(&bench, (enum ddp_dtype)dtype, (enum ddp_redop)op, sizes[s],
                                 leads[l]);
                }
            }
        }
    }
    bench_close(&bench);
}

/* More elements than a device works on at a time. */
CT_TEST(device, reduces_large_ranges)
{
    const size_t count = 1500001;
    struct bench bench;

    BENCH_OPEN(&bench);
    check_reduce(&bench, DDP_DTYPE_F32, DDP_REDOP_SUM, count, leads[0]);
    check_reduce(&bench, DDP_DTYPE_F32, DDP_REDOP_SUM, count, leads[2]);
    check_reduce(&bench, DDP_DTYPE_BF16, DDP_REDOP_PROD, count, leads[3]);
    bench_close(&bench);
}

/* One pair of elements for each pair of values; compares with scalar arithmetic. */
static void check_special(struct bench *bench, enum ddp_dtype dtype, enum ddp_redop op,
                          const double *values, size_t value_count)
{
    const bool is_order = op == DDP_REDOP_MAX || op == DDP_REDOP_MIN;
    size_t bytes = ddp_dtype_size_bytes(dtype);
    size_t count = value_count * value_count;
    void *target = bench_begin(bench, TARGET, bytes, count, 0);
    void *source = bench_begin(bench, SOURCE, bytes, count, 0);
    void *on_target;
    void *on_source;

    for (size_t i = 0; i < count; i++) {
        store_elem(target, dtype, i, values[i / value_count]);
        store_elem(source, dtype, i, values[i % value_count]);
    }
    on_target = bench_push(bench, TARGET);
    on_source = bench_push(bench, SOURCE);
    CT_CHECK_OK(bench->ops->reduce(bench->device, NULL, on_target, on_source, count, dtype, op));
    target = bench_pull(bench, TARGET);
    for (size_t i = 0; i < count; i++) {
        double a = values[i / value_count];
        double b = values[i % value_count];
        double got = load_elem(target, dtype, i);
        double expected;
        /* As the dtype holds them. */
        store_elem(&a, dtype, 0, a);
        store_elem(&b, dtype, 0, b);
        store_elem(&expected, dtype, 0,
                   expected_reduce(dtype, op, load_elem(&a, dtype, 0), load_elem(&b, dtype, 0)));
        expected = load_elem(&expected, dtype, 0);
        /* fmax and fmin may take either zero. */
        bool is_equal = isnan(expected)
                            ? isnan(got) != 0
                            : got == expected && (is_order || signbit(got) == signbit(expected));
        if (!is_equal) {
            CT_FAIL("%s %s of %a and %a: %a, not %a", ddp_dtype_name(dtype), ddp_redop_name(op),
                    values[i / value_count], values[i % value_count], got, expected);
        }
    }
}

/* Signed zeros, denormals, the largest values, infinities and NaN, in all pairs: a NaN goes through
 * sum and prod and is dropped by max and min, on either side; infinities of unlike sign sum to NaN;
 * nothing is flushed to zero. */
CT_TEST(device, special_values_in_reduce)
{
    static const double values[] = {
        0.0,       -0.0,      1.0,       -1.0,       0x1p-24,  -0x1.8p-24, 0x1p-14, 0x1p-133,
        0x1p-149,  -0x1p-149, 0x1p-126,  0x1p-1074,  65504.0,  -65504.0,   0x1p127, 0x1.fffffep127,
        0x1p-1022, 0x1p1023,  1.0000001, -1.0000001, INFINITY, -INFINITY,  NAN};
    struct bench bench;

    BENCH_OPEN(&bench);
    for (size_t d = 0; d < FLOAT_COUNT; d++) {
        for (unsigned op = 0; op < DDP_REDOP_COUNT; op++) {
            check_special(&bench, floats[d], (enum ddp_redop)op, values,
                          sizeof(values) / sizeof(values[0]));
        }
    }
    bench_close(&bench);
}

/* Integer sums and products wrap, as two's complement does. */
CT_TEST(device, integers_wrap)
{
    struct bench bench;
    void *on_target;
    void *on_source;
    int32_t *i32;
    int64_t *i64;
    uint8_t *u8;

    BENCH_OPEN(&bench);
    i32 = (int32_t *)bench_begin(&bench, TARGET, sizeof(*i32), 2, 0);
    i32[0] = INT32_MAX;
    i32[1] = INT32_MIN;
    i32 = (int32_t *)bench_begin(&bench, SOURCE, sizeof(*i32), 2, 0);
    i32[0] = 1;
    i32[1] = -1;
    on_target = bench_push(&bench, TARGET);
    on_source = bench_push(&bench, SOURCE);
    CT_CHECK_OK(bench.ops->reduce(bench.device, NULL, on_target, on_source, 2, DDP_DTYPE_I32,
                                  DDP_REDOP_SUM));
    i32 = (int32_t *)bench_pull(&bench, TARGET);
    CT_CHECK_EQ_I64(i32[0], INT32_MIN);
    CT_CHECK_EQ_I64(i32[1], INT32_MAX);

    i64 = (int64_t *)bench_begin(&bench, TARGET, sizeof(*i64), 1, 0);
    i64[0] = INT64_MAX;
    i64 = (int64_t *)bench_begin(&bench, SOURCE, sizeof(*i64), 1, 0);
    i64[0] = 2;
    on_target = bench_push(&bench, TARGET);
    on_source = bench_push(&bench, SOURCE);
    CT_CHECK_OK(bench.ops->reduce(bench.device, NULL, on_target, on_source, 1, DDP_DTYPE_I64,
                                  DDP_REDOP_PROD));
    CT_CHECK_EQ_I64(*(const int64_t *)bench_pull(&bench, TARGET), -2);

    u8 = (uint8_t *)bench_begin(&bench, TARGET, 1, 1, 0);
    u8[0] = 200;
    u8 = (uint8_t *)bench_begin(&bench, SOURCE, 1, 1, 0);
    u8[0] = 100;
    on_target = bench_push(&bench, TARGET);
    on_source = bench_push(&bench, SOURCE);
    CT_CHECK_OK(bench.ops->reduce(bench.device, NULL, on_target, on_source, 1, DDP_DTYPE_U8,
                                  DDP_REDOP_SUM));
    CT_CHECK_EQ_U64(*(const uint8_t *)bench_pull(&bench, TARGET), 44);
    CT_CHECK_OK(bench.ops->reduce(bench.device, NULL, on_target, on_source, 1, DDP_DTYPE_U8,
                                  DDP_REDOP_PROD));
    CT_CHECK_EQ_U64(*(const uint8_t *)bench_pull(&bench, TARGET), 44 * 100 % 256);
    bench_close(&bench);
}

static void check_scale(struct bench *bench, enum ddp_dtype to, enum ddp_dtype from, size_t count,
                        const size_t lead[2])
{
    const double factor = 1.0 / 3.0;
    const bool is_double = to == DDP_DTYPE_F64 && from == DDP_DTYPE_F64;
    struct ddp_prng prng = ddp_prng_make(count, "test/scale");
    void *target = bench_begin(bench, TARGET, ddp_dtype_size_bytes(to), count, lead[0]);
    void *source = bench_begin(bench, SOURCE, ddp_dtype_size_bytes(from), count, lead[1]);
    void *on_target = bench_push(bench, TARGET);

    fill_random(source, from, count, &prng);
    CT_CHECK_OK(bench->ops->scale(bench->device, NULL, on_target, to, bench_push(bench, SOURCE),
                                  from, count, factor));
    target = bench_pull(bench, TARGET);
    for (size_t i = 0; i < count; i++) {
        double expected;
        double number = load_elem(source, from, i);
        double product = is_double ? number * factor : (double)((float)number * (float)factor);

        store_elem(&expected, to, 0, product);
        CT_CHECK(load_elem(target, to, i) == load_elem(&expected, to, 0));
    }
}

/* Scaling converts between all float dtypes with one rounding in fp32 and one in the target. */
CT_TEST(device, scales_and_converts)
{
    static const size_t few[] = {0, 1, 3, 8, 17, 513};
    struct bench bench;

    BENCH_OPEN(&bench);
    for (size_t pair = 0; pair < FLOAT_COUNT * FLOAT_COUNT; pair++) {
        for (size_t s = 0; s < sizeof(few) / sizeof(few[0]); s++) {
            for (size_t l = 0; l < LEAD_COUNT; l++) {
                check_scale(&bench, floats[pair / FLOAT_COUNT], floats[pair % FLOAT_COUNT], few[s],
                            leads[l]);
            }
        }
    }
    bench_close(&bench);
}

/* The device's narrowing is base's, for every upper half of a float and these lower ones. */
static void check_narrowing(enum ddp_dtype dtype, uint16_t (*narrow)(float),
                            float (*widen)(uint16_t), const uint16_t *lows, size_t low_count)
{
    struct bench bench;

    BENCH_OPEN(&bench);
    for (size_t l = 0; l < low_count; l++) {
        float *wide = (float *)bench_begin(&bench, SOURCE, sizeof(*wide), 65536, 0);
        void *on_target;
        const uint16_t *got;

        for (uint32_t high = 0; high < 65536; high++) {
            uint32_t bits = high << 16 | lows[l];
            memcpy(&wide[high], &bits, sizeof(bits));
        }
        (void)bench_begin(&bench, TARGET, sizeof(*got), 65536, 0);
        on_target = bench_push(&bench, TARGET);
        CT_CHECK_OK(bench.ops->scale(bench.device, NULL, on_target, dtype,
                                     bench_push(&bench, SOURCE), DDP_DTYPE_F32, 65536, 1.0F));
        got = (const uint16_t *)bench_pull(&bench, TARGET);
        for (uint32_t high = 0; high < 65536; high++) {
            /* A NaN's payload is the device's own affair. */
            CT_CHECK(got[high] == narrow(wide[high]) || isnan(wide[high]));
            CT_CHECK(!isnan(wide[high]) || isnan(widen(got[high])));
        }
    }
    bench_close(&bench);
}

CT_TEST(device, bf16_agrees_with_base)
{
    static const uint16_t lows[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};

    check_narrowing(DDP_DTYPE_BF16, ddp_bf16_from_f32, ddp_bf16_to_f32, lows,
                    sizeof(lows) / sizeof(lows[0]));
}

/* 13 bits go: ties at 0x1000 above an even, 0x3000 above an odd last bit. */
CT_TEST(device, f16_agrees_with_base)
{
    static const uint16_t lows[] = {0,      1,      0x0fff, 0x1000, 0x1001, 0x2000,
                                    0x2fff, 0x3000, 0x3001, 0xf000, 0xffff};

    check_narrowing(DDP_DTYPE_F16, ddp_f16_from_f32, ddp_f16_to_f32, lows,
                    sizeof(lows) / sizeof(lows[0]));
}

/* Widening is exact for every 16-bit float. */
CT_TEST(device, widens_every_half)
{
    struct bench bench;

    BENCH_OPEN(&bench);
    for (unsigned d = 0; d < 2; d++) {
        uint16_t *narrow = (uint16_t *)bench_begin(&bench, SOURCE, sizeof(*narrow), 65536, 0);
        void *on_target;
        const float *wide;

        for (uint32_t bits = 0; bits < 65536; bits++) {
            narrow[bits] = (uint16_t)bits;
        }
        (void)bench_begin(&bench, TARGET, sizeof(*wide), 65536, 0);
        on_target = bench_push(&bench, TARGET);
        CT_CHECK_OK(bench.ops->scale(bench.device, NULL, on_target, DDP_DTYPE_F32,
                                     bench_push(&bench, SOURCE),
                                     d == 0 ? DDP_DTYPE_F16 : DDP_DTYPE_BF16, 65536, 1.0F));
        wide = (const float *)bench_pull(&bench, TARGET);
        for (uint32_t bits = 0; bits < 65536; bits++) {
            float expected =
                d == 0 ? ddp_f16_to_f32((uint16_t)bits) : ddp_bf16_to_f32((uint16_t)bits);
            CT_CHECK(memcmp(&wide[bits], &expected, sizeof(expected)) == 0 ||
                     (isnan(wide[bits]) && isnan(expected)));
        }
    }
    bench_close(&bench);
}

/* Scaling in place is allowed when the dtypes agree. */
CT_TEST(device, scales_in_place)
{
    struct bench bench;
    uint16_t *half;
    void *on_half;

    BENCH_OPEN(&bench);
    half = (uint16_t *)bench_begin(&bench, TARGET, sizeof(*half), 600, 1);
    for (size_t i = 0; i < 600; i++) {
        half[i] = ddp_f16_from_f32((float)i);
    }
    on_half = bench_push(&bench, TARGET);
    CT_CHECK_OK(bench.ops->scale(bench.device, NULL, on_half, DDP_DTYPE_F16, on_half, DDP_DTYPE_F16,
                                 600, 0.5F));
    half = (uint16_t *)bench_pull(&bench, TARGET);
    for (size_t i = 0; i < 600; i++) {
        CT_CHECK(ddp_f16_to_f32(half[i]) == 0.5F * (float)i);
    }
    bench_close(&bench);
}

/* Integer dtypes are refused by scale, unknown ones by both. */
CT_TEST(device, refuses_wrong_dtypes)
{
    struct bench bench;
    void *data;

    BENCH_OPEN(&bench);
    (void)bench_begin(&bench, TARGET, 4, 4, 0);
    data = bench_push(&bench, TARGET);
    CT_CHECK_STATUS(
        bench.ops->scale(bench.device, NULL, data, DDP_DTYPE_I32, data, DDP_DTYPE_F32, 1, 1.0F),
        DDP_E_INVALID);
    CT_CHECK_STATUS(
        bench.ops->scale(bench.device, NULL, data, DDP_DTYPE_F32, data, DDP_DTYPE_U8, 1, 1.0F),
        DDP_E_INVALID);
    CT_CHECK_STATUS(
        bench.ops->reduce(bench.device, NULL, data, data, 1, DDP_DTYPE_COUNT, DDP_REDOP_SUM),
        DDP_E_INVALID);
    CT_CHECK_STATUS(
        bench.ops->reduce(bench.device, NULL, data, data, 1, DDP_DTYPE_F32, DDP_REDOP_COUNT),
        DDP_E_INVALID);
    bench_close(&bench);
}
