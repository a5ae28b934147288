/* Floats of 16 bits, one element. */
#ifndef HARNESS_GUEST_HALF_H
#define HARNESS_GUEST_HALF_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exact. dtype: F16 or BF16. */
float guest_half_decode(uint32_t dtype, uint16_t bits);
/* To nearest, ties to even. */
uint16_t guest_half_encode(uint32_t dtype, float value);

#ifdef __cplusplus
}
#endif
#endif
