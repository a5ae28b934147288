#include "harness/guest/observe/half.h"

#include <string.h>

#include "harness/guest/ddprove_guest.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* BF16: sign, exponent and fraction are where they are in a float. F16: the exponent's bias is 15,
 * not 127, so what is shifted into place is 2^-112 of the number, also if it is subnormal; if it is
 * not finite, all bits of the exponent are set. */
float guest_half_decode(uint32_t dtype, uint16_t bits)
{
    const uint32_t size = (uint32_t)(bits & 0x7fff) << 13;
    float value;

    if (dtype == DDPROVE_GUEST_BF16) {
        return float_of((uint32_t)bits << 16);
    }
    value = size >= 0x0f800000u ? float_of(size | 0x7f800000u) : float_of(size) * 0x1p112F;
    return (bits & 0x8000) != 0 ? -value : value;
}

/* Without the lowest bits of a float's: half of what they can hold is added, less one if what stays
 * is even. */
static uint32_t round_off(uint32_t bits, unsigned count)
{
    return (bits + (1u << (count - 1)) - 1 + (bits >> count & 1)) >> count;
}

static uint16_t encode_f16(uint32_t size)
{
    if (size >= 0x477ff000u) { /* 65520 and more */
        return 0x7c00;
    }
    if (size < 0x38800000u) { /* subnormal: multiples of 2^-24, as the last bit of 1/2 is */
        return (uint16_t)(bits_of(float_of(size) + 0.5F) - bits_of(0.5F));
    }
    return (uint16_t)round_off(size - (112u << 23), 13);
}

uint16_t guest_half_encode(uint32_t dtype, float value)
{
    const uint32_t bits = bits_of(value);
    const uint32_t size = bits & 0x7fffffffu;
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);

    if (size > 0x7f800000u) { /* NaN */
        return (uint16_t)(sign | (dtype == DDPROVE_GUEST_BF16 ? 0x7fc0 : 0x7e00));
    }
    return (uint16_t)(sign |
                      (dtype == DDPROVE_GUEST_BF16 ? round_off(size, 16) : encode_f16(size)));
}
