/* Hooks that send less than the gradients: what all ranks send of their buckets, round by round,
 * and what comes of it. Internal. */
#ifndef HARNESS_EMULATION_LOSSY_H
#define HARNESS_EMULATION_LOSSY_H

#include "harness/emulation/round.h"
#include "harness/plan/hook_round.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number-th round of a bucket; what: "its 8-bit steps", borrowed. */
struct harness_round harness_lossy_round(uint32_t step, size_t bucket, uint32_t number,
                                         const struct harness_hook_round *planned,
                                         const char *what);
/* Everything that a rank puts into the bucket is known. */
bool harness_lossy_is_known(const struct harness_emulation *emulation, uint32_t rank,
                            size_t bucket);

/* quantize.c: one bucket. */
DDP_MUST_USE ddp_status harness_quantize_bucket(struct harness_emulation *emulation, uint32_t step,
                                                size_t bucket);

/* powersgd.c: one bucket. powersgd_state.c: what a rank keeps of a parameter. */
DDP_MUST_USE ddp_status harness_powersgd_bucket(struct harness_emulation *emulation, uint32_t step,
                                                size_t bucket);
float *harness_powersgd_error(const struct harness_emulation *emulation, uint32_t rank,
                              size_t param);
float *harness_powersgd_q(const struct harness_emulation *emulation, uint32_t rank, size_t param);

#ifdef __cplusplus
}
#endif
#endif
