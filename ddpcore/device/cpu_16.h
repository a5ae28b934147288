/* 16-bit floats of the CPU's device. Internal to ddpcore/device. */
#ifndef DDPCORE_DEVICE_CPU_16_H
#define DDPCORE_DEVICE_CPU_16_H

#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

void ddp_cpu_widen_bf16(float *target, const uint16_t *source, size_t elem_count);
void ddp_cpu_narrow_bf16(uint16_t *target, const float *source, size_t elem_count);

/* Sums and products in one pass over memory: fp32 arithmetic and one rounding, the same bits as
 * widened, computed and narrowed block by block. From the first element on; return for how many it
 * was done, 0 for what they do not know (other types; f16 without the processor's help). */
size_t ddp_cpu_add_16(void *target, const void *source, size_t elem_count, enum ddp_dtype dtype);
/* target may be source, of one type. */
size_t ddp_cpu_scale_16(void *target, enum ddp_dtype target_dtype, const void *source,
                        enum ddp_dtype source_dtype, size_t elem_count, float factor);

#ifdef __cplusplus
}
#endif
#endif
