/* Purpose: sums, scaling and optimizer steps as plain loops, the judge's yardstick.
 * Idea: 16-bit floats are decoded to fp32, where sum and product of two are exact enough that one
 * rounding back is the correctly rounded result (24 >= 2*11 + 2 and 2*8 + 2 bits).
 * It does not know buckets, ranks or schedules. */
#include "harness/sums/arith.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

float harness_arith_f16_decode(uint16_t bits)
{
    int exponent = (bits >> 10) & 31;
    int fraction = bits & 1023;
    float magnitude;

    if (exponent == 31) {
        return float_of(((uint32_t)(bits & 0x8000u) << 16) | 0x7f800000u |
                        ((uint32_t)fraction << 13));
    }
    /* normal: (1024 + fraction) * 2^(exponent - 25); subnormal: fraction * 2^-24 */
    magnitude = exponent == 0 ? ldexpf((float)fraction, -24)
                              : ldexpf((float)(1024 + fraction), exponent - 25);
    return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

uint16_t harness_arith_f16_encode(float value)
{
    uint32_t sign = (bits_of(value) >> 16) & 0x8000u;
    float magnitude = fabsf(value);
    int exponent = 0;
    uint32_t significand;

    if (isnan(value)) {
        return (uint16_t)(sign | 0x7e00u | ((bits_of(value) >> 13) & 0x3ffu));
    }
    if (isinf(value)) {
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude == 0.0f) {
        return (uint16_t)sign;
    }
    (void)frexpf(magnitude, &exponent); /* magnitude in [2^(exponent - 1), 2^exponent) */
    /* The spacing of halves at this magnitude is 2^(exponent - 11), but never below 2^-24. */
    exponent = exponent - 11 < -24 ? -24 : exponent - 11;
    significand = (uint32_t)rintf(ldexpf(magnitude, -exponent));
    DDP_ASSERT(significand <= 2048);
    if (significand == 2048) {
        significand = 1024;
        exponent++;
    }
    if (exponent > 5) {
        return (uint16_t)(sign | 0x7c00u);
    }
    DDP_ASSERT(significand >= 1024 || exponent == -24);
    if (significand < 1024) {
        return (uint16_t)(sign | significand); /* subnormal */
    }
    return (uint16_t)(sign | ((uint32_t)(exponent + 25) << 10) | (significand - 1024));
}

float harness_arith_bf16_decode(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

uint16_t harness_arith_bf16_encode(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t kept = bits >> 16;
    uint32_t dropped = bits & 0xffffu;

    if (isnan(value)) {
        return (uint16_t)(kept | 0x40u);
    }
    if (dropped > 0x8000u || (dropped == 0x8000u && (kept & 1u) != 0)) {
        kept++;
    }
    return (uint16_t)kept;
}

static void add_halves(uint16_t *target, const uint16_t *source, size_t elem_count, bool is_brain)
{
    for (size_t i = 0; i < elem_count; i++) {
        float a =
            is_brain ? harness_arith_bf16_decode(target[i]) : harness_arith_f16_decode(target[i]);
        float b =
            is_brain ? harness_arith_bf16_decode(source[i]) : harness_arith_f16_decode(source[i]);

        target[i] = is_brain ? harness_arith_bf16_encode(a + b) : harness_arith_f16_encode(a + b);
    }
}

ddp_status harness_arith_add(void *target, const void *source, size_t elem_count,
                             enum ddp_dtype dtype)
{
    DDP_ASSERT(elem_count == 0 || (target != NULL && source != NULL));
    if (dtype == DDP_DTYPE_F16 || dtype == DDP_DTYPE_BF16) {
        add_halves(target, source, elem_count, dtype == DDP_DTYPE_BF16);
        return DDP_OK;
    }
    if (dtype != DDP_DTYPE_F32) {
        return DDP_E_UNSUPPORTED;
    }
    for (size_t i = 0; i < elem_count; i++) {
        ((float *)target)[i] += ((const float *)source)[i];
    }
    return DDP_OK;
}

static bool is_scalable(enum ddp_dtype dtype)
{
    return dtype == DDP_DTYPE_F32 || dtype == DDP_DTYPE_F16 || dtype == DDP_DTYPE_BF16;
}

ddp_status harness_arith_scale(void *target, enum ddp_dtype target_dtype, const void *source,
                               enum ddp_dtype source_dtype, size_t elem_count, float factor)
{
    DDP_ASSERT(elem_count == 0 || (target != NULL && source != NULL));
    if (!is_scalable(target_dtype) || !is_scalable(source_dtype)) {
        return DDP_E_UNSUPPORTED;
    }
    if (target_dtype == DDP_DTYPE_F32 && source_dtype == DDP_DTYPE_F32) {
        for (size_t i = 0; i < elem_count; i++) {
            ((float *)target)[i] = ((const float *)source)[i] * factor;
        }
        return DDP_OK;
    }
    for (size_t i = 0; i < elem_count; i++) {
        float value = source_dtype == DDP_DTYPE_F32
                          ? ((const float *)source)[i]
                          : (source_dtype == DDP_DTYPE_F16
                                 ? harness_arith_f16_decode(((const uint16_t *)source)[i])
                                 : harness_arith_bf16_decode(((const uint16_t *)source)[i]));

        value *= factor;
        if (target_dtype == DDP_DTYPE_F32) {
            ((float *)target)[i] = value;
        } else {
            ((uint16_t *)target)[i] = target_dtype == DDP_DTYPE_F16
                                          ? harness_arith_f16_encode(value)
                                          : harness_arith_bf16_encode(value);
        }
    }
    return DDP_OK;
}

void harness_arith_widen(double *target, const void *source, enum ddp_dtype dtype,
                         size_t elem_count)
{
    const float *floats = source;
    const uint16_t *halves = source;

    DDP_ASSERT(is_scalable(dtype));
    if (dtype == DDP_DTYPE_F32) {
        for (size_t i = 0; i < elem_count; i++) {
            target[i] = (double)floats[i];
        }
        return;
    }
    for (size_t i = 0; i < elem_count; i++) {
        target[i] = dtype == DDP_DTYPE_BF16 ? (double)harness_arith_bf16_decode(halves[i])
                                            : (double)harness_arith_f16_decode(halves[i]);
    }
}

size_t harness_arith_slot_count(const struct ref_optimizer_config *config)
{
    if (config->kind == REF_OPTIMIZER_ADAMW) {
        return 2;
    }
    return config->momentum != 0.0f ? 1 : 0;
}

static void update_sgd(const struct ref_optimizer_config *config, bool is_first, float *param,
                       const float *grad, float *buffer, size_t elem_count)
{
    const float kept = 1.0f - config->dampening;

    for (size_t i = 0; i < elem_count; i++) {
        float decay = config->weight_decay * param[i];
        float d = grad[i] + decay;

        if (buffer != NULL) {
            float old = config->momentum * buffer[i];
            float fresh = kept * d;
            float ahead;

            buffer[i] = is_first ? d : old + fresh;
            ahead = config->momentum * buffer[i];
            d = config->nesterov ? d + ahead : buffer[i];
        }
        param[i] = param[i] - config->lr * d;
    }
}

static void update_adamw(const struct ref_optimizer_config *config, uint64_t step, float *param,
                         const float *grad, float *m, float *v, size_t elem_count)
{
    const float correction1 = (float)(1.0 - pow((double)config->beta1, (double)step));
    const float correction2 = (float)(1.0 - pow((double)config->beta2, (double)step));
    const float keep = 1.0f - config->lr * config->weight_decay;
    const float fresh1 = 1.0f - config->beta1;
    const float fresh2 = 1.0f - config->beta2;
    const float rate = config->lr / correction1;
    const float root = sqrtf(correction2);

    DDP_ASSERT(step >= 1);
    for (size_t i = 0; i < elem_count; i++) {
        float square = grad[i] * grad[i];
        float m_old = config->beta1 * m[i];
        float m_new = fresh1 * grad[i];
        float v_old = config->beta2 * v[i];
        float v_new = fresh2 * square;
        float decayed = param[i] * keep;
        float denominator;

        m[i] = m_old + m_new;
        v[i] = v_old + v_new;
        denominator = sqrtf(v[i]) / root + config->eps;
        param[i] = decayed - rate * (m[i] / denominator);
    }
}

ddp_status harness_arith_update(const struct ref_optimizer_config *config, uint64_t taken,
                                enum ddp_dtype dtype, void *param, const void *grad,
                                void *const slots[2], size_t elem_count)
{
    if (dtype != DDP_DTYPE_F32) {
        return DDP_E_UNSUPPORTED;
    }
    DDP_ASSERT(harness_arith_slot_count(config) < 1 || slots[0] != NULL);
    DDP_ASSERT(harness_arith_slot_count(config) < 2 || slots[1] != NULL);
    if (config->kind == REF_OPTIMIZER_ADAMW) {
        update_adamw(config, taken + 1, param, grad, slots[0], slots[1], elem_count);
    } else {
        update_sgd(config, taken == 0, param, grad, slots[0], elem_count);
    }
    return DDP_OK;
}
