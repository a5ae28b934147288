/* DataParallel (torch.nn.DataParallel): one process, one thread a device. In each step the model of
 * device 0 is replicated on all devices, the global batch is scattered, each thread computes the
 * gradient of its part, device 0 gathers and adds them up, and updates. It is the baseline that the
 * literature compares DDP with (Li et al., VLDB 2020, section 2): it replicates in every step, adds
 * up on one device, and overlaps nothing.
 *
 * Part r of a step's batch is that of rank r of a job of as many ranks, so DP and DDP train on the
 * same samples. The gradient is the global batch's mean: part r counts rows_r / rows. */
#ifndef REFERENCE_DATA_PARALLEL_H
#define REFERENCE_DATA_PARALLEL_H

#include "reference/trainer.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ref_data_parallel;

/* One replica a device; job->shard.world_size is device_count. devices: borrowed; a device's memory
 * (device->mem too) is used by one thread at a time only, but by several in turn. Errors: those of
 * ref_trainer_create, E_SYSTEM (no thread), E_INVALID (another number of devices). */
DDP_MUST_USE ddp_status ref_data_parallel_create(struct ddp_device *const *devices,
                                                 uint32_t device_count, const struct ref_job *job,
                                                 struct ref_data_parallel **out,
                                                 struct ddp_err *err);
void ref_data_parallel_destroy(struct ref_data_parallel *parallel);

/* Replicate, scatter, compute, gather: the gradient is left in device 0's model. *out_loss: mean
 * over all rows. *out_rows: 0 = no data left, nothing was done. */
DDP_MUST_USE ddp_status ref_data_parallel_gradient(struct ref_data_parallel *parallel,
                                                   uint32_t step, float *out_loss,
                                                   size_t *out_rows);
/* The same, then the optimizer's step on device 0. Errors: E_STATE (no data left). */
DDP_MUST_USE ddp_status ref_data_parallel_step(struct ref_data_parallel *parallel, uint32_t step,
                                               float *out_loss);

/* The model that is trained: device 0's. */
struct ref_model *ref_data_parallel_model(struct ref_data_parallel *parallel);
/* Bytes of a device's tensors: parameters, gradients, buffers; on device 0 the optimizer's state
 * and the gradient that is gathered, too. Activations are not counted. */
size_t ref_data_parallel_bytes(const struct ref_data_parallel *parallel, uint32_t device);

#ifdef __cplusplus
}
#endif
#endif
