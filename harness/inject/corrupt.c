/* Corruptions of tensors. Arithmetic is done in the element's own type (16-bit floats through
 * fp32), so that a doubled contribution is exactly doubled. */
#include <math.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/device/transfer.h"
#include "harness/inject/action.h"

/* The largest double below 2^63 keeps the conversion defined. */
static int64_t clamp_i64(double value)
{
    if (isnan(value) || value >= 9223372036854774784.0) {
        return INT64_MAX;
    }
    return value <= -9223372036854774784.0 ? INT64_MIN : (int64_t)value;
}

static int64_t clamp_range(int64_t value, int64_t least, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

static void store_i64(void *element, enum ddp_dtype dtype, int64_t value)
{
    if (dtype == DDP_DTYPE_I32) {
        int32_t narrow = (int32_t)clamp_range(value, INT32_MIN, INT32_MAX);

        memcpy(element, &narrow, sizeof narrow);
    } else if (dtype == DDP_DTYPE_U8) {
        *(uint8_t *)element = (uint8_t)clamp_range(value, 0, UINT8_MAX);
    } else {
        memcpy(element, &value, sizeof value);
    }
}

static double load_f64(const void *element, enum ddp_dtype dtype)
{
    union {
        float f32;
        uint16_t bits;
        double f64;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
    } held;

    memcpy(&held, element, ddp_dtype_size_bytes(dtype));
    switch (dtype) {
    case DDP_DTYPE_F32:
        return (double)held.f32;
    case DDP_DTYPE_F16:
        return (double)ddp_f16_to_f32(held.bits);
    case DDP_DTYPE_BF16:
        return (double)ddp_bf16_to_f32(held.bits);
    case DDP_DTYPE_F64:
        return held.f64;
    case DDP_DTYPE_I32:
        return held.i32;
    case DDP_DTYPE_I64:
        return (double)held.i64;
    case DDP_DTYPE_U8:
    case DDP_DTYPE_COUNT:
        break;
    }
    return held.u8;
}

/* Rounds once to the element's type: a double holds any product of two floats exactly. */
static void store_f64(void *element, enum ddp_dtype dtype, double value)
{
    float narrow = (float)value;
    uint16_t bits;

    switch (dtype) {
    case DDP_DTYPE_F32:
        memcpy(element, &narrow, sizeof narrow);
        break;
    case DDP_DTYPE_F16:
        bits = ddp_f16_from_f32(narrow);
        memcpy(element, &bits, sizeof bits);
        break;
    case DDP_DTYPE_BF16:
        bits = ddp_bf16_from_f32(narrow);
        memcpy(element, &bits, sizeof bits);
        break;
    case DDP_DTYPE_F64:
        memcpy(element, &value, sizeof value);
        break;
    case DDP_DTYPE_I32:
    case DDP_DTYPE_I64:
    case DDP_DTYPE_U8:
    case DDP_DTYPE_COUNT:
        store_i64(element, dtype, clamp_i64(value));
        break;
    }
}

static void corrupt_scale(uint8_t *data, size_t elem_count, enum ddp_dtype dtype, double factor)
{
    size_t size = ddp_dtype_size_bytes(dtype);

    for (size_t i = 0; i < elem_count; i++) {
        store_f64(data + i * size, dtype, load_f64(data + i * size, dtype) * factor);
    }
}

/* Element i moves to place (i + places) mod elem_count: three reversals make one rotation. */
static void reverse(uint8_t *data, size_t first, size_t last, size_t size)
{
    while (first < last) {
        uint8_t held[sizeof(int64_t)];

        last--;
        memcpy(held, data + first * size, size);
        memcpy(data + first * size, data + last * size, size);
        memcpy(data + last * size, held, size);
        first++;
    }
}

static void corrupt_shift(uint8_t *data, size_t elem_count, size_t size, double value)
{
    size_t places = (value >= 1.0 ? (size_t)clamp_i64(value) : 1) % elem_count;

    reverse(data, 0, elem_count, size);
    reverse(data, 0, places, size);
    reverse(data, places, elem_count, size);
}

/* Of 24 bits, the first 11; to nearest even, which may carry into the exponent. */
static float round_tf32(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if (isfinite(value)) {
        bits += 0xfffu + ((bits >> 13) & 1u);
        bits &= ~0x1fffu;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float round_to(enum harness_corrupt_kind kind, float value)
{
    return kind == HARNESS_CORRUPT_ROUND_BF16  ? ddp_bf16_to_f32(ddp_bf16_from_f32(value))
           : kind == HARNESS_CORRUPT_ROUND_F16 ? ddp_f16_to_f32(ddp_f16_from_f32(value))
                                               : round_tf32(value);
}

/* What a cast to a narrower type and back leaves behind. */
static void corrupt_round(enum harness_corrupt_kind kind, uint8_t *data, size_t elem_count,
                          enum ddp_dtype dtype)
{
    size_t size = ddp_dtype_size_bytes(dtype);

    for (size_t i = 0; i < elem_count; i++) {
        float value = (float)load_f64(data + i * size, dtype);

        store_f64(data + i * size, dtype, (double)round_to(kind, value));
    }
}

/* A burst of neighbouring bits in elements `stride` apart: what a bad lane of a warp, or a bad
 * column of memory, leaves behind. None is flipped twice. */
static void corrupt_flip(const struct harness_action *action, uint8_t *data, size_t elem_count,
                         size_t size)
{
    uint64_t bits = action->bits < size * 8 ? action->bits : size * 8;
    uint64_t at = action->elem % elem_count;

    DDP_ASSERT(action->bits > 0 && action->count > 0 && action->stride > 0);
    for (uint64_t done = 0; done < action->count; done++) {
        for (uint64_t i = 0; i < bits; i++) {
            uint64_t bit = (action->bit + i) % (size * 8);

            data[at * size + bit / 8] ^= (uint8_t)(1u << (bit % 8));
        }
        if (action->stride >= elem_count - at) {
            break; /* past the end */
        }
        at += action->stride;
    }
}

void harness_action_corrupt(const struct harness_action *action, void *data, size_t elem_count,
                            enum ddp_dtype dtype)
{
    size_t size = ddp_dtype_size_bytes(dtype);
    uint8_t *bytes = data;
    uint8_t *element;

    if (elem_count == 0 || data == NULL) {
        return;
    }
    element = bytes + (action->elem % elem_count) * size;
    switch (action->corrupt) {
    case HARNESS_CORRUPT_ZERO:
        memset(bytes, 0, elem_count * size);
        break;
    case HARNESS_CORRUPT_DOUBLE:
        corrupt_scale(bytes, elem_count, dtype, 2.0);
        break;
    case HARNESS_CORRUPT_HALF:
        corrupt_scale(bytes, elem_count, dtype, 0.5);
        break;
    case HARNESS_CORRUPT_SCALE:
        corrupt_scale(bytes, elem_count, dtype, action->value);
        break;
    case HARNESS_CORRUPT_SHIFT:
        corrupt_shift(bytes, elem_count, size, action->value);
        break;
    case HARNESS_CORRUPT_NAN:
        store_f64(element, dtype, (double)NAN);
        break;
    case HARNESS_CORRUPT_FLIP:
        corrupt_flip(action, bytes, elem_count, size);
        break;
    case HARNESS_CORRUPT_SET:
        store_f64(element, dtype, action->value);
        break;
    case HARNESS_CORRUPT_ROUND_BF16:
    case HARNESS_CORRUPT_ROUND_F16:
    case HARNESS_CORRUPT_ROUND_TF32:
        corrupt_round(action->corrupt, bytes, elem_count, dtype);
        break;
    case HARNESS_CORRUPT_KIND_COUNT:
        break;
    }
}

/* In the host's memory. *out_is_same: it left everything as it was. */
static void corrupt_here(const struct harness_action *action,
                         const struct ddp_fault_context *context, void *data, bool *out_is_same)
{
    const size_t size_bytes = context->elem_count * ddp_dtype_size_bytes(context->dtype);
    const uint64_t before = ddp_hash_bytes(data, size_bytes, 0);

    DDP_ASSERT(data != NULL && size_bytes > 0);
    harness_action_corrupt(action, data, context->elem_count, context->dtype);
    *out_is_same = ddp_hash_bytes(data, size_bytes, 0) == before;
}

ddp_status harness_action_corrupt_at(const struct harness_action *action,
                                     const struct ddp_fault_context *context, struct ddp_env *env,
                                     bool *out_is_same)
{
    size_t size_bytes = context->elem_count * ddp_dtype_size_bytes(context->dtype);
    struct ddp_transfer transfer = {.device = NULL};
    const void *held;
    ddp_status status;

    *out_is_same = size_bytes == 0 || context->data == NULL;
    if (*out_is_same) {
        return DDP_OK;
    }
    if (context->device == NULL || context->device->ops->is_host_memory) {
        corrupt_here(action, context, context->data, out_is_same);
        return DDP_OK;
    }
    status = ddp_transfer_init(&transfer, context->device, env->idle, env->clock, 0);
    if (status == DDP_OK) {
        status = ddp_transfer_view(&transfer, context->data, size_bytes, &held);
    }
    if (status == DDP_OK) {
        corrupt_here(action, context, transfer.held, out_is_same);
        status = ddp_transfer_replace(&transfer, context->data, transfer.held, size_bytes);
        *out_is_same = *out_is_same && status == DDP_OK;
    }
    ddp_transfer_fini(&transfer);
    return status;
}
