/* Purpose: a plug-in that moves the data itself, as the executor's mover.
 * Idea: what the rank shows tells its code from its waits: a rank in a wait is a victim, one that
 * does not come back from the plug-in's code is to blame. */
#include "harness/rank/opaque.h"

#include <stddef.h>

#include "ddpcore/collective/queue.h"
#include "ddpcore/seam/recorder.h"

_Static_assert((int)DDPROVE_COLL_F32 == (int)DDP_DTYPE_F32 + 1 &&
                   (int)DDPROVE_COLL_U8 == (int)DDP_DTYPE_COUNT &&
                   (int)DDPROVE_COLL_SUM == (int)DDP_REDOP_SUM &&
                   (int)DDPROVE_COLL_PROD == (int)DDP_REDOP_PROD,
               "types and operations have the same order");

static struct harness_opaque_mover *mover_of(struct harness_opaque_owner *owner)
{
    return (struct harness_opaque_mover *)((char *)owner -
                                           offsetof(struct harness_opaque_mover, owner));
}

/* --- owner ------------------------------------------------------------------------------------ */

static struct ddp_transport *connect_owner(struct harness_opaque_owner *owner)
{
    return mover_of(owner)->transport;
}

static ddp_status check_others(struct harness_opaque_owner *owner)
{
    const struct harness_opaque_mover *mover = mover_of(owner);

    if (mover->way == NULL) {
        return DDP_PENDING;
    }
    return ddp_clock_now_ns(mover->env->clock) > mover->deadline_ns
               ? DDP_E_TIMEOUT
               : ddp_coll_way_check(mover->way);
}

/* Collectives are waited for by their number, others before there are any as at the store. */
static void show(struct harness_opaque_owner *owner, enum harness_opaque_place place, int32_t peer)
{
    struct harness_opaque_mover *mover = mover_of(owner);
    struct ddp_recorder *recorder = mover->env->recorder;
    uint64_t seq = mover->way != NULL ? mover->way->work->seq : 0;

    ddp_recorder_plugin(mover->recorder, place == HARNESS_OPAQUE_INSIDE);
    if (recorder == NULL) {
        return; /* it is not there, or hidden while trees are measured */
    }
    if (place == HARNESS_OPAQUE_WAITING && !ddp_recorder_is_waiting(recorder)) {
        ddp_recorder_wait_begin(recorder, seq > 0 ? DDP_WAIT_COLLECTIVE : DDP_WAIT_STORE, seq);
        mover->is_waiting = true;
    }
    if (place == HARNESS_OPAQUE_WAITING && seq > 0) {
        ddp_recorder_wait_peer(recorder,
                               peer >= 0 ? (int32_t)mover->way->queue->member_rank[peer] : -1);
    }
    if (place == HARNESS_OPAQUE_OUTSIDE && mover->is_waiting) {
        ddp_recorder_wait_end(recorder);
        mover->is_waiting = false;
    }
}

/* --- mover ------------------------------------------------------------------------------------ */

/* What the plug-in says, in its name; it is not called again after an error. */
static ddp_status end(struct harness_opaque_mover *mover, const struct ddp_coll_way *way,
                      ddp_status status)
{
    if (status < DDP_OK) {
        mover->failed = status;
        (void)ddp_err_set(way->err, status, "%s: %s", mover->path, mover->err.text);
    }
    if (status != DDP_PENDING) {
        mover->way = NULL;
    }
    return status;
}

static ddp_status start(struct ddp_coll_mover *base, const struct ddp_coll_way *way)
{
    struct harness_opaque_mover *mover = (struct harness_opaque_mover *)base;
    const struct ddp_coll_args *args = &way->work->args;

    if (mover->failed != DDP_OK) {
        return mover->failed;
    }
    mover->way = way;
    mover->deadline_ns = ddp_clock_deadline_ns(mover->env->clock, mover->timeout_ns);
    mover->opaque.seq = way->work->seq;
    mover->opaque.signature = way->signature;
    mover->opaque.counts = way->counts;
    mover->opaque.is_checked = way->is_checked;
    mover->opaque.call = (struct ddprove_coll_call){.dtype = (uint32_t)args->dtype + 1,
                                                    .op = (uint32_t)args->redop,
                                                    .root = args->root,
                                                    .count = args->elem_count,
                                                    .input = args->input,
                                                    .output = args->output};
    return end(mover, way, harness_opaque_start(&mover->opaque));
}

static ddp_status poll(struct ddp_coll_mover *base, const struct ddp_coll_way *way)
{
    struct harness_opaque_mover *mover = (struct harness_opaque_mover *)base;

    return mover->failed != DDP_OK ? mover->failed
                                   : end(mover, way, harness_opaque_poll(&mover->opaque));
}

static void stop(struct ddp_coll_mover *base)
{
    struct harness_opaque_mover *mover = (struct harness_opaque_mover *)base;

    if (mover->failed == DDP_OK) {
        mover->failed = DDP_E_REVOKED;
        harness_opaque_abort(&mover->opaque);
    }
    mover->way = NULL;
}

static const struct ddp_coll_mover_ops ops = {start, poll, stop};

/* --- open ------------------------------------------------------------------------------------- */

static ddp_status accept(struct harness_opaque_owner *owner,
                         const struct ddprove_coll_opaque *plugin)
{
    struct harness_opaque_mover *mover = mover_of(owner);

    return plugin->kind == DDPROVE_COLL_ALL_REDUCE
               ? DDP_OK
               : ddp_err_set(&mover->err, DDP_E_INVALID, "%s is no all-reduce", plugin->name);
}

ddp_status harness_opaque_mover_open(struct harness_opaque_mover *mover, const char *path,
                                     struct ddp_env *env, struct ddp_transport *transport,
                                     uint64_t timeout_ns, struct ddp_err *err)
{
    ddp_status status;

    *mover = (struct harness_opaque_mover){
        .mover = {&ops},
        .owner = {.connect = connect_owner, .accept = accept, .check = check_others, .moved = show},
        .env = env,
        .recorder = env->recorder,
        .transport = transport,
        .timeout_ns = timeout_ns,
        .path = path};
    status = harness_opaque_open(&mover->opaque, path, &mover->owner, env, &mover->err);
    return status == DDP_OK ? DDP_OK : ddp_err_set(err, status, "%s: %s", path, mover->err.text);
}

void harness_opaque_mover_close(struct harness_opaque_mover *mover, bool is_well)
{
    if (mover->env != NULL) {
        harness_opaque_close(&mover->opaque, is_well && mover->failed == DDP_OK);
    }
}
