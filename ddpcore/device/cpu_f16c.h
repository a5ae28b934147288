/* The processor's own conversions between f16 and f32, if it has them (x86's F16C). Internal to
 * ddpcore/device. */
#ifndef DDPCORE_DEVICE_CPU_F16C_H
#define DDPCORE_DEVICE_CPU_F16C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Convert the elements that fill its registers, from the first on, and return how many those are; 0
 * without such a processor. Bits are those of the portable conversion, except that a signalling NaN
 * becomes quiet, which every operation on it makes of it anyway. */
size_t ddp_cpu_widen_f16c(float *target, const uint16_t *source, size_t elem_count);
size_t ddp_cpu_narrow_f16c(uint16_t *target, const float *source, size_t elem_count);
/* The same with arithmetic between the conversions, without a pass over memory for it: target[i] =
 * f16(f32(target[i]) + f32(source[i])); and products with factor. target may be source. */
size_t ddp_cpu_add_f16c(uint16_t *target, const uint16_t *source, size_t elem_count);
size_t ddp_cpu_scale_f16c(uint16_t *target, const uint16_t *source, float factor,
                          size_t elem_count);
size_t ddp_cpu_narrow_scaled_f16c(uint16_t *target, const float *source, float factor,
                                  size_t elem_count);
size_t ddp_cpu_widen_scaled_f16c(float *target, const uint16_t *source, float factor,
                                 size_t elem_count);

#ifdef __cplusplus
}
#endif
#endif
