/* BatchNorm over the batches of all members, as torch.nn.SyncBatchNorm: what its layers exchange.
 * The layer itself is the caller's. Converting a BatchNorm changes none of its tensors: weights and
 * running statistics stay where they are, only their statistics come from here.
 *
 * Forward: every member computes mean and variance of its own rows; ddp_batch_norm_forward turns
 * them into those of all members' rows. One all-gather of 2 C + 1 floats (mean, variance, rows), as
 * batches may differ in size. PyTorch sends 1/deviation in place of the variance, which loses the
 * digits of a variance far below eps.
 * Backward: every member sums dy and dy * y over its own rows, y being the normalised value; one
 * all-reduce of 2 C floats makes them the sums over all rows. Then, with N rows in all,
 *   dx = (dy - sum/N - y * (dot/N)) / deviation   (device->layers->standardize_columns_backward).
 * A member whose batch is empty calls both, with 0 rows and sums of 0: the others wait for it. In
 * evaluation nobody calls them. Nobody mirrors them for a rank that has joined: inside join they
 * need throw_on_early_termination, as PyTorch's do, else they are E_UNSUPPORTED (strict). */
#ifndef DDPCORE_DDP_BATCH_NORM_H
#define DDPCORE_DDP_BATCH_NORM_H

#include "ddpcore/ddp/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Vectors of one element for each channel, in the device's memory. */
struct ddp_batch_norm_stats {
    float *mean;
    float *variance; /* divided by the number of rows */
    float *inverse;  /* 1 / sqrt(variance + eps); only written */
    size_t channel_count;
    /* Batch times height times width; beyond 2^24 rounded to 24 bits, as PyTorch's. 0: mean and
     * variance are not read. */
    float row_count;
    float eps;
};

struct ddp_batch_norm;

/* For layers of up to channel_max channels, one after the other. Borrows ddp, which must outlive
 * it. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status ddp_batch_norm_create(struct ddp *ddp, size_t channel_max,
                                              struct ddp_batch_norm **out);
void ddp_batch_norm_destroy(struct ddp_batch_norm *norm);

/* Own statistics become those of all members' rows. In fp64, members m in ascending order, those
 * without rows left out:
 *   N = sum n_m, mean = (sum n_m mean_m) / N, variance = (sum n_m (v_m + (mean_m - mean)^2)) / N
 * and each result is rounded once. N = 0: mean and variance are 0. layer: which of the model's
 * layers, equal on all members. Errors: the group's. */
DDP_MUST_USE ddp_status ddp_batch_norm_forward(struct ddp_batch_norm *norm, uint32_t layer,
                                               struct ddp_batch_norm_stats *stats);
/* sums: float[elem_count], elem_count <= 2 * channel_max, in the device's memory; summed over all
 * members in place. Errors: the group's. */
DDP_MUST_USE ddp_status ddp_batch_norm_backward(struct ddp_batch_norm *norm, uint32_t layer,
                                                float *sums, size_t elem_count);

#ifdef __cplusplus
}
#endif
#endif
