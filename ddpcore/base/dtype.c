/* Element types, and 16-bit floats by bit arithmetic: the same result on every machine, whatever
 * its rounding mode or conversion instructions do. */
#include "ddpcore/base/dtype.h"

#include <string.h>

struct dtype_row {
    const char *name;
    const char *safetensors_name;
    size_t size_bytes;
};

static const struct dtype_row dtype_rows[DDP_DTYPE_COUNT] = {
#define X(id, name, st_name, size) [id] = {name, st_name, size},
    DDP_DTYPE_TABLE(X)
#undef X
};

static const char *const redop_names[DDP_REDOP_COUNT] = {
#define X(id, name) [id] = name,
    DDP_REDOP_TABLE(X)
#undef X
};

size_t ddp_dtype_size_bytes(enum ddp_dtype dtype)
{
    return (unsigned)dtype < DDP_DTYPE_COUNT ? dtype_rows[dtype].size_bytes : 0;
}

const char *ddp_dtype_name(enum ddp_dtype dtype)
{
    return (unsigned)dtype < DDP_DTYPE_COUNT ? dtype_rows[dtype].name : "unknown";
}

const char *ddp_dtype_safetensors_name(enum ddp_dtype dtype)
{
    return (unsigned)dtype < DDP_DTYPE_COUNT ? dtype_rows[dtype].safetensors_name : "unknown";
}

ddp_status ddp_dtype_parse(const char *name, enum ddp_dtype *out)
{
    for (unsigned i = 0; i < DDP_DTYPE_COUNT; i++) {
        if (strcmp(dtype_rows[i].name, name) == 0) {
            *out = (enum ddp_dtype)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

const char *ddp_redop_name(enum ddp_redop redop)
{
    return (unsigned)redop < DDP_REDOP_COUNT ? redop_names[redop] : "unknown";
}

ddp_status ddp_redop_parse(const char *name, enum ddp_redop *out)
{
    for (unsigned i = 0; i < DDP_REDOP_COUNT; i++) {
        if (strcmp(redop_names[i], name) == 0) {
            *out = (enum ddp_redop)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

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

float ddp_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16;
    uint32_t exponent = (bits >> 10) & 0x1fu;
    uint32_t mantissa = bits & 0x3ffu;

    if (exponent == 0x1f) {
        return float_of(sign | 0x7f800000u | mantissa << 13);
    }
    if (exponent == 0) {
        /* Subnormal: mantissa * 2^-24, exact in float. */
        return float_of(sign | bits_of((float)mantissa * 0x1p-24f));
    }
    /* Biases 15 and 127 differ by 112. */
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t ddp_f16_from_f32(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t mantissa;
    uint32_t shift;
    uint32_t kept;
    uint32_t lost;
    uint32_t half;

    if (magnitude > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    }
    if (magnitude >= 0x477ff000u) {
        /* From 65520 on, half way above the largest finite 65504, rounds to infinity. */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (magnitude >= 0x38800000u) {
        /* Normal from 2^-14: rebias by -112, round 13 bits away; a carry walks into the exponent.
         */
        uint32_t rebased = magnitude - (112u << 23);

        return (uint16_t)(sign | (rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13);
    }
    if (magnitude < 0x33000000u) {
        return (uint16_t)sign; /* below 2^-25, half the smallest subnormal */
    }
    /* value = mantissa * 2^(e-150), in units of 2^-24: mantissa >> (126 - e), 14 <= shift <= 24. */
    mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    shift = 126u - (magnitude >> 23);
    kept = mantissa >> shift;
    lost = mantissa & ((1u << shift) - 1u);
    half = 1u << (shift - 1u);
    if (lost > half || (lost == half && (kept & 1u) != 0)) {
        kept++;
    }
    return (uint16_t)(sign | kept);
}

float ddp_bf16_to_f32(uint16_t bits)
{
    return float_of((uint32_t)bits << 16);
}

uint16_t ddp_bf16_from_f32(float value)
{
    uint32_t bits = bits_of(value);

    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40u); /* quiet, so that a NaN cannot become infinity */
    }
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
