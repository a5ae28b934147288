/* The device contract: memory, copies, reduce and scale in every dtype against scalar arithmetic,
 * at odd sizes and offsets, with guard bytes around what is written. */
#include <math.h>
#include <string.h>

#include "ddpcore/base/prng.h"
#include "ddpcore/device/device.h"
#include "tests/ct.h"

enum { ELEMS_MAX = 1100, GUARD_BYTES = 64, GUARD = 0xA5 };

static const size_t sizes[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 63, 511, 512, 513, 1025};
enum { SIZE_COUNT = sizeof(sizes) / sizeof(sizes[0]) };

static struct ddp_device *open_device(void)
{
    struct ddp_device *device = NULL;

    CT_CHECK_OK(ddp_device_cpu_create(ddp_mem_system(), &device));
    return device;
}

/* A block with guards; the payload starts at an odd multiple of the element size. */
struct block {
    unsigned char bytes[GUARD_BYTES + ELEMS_MAX * 8 + GUARD_BYTES];
    size_t first, size_bytes;
};

static void *block_begin(struct block *block, size_t elem_bytes, size_t elem_count)
{
    memset(block->bytes, GUARD, sizeof(block->bytes));
    block->first = GUARD_BYTES - elem_bytes;
    block->size_bytes = elem_bytes * elem_count;
    return block->bytes + block->first;
}

static bool block_is_intact(const struct block *block)
{
    for (size_t i = 0; i < sizeof(block->bytes); i++) {
        bool is_inside = i >= block->first && i < block->first + block->size_bytes;
        if (!is_inside && block->bytes[i] != GUARD) {
            return false;
        }
    }
    return true;
}

/* Element i of a block of dtype as a double, exact except for i64 beyond 2^53. */
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

/* The expected element: in double for the wide types, in float for the narrow ones. */
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
        double value = is_float ? (double)ddp_prng_uniform(prng) * 8.0 - 4.0
                                : (double)ddp_prng_below(prng, 16);
        store_elem(data, dtype, i, value);
    }
}

static void check_reduce(struct ddp_device *device, enum ddp_dtype dtype, enum ddp_redop op,
                         size_t count)
{
    static struct block target_block;
    static struct block source_block;
    static struct block expected_block;
    size_t bytes = ddp_dtype_size_bytes(dtype);
    void *target = block_begin(&target_block, bytes, count);
    void *source = block_begin(&source_block, bytes, count);
    void *expected = block_begin(&expected_block, bytes, count);
    struct ddp_prng prng = ddp_prng_make(count, "test/reduce");

    fill_random(target, dtype, count, &prng);
    fill_random(source, dtype, count, &prng);
    for (size_t i = 0; i < count; i++) {
        store_elem(
            expected, dtype, i,
            expected_reduce(dtype, op, load_elem(target, dtype, i), load_elem(source, dtype, i)));
    }
    CT_CHECK_OK(device->ops->reduce(device, NULL, target, source, count, dtype, op));
    CT_CHECK_BYTES(target, expected, count * bytes);
    CT_CHECK(block_is_intact(&target_block));
}

/* Every dtype and operation gives the once-rounded result, element by element, at odd sizes and
 * odd offsets, and writes nothing else. */
CT_TEST(device, reduces_every_dtype_and_op)
{
    struct ddp_device *device = open_device();

    for (unsigned dtype = 0; dtype < DDP_DTYPE_COUNT; dtype++) {
        for (unsigned op = 0; op < DDP_REDOP_COUNT; op++) {
            for (size_t s = 0; s < SIZE_COUNT; s++) {
                check_reduce(device, (enum ddp_dtype)dtype, (enum ddp_redop)op, sizes[s]);
            }
        }
    }
    device->ops->destroy(device);
}

/* Integer sums and products wrap, as two's complement does. */
CT_TEST(device, integers_wrap)
{
    struct ddp_device *device = open_device();
    int32_t i32[2] = {INT32_MAX, INT32_MIN};
    const int32_t i32_source[2] = {1, -1};
    uint8_t u8[1] = {200};
    const uint8_t u8_source[1] = {100};

    CT_CHECK_OK(
        device->ops->reduce(device, NULL, i32, i32_source, 2, DDP_DTYPE_I32, DDP_REDOP_SUM));
    CT_CHECK_EQ_I64(i32[0], INT32_MIN);
    CT_CHECK_EQ_I64(i32[1], INT32_MAX);
    CT_CHECK_OK(device->ops->reduce(device, NULL, u8, u8_source, 1, DDP_DTYPE_U8, DDP_REDOP_SUM));
    CT_CHECK_EQ_U64(u8[0], 44);
    CT_CHECK_OK(device->ops->reduce(device, NULL, u8, u8_source, 1, DDP_DTYPE_U8, DDP_REDOP_PROD));
    CT_CHECK_EQ_U64(u8[0], 44 * 100 % 256);
    device->ops->destroy(device);
}

/* A NaN goes through sum and prod and is dropped by max and min, on either side, in every float
 * dtype; infinities of unlike sign sum to NaN. */
CT_TEST(device, nan_in_reduce)
{
    static const enum ddp_dtype floats[] = {DDP_DTYPE_F32, DDP_DTYPE_F16, DDP_DTYPE_BF16,
                                            DDP_DTYPE_F64};
    struct ddp_device *device = open_device();

    for (size_t d = 0; d < sizeof(floats) / sizeof(floats[0]); d++) {
        for (unsigned op = 0; op < DDP_REDOP_COUNT; op++) {
            bool drops = op == DDP_REDOP_MAX || op == DDP_REDOP_MIN;
            double target[19];
            double source[19];

            for (size_t i = 0; i < 19; i++) {
                store_elem(target, floats[d], i, i % 3 == 0 ? (double)NAN : 2.0);
                store_elem(source, floats[d], i, i % 3 == 1 ? (double)NAN : 2.0);
            }
            CT_CHECK_OK(device->ops->reduce(device, NULL, target, source, 19, floats[d],
                                            (enum ddp_redop)op));
            for (size_t i = 0; i < 19; i++) {
                bool is_nan = isnan(load_elem(target, floats[d], i)) != 0;
                CT_CHECK(is_nan == (i % 3 != 2 && !drops));
                CT_CHECK(!drops || load_elem(target, floats[d], i) == 2.0);
            }
        }
    }
    float infinite[1] = {INFINITY};
    const float opposite[1] = {-INFINITY};
    CT_CHECK_OK(
        device->ops->reduce(device, NULL, infinite, opposite, 1, DDP_DTYPE_F32, DDP_REDOP_SUM));
    CT_CHECK(isnan(infinite[0]));
    device->ops->destroy(device);
}

/* Scaling converts between all float dtypes with one rounding in fp32 and one in the target. */
CT_TEST(device, scales_and_converts)
{
    static const enum ddp_dtype floats[] = {DDP_DTYPE_F32, DDP_DTYPE_F16, DDP_DTYPE_BF16,
                                            DDP_DTYPE_F64};
    static struct block target_block;
    static struct block source_block;
    struct ddp_device *device = open_device();
    struct ddp_prng prng = ddp_prng_make(1, "test/scale");
    const float factor = 1.0F / 3.0F;

    for (size_t pair = 0; pair < 16; pair++) {
        enum ddp_dtype to = floats[pair / 4];
        enum ddp_dtype from = floats[pair % 4];
        for (size_t s = 0; s < SIZE_COUNT; s++) {
            void *target = block_begin(&target_block, ddp_dtype_size_bytes(to), sizes[s]);
            void *source = block_begin(&source_block, ddp_dtype_size_bytes(from), sizes[s]);

            fill_random(source, from, sizes[s], &prng);
            CT_CHECK_OK(
                device->ops->scale(device, NULL, target, to, source, from, sizes[s], factor));
            for (size_t i = 0; i < sizes[s]; i++) {
                double expected;
                float product = (float)load_elem(source, from, i) * factor;
                store_elem(&expected, to, 0, (double)product);
                CT_CHECK(load_elem(target, to, i) == load_elem(&expected, to, 0));
            }
            CT_CHECK(block_is_intact(&target_block));
        }
    }
    device->ops->destroy(device);
}

/* The device's bf16 conversions are base's, for every upper half and every kind of tie. */
CT_TEST(device, bf16_agrees_with_base)
{
    static const uint16_t lows[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff};
    static float wide[65536];
    static uint16_t narrow[65536];
    struct ddp_device *device = open_device();

    for (size_t l = 0; l < sizeof(lows) / sizeof(lows[0]); l++) {
        for (uint32_t high = 0; high < 65536; high++) {
            uint32_t bits = high << 16 | lows[l];
            memcpy(&wide[high], &bits, sizeof(bits));
        }
        CT_CHECK_OK(device->ops->scale(device, NULL, narrow, DDP_DTYPE_BF16, wide, DDP_DTYPE_F32,
                                       65536, 1.0F));
        for (uint32_t high = 0; high < 65536; high++) {
            /* factor 1 makes a signalling NaN quiet before the conversion sees it */
            CT_CHECK(narrow[high] == ddp_bf16_from_f32(wide[high]) || isnan(wide[high]));
            CT_CHECK(!isnan(wide[high]) || isnan(ddp_bf16_to_f32(narrow[high])));
        }
    }
    device->ops->destroy(device);
}

/* Scaling in place is allowed when the dtypes agree. */
CT_TEST(device, scales_in_place)
{
    struct ddp_device *device = open_device();
    uint16_t half[600];

    for (size_t i = 0; i < 600; i++) {
        half[i] = ddp_f16_from_f32((float)i);
    }
    CT_CHECK_OK(
        device->ops->scale(device, NULL, half, DDP_DTYPE_F16, half, DDP_DTYPE_F16, 600, 0.5F));
    for (size_t i = 0; i < 600; i++) {
        CT_CHECK(ddp_f16_to_f32(half[i]) == 0.5F * (float)i);
    }
    device->ops->destroy(device);
}

/* Integer dtypes are refused by scale, unknown ones by both. */
CT_TEST(device, refuses_wrong_dtypes)
{
    struct ddp_device *device = open_device();
    int32_t data[4] = {0};

    CT_CHECK_STATUS(
        device->ops->scale(device, NULL, data, DDP_DTYPE_I32, data, DDP_DTYPE_F32, 1, 1.0F),
        DDP_E_INVALID);
    CT_CHECK_STATUS(
        device->ops->scale(device, NULL, data, DDP_DTYPE_F32, data, DDP_DTYPE_U8, 1, 1.0F),
        DDP_E_INVALID);
    CT_CHECK_STATUS(
        device->ops->reduce(device, NULL, data, data + 2, 1, DDP_DTYPE_COUNT, DDP_REDOP_SUM),
        DDP_E_INVALID);
    device->ops->destroy(device);
}

/* Memory comes zeroed and aligned from the device's allocator, goes back to it, and its exhaustion
 * is an error. */
CT_TEST(device, allocates_from_its_mem)
{
    struct ddp_mem_pool *pool;
    struct ddp_device *device;
    void *data;

    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    CT_REQUIRE_OK(ddp_device_cpu_create(ddp_mem_pool_mem(pool), &device));
    CT_CHECK_OK(device->ops->alloc(device, 1000, DDP_SPACE_DEVICE, &data));
    CT_CHECK_EQ_U64((uintptr_t)data % 64, 0);
    for (size_t i = 0; i < 1000; i++) {
        CT_CHECK(((const unsigned char *)data)[i] == 0);
    }
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 2);
    device->ops->free(device, DDP_SPACE_DEVICE, data);
    CT_CHECK_OK(device->ops->alloc(device, 0, DDP_SPACE_DEVICE, &data));
    device->ops->free(device, DDP_SPACE_DEVICE, data);
    ddp_mem_pool_fail_after(pool, 0, 1);
    CT_CHECK_STATUS(device->ops->alloc(device, 8, DDP_SPACE_DEVICE, &data), DDP_E_NOMEM);
    device->ops->destroy(device);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 0);
    ddp_mem_pool_destroy(pool);
}

/* Copy and zero touch their range and nothing else; size 0 touches nothing. */
CT_TEST(device, copies_and_zeroes)
{
    static struct block target_block;
    struct ddp_device *device = open_device();
    unsigned char source[100];
    unsigned char *target = (unsigned char *)block_begin(&target_block, 1, 100);

    for (size_t i = 0; i < 100; i++) {
        source[i] = (unsigned char)i;
    }
    CT_CHECK_OK(device->ops->copy(device, NULL, target, source, 100));
    CT_CHECK_BYTES(target, source, 100);
    CT_CHECK_OK(device->ops->zero(device, NULL, target, 50));
    CT_CHECK(target[0] == 0 && target[49] == 0 && target[50] == 50);
    CT_CHECK_OK(device->ops->copy(device, NULL, NULL, NULL, 0));
    CT_CHECK_OK(device->ops->zero(device, NULL, NULL, 0));
    CT_CHECK(block_is_intact(&target_block));
    device->ops->destroy(device);
}

/* The CPU device has done everything when a call returns: events are ready at once. */
CT_TEST(device, events_are_ready)
{
    struct ddp_device *device = open_device();
    struct ddp_stream *stream;
    struct ddp_device_event *event;

    CT_CHECK_OK(device->ops->stream_create(device, &stream));
    CT_CHECK_OK(device->ops->event_create(device, &event));
    CT_CHECK_OK(device->ops->event_record(device, event, stream));
    CT_CHECK_OK(device->ops->stream_wait_event(device, stream, event));
    CT_CHECK_OK(device->ops->event_query(device, event));
    device->ops->event_destroy(device, event);
    device->ops->stream_destroy(device, stream);
    device->ops->destroy(device);
}

/* Opening is idempotent, pins a core type, refuses another
 * one afterwards, and says what is in force. */
CT_TEST(device, opens_blas_once)
{
    struct ddp_err err;

    CT_REQUIRE_OK(ddp_blas_open(NULL, &err));
    CT_CHECK_OK(ddp_blas_open(NULL, &err));
    CT_CHECK(ddp_blas_core_type()[0] != '\0');
    CT_CHECK(strstr(ddp_blas_describe(), ddp_blas_core_type()) != NULL);
    CT_CHECK(strstr(ddp_blas_describe(), "1 thread") != NULL);
    CT_CHECK_OK(ddp_blas_open(ddp_blas_core_type(), &err));
    CT_CHECK_STATUS(ddp_blas_open("Prescott", &err), DDP_E_STATE);
}
