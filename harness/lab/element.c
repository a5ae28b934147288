/* Purpose: see the header. */
#include "harness/lab/element.h"

#include <math.h>
#include <string.h>

void harness_lab_store(unsigned char *data, size_t i, enum ddp_dtype dtype, int64_t value)
{
    union {
        float f32;
        double f64;
        uint16_t half;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
    } element = {.i64 = value};

    switch (dtype) {
    case DDP_DTYPE_F32:
        element.f32 = (float)value;
        break;
    case DDP_DTYPE_F16:
        element.half = ddp_f16_from_f32((float)value);
        break;
    case DDP_DTYPE_BF16:
        element.half = ddp_bf16_from_f32((float)value);
        break;
    case DDP_DTYPE_F64:
        element.f64 = (double)value;
        break;
    case DDP_DTYPE_I32:
        element.i32 = (int32_t)value;
        break;
    case DDP_DTYPE_U8:
        element.u8 = (uint8_t)value;
        break;
    case DDP_DTYPE_I64:
    case DDP_DTYPE_COUNT:
        break;
    }
    memcpy(data + i * ddp_dtype_size_bytes(dtype), &element, ddp_dtype_size_bytes(dtype));
}

double harness_lab_load(const unsigned char *data, size_t i, enum ddp_dtype dtype)
{
    const unsigned char *at = data + i * ddp_dtype_size_bytes(dtype);
    uint16_t half;
    float f32;
    double f64;
    int32_t i32;
    int64_t i64;

    switch (dtype) {
    case DDP_DTYPE_F32:
        memcpy(&f32, at, sizeof f32);
        return (double)f32;
    case DDP_DTYPE_F16:
        memcpy(&half, at, sizeof half);
        return (double)ddp_f16_to_f32(half);
    case DDP_DTYPE_BF16:
        memcpy(&half, at, sizeof half);
        return (double)ddp_bf16_to_f32(half);
    case DDP_DTYPE_F64:
        memcpy(&f64, at, sizeof f64);
        return f64;
    case DDP_DTYPE_I32:
        memcpy(&i32, at, sizeof i32);
        return i32;
    case DDP_DTYPE_I64:
        memcpy(&i64, at, sizeof i64);
        return (double)i64;
    case DDP_DTYPE_U8:
    case DDP_DTYPE_COUNT:
        break;
    }
    return *at;
}

bool harness_lab_is_whole(const unsigned char *data, size_t i, enum ddp_dtype dtype,
                          int64_t expected)
{
    size_t elem_bytes = ddp_dtype_size_bytes(dtype);
    unsigned char bits[sizeof(int64_t)];
    double got = harness_lab_load(data, i, dtype);

    if (dtype == DDP_DTYPE_I32 || dtype == DDP_DTYPE_I64 || dtype == DDP_DTYPE_U8) {
        harness_lab_store(bits, 0, dtype, expected);
        return memcmp(data + i * elem_bytes, bits, elem_bytes) == 0;
    }
    return got >= (double)expected && got <= (double)expected;
}

bool harness_lab_load_whole(const unsigned char *data, size_t i, enum ddp_dtype dtype, int64_t *out)
{
    double got = harness_lab_load(data, i, dtype);

    *out = fabs(got) < 0x1p62 ? (int64_t)got : 0;
    if (dtype == DDP_DTYPE_I64) {
        memcpy(out, data + i * sizeof *out, sizeof *out);
        return true;
    }
    return harness_lab_is_whole(data, i, dtype, *out);
}
