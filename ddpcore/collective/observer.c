/* Records every collective as it is posted: the arguments, a hash of the input, and a hash of the
 * output. It is the outermost decorator, next to the caller, and changes nothing. */
#include <stdio.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/collective/collective.h"
#include "ddpcore/device/transfer.h"

/* ddp_coll_work.observed */
#define OBSERVED_POSTED 1u
#define OBSERVED_DONE   2u

struct observer {
    struct ddp_coll base;
    struct ddp_coll *inner;
    struct ddp_transfer transfer;
    bool is_hashing;
};

/* *out = 0 if there is no data. The data is fetched behind the default stream's work, which
 * produces it. */
static ddp_status hash_of(struct observer *observer, const struct ddp_coll_args *args,
                          const void *data, size_t elem_count, uint64_t *out)
{
    size_t size_bytes = elem_count * ddp_dtype_size_bytes(args->dtype);
    const void *seen;
    char salt[64];

    *out = 0;
    if (args->kind == DDP_COLL_BARRIER || elem_count == 0) {
        return DDP_OK;
    }
    DDP_TRY(ddp_transfer_view(&observer->transfer, data, size_bytes, &seen));
    (void)snprintf(salt, sizeof(salt), "%s/%u", ddp_coll_role_name(args->role), args->index);
    *out = ddp_recorder_hash(observer->base.env->recorder, seen, size_bytes, ddp_hash_text(salt));
    return DDP_OK;
}

static ddp_status input_hash(struct observer *observer, const struct ddp_coll_args *args,
                             uint64_t *out)
{
    const char *input = args->input;

    *out = 0;
    if (!observer->is_hashing ||
        (args->kind == DDP_COLL_BROADCAST && observer->base.member != args->root)) {
        return DDP_OK;
    }
    if (args->kind == DDP_COLL_ALL_GATHER && args->input == args->output) {
        input += observer->base.member * args->elem_count * ddp_dtype_size_bytes(args->dtype);
    }
    return hash_of(
        observer, args, input,
        args->elem_count * ddp_coll_input_blocks(args->kind, observer->base.member_count), out);
}

static ddp_status output_hash(struct observer *observer, const struct ddp_coll_args *args,
                              uint64_t *out)
{
    size_t blocks = ddp_coll_output_blocks(args->kind, observer->base.member_count,
                                           observer->base.member == args->root);

    *out = 0;
    return observer->is_hashing
               ? hash_of(observer, args, args->output, args->elem_count * blocks, out)
               : DDP_OK;
}

static uint64_t packed_op(const struct ddp_coll_args *args)
{
    const struct ddp_event_op op = {args->kind, args->redop, args->dtype,
                                    args->role, args->index, args->root};

    return ddp_event_op_pack(&op);
}

/* Returns status, or the error of fetching the output. */
static ddp_status record_done(struct observer *observer, struct ddp_coll_work *work,
                              ddp_status status)
{
    struct ddp_recorder *recorder = observer->base.env->recorder;
    uint64_t hash = 0;

    if (work->observed != OBSERVED_POSTED) {
        return status;
    }
    work->observed = OBSERVED_DONE;
    if (recorder == NULL) {
        return status;
    }
    /* The output of a failed collective is whatever it was interrupted at: no evidence. */
    if (status == DDP_OK) {
        status = output_hash(observer, &work->args, &hash);
    }
    ddp_recorder_event(recorder, DDP_EVENT_COLL_DONE, work->seq, packed_op(&work->args),
                       work->args.elem_count, (uint64_t)(int64_t)status, hash);
    if (status == DDP_OK) {
        ddp_recorder_collective_done(recorder, work->seq);
    }
    return status;
}

static ddp_status observer_post(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    struct observer *observer = (struct observer *)coll;
    struct ddp_recorder *recorder = coll->env->recorder;
    ddp_status status;

    if (recorder != NULL) {
        uint64_t op = packed_op(&work->args);
        uint64_t hash;

        work->status = input_hash(observer, &work->args, &hash);
        if (work->status != DDP_OK) {
            return work->status;
        }
        work->status = DDP_PENDING;
        ddp_recorder_event(recorder, DDP_EVENT_COLL_POST, work->seq, op, work->args.elem_count,
                           coll->comm, hash);
        ddp_recorder_collective_posted(recorder, coll->comm, work->seq, op, work->args.elem_count);
    }
    work->observed = OBSERVED_POSTED;
    status = observer->inner->ops->post(observer->inner, work);
    return status != DDP_OK ? record_done(observer, work, status) : status;
}

static ddp_status observer_poll(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    struct observer *observer = (struct observer *)coll;
    ddp_status status = observer->inner->ops->poll(observer->inner, work);

    return status != DDP_PENDING ? record_done(observer, work, status) : status;
}

static void observer_revoke(struct ddp_coll *coll, const struct ddp_revocation *revocation)
{
    struct observer *observer = (struct observer *)coll;

    observer->inner->ops->revoke(observer->inner, revocation);
}

static bool observer_is_revoked(struct ddp_coll *coll, struct ddp_revocation *out)
{
    struct observer *observer = (struct observer *)coll;

    return observer->inner->ops->is_revoked(observer->inner, out);
}

static int32_t observer_dead_rank(struct ddp_coll *coll)
{
    struct observer *observer = (struct observer *)coll;

    return observer->inner->ops->dead_rank(observer->inner);
}

static void *observer_alloc(struct ddp_coll *coll, size_t size_bytes, enum ddp_space space)
{
    struct observer *observer = (struct observer *)coll;

    return observer->inner->ops->alloc(observer->inner, size_bytes, space);
}

static void observer_free(struct ddp_coll *coll, enum ddp_space space, void *data)
{
    struct observer *observer = (struct observer *)coll;

    observer->inner->ops->free(observer->inner, space, data);
}

static const char *observer_last_error(struct ddp_coll *coll)
{
    struct observer *observer = (struct observer *)coll;

    return observer->inner->ops->last_error(observer->inner);
}

static void observer_hint(struct ddp_coll *coll, struct ddp_idle_hint *hint)
{
    struct observer *observer = (struct observer *)coll;

    observer->inner->ops->hint(observer->inner, hint);
}

static bool observer_awaits(struct ddp_coll *coll, const struct ddp_coll_work *work,
                            uint32_t member)
{
    struct ddp_coll *inner = ((struct observer *)coll)->inner;

    return inner->ops->awaits != NULL && inner->ops->awaits(inner, work, member);
}

static void observer_destroy(struct ddp_coll *coll)
{
    struct observer *observer = (struct observer *)coll;
    struct ddp_mem *mem = coll->env->mem;

    ddp_transfer_fini(&observer->transfer);
    observer->inner->ops->destroy(observer->inner);
    ddp_mem_free(mem, observer);
}

static const struct ddp_coll_ops observer_ops = {
    .post = observer_post,
    .poll = observer_poll,
    .revoke = observer_revoke,
    .is_revoked = observer_is_revoked,
    .dead_rank = observer_dead_rank,
    .alloc = observer_alloc,
    .free = observer_free,
    .last_error = observer_last_error,
    .awaits = observer_awaits,
    .hint = observer_hint,
    .destroy = observer_destroy,
};

ddp_status ddp_coll_observer_create(struct ddp_coll *inner, bool is_hashing, struct ddp_coll **out)
{
    struct observer *observer = ddp_mem_array(inner->env->mem, 1, sizeof(*observer));
    ddp_status status;

    if (observer == NULL) {
        return DDP_E_NOMEM;
    }
    status = ddp_transfer_init(&observer->transfer, inner->device, inner->env->idle,
                               inner->env->clock, 0);
    if (status != DDP_OK) {
        ddp_mem_free(inner->env->mem, observer);
        return status;
    }
    observer->base = *inner;
    observer->base.ops = &observer_ops;
    observer->inner = inner;
    observer->is_hashing = is_hashing;
    *out = &observer->base;
    return DDP_OK;
}
