/* The single-device reference trainers. One trains on the global batch; one plays the ranks of a
 * data-parallel job in turn on one device ("virtual ranks"), and leaves to its caller how the
 * ranks' gradients become one, so that the oracle can use its own arithmetic there. */
#ifndef REFERENCE_TRAINER_H
#define REFERENCE_TRAINER_H

#include "reference/data.h"
#include "reference/model.h"
#include "reference/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ref_job {
    struct ref_model_config model;
    struct ref_data_config data;
    struct ref_optimizer_config optimizer;
    struct ref_shard_config shard; /* its arrays are copied; sample_count 0: the dataset's */
    uint32_t micro_batches;        /* backward passes per step, >= 1 */
    uint32_t steps;
};

/* One model, one dataset, one optimizer on a device. */
struct ref_trainer;
DDP_MUST_USE ddp_status ref_trainer_create(struct ddp_device *device, const struct ref_job *job,
                                           struct ref_trainer **out, struct ddp_err *err);
void ref_trainer_destroy(struct ref_trainer *trainer);
struct ref_model *ref_trainer_model(struct ref_trainer *trainer);
struct ref_optimizer *ref_trainer_optimizer(struct ref_trainer *trainer);
const struct ref_data *ref_trainer_data(const struct ref_trainer *trainer);

/* Fetch micro-batch (step, micro) of a rank: the batch's arrays belong to the trainer until the
 * next call. rows 0: the rank's data has ended. */
DDP_MUST_USE ddp_status ref_trainer_batch(struct ref_trainer *trainer, uint32_t rank, uint32_t step,
                                          uint32_t micro, struct ref_batch *out);

/* Called before each forward pass of the local gradients below; watch NULL ends it. A status other
 * than OK stops them. */
void ref_trainer_watch(struct ref_trainer *trainer,
                       ddp_status (*watch)(void *context, uint32_t micro), void *context);
/* Local gradient of one rank in one step, over all its micro-batches (loss scaled by
 * 1/micro_batches), left in the model's params. *out_loss: mean over micro-batches. *out_rows:
 * rows seen; 0 = no data left, gradients undefined. */
DDP_MUST_USE ddp_status ref_trainer_local_gradient(struct ref_trainer *trainer, uint32_t rank,
                                                   uint32_t step, float *out_loss,
                                                   size_t *out_rows);
/* The loss of the local gradients below is multiplied by it, too; 1 at first. */
void ref_trainer_set_scale(struct ref_trainer *trainer, float scale);
/* Of each micro-batch that the last local gradient saw; [micro_batches]. */
const float *ref_trainer_losses(const struct ref_trainer *trainer);
/* Samples of a micro-batch that are given, instead of the sampler's. */
struct ref_samples {
    const uint32_t *items;
    size_t rows; /* at most the rows of the largest batch */
};
/* The local gradient that a rank would have with other batches: given[micro_batches]. */
DDP_MUST_USE ddp_status ref_trainer_gradient_of(struct ref_trainer *trainer, uint32_t rank,
                                                uint32_t step, const struct ref_samples *given,
                                                float *out_loss, size_t *out_rows);
/* The mean loss of the model over given samples, without a gradient: rows at most those of the
 * largest batch. Errors: E_INVALID, more rows, or a sample that the dataset does not have. */
DDP_MUST_USE ddp_status ref_trainer_loss_of(struct ref_trainer *trainer, uint32_t step,
                                            const struct ref_samples *given, float *out_loss);
/* One step on the global batch: the rows of all ranks' micro-batches as one mean (weighted by
 * rows), accumulated rank by rank in fp32, then one optimizer step. *out_loss: that mean. Errors:
 * E_STATE once no rank has data left, E_UNSUPPORTED if passes are of 16 bits. */
DDP_MUST_USE ddp_status ref_trainer_global_step(struct ref_trainer *trainer, uint32_t step,
                                                float *out_loss);

#ifdef __cplusplus
}
#endif
#endif
