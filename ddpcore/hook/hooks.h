/* Communication hooks that come with the core (ddp/hook.h says what a hook is). Each is PyTorch's
 * of the same name; all divide by multiplying with 1/D, rounded to fp32, as PyTorch does on CUDA.
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

#ifdef __cplusplus
}
#endif
#endif
