/* Uneven inputs: a rank whose inputs ended mirrors the others' collectives with zeros until all
 * have ended, then everyone takes the model of the last to end.
 *
 * One pass of the others: presence (f32, sum = ranks with inputs), the termination flag if asked
 * for (same role, index 1), buffers from the highest rank with inputs, the sync flag, buckets. */
#include <string.h>

#include "ddpcore/ddp/core.h"

/* How many members raise a flag. f32, as PyTorch sends it. */
static ddp_status reduce_flag(struct ddp *ddp, enum ddp_coll_role role, uint32_t index,
                              bool is_raised, uint32_t *out_count)
{
    void *flag = ddp->control.data;
    float sum = is_raised ? 1.0F : 0.0F;
    const struct ddp_coll_args args = {
        .kind = DDP_COLL_ALL_REDUCE,
        .redop = DDP_REDOP_SUM,
        .dtype = DDP_DTYPE_F32,
        .role = role,
        .index = index,
        .input = flag,
        .output = flag,
        .elem_count = 1,
    };

    DDP_ASSERT(ddp->is_joining && ddp->pass != DDP_PASS_BACKWARD);
    ddp->device->hints->host_access(ddp->device, flag, sizeof(sum), true);
    memcpy(flag, &sum, sizeof(sum));
    DDP_TRY(ddp_group_run(ddp->group, &args));
    ddp->device->hints->host_access(ddp->device, flag, sizeof(sum), false);
    memcpy(&sum, flag, sizeof(sum));
    /* A damaged message may say anything. */
    *out_count = sum > 0 && sum <= (float)ddp->group->coll->member_count ? (uint32_t)sum : 0;
    return DDP_OK;
}

/* The highest member for which is_candidate is true; -1 if it is true nowhere. */
static ddp_status reduce_last(struct ddp *ddp, bool is_candidate, int64_t *out_member)
{
    int64_t *member = ddp->control.data;
    const struct ddp_coll_args args = {
        .kind = DDP_COLL_ALL_REDUCE,
        .redop = DDP_REDOP_MAX,
        .dtype = DDP_DTYPE_I64,
        .role = DDP_ROLE_JOIN_LAST,
        .input = member,
        .output = member,
        .elem_count = 1,
    };

    DDP_ASSERT(ddp->is_joining);
    ddp->device->hints->host_access(ddp->device, member, sizeof(*member), true);
    *member = is_candidate ? (int64_t)ddp->group->coll->member : -1;
    DDP_TRY(ddp_group_run(ddp->group, &args));
    ddp->device->hints->host_access(ddp->device, member, sizeof(*member), false);
    *out_member = *member;
    if (*out_member < 0 || *out_member >= (int64_t)ddp->group->coll->member_count) {
        /* Only a damaged message can say so. */
        return ddp_core_fail_state(ddp);
    }
    return DDP_OK;
}

static void record(struct ddp *ddp, enum ddp_join_event event, uint64_t active)
{
    ddp_recorder_event(ddp->group->env->recorder, DDP_EVENT_JOIN, event, active, ddp->divisor, 0,
                       0);
}

/* Presence and early termination, on active and ended ranks alike. */
static ddp_status exchange_presence(struct ddp *ddp, bool is_active, uint32_t *out_active)
{
    uint32_t ended = 0;

    DDP_TRY(reduce_flag(ddp, DDP_ROLE_JOIN_PRESENT, 0, is_active, out_active));
    if (*out_active == 0) {
        return DDP_OK;
    }
    if (!ddp->join.divide_by_initial_world_size) {
        ddp->divisor = *out_active;
    }
    if (ddp->join.throw_on_early_termination) {
        DDP_TRY(reduce_flag(ddp, DDP_ROLE_JOIN_PRESENT, 1, !is_active, &ended));
        if (ended > 0) {
            record(ddp, DDP_JOIN_EVENT_TERMINATED, *out_active);
            ddp->is_joining = false; /* on all of them: nobody mirrors any more */
            ddp->divisor = ddp->group->coll->member_count;
            return DDP_E_EARLY_TERMINATION;
        }
    }
    return DDP_OK;
}

static ddp_status sync_buffers(struct ddp *ddp, bool is_active)
{
    int64_t root = -1;

    if (!ddp->config.broadcast_buffers || ddp->buffer_count == 0 || !ddp->is_buffer_due) {
        return DDP_OK;
    }
    DDP_TRY(reduce_last(ddp, is_active, &root));
    return ddp_sync_buffer_pass(ddp, (uint32_t)root);
}

ddp_status ddp_join_forward(struct ddp *ddp)
{
    uint32_t active = 0, syncing = 0;

    DDP_TRY(exchange_presence(ddp, true, &active));
    if (active == 0) {
        /* This rank has just reported that it has inputs, so the sum cannot be 0 unless a message
         * was damaged. */
        return ddp_core_fail_state(ddp);
    }
    record(ddp, DDP_JOIN_EVENT_PRESENT, active);
    DDP_TRY(ddp_rebuild(ddp));
    DDP_TRY(sync_buffers(ddp, true));
    return reduce_flag(ddp, DDP_ROLE_JOIN_SYNC_FLAG, 0, ddp->is_sync_pass, &syncing);
}

ddp_status ddp_join_begin(struct ddp *ddp, const struct ddp_join_config *config)
{
    if (ddp->group->failure.status != DDP_OK) {
        return ddp->group->failure.status;
    }
    if (ddp->is_joining || ddp->pass != DDP_PASS_IDLE) {
        return ddp_core_fail_state(ddp);
    }
    if (ddp->config.is_static_graph) {
        return ddp_core_fail(ddp, DDP_E_UNSUPPORTED, 0);
    }
    ddp->is_joining = true;
    ddp->join = *config;
    return DDP_OK;
}

/* Zero buckets in launch order, then the used map. PyTorch's joined ranks send the map as the last
 * reduction left it, so that parameters nobody uses look used. */
static ddp_status mirror_reduction(struct ddp *ddp)
{
    struct ddp_layout *layout = &ddp->layout;

    DDP_ASSERT(ddp->pass != DDP_PASS_BACKWARD);
    for (size_t i = 0; i < layout->bucket_count; i++) {
        struct ddp_bucket *bucket = &layout->buckets[i];

        DDP_TRY(ddp_reducer_settle(ddp, &bucket->work));
        if (bucket->elem_count > 0) {
            DDP_TRY(ddp_core_told(
                ddp, ddp->device->ops->zero(ddp->device, NULL, bucket->data, bucket->size_bytes)));
        }
        DDP_TRY(ddp_reducer_post_bucket(ddp, i));
    }
    if (ddp->config.find_unused_parameters && layout->bucket_count > 0) {
        DDP_TRY(ddp_reducer_settle(ddp, &ddp->used_work));
        if (ddp->group->semantics == DDP_SEMANTICS_STRICT) {
            ddp_reducer_touch_used_map(ddp, true);
            memset(ddp->used_map, 0, ddp->param_count * sizeof(*ddp->used_map));
        }
        DDP_TRY(ddp_reducer_post_used_map(ddp));
    }
    for (size_t i = 0; i < layout->bucket_count; i++) {
        DDP_TRY(ddp_group_wait(ddp->group, &layout->buckets[i].work));
    }
    if (ddp->config.find_unused_parameters && layout->bucket_count > 0) {
        DDP_TRY(ddp_group_wait(ddp->group, &ddp->used_work));
    }
    DDP_TRY(ddp_reducer_end_rounds(ddp));
    if (!ddp->is_rebuild_due) {
        ddp_rebuild_note_all(ddp);
    }
    return DDP_OK;
}

static ddp_status mirror_pass(struct ddp *ddp, uint32_t active)
{
    uint32_t syncing = 0;

    DDP_ASSERT(active > 0 && ddp->divisor > 0);
    DDP_TRY(ddp_rebuild(ddp));
    DDP_TRY(sync_buffers(ddp, false));
    DDP_TRY(reduce_flag(ddp, DDP_ROLE_JOIN_SYNC_FLAG, 0, false, &syncing));
    ddp->is_buffer_due = syncing > 0;
    if (syncing > 0) {
        DDP_TRY(mirror_reduction(ddp));
    }
    record(ddp, DDP_JOIN_EVENT_MIRROR, active);
    if (syncing > 0) {
        /* The other ranks have made an optimizer step, so what this rank records from here on
         * belongs to the next step. */
        ddp->group->step++;
        ddp_recorder_step(ddp->group->env->recorder, ddp->group->step, 0);
    }
    return DDP_OK;
}

/* All inputs have ended. Of the ranks that ended last, the highest gives its model to all. */
static ddp_status adopt_last(struct ddp *ddp, bool is_last)
{
    int64_t root = -1;

    DDP_TRY(reduce_last(ddp, is_last, &root));
    DDP_TRY(ddp_sync_params(ddp, (uint32_t)root));
    DDP_TRY(ddp_sync_buffers(ddp, (uint32_t)root));
    record(ddp, DDP_JOIN_EVENT_DONE, (uint64_t)root);
    return DDP_OK;
}

static ddp_status mirror_until_all_ended(struct ddp *ddp)
{
    bool is_last = true;

    for (;;) {
        uint32_t active = 0;

        DDP_TRY(exchange_presence(ddp, false, &active));
        if (active == 0) {
            return adopt_last(ddp, is_last);
        }
        is_last = false;
        DDP_TRY(mirror_pass(ddp, active));
    }
}

ddp_status ddp_join_end(struct ddp *ddp)
{
    struct ddp_recorder *recorder = ddp->group->env->recorder;
    const enum ddp_phase phase =
        recorder != NULL ? (enum ddp_phase)recorder->phase : DDP_PHASE_JOIN;
    ddp_status status;

    if (ddp->group->failure.status != DDP_OK) {
        return ddp->group->failure.status;
    }
    if (!ddp->is_joining || ddp->pass == DDP_PASS_BACKWARD) {
        return ddp_core_fail_state(ddp);
    }
    if (phase != DDP_PHASE_JOIN) {
        ddp_recorder_phase(recorder, DDP_PHASE_JOIN);
    }
    record(ddp, DDP_JOIN_EVENT_ENDED, 0);
    status = mirror_until_all_ended(ddp);
    ddp->is_joining = false;
    ddp->divisor = ddp->group->coll->member_count;
    ddp->pass = DDP_PASS_IDLE;
    if (phase != DDP_PHASE_JOIN) {
        ddp_recorder_phase(recorder, phase);
    }
    return status;
}
