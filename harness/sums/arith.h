/* The judge's own arithmetic: scalar, in the order that ddpcore/device states, sharing no code with
 * it. Host memory only. */
#ifndef HARNESS_SUMS_ARITH_H
#define HARNESS_SUMS_ARITH_H

#include "ddpcore/base/dtype.h"
#include "reference/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* target[i] += source[i], rounded once to dtype: fp32 or a float of 16 bits. Errors: E_UNSUPPORTED.
 */
DDP_MUST_USE ddp_status harness_arith_add(void *target, const void *source, size_t elem_count,
                                          enum ddp_dtype dtype);
/* target[i] = (target dtype)(fp32(source[i]) * factor). Errors: E_UNSUPPORTED. */
DDP_MUST_USE ddp_status harness_arith_scale(void *target, enum ddp_dtype target_dtype,
                                            const void *source, enum ddp_dtype source_dtype,
                                            size_t elem_count, float factor);
/* Float of 16 bits, by decoding sign, exponent and fraction; and back, to nearest even. */
float harness_arith_f16_decode(uint16_t bits);
uint16_t harness_arith_f16_encode(float value);
float harness_arith_bf16_decode(uint16_t bits);
uint16_t harness_arith_bf16_encode(float value);

/* target[i] = source[i], exactly: fp32 or a float of 16 bits. */
void harness_arith_widen(double *target, const void *source, enum ddp_dtype dtype,
                         size_t elem_count);

/* One optimizer step of one tensor; all arrays are of one type. taken: steps this tensor took
 * before. slots: state tensors, slot 0 = momentum or exp_avg, slot 1 = exp_avg_sq; NULL where the
 * optimizer has none. Errors: E_UNSUPPORTED (anything but fp32). */
DDP_MUST_USE ddp_status harness_arith_update(const struct ref_optimizer_config *config,
                                             uint64_t taken, enum ddp_dtype dtype, void *param,
                                             const void *grad, void *const slots[2],
                                             size_t elem_count);
/* State tensors that the optimizer keeps. */
size_t harness_arith_slot_count(const struct ref_optimizer_config *config);

#ifdef __cplusplus
}
#endif
#endif
