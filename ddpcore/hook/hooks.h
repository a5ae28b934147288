/* Communication hooks that come with the core (ddp/hook.h says what a hook is). Each is PyTorch's
 * of the same name; all divide by multiplying with 1/D, rounded to fp32, as PyTorch does on CUDA.
 *
 * PowerSGD draws its first Q by the core's own generator, and makes columns orthonormal by
 * Gram-Schmidt where PyTorch takes QR: its averages are PyTorch's as far as rounding and Q allow.
 *
 * A hook serves one ddp_config at a time. Created with memory of mem, which they borrow; given back
 * with ddp_hook_destroy behind ddp_destroy. Errors of all: E_NOMEM. */
#ifndef DDPCORE_HOOK_HOOKS_H
#define DDPCORE_HOOK_HOOKS_H

#include "ddpcore/ddp/hook.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Divide in the bucket's type, then sum: what DDP does without a hook. */
DDP_MUST_USE ddp_status ddp_hook_allreduce_create(struct ddp_mem *mem, struct ddp_hook **out);
/* Nothing is sent: each rank goes on with its own gradients, undivided. For measuring, and for
 * trainers that average parameters instead. */
DDP_MUST_USE ddp_status ddp_hook_noop_create(struct ddp_mem *mem, struct ddp_hook **out);
/* The bucket is rounded to f16 or bf16, goes through `inner`, and is widened again. inner NULL:
 * through the hook allreduce, which makes PyTorch's fp16_compress_hook and bf16_compress_hook; else
 * the wrapper of that name around inner, which is taken over, also in case of an error. A gradient
 * beyond the type's range becomes infinite, and so does the average. Errors: E_INVALID (another
 * type). */
DDP_MUST_USE ddp_status ddp_hook_compress_create(struct ddp_mem *mem, enum ddp_dtype dtype,
                                                 struct ddp_hook *inner, struct ddp_hook **out);

/* 8 bits a gradient: quantize.c has the arithmetic. Two all-gathers a bucket, so it is for few
 * ranks. For devices with the host's memory and buckets of f32, else opening fails with
 * E_UNSUPPORTED. */
DDP_MUST_USE ddp_status ddp_hook_quantize_create(struct ddp_mem *mem, struct ddp_hook **out);

struct ddp_powersgd_config {
    size_t rank;                 /* columns of P and Q; more: nearer, and slower */
    uint64_t start_iteration;    /* passes before it are plain all-reduces */
    double min_compression_rate; /* a matrix that is not made so much smaller is not compressed */
    bool is_error_kept;          /* what a pass left out is added in the next one */
    bool is_warm_start;          /* Q begins as the last pass left it, else drawn anew */
    uint64_t seed;               /* of what is drawn; equal on all ranks */
};
/* PyTorch's: rank 1, from pass 1000 on, 2, true, true, seed 0. */
void ddp_powersgd_defaults(struct ddp_powersgd_config *config);
/* PowerSGD (powersgd.c). A parameter of shape [n, ...] is a matrix of n rows. Its state: iteration,
 * and of each parameter, by its name, the error and Q: whatever buckets the parameters are in, then
 * or now, a run goes on from it. Of a pass whose gradients were not finite none of them is kept:
 * its averages are not finite either, later ones are. Models that the hook serves one after the
 * other share it, if their parameters are of the same shapes. Restrictions as of quantize. Errors:
 * E_INVALID (rank 0; start_iteration < 2 with an error kept or a warm start, which PyTorch refuses,
 * too, since there buckets are rebuilt after the first pass). */
DDP_MUST_USE ddp_status ddp_hook_powersgd_create(struct ddp_mem *mem,
                                                 const struct ddp_powersgd_config *config,
                                                 struct ddp_hook **out);

/* Post-local SGD: all-reduced up to pass start_iteration, from then on each rank steps alone, and
 * parameters are averaged now and then (ddp_average_due, ddp_average_params). State: iteration. */
DDP_MUST_USE ddp_status ddp_hook_local_sgd_create(struct ddp_mem *mem, uint64_t start_iteration,
                                                  struct ddp_hook **out);

#ifdef __cplusplus
}
#endif
#endif
