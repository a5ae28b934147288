/* 16-bit floats on the CPU: conversions of bf16, and arithmetic on bf16 and f16 in one pass. */
#include "ddpcore/device/cpu_16.h"

#include <stdbool.h>
#include <string.h>

#include "ddpcore/device/clones.h"
#include "ddpcore/device/cpu_f16c.h"

static inline float float_from_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Adding half of the dropped part, less one if the kept part is even, rounds to nearest even; a NaN
 * keeps its sign and upper payload and is made quiet. */
static inline uint16_t bf16_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u
                          ? (bits >> 16) | 0x0040u
                          : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/* The conversions of base/dtype.h, inlined for the vectoriser; a test holds them together. */
DDP_CLONES void ddp_cpu_widen_bf16(float *restrict target, const uint16_t *restrict source,
                                   size_t elem_count)
{
    for (size_t i = 0; i < elem_count; i++) {
        target[i] = float_from_bits((uint32_t)source[i] << 16);
    }
}

DDP_CLONES void ddp_cpu_narrow_bf16(uint16_t *restrict target, const float *restrict source,
                                    size_t elem_count)
{
    for (size_t i = 0; i < elem_count; i++) {
        target[i] = bf16_of(source[i]);
    }
}

DDP_CLONES static size_t add_bf16(uint16_t *restrict target, const uint16_t *restrict source,
                                  size_t elem_count)
{
    for (size_t i = 0; i < elem_count; i++) {
        const float sum =
            float_from_bits((uint32_t)target[i] << 16) + float_from_bits((uint32_t)source[i] << 16);

        target[i] = bf16_of(sum);
    }
    return elem_count;
}

DDP_CLONES static size_t scale_bf16(uint16_t *target, const uint16_t *source, float factor,
                                    size_t elem_count)
{
    for (size_t i = 0; i < elem_count; i++) {
        target[i] = bf16_of(float_from_bits((uint32_t)source[i] << 16) * factor);
    }
    return elem_count;
}

DDP_CLONES static size_t narrow_scaled_bf16(uint16_t *restrict target, const float *restrict source,
                                            float factor, size_t elem_count)
{
    for (size_t i = 0; i < elem_count; i++) {
        target[i] = bf16_of(source[i] * factor);
    }
    return elem_count;
}

DDP_CLONES static size_t widen_scaled_bf16(float *restrict target, const uint16_t *restrict source,
                                           float factor, size_t elem_count)
{
    for (size_t i = 0; i < elem_count; i++) {
        target[i] = float_from_bits((uint32_t)source[i] << 16) * factor;
    }
    return elem_count;
}

size_t ddp_cpu_add_16(void *target, const void *source, size_t elem_count, enum ddp_dtype dtype)
{
    return dtype == DDP_DTYPE_F16    ? ddp_cpu_add_f16c(target, source, elem_count)
           : dtype == DDP_DTYPE_BF16 ? add_bf16(target, source, elem_count)
                                     : 0;
}

size_t ddp_cpu_scale_16(void *target, enum ddp_dtype target_dtype, const void *source,
                        enum ddp_dtype source_dtype, size_t elem_count, float factor)
{
    const bool is_from_f32 = source_dtype == DDP_DTYPE_F32;
    const bool is_to_f32 = target_dtype == DDP_DTYPE_F32;
    const enum ddp_dtype narrow_dtype = is_to_f32 ? source_dtype : target_dtype;

    if (!is_from_f32 && !is_to_f32 && source_dtype != target_dtype) {
        return 0;
    }
    if (narrow_dtype == DDP_DTYPE_F16) {
        return is_to_f32     ? ddp_cpu_widen_scaled_f16c(target, source, factor, elem_count)
               : is_from_f32 ? ddp_cpu_narrow_scaled_f16c(target, source, factor, elem_count)
                             : ddp_cpu_scale_f16c(target, source, factor, elem_count);
    }
    if (narrow_dtype == DDP_DTYPE_BF16) {
        return is_to_f32     ? widen_scaled_bf16(target, source, factor, elem_count)
               : is_from_f32 ? narrow_scaled_bf16(target, source, factor, elem_count)
                             : scale_bf16(target, source, factor, elem_count);
    }
    return 0;
}
