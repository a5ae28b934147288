/* Distributed data parallel: keeps the replicas of a model equal by averaging gradients.
 *
 * It knows no model: the caller hands over a table of parameters and says when each gradient is
 * ready. One step of the caller's trainer is
 *
 *   ddp_forward_begin        (buffers are synchronised, join's notices are exchanged)
 *     caller's forward pass
 *   ddp_backward_begin       (which parameters will get a gradient, if find_unused_parameters)
 *     caller's backward pass; ddp_grad_ready for each parameter as its gradient completes
 *   ddp_backward_end         (all buckets reduced, averaged gradients are in param->grad)
 *     caller's optimizer step
 *
 * Source for semantics: Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel
 * Training", VLDB 2020, and torch/csrc/distributed/c10d/reducer.cpp of PyTorch 2.7. One thread. */
#ifndef DDPCORE_DDP_DDP_H
#define DDPCORE_DDP_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/param.h"
#include "ddpcore/ddp/group.h"
#include "ddpcore/ddp/hook.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A bucket holds parameters of one type and closes once its bytes are >= its cap: the first one of
 * its type at first_bucket_cap_bytes, the others at bucket_cap_bytes. */
enum ddp_bucket_order {
    DDP_BUCKET_ORDER_REVERSE, /* walk parameters backwards; buckets in the order in which they close
                               */
    DDP_BUCKET_ORDER_PYTORCH  /* walk parameters forwards, then turn the list of buckets around.
                               * Unless find_unused_parameters, there is one bucket a type at first,
                               * and the first forward pass after the first synchronised backward
                               * pass rebuilds them, walking parameters in the order in which they
                               * became ready on rank 0, which all adopt */
};
enum ddp_gradient_scale {
    DDP_GRADIENT_SCALE_PRE, /* g * (1/D) in fp32 while copied into the bucket, then sum (PyTorch) */
    DDP_GRADIENT_SCALE_POST /* sum, then * (1/D) */
};

/* Mixed precision, as PyTorch's _MixedPrecision: the model's parameters are of f32 and stay so,
 * what the optimizer updates and checkpoints hold. A pass computes with `params`, of the same
 * names, order and sizes, all f16 or all bf16: ddp_forward_begin rounds the model's into their
 * data, and ddp_grad_ready reads their grad. Gradients are rounded to `reduce` (f32, f16 or bf16)
 * and summed in it, divided in it as gradient_scale says (PyTorch: behind the sum); their averages,
 * widened, are the model's gradients, and those of `params` become undefined. Where the model's
 * gradient is still defined (nobody has cleared it since a synchronised pass), this rank's is added
 * to it, in f32, and the sum is what is rounded and reduced. Borrowed until ddp_destroy. */
struct ddp_mixed_precision {
    struct ddp_param *params; /* [param_count] */
    enum ddp_dtype reduce;
};

struct ddp_config {
    size_t bucket_cap_bytes;       /* 0 = 25 MiB */
    size_t first_bucket_cap_bytes; /* 0 = 1 MiB, or bucket_cap_bytes if that was given */
    enum ddp_bucket_order bucket_order;
    enum ddp_gradient_scale gradient_scale;
    bool find_unused_parameters;
    /* Every synchronised pass gives the same parameters gradients, each as often ready as in the
     * first one, which notes it: nothing is reduced before its end, then the used map, then the
     * buckets. Later passes need no map, and is_used of ddp_backward_begin is never read; a
     * parameter may be reported ready as often as it was noted, and counts from the last time on;
     * in passes that are not synchronised, as often as its layers are used.
     * Another graph: E_READY_TWICE (used more often, or newly), E_UNUSED_PARAMETER (less often, or
     * no more). find_unused_parameters is ignored then. Not with join: E_UNSUPPORTED. */
    bool is_static_graph;
    bool broadcast_buffers; /* from rank 0 at the start of every forward pass */
    /* Gradients lie in the buckets: param->grad of every parameter points there until ddp_destroy,
     * also behind a backward pass for which the caller had pointed it elsewhere. It may be NULL at
     * first, which saves the memory: then, and after an error, which leaves neither local values
     * nor averages, the gradient is undefined behind ddp_destroy. */
    bool gradient_as_bucket_view;
    /* bool[param_count], or NULL: parameters whose gradients travel behind all others, one bucket a
     * type whatever its size, in the order of the model's table (PyTorch's
     * delay_all_reduce_named_params): those of layers that are ready late, or that need not be
     * waited for by others. The same on all ranks. Borrowed until ddp_destroy. */
    const bool *is_delayed;
    /* Does what is done with full buckets (hook.h), and divides; gradient_scale is then not used.
     * Borrowed until ddp_destroy. NULL: the plain all-reduce. */
    struct ddp_hook *hook;
    /* Not with a hook, nor with gradient_as_bucket_view. The same types on all ranks. NULL: passes
     * compute with the model's parameters. */
    const struct ddp_mixed_precision *mixed;
    bool is_init_sync_skipped; /* true: parameters are not broadcast at construction */
    bool is_hashing; /* events GRAD_READY, GRAD_FINAL and BUFFER_SYNCED are recorded, with hashes of
                      * payloads: ddp_hash_tensor salted with ddp_hash_text(name) */
    uint64_t build_id; /* identity of the program, must be equal on all ranks; 0 = not given */
};

/* Argument `kind` of event JOIN. active: ranks with inputs left; divisor: of the gradients. */
enum ddp_join_event {
    DDP_JOIN_EVENT_PRESENT,    /* presence was exchanged at the start of a forward pass */
    DDP_JOIN_EVENT_ENDED,      /* this rank's inputs ended, it mirrors from now on */
    DDP_JOIN_EVENT_MIRROR,     /* one pass of the others was mirrored */
    DDP_JOIN_EVENT_TERMINATED, /* early termination was agreed on */
    DDP_JOIN_EVENT_DONE        /* all ended; active = rank whose model all have now */
};

/* The tensors of one replica, in the same order on every rank. */
struct ddp_model {
    struct ddp_param *params;
    size_t param_count;
    struct ddp_buffer *buffers;
    size_t buffer_count;
};

struct ddp;

/* Verify that all ranks hold the same model and configuration (strict: names, shapes, order, dtype,
 * bucket layout, options by fingerprint, naming rank and first difference; pytorch: parameter count
 * and shapes only), then broadcast parameters and buffers from rank 0. Borrows group, device
 * and the model's tensors until ddp_destroy. Parameters are f32, f64, f16 or bf16, each type in
 * buckets of its own; buffers may be of any type. Errors: E_MODEL (failure.rank = a rank that
 * differs, err names the parameter or option), E_UNSUPPORTED (a parameter's type, more than
 * DDP_NDIM_MAX dimensions, or what does not go with mixed precision), E_INVALID (its tables do not
 * fit), and the group's. */
DDP_MUST_USE ddp_status ddp_create(struct ddp_group *group, struct ddp_device *device,
                                   const struct ddp_model *model, const struct ddp_config *config,
                                   struct ddp **out, struct ddp_err *err);
/* Before ddp_group_fini. With collectives still under way the group is revoked (E_STATE). */
void ddp_destroy(struct ddp *ddp);

/* Start of a forward pass. Buffers are broadcast if this pass is synchronised (strict), or if the
 * previous one was (pytorch; and in both inside join, where joined ranks must know it in advance).
 * With DDP_BUCKET_ORDER_PYTORCH, the first one after a synchronised pass rebuilds the buckets;
 * E_MODEL (strict): a rank got another order than the others.
 * pytorch semantics: E_UNUSED_PARAMETER if the previous backward pass left parameters unreduced.
 * Inside join, if throw_on_early_termination: E_EARLY_TERMINATION on every rank once one has no
 * inputs left. Join is over then, as after ddp_join_end, which only that one calls; models are what
 * they are, and the next epoch may begin. */
DDP_MUST_USE ddp_status ddp_forward_begin(struct ddp *ddp);

/* With mixed precision: round the model's parameters for a forward pass that is not DDP's, such as
 * an evaluation. Else nothing. */
DDP_MUST_USE ddp_status ddp_round_params(struct ddp *ddp);

/* Micro-batches: while false, backward passes accumulate locally and reduce nothing (no_sync). Read
 * by ddp_forward_begin, as PyTorch does. Default true. */
void ddp_set_sync(struct ddp *ddp, bool is_sync);

/* Start of a backward pass. is_used: bool[param_count], which parameters will become ready; NULL =
 * all. Only read if find_unused_parameters. */
DDP_MUST_USE ddp_status ddp_backward_begin(struct ddp *ddp, const bool *is_used);
/* params[param_index].grad is complete for this backward pass; sets is_grad_defined. Launches
 * buckets strictly in order and drives those under way. Errors: E_READY_TWICE, E_STATE, and the
 * group's. */
DDP_MUST_USE ddp_status ddp_grad_ready(struct ddp *ddp, size_t param_index);
/* Errors of the device or of memory on this rank are its own; strict semantics tell them to all, in
 * this and all other calls that ranks make together. */
/* Wait for all buckets, then copy averages back. A parameter that got no gradient in this pass
 * contributes its gradient of earlier micro-batches if one is defined, else zeros. If a parameter
 * never became ready: strict: E_UNUSED_PARAMETER on every rank, and no average is written; pytorch:
 * OK, gradients stay local, and the next synchronised ddp_forward_begin returns E_UNUSED_PARAMETER.
 * A parameter that no rank used keeps its gradient and is_grad_defined. */
DDP_MUST_USE ddp_status ddp_backward_end(struct ddp *ddp);

/* Uneven inputs. Between _begin and _end a rank trains as usual. When its inputs end it calls
 * ddp_join_end, which takes part in the other ranks' collectives with zeros until all have ended;
 * then parameters and buffers are broadcast from the rank that ended last. */
struct ddp_join_config {
    bool divide_by_initial_world_size; /* true: D = world; false: D = ranks still active */
    bool throw_on_early_termination;
};
DDP_MUST_USE ddp_status ddp_join_begin(struct ddp *ddp, const struct ddp_join_config *config);
DDP_MUST_USE ddp_status ddp_join_end(struct ddp *ddp);

/* This rank's place in the group, and how many are in it. */
uint32_t ddp_member(const struct ddp *ddp);
uint32_t ddp_member_count(const struct ddp *ddp);
/* Layout in force: bucket of each parameter and its element offset there. */
size_t ddp_bucket_count(const struct ddp *ddp);
enum ddp_dtype ddp_bucket_dtype(const struct ddp *ddp, size_t bucket);
size_t ddp_bucket_elem_count(const struct ddp *ddp, size_t bucket);
size_t ddp_bucket_of_param(const struct ddp *ddp, size_t param_index);
size_t ddp_bucket_offset_of_param(const struct ddp *ddp, size_t param_index);
/* Parameters that were not ready when the last E_UNUSED_PARAMETER was found here; bool[params]. */
const bool *ddp_unready_params(const struct ddp *ddp);

#ifdef __cplusplus
}
#endif
#endif
