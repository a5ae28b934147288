/* Pieces that the emulation's files share; not for oracles. */
#ifndef HARNESS_EMULATION_STATE_H
#define HARNESS_EMULATION_STATE_H

#include "harness/emulation/emulation.h"

#ifdef __cplusplus
extern "C" {
#endif

DDP_MUST_USE ddp_status harness_state_create(const struct harness_emulation *emulation,
                                             struct harness_state *out);
void harness_state_destroy(const struct harness_emulation *emulation, struct harness_state *state);
void harness_state_copy(const struct harness_emulation *emulation, struct harness_state *target,
                        const struct harness_state *source);
/* The model's buffers into emulation->state. */
DDP_MUST_USE ddp_status harness_emulation_take_buffers(struct harness_emulation *emulation);
/* Between host and device memory, finished on return. */
DDP_MUST_USE ddp_status harness_emulation_copy(const struct harness_emulation *emulation,
                                               float *target, const float *source,
                                               size_t elem_count);

/* The first recorded batch that breaks the sampler's rules. */
DDP_MUST_USE ddp_status harness_emulation_compare_batches(const struct harness_emulation *emulation,
                                                          struct harness_batch_difference *out);
/* Rounding and weighting bound of one step, into emulation->excess if it is exceeded. */
DDP_MUST_USE ddp_status harness_emulation_bound(struct harness_emulation *emulation, uint32_t step);

#ifdef __cplusplus
}
#endif
#endif
