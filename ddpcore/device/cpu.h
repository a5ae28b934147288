/* The CPU device's two halves, inside ddpcore/device. */
#ifndef DDPCORE_DEVICE_CPU_H
#define DDPCORE_DEVICE_CPU_H

#include "ddpcore/device/math.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct ddp_math_ops ddp_device_cpu_math;

#ifdef __cplusplus
}
#endif
#endif
