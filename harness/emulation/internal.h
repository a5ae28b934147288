/* Pieces that the emulation's files share; not for oracles. */
#ifndef HARNESS_EMULATION_INTERNAL_H
#define HARNESS_EMULATION_INTERNAL_H

#include "harness/emulation/emulation.h"
#include "harness/task/task.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- values.c --------------------------------------------------------------------------------- */

/* Allocates; if that fails, is_out_of_memory of the emulation is set. */
void harness_state_create(struct harness_emulation *emulation, struct harness_state *out);
void harness_state_copy(const struct harness_emulation *emulation, struct harness_state *target,
                        const struct harness_state *source);
/* Rank 0's buffers on every rank, as after construction and after a checkpoint was loaded. */
void harness_state_share_buffers(const struct harness_emulation *emulation,
                                 struct harness_state *state);

/* --- trainer.c -------------------------------------------------------------------------------- */

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
/* The state before the step into the trainer's model, with the buffers of `owner`. Passes change
 * buffers, never parameters. */
DDP_MUST_USE ddp_status harness_trainer_load(const struct harness_emulation *emulation,
                                             struct harness_trainer *trainer, uint32_t owner);
/* Parameters and buffers of a trainer's model into a block of `params` and one of `buffers`. */
DDP_MUST_USE ddp_status harness_trainer_read(const struct harness_emulation *emulation,
                                             const struct harness_trainer *trainer, void *param,
                                             void *buffer);
DDP_MUST_USE ddp_status harness_trainer_read_buffers(const struct harness_emulation *emulation,
                                                     const struct harness_trainer *trainer,
                                                     void *block);
/* Between host and device memory, finished on return. */
DDP_MUST_USE ddp_status harness_emulation_copy(const struct harness_emulation *emulation,
                                               void *target, const void *source, size_t size_bytes);

/* --- parts of a step -------------------------------------------------------------------------- */

/* rank.c: all ranks' passes, each rank a task: gradients, losses and bucket inputs into `now`. */
DDP_MUST_USE ddp_status harness_emulation_run_ranks(struct harness_emulation *emulation,
                                                    uint32_t step, struct ddp_err *err);
/* sum.c: in the middle of a rank's step, the sum of all ranks' tensors, in the order in which the
 * group sums so many elements. output: as large as the input. */
DDP_MUST_USE ddp_status harness_emulation_exchange_sum(const struct harness_emulation *emulation,
                                                       struct harness_task *task, const char *name,
                                                       uint64_t tag,
                                                       const struct harness_tensor *input,
                                                       void *output);
/* batch.c: the first recorded batch that breaks the sampler's rules. */
DDP_MUST_USE ddp_status harness_emulation_compare_batches(const struct harness_emulation *emulation,
                                                          struct harness_batch_difference *out);
/* bound.c: rounding and weighting bound, into emulation->excess if it is exceeded. */
DDP_MUST_USE ddp_status harness_emulation_bound(struct harness_emulation *emulation, uint32_t step);

#ifdef __cplusplus
}
#endif
#endif
