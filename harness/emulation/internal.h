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
void harness_emulation_share_buffers(struct harness_emulation *emulation);

/* --- bucketing.c ------------------------------------------------------------------------------ */

DDP_MUST_USE ddp_status harness_emulation_make_bucketings(struct harness_emulation *emulation);
/* What a block of buckets needs, whichever are in force. */
size_t harness_emulation_bucket_bytes(const struct harness_emulation *emulation);
/* A step begins. */
void harness_emulation_use_bucketing(struct harness_emulation *emulation, int32_t step);

/* --- trainer.c -------------------------------------------------------------------------------- */

/* A trainer of one rank while that rank's passes run. Those that never wait share one. */
struct harness_trainer {
    struct harness_trainer *next, *next_idle;
    struct ref_trainer *trainer;
    uint32_t steps_done, camp; /* of the parameters that it holds */
    bool is_loaded;
};

/* A trainer that no other rank uses now, made if there is none; and back. */
DDP_MUST_USE ddp_status harness_trainer_take(struct harness_emulation *emulation,
                                             struct harness_trainer **out, struct ddp_err *err);
void harness_trainer_give(struct harness_emulation *emulation, struct harness_trainer *trainer);
void harness_trainers_destroy(struct harness_emulation *emulation);
/* The rank's state before the step into the trainer's model, with the buffers of `owner`. Passes
 * change buffers, never parameters. */
DDP_MUST_USE ddp_status harness_trainer_load(const struct harness_emulation *emulation,
                                             struct harness_trainer *trainer, uint32_t rank,
                                             uint32_t owner);
/* Block `index` of blocks of `buffers` into its model. */
DDP_MUST_USE ddp_status harness_trainer_load_buffers(const struct harness_emulation *emulation,
                                                     const struct harness_trainer *trainer,
                                                     void *blocks, uint32_t index);
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

/* rank.c: all ranks' passes, each rank a task: gradients and losses into `now`. */
DDP_MUST_USE ddp_status harness_emulation_run_ranks(struct harness_emulation *emulation,
                                                    uint32_t step, struct ddp_err *err);
/* rank.c: what each rank puts into the buckets, into `now`. */
DDP_MUST_USE ddp_status harness_emulation_fill_buckets(struct harness_emulation *emulation);
/* sum.c: in the middle of a rank's step, the sum of all ranks' tensors, in the order in which the
 * group sums so many elements. output: as large as the input. */
DDP_MUST_USE ddp_status harness_emulation_exchange_sum(const struct harness_emulation *emulation,
                                                       struct harness_task *task, const char *name,
                                                       uint64_t tag,
                                                       const struct harness_tensor *input,
                                                       void *output);
/* evaluate.c: what each rank's evaluation after the step comes to, into `expected`. */
DDP_MUST_USE ddp_status harness_emulation_evaluate(struct harness_emulation *emulation,
                                                   uint32_t step, struct ddp_err *err);
/* batch.c: how many batches each rank takes. */
DDP_MUST_USE ddp_status harness_emulation_count_batches(struct harness_emulation *emulation);
/* batch.c: recorded batches that break the sampler's rules, into emulation->batches and took. */
DDP_MUST_USE ddp_status harness_emulation_compare_batches(struct harness_emulation *emulation);
/* bound.c: rounding and weighting bound, into emulation->excess if it is exceeded. */
DDP_MUST_USE ddp_status harness_emulation_bound(struct harness_emulation *emulation, uint32_t step);

/* scaler.c: the first scale; and what becomes of a step's averages, before they are clipped. */
DDP_MUST_USE ddp_status harness_scaler_create(struct harness_emulation *emulation);
DDP_MUST_USE ddp_status harness_scaler_step(struct harness_emulation *emulation, uint32_t step);

/* powersgd_state.c: room for what ranks keep; what they send of it for a checkpoint behind the
 * step, if one is due; and what that holds. */
DDP_MUST_USE ddp_status harness_powersgd_create(struct harness_emulation *emulation);
DDP_MUST_USE ddp_status harness_powersgd_gather(struct harness_emulation *emulation, uint32_t step);
void harness_powersgd_snapshot(struct harness_emulation *emulation);

/* mixed.c: an average from its sum, which is of type dtype. */
DDP_MUST_USE ddp_status harness_emulation_average(const struct harness_emulation *emulation,
                                                  const struct harness_tensor *target,
                                                  const char *sum, enum ddp_dtype dtype);

/* --- camp.c ----------------------------------------------------------------------------------- */

/* All ranks in one camp. */
DDP_MUST_USE ddp_status harness_camps_create(struct harness_emulation *emulation);
/* The rank leaves its camp: alone, with a copy of all that the camp has, or with the ranks that
 * left it in the same parting (emulation->parting) and are like it. *out_is_new: what distinguishes
 * it must still be put into the camp. */
DDP_MUST_USE ddp_status harness_camp_part(struct harness_emulation *emulation, uint32_t rank,
                                          bool (*is_like)(const struct harness_emulation *emulation,
                                                          uint32_t a, uint32_t b),
                                          bool *out_is_new);
/* Ranks whose models are, after this step, the first camp's again go back there: what differed did
 * not show. Hashes are those after the step. */
void harness_camps_rejoin(struct harness_emulation *emulation);

/* --- recorded.c ------------------------------------------------------------------------------- */

DDP_MUST_USE ddp_status harness_recorded_create(struct harness_emulation *emulation);
/* What ranks recorded in a step, into emulation->recorded. */
void harness_recorded_read(struct harness_emulation *emulation, uint32_t step);
/* Models that ranks recorded after later steps are wanted. */
void harness_recorded_want(struct harness_emulation *emulation, uint32_t step);

/* --- rebase.c, rebase_model.c ----------------------------------------------------------------- */

/* For each camp: its average from the outputs, and its model's update. */
DDP_MUST_USE ddp_status harness_emulation_take_average(struct harness_emulation *emulation,
                                                       struct harness_camp *camp);
DDP_MUST_USE ddp_status harness_emulation_take_averages(struct harness_emulation *emulation);
DDP_MUST_USE ddp_status harness_emulation_update(struct harness_emulation *emulation,
                                                 uint32_t step);
/* rate.c: the optimizer's options in a step, its learning rate among them; and the camp's averages
 * as the optimizer is given them. */
struct ref_optimizer_config harness_emulation_optimizer(const struct harness_emulation *emulation,
                                                        uint32_t step);
DDP_MUST_USE ddp_status harness_emulation_clip(struct harness_emulation *emulation,
                                               struct harness_camp *camp);
/* Hashes of the models that ranks start from, before the first step that is judged; then after
 * each.
 */
void harness_rebase_begin(struct harness_emulation *emulation);
/* Each compares one stage of the present step with what was recorded, notes what differs, and
 * replaces it by what was recorded. Nothing unless is_judging. */
DDP_MUST_USE ddp_status harness_rebase_gradients(struct harness_emulation *emulation,
                                                 uint32_t step);
DDP_MUST_USE ddp_status harness_rebase_inputs(struct harness_emulation *emulation, uint32_t step);
DDP_MUST_USE ddp_status harness_rebase_outputs(struct harness_emulation *emulation, uint32_t step);
/* Averages copied back, then parameters and optimizer state: by camps. */
DDP_MUST_USE ddp_status harness_rebase_averages(struct harness_emulation *emulation, uint32_t step);
DDP_MUST_USE ddp_status harness_rebase_states(struct harness_emulation *emulation, uint32_t step);
/* The recorded tensor of that hash, if it is at hand; else it is wanted. */
const void *harness_rebase_find(struct harness_emulation *emulation,
                                const struct harness_layout *layout, size_t index, uint64_t hash);

#ifdef __cplusplus
}
#endif
#endif
