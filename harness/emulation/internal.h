/* Pieces that the emulation's files share; not for oracles. */
#ifndef HARNESS_EMULATION_INTERNAL_H
#define HARNESS_EMULATION_INTERNAL_H

#include "harness/emulation/emulation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- emulation.c ------------------------------------------------------------------------------ */

void harness_state_create(struct harness_emulation *emulation, struct harness_state *out);
void harness_state_copy(const struct harness_emulation *emulation, struct harness_state *target,
                        const struct harness_state *source);

/* --- rank.c ----------------------------------------------------------------------------------- */

/* A trainer of one rank while that rank's passes run. Those that never wait share one. */
struct harness_trainer {
    struct harness_trainer *next, *next_idle;
    struct ref_trainer *trainer;
    uint32_t steps_done; /* of the parameters that it holds */
    bool is_loaded;
};

/* A trainer that no other rank uses now, made if there is none; and back. */
DDP_MUST_USE ddp_status harness_trainer_take(struct harness_emulation *emulation,
                                             struct harness_trainer **out, struct ddp_err *err);
void harness_trainer_give(struct harness_emulation *emulation, struct harness_trainer *trainer);
void harness_trainers_destroy(struct harness_emulation *emulation);
/* Parameters and buffers of a trainer's model into blocks of `params` and `buffers`. */
DDP_MUST_USE ddp_status harness_trainer_read(const struct harness_emulation *emulation,
                                             const struct harness_trainer *trainer, void *param,
                                             void *buffer);
/* All ranks' passes of a step, each a task: gradients, losses and bucket inputs into `now`. */
DDP_MUST_USE ddp_status harness_emulation_run_ranks(struct harness_emulation *emulation,
                                                    uint32_t step, struct ddp_err *err);
/* In the middle of a rank's step: the sum of all ranks' tensors, in the order in which the group
 * sums so many elements. output: as large as the input. */
DDP_MUST_USE ddp_status harness_emulation_exchange_sum(const struct harness_emulation *emulation,
                                                       struct harness_task *task, const char *name,
                                                       uint64_t tag,
                                                       const struct harness_tensor *input,
                                                       void *output);

/* --- one step --------------------------------------------------------------------------------- */

/* The first recorded batch that breaks the sampler's rules. */
DDP_MUST_USE ddp_status harness_emulation_compare_batches(const struct harness_emulation *emulation,
                                                          struct harness_batch_difference *out);
/* Rounding and weighting bound of one step, into emulation->excess if it is exceeded. */
DDP_MUST_USE ddp_status harness_emulation_bound(struct harness_emulation *emulation, uint32_t step);

#ifdef __cplusplus
}
#endif
#endif
