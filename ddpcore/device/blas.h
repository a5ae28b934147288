/* The opened BLAS, inside ddpcore/device. Opening it is ddp_blas_open in device.h. */
#ifndef DDPCORE_DEVICE_BLAS_H
#define DDPCORE_DEVICE_BLAS_H

#include "ddpcore/device/math.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One cblas_sgemm call; of several threads, one after the other. Errors: E_STATE (no BLAS is open),
 * E_INVALID (a size beyond int). */
DDP_MUST_USE ddp_status ddp_blas_gemm(const struct ddp_gemm *gemm);

#ifdef __cplusplus
}
#endif
#endif
