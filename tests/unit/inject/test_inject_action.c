/* What faults do to data and to collective arguments. */
#include <math.h>
#include <string.h>

#include "harness/inject/action.h"
#include "tests/ct.h"

static struct harness_action corrupt(enum harness_corrupt_kind kind, double value, uint64_t elem)
{
    return (struct harness_action){.kind = HARNESS_ACTION_CORRUPT,
                                   .corrupt = kind,
                                   .value = value,
                                   .elem = elem,
                                   .bits = 1,
                                   .count = 1,
                                   .stride = 1};
}

static void apply_f32(enum harness_corrupt_kind kind, double value, uint64_t elem, float *data,
                      size_t count)
{
    const struct harness_action action = corrupt(kind, value, elem);

    harness_action_corrupt(&action, data, count, DDP_DTYPE_F32);
}

/* zero, double, half and scale act on every element and round once. */
CT_TEST(inject_action, scales_every_element)
{
    static const float start[4] = {1.5f, -3.0f, 0.1f, 8.0f};
    float data[4];

    memcpy(data, start, sizeof data);
    apply_f32(HARNESS_CORRUPT_DOUBLE, 0.0, 0, data, 4);
    for (size_t i = 0; i < 4; i++) {
        CT_CHECK(data[i] == 2.0f * start[i]);
    }
    apply_f32(HARNESS_CORRUPT_HALF, 0.0, 0, data, 4);
    CT_CHECK_BYTES(data, start, sizeof data);
    apply_f32(HARNESS_CORRUPT_SCALE, 0.3, 0, data, 4);
    for (size_t i = 0; i < 4; i++) {
        CT_CHECK(data[i] == (float)((double)start[i] * 0.3));
    }
    apply_f32(HARNESS_CORRUPT_ZERO, 0.0, 0, data, 4);
    for (size_t i = 0; i < 4; i++) {
        CT_CHECK(data[i] == 0.0f);
    }
}

/* shift moves every element up by `value` places, one if not given, and wraps around. */
CT_TEST(inject_action, shifts_elements)
{
    static const float by_one[5] = {5, 1, 2, 3, 4};
    static const float by_three_more[5] = {2, 3, 4, 5, 1};
    float data[5] = {1, 2, 3, 4, 5};

    apply_f32(HARNESS_CORRUPT_SHIFT, 0.0, 0, data, 5);
    CT_CHECK_BYTES(data, by_one, sizeof data);
    apply_f32(HARNESS_CORRUPT_SHIFT, 8.0, 0, data, 5);
    CT_CHECK_BYTES(data, by_three_more, sizeof data);
}

/* nan, set and flip touch one element, whose number wraps around. */
CT_TEST(inject_action, touches_one_element)
{
    struct harness_action flip = corrupt(HARNESS_CORRUPT_FLIP, 0.0, 2);
    float data[3] = {1, 2, 4};

    apply_f32(HARNESS_CORRUPT_NAN, 0.0, 3, data, 3);
    CT_CHECK(isnan(data[0]) && data[1] == 2.0f && data[2] == 4.0f);
    apply_f32(HARNESS_CORRUPT_SET, 7.5, 0, data, 3);
    CT_CHECK(data[0] == 7.5f && data[1] == 2.0f && data[2] == 4.0f);
    flip.bit = 31;
    harness_action_corrupt(&flip, data, 3, DDP_DTYPE_F32);
    CT_CHECK(data[2] == -4.0f);
    harness_action_corrupt(&flip, data, 3, DDP_DTYPE_F32);
    CT_CHECK(data[0] == 7.5f && data[1] == 2.0f && data[2] == 4.0f);
}

/* round_* act on every element, to nearest even. */
CT_TEST(inject_action, rounds_every_element)
{
    static const float start[4] = {1.0f + 0x1p-9f, -1.0f - 0x3p-8f, 1.0f + 0x1p-12f, 70000.0f};
    float data[4];

    memcpy(data, start, sizeof data);
    apply_f32(HARNESS_CORRUPT_ROUND_BF16, 0.0, 0, data, 4);
    CT_CHECK(data[0] == 1.0f && data[1] == -1.0f - 0x1p-6f && data[2] == 1.0f);
    memcpy(data, start, sizeof data);
    apply_f32(HARNESS_CORRUPT_ROUND_F16, 0.0, 0, data, 4);
    CT_CHECK(data[0] == start[0] && data[2] == 1.0f && isinf(data[3]));
    memcpy(data, start, sizeof data);
    apply_f32(HARNESS_CORRUPT_ROUND_TF32, 0.0, 0, data, 4);
    CT_CHECK(data[0] == start[0] && data[1] == start[1] && data[2] == 1.0f && data[3] == 70016.0f);
}

/* Every element type is changed in its own arithmetic; integers saturate. */
CT_TEST(inject_action, knows_every_dtype)
{
    const struct harness_action twice = corrupt(HARNESS_CORRUPT_DOUBLE, 0.0, 0);
    const struct harness_action nan_first = corrupt(HARNESS_CORRUPT_NAN, 0.0, 0);
    int32_t i32[2] = {-7, INT32_MAX};
    int64_t i64[2] = {5, INT64_MAX};
    uint8_t u8[2] = {100, 200};
    double f64[2] = {0.1, -2.0};
    uint16_t f16[2] = {ddp_f16_from_f32(1.5f), ddp_f16_from_f32(-0.25f)};
    uint16_t bf16[2] = {ddp_bf16_from_f32(1.5f), ddp_bf16_from_f32(-0.25f)};

    harness_action_corrupt(&twice, i32, 2, DDP_DTYPE_I32);
    CT_CHECK(i32[0] == -14 && i32[1] == INT32_MAX);
    harness_action_corrupt(&twice, i64, 2, DDP_DTYPE_I64);
    CT_CHECK(i64[0] == 10 && i64[1] == INT64_MAX);
    harness_action_corrupt(&twice, u8, 2, DDP_DTYPE_U8);
    CT_CHECK(u8[0] == 200 && u8[1] == 255);
    harness_action_corrupt(&twice, f64, 2, DDP_DTYPE_F64);
    CT_CHECK(f64[0] == 0.2 && f64[1] == -4.0);
    harness_action_corrupt(&twice, f16, 2, DDP_DTYPE_F16);
    CT_CHECK(f16[0] == ddp_f16_from_f32(3.0f) && f16[1] == ddp_f16_from_f32(-0.5f));
    harness_action_corrupt(&twice, bf16, 2, DDP_DTYPE_BF16);
    CT_CHECK(bf16[0] == ddp_bf16_from_f32(3.0f) && bf16[1] == ddp_bf16_from_f32(-0.5f));
    harness_action_corrupt(&nan_first, i32, 2, DDP_DTYPE_I32);
    CT_CHECK(i32[0] == INT32_MAX);
    harness_action_corrupt(&nan_first, bf16, 2, DDP_DTYPE_BF16);
    CT_CHECK(isnan(ddp_bf16_to_f32(bf16[0])));
}

/* No elements: nothing is read or written. */
CT_TEST(inject_action, leaves_empty_tensors_alone)
{
    for (unsigned kind = 0; kind < HARNESS_CORRUPT_KIND_COUNT; kind++) {
        const struct harness_action action = corrupt((enum harness_corrupt_kind)kind, 3.0, 5);
        float guard = 1.0f;

        harness_action_corrupt(&action, &guard, 0, DDP_DTYPE_F32);
        CT_CHECK(guard == 1.0f);
        harness_action_corrupt(&action, NULL, 4, DDP_DTYPE_F32);
    }
}

/* A burst of bits in elements a warp apart, cut off at the end; nothing else changes. */
CT_TEST(inject_action, flips_bursts_in_strides)
{
    const struct harness_action action = {.kind = HARNESS_ACTION_CORRUPT,
                                          .corrupt = HARNESS_CORRUPT_FLIP,
                                          .elem = 3,
                                          .bit = 30,
                                          .bits = 3,
                                          .count = 4,
                                          .stride = 32};
    uint32_t data[100] = {0};

    harness_action_corrupt(&action, data, 100, DDP_DTYPE_F32);
    for (size_t i = 0; i < 100; i++) {
        /* Bits 30, 31 and, wrapping around, 0. */
        CT_CHECK(data[i] == (i % 32 == 3 ? 0xc0000001u : 0));
    }
}

struct edit_fixture {
    struct ddp_mem_pool *pool;
    struct harness_scratch *scratch;
    struct ddp_device *device;
    float buffer[8];
    struct ddp_coll_args args;
};

static void fixture_init(struct edit_fixture *f)
{
    memset(f, 0, sizeof *f);
    CT_REQUIRE_OK(ddp_mem_pool_create(&f->pool));
    CT_REQUIRE_OK(ddp_device_cpu_create(ddp_mem_pool_mem(f->pool), &f->device));
    for (size_t i = 0; i < 8; i++) {
        f->buffer[i] = (float)i + 1.0f;
    }
    f->args = (struct ddp_coll_args){.kind = DDP_COLL_ALL_REDUCE,
                                     .dtype = DDP_DTYPE_F32,
                                     .input = f->buffer,
                                     .output = f->buffer,
                                     .elem_count = 8};
}

static ddp_status edit(struct edit_fixture *f, enum harness_arg_field arg, uint64_t value)
{
    const struct harness_action action = {
        .kind = HARNESS_ACTION_ARG, .arg = arg, .arg_value = value};

    const struct harness_edit_place place = {f->device, 4, ddp_mem_pool_mem(f->pool), &f->scratch};

    return harness_action_edit_args(&action, &f->args, &place);
}

/* Edits that need no more room keep the posted buffers. */
CT_TEST(inject_action, edits_arguments_in_place)
{
    struct edit_fixture f;

    fixture_init(&f);
    CT_CHECK_OK(edit(&f, HARNESS_ARG_COUNT, 5));
    CT_CHECK_OK(edit(&f, HARNESS_ARG_ROOT, 2));
    CT_CHECK_OK(edit(&f, HARNESS_ARG_INDEX, 9));
    CT_CHECK_OK(edit(&f, HARNESS_ARG_REDOP, DDP_REDOP_MAX));
    CT_CHECK_OK(edit(&f, HARNESS_ARG_DTYPE, DDP_DTYPE_F16));
    CT_CHECK_OK(edit(&f, HARNESS_ARG_KIND, DDP_COLL_BROADCAST));
    CT_CHECK(f.args.elem_count == 5 && f.args.root == 2 && f.args.index == 9 &&
             f.args.redop == DDP_REDOP_MAX && f.args.dtype == DDP_DTYPE_F16 &&
             f.args.kind == DDP_COLL_BROADCAST);
    CT_CHECK(f.args.input == f.buffer && f.args.output == f.buffer && f.scratch == NULL);
    ddp_mem_pool_destroy(f.pool);
}

/* A larger operation moves to memory that is large enough and starts with the posted contents. */
CT_TEST(inject_action, moves_larger_operations_to_scratch)
{
    struct edit_fixture f;

    fixture_init(&f);
    CT_CHECK_OK(edit(&f, HARNESS_ARG_COUNT, 100));
    CT_REQUIRE(f.scratch != NULL && f.args.output != f.buffer);
    CT_CHECK(f.args.input == f.args.output);
    CT_CHECK_BYTES(f.args.output, f.buffer, sizeof f.buffer);
    memset(f.args.output, 0x5a, 100 * sizeof(float));
    CT_CHECK(f.buffer[7] == 8.0f);
    /* An all-gather of 4 members needs four times as much again. */
    CT_CHECK_OK(edit(&f, HARNESS_ARG_KIND, DDP_COLL_ALL_GATHER));
    memset(f.args.output, 0, 400 * sizeof(float));
    CT_CHECK(f.scratch->next != NULL);
    ddp_mem_pool_destroy(f.pool);
}

/* Without memory the arguments stay as they were. */
CT_TEST(inject_action, reports_exhausted_memory)
{
    struct edit_fixture f;

    fixture_init(&f);
    ddp_mem_pool_fail_after(f.pool, 0, -1);
    CT_CHECK_STATUS(edit(&f, HARNESS_ARG_COUNT, 100), DDP_E_NOMEM);
    CT_CHECK(f.args.elem_count == 8 && f.args.output == f.buffer);
    ddp_mem_pool_destroy(f.pool);
}
