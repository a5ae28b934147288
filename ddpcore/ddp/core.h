/* Inside of struct ddp, for the files of this folder only. Calls go down this list of files and
 * never up: ddp.c, average.c, batch_norm.c, clip.c, drift.c, logging.c, scaler.c; join.c,
 * verify_strict.c, verify_pytorch.c; rebuild.c; sync.c, reducer.c, verify_gather.c; hook.c;
 * mixed.c; view.c, graph.c; buckets.c; core.c. */
#ifndef DDPCORE_DDP_CORE_H
#define DDPCORE_DDP_CORE_H

#include "ddpcore/ddp/bucket.h"
#include "ddpcore/ddp/ddp.h"
#include "ddpcore/device/transfer.h"

#ifdef __cplusplus
extern "C" {
#endif

enum ddp_pass {
    DDP_PASS_IDLE,    /* no forward pass since the last backward pass ended */
    DDP_PASS_FORWARD, /* ddp_forward_begin returned OK */
    DDP_PASS_BACKWARD
};

struct ddp {
    struct ddp_group *group;
    struct ddp_device *device;
    struct ddp_transfer transfer; /* for hashes of what the device holds */
    struct ddp_param *params;
    size_t param_count;
    /* [param_count] whose gradients passes leave: params, or those of mixed precision. */
    struct ddp_param *locals;
    struct ddp_buffer *buffers;
    size_t buffer_count;
    struct ddp_config config; /* filled */

    struct ddp_layout layout;
    /* Control blocks (flags, used map, verification) are read and written by the host, so they lie
     * in host space; buckets and staging are the device's. */
    struct ddp_block *bucket_blocks; /* [bucket_count] */
    struct ddp_block staging;        /* for broadcasts of buffers: their largest chunk */
    struct ddp_block mixed_block;    /* mixed.c: where gradients are widened to be added */
    struct ddp_block control;        /* one element of any dtype, for flags */
    struct ddp_block hashes; /* drift.c: this rank's of all parameters, then every member's */

    /* Rebuilding the buckets in PyTorch's order. */
    int32_t *ready_order; /* [param_count] as gradients became ready in the pass that counts */
    size_t ready_order_count;
    bool is_rebuild_due; /* the pass has ended: the next forward pass rebuilds */
    bool is_rebuilt;

    /* The static graph (graph.c). */
    bool is_graph_noted;
    uint32_t *ready_times; /* [param_count] how often each was ready in this pass */
    uint32_t *noted_times; /* [param_count] in the pass that noted them */

    /* Gradients in the buckets (view.c). */
    void **own_grads; /* [param_count] where they lay before; NULL: they are not in the buckets */
    bool *is_saved; /* [param_count] gradients that a pass may leave untouched, with find_unused */
    size_t *saved_at; /* [param_count] bytes into saved */
    void *saved;      /* the device's */

    /* Communication hook (hook.c); all zero without one. */
    struct ddp_hook_site hook_site;
    size_t *hook_offsets; /* [param_count] by place */

    /* used map: local_used collects since the last reduction, used_map is what is reduced */
    struct ddp_block used_block;
    int32_t *used_map;
    bool *local_used;
    struct ddp_coll_work used_work;

    /* backward pass */
    enum ddp_pass pass;
    bool is_sync;       /* as last set by ddp_set_sync */
    bool is_sync_pass;  /* as read by ddp_forward_begin */
    bool is_buffer_due; /* the previous forward pass was synchronised (true before the first) */
    bool is_reduction_unfinished; /* pytorch: a backward pass ended with unready parameters */
    bool is_any_ready;
    bool *is_expected; /* [param_count] will become ready (find_unused) */
    bool *is_ready;    /* [param_count] */
    bool *is_unready;  /* [param_count] at the last E_UNUSED_PARAMETER */
    size_t ready_count;
    size_t next_bucket; /* next to launch; buckets before it are posted */
    size_t next_done;   /* buckets before it have completed; <= next_bucket */

    bool is_joining;
    struct ddp_join_config join;
    uint32_t divisor; /* of gradients; > 0 */
};

/* core.c */
/* Error on this rank alone: strict semantics revoke the group with it. Returns status. */
ddp_status ddp_core_fail(struct ddp *ddp, ddp_status status, uint64_t detail);
/* With E_STATE: a call out of turn, or a message that cannot be. */
ddp_status ddp_core_fail_state(struct ddp *ddp);
/* An error of the device or of this rank's memory, which no other rank knows of: as ddp_core_fail.
 * DDP_OK stays. */
DDP_MUST_USE ddp_status ddp_core_told(struct ddp *ddp, ddp_status status);
/* What all ranks have to do, and joined ranks do not mirror: strict semantics refuse it inside join
 * (E_UNSUPPORTED), unless throw_on_early_termination ends that before. */
DDP_MUST_USE ddp_status ddp_core_needs_all(struct ddp *ddp);
/* As ddp_core_fail, for an error that is about parameters, at least one: events PARAM_ERROR name
 * each of them, and detail is the first one's index. is_concerned: bool[param_count]. */
ddp_status ddp_core_fail_params(struct ddp *ddp, ddp_status status, const bool *is_concerned);
ddp_status ddp_core_fail_param(struct ddp *ddp, ddp_status status, size_t param);
/* Pass a fault point. The action FAIL is returned as E_INJECTED, SKIP sets *out_is_skipped. */
DDP_MUST_USE ddp_status ddp_core_point(struct ddp *ddp, enum ddp_fault_point point,
                                       struct ddp_fault_context *context, bool *out_is_skipped);
/* out: zeroed, or freed. */
DDP_MUST_USE ddp_status ddp_block_alloc(const struct ddp *ddp, enum ddp_space space,
                                        size_t size_bytes, struct ddp_block *out);
void ddp_block_free(const struct ddp *ddp, struct ddp_block *block);
/* ddp_hash_tensor of a tensor in the device's memory, salted with its name. */
DDP_MUST_USE ddp_status ddp_core_hash(struct ddp *ddp, const char *name, const void *data,
                                      size_t size_bytes, uint64_t *out);

/* buckets.c: memory, record and names of the layout in force. */
DDP_MUST_USE ddp_status ddp_buckets_open(struct ddp *ddp); /* the table of their memory, first */
DDP_MUST_USE ddp_status ddp_buckets_alloc(struct ddp *ddp);
/* blocks: [count], or NULL. */
void ddp_buckets_free(struct ddp *ddp, struct ddp_block *blocks, size_t count);
/* Events BUCKET_PARAM. */
void ddp_buckets_record(const struct ddp *ddp);
/* Whether buckets may still be rebuilt. */
bool ddp_rebuild_is_open(const struct ddp *ddp);
DDP_MUST_USE ddp_status ddp_rebuild_open(struct ddp *ddp); /* what it needs, if it is open */
/* A synchronised backward pass begins; a gradient became ready; the pass has ended well. */
void ddp_rebuild_begin(struct ddp *ddp);
void ddp_rebuild_note(struct ddp *ddp, size_t param);
void ddp_rebuild_end(struct ddp *ddp);
/* A joined rank mirrored a pass: its order is that of the parameters. */
void ddp_rebuild_note_all(struct ddp *ddp);

/* hook.c: the hook meets the layout in force; and is told that it goes. */
DDP_MUST_USE ddp_status ddp_hook_open(struct ddp *ddp);
void ddp_hook_close(struct ddp *ddp);
/* The hook prepares a round of a bucket; then its fault point. */
DDP_MUST_USE ddp_status ddp_hook_round(struct ddp *ddp, size_t bucket, uint32_t round,
                                       struct ddp_coll_args *out, bool *out_is_over);

/* mixed.c: mixed precision; nothing without it. Sets ddp->locals. */
DDP_MUST_USE ddp_status ddp_mixed_open(struct ddp *ddp, struct ddp_err *err);
/* The type of buckets that were assigned by the masters' sizes. */
void ddp_mixed_lay_out(const struct ddp *ddp, struct ddp_layout *layout);
enum { DDP_MIXED_NAME_BYTES = 24 };
void ddp_mixed_name(const struct ddp *ddp, char out[DDP_MIXED_NAME_BYTES]);
DDP_MUST_USE ddp_status ddp_mixed_alloc(struct ddp *ddp);
/* A local gradient into its bucket; and the average from there. */
DDP_MUST_USE ddp_status ddp_mixed_fill(struct ddp *ddp, size_t param, void *slice);
DDP_MUST_USE ddp_status ddp_mixed_copy_back(struct ddp *ddp, size_t param, void *slice);

/* graph.c: the static graph. Whether this pass notes it; whether this pass goes by it. */
bool ddp_graph_is_noting(const struct ddp *ddp);
bool ddp_graph_is_known(const struct ddp *ddp);
/* Whether passes leave parameters out, so that a used map says which gradients count. */
bool ddp_graph_has_map(const struct ddp *ddp);
DDP_MUST_USE ddp_status ddp_graph_open(struct ddp *ddp);
void ddp_graph_close(struct ddp *ddp);
void ddp_graph_begin(struct ddp *ddp); /* a backward pass begins */
/* A gradient is ready; false: it will be again, or counts at the end of the pass. */
bool ddp_graph_count(struct ddp *ddp, size_t param);
void ddp_graph_end(struct ddp *ddp); /* what was counted is noted */

/* view.c. Where a parameter lies in its bucket. */
void *ddp_view_of(const struct ddp *ddp, size_t param);
/* Asked for the point bucket/copy, where it is armed: the parameter has no gradient, and puts zeros
 * where zeros are. False if only a device could tell. */
bool ddp_view_is_kept(const struct ddp *ddp, size_t param);
/* Asked for the point bucket/unflatten, where it is armed: each gradient of the bucket is what
 * would be copied there. False if only a device, or more than a comparison, could tell. */
bool ddp_view_is_alike(const struct ddp *ddp, const struct ddp_bucket *bucket);
DDP_MUST_USE ddp_status ddp_view_open(struct ddp *ddp);
/* Move the gradients that lie elsewhere into the buckets in force. */
DDP_MUST_USE ddp_status ddp_view_attach(struct ddp *ddp);
/* Keep a gradient of earlier passes, before it is summed, until it is known whether any rank used
 * the parameter; and put it back. */
DDP_MUST_USE ddp_status ddp_view_save(struct ddp *ddp, size_t param);
DDP_MUST_USE ddp_status ddp_view_restore(struct ddp *ddp, size_t param);
/* Gradients go back to where the caller had them. */
void ddp_view_close(struct ddp *ddp);

/* sync.c: broadcasts of tensors from a member, coalesced into chunks. */
DDP_MUST_USE ddp_status ddp_sync_params(struct ddp *ddp, uint32_t root);
DDP_MUST_USE ddp_status ddp_sync_buffers(struct ddp *ddp, uint32_t root);
/* The broadcast of buffers at the start of a forward pass, with its fault point and phase. */
DDP_MUST_USE ddp_status ddp_sync_buffer_pass(struct ddp *ddp, uint32_t root);
/* What the staging block for buffers needs. */
size_t ddp_sync_staging_bytes(const struct ddp *ddp);

/* reducer.c. A wait that a fault skipped may have left a collective under way: _settle waits for
 * it, before its buffer is written or it is posted again. */
DDP_MUST_USE ddp_status ddp_reducer_settle(struct ddp *ddp, struct ddp_coll_work *work);
DDP_MUST_USE ddp_status ddp_reducer_post_bucket(struct ddp *ddp, size_t bucket);
/* What hooks have to do behind the first collective of each bucket, which is done. */
DDP_MUST_USE ddp_status ddp_reducer_end_rounds(struct ddp *ddp);
DDP_MUST_USE ddp_status ddp_reducer_post_used_map(struct ddp *ddp);
/* The host writes to, or reads, the used map. */
void ddp_reducer_touch_used_map(const struct ddp *ddp, bool is_write);

/* verify_gather.c */
/* All-gather of size_bytes from every member; all: uint8_t[members * size_bytes]. */
DDP_MUST_USE ddp_status ddp_verify_exchange(struct ddp *ddp, enum ddp_coll_role role,
                                            uint32_t index, const void *own, size_t size_bytes,
                                            void *all);
/* The same with role VERIFY. */
DDP_MUST_USE ddp_status ddp_verify_gather(struct ddp *ddp, uint32_t index, const void *own,
                                          size_t size_bytes, void *all);
/* Every member has found out that the models differ, so no revocation is sent. `member` differs;
 * -1: it is not known which. */
ddp_status ddp_verify_fail(struct ddp *ddp, int32_t member);

/* verify_strict.c, verify_pytorch.c: errors as ddp_create's. */
DDP_MUST_USE ddp_status ddp_verify_strict(struct ddp *ddp, struct ddp_err *err);
DDP_MUST_USE ddp_status ddp_verify_pytorch(struct ddp *ddp, struct ddp_err *err);

/* rebuild.c. At the start of a forward pass: nothing unless it is due. */
DDP_MUST_USE ddp_status ddp_rebuild(struct ddp *ddp);

/* join.c: tell joined ranks that a forward pass begins inside join, and synchronise buffers if they
 * are due. */
DDP_MUST_USE ddp_status ddp_join_forward(struct ddp *ddp);

#ifdef __cplusplus
}
#endif
#endif
