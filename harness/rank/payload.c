/* Payload capture: a collective decorator that copies the buckets of one step into files, as they
 * were posted and as they came out. A file that cannot be written fails the collective: the run is
 * repeated for these files only. */
#include <inttypes.h>

#include "harness/rank/session.h"

struct payload {
    struct ddp_coll base; /* first: the collective's pointer is the decorator's */
    struct ddp_coll *inner;
    const char *run_dir;
    uint32_t step;
    struct ddp_transfer transfer;
    uint64_t *open_seq; /* [open_capacity] captured works that are not complete; 0 = free */
    size_t open_capacity;
};

static struct payload *payload_of(struct ddp_coll *coll)
{
    return (struct payload *)coll;
}

static ddp_status write_payload(struct payload *payload, const struct ddp_coll_args *args,
                                const void *data, const char *suffix)
{
    struct ddp_env *env = payload->base.env;
    size_t size_bytes = args->elem_count * ddp_dtype_size_bytes(args->dtype);
    struct ddp_text path;
    ddp_status status = DDP_E_NOMEM;

    DDP_TRY(ddp_transfer_view(&payload->transfer, data, size_bytes, &data));
    ddp_text_init(&path, env->mem);
    ddp_text_add(&path, "%s/payload/r%" PRIu32 ".step%" PRIu32 ".bucket%" PRIu32 ".%s.%s",
                 payload->run_dir, env->rank, payload->step, args->index, suffix,
                 ddp_dtype_name(args->dtype));
    if (!path.is_failed) {
        status = harness_file_write(env, ddp_text_str(&path), data, size_bytes, NULL);
    }
    ddp_text_fini(&path);
    return status;
}

/* A place for one more open sequence number. */
static uint64_t *open_slot(struct payload *payload)
{
    struct ddp_mem *mem = payload->base.env->mem;
    size_t capacity = payload->open_capacity * 2;
    uint64_t *grown;

    for (size_t i = 0; i < payload->open_capacity; i++) {
        if (payload->open_seq[i] == 0) {
            return &payload->open_seq[i];
        }
    }
    grown = ddp_mem_array(mem, capacity, sizeof grown[0]);
    if (grown == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < payload->open_capacity; i++) {
        grown[i] = payload->open_seq[i];
    }
    ddp_mem_free(mem, payload->open_seq);
    payload->open_seq = grown;
    payload->open_capacity = capacity;
    return &grown[capacity / 2];
}

static ddp_status payload_post(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    struct payload *payload = payload_of(coll);
    const struct ddp_recorder *recorder = coll->env->recorder;
    ddp_status status;

    if (work->args.role == DDP_ROLE_BUCKET && recorder != NULL && recorder->step == payload->step) {
        uint64_t *slot = open_slot(payload);

        status = slot == NULL ? DDP_E_NOMEM
                              : write_payload(payload, &work->args, work->args.input, "in");
        if (status != DDP_OK) {
            work->status = status;
            return status;
        }
        *slot = work->seq;
    }
    return payload->inner->ops->post(payload->inner, work);
}

static ddp_status payload_poll(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    struct payload *payload = payload_of(coll);
    ddp_status status = payload->inner->ops->poll(payload->inner, work);

    if (status == DDP_PENDING || work->args.role != DDP_ROLE_BUCKET) {
        return status;
    }
    for (size_t i = 0; i < payload->open_capacity; i++) {
        if (payload->open_seq[i] == work->seq) {
            payload->open_seq[i] = 0;
            return status == DDP_OK ? write_payload(payload, &work->args, work->args.output, "out")
                                    : status;
        }
    }
    return status;
}

static void payload_revoke(struct ddp_coll *coll, const struct ddp_revocation *revocation)
{
    struct ddp_coll *inner = payload_of(coll)->inner;

    inner->ops->revoke(inner, revocation);
}

static bool payload_is_revoked(struct ddp_coll *coll, struct ddp_revocation *out)
{
    struct ddp_coll *inner = payload_of(coll)->inner;

    return inner->ops->is_revoked(inner, out);
}

static int32_t payload_dead_rank(struct ddp_coll *coll)
{
    struct ddp_coll *inner = payload_of(coll)->inner;

    return inner->ops->dead_rank(inner);
}

static void *payload_alloc(struct ddp_coll *coll, size_t size_bytes, enum ddp_space space)
{
    struct ddp_coll *inner = payload_of(coll)->inner;

    return inner->ops->alloc(inner, size_bytes, space);
}

static void payload_free(struct ddp_coll *coll, enum ddp_space space, void *data)
{
    struct ddp_coll *inner = payload_of(coll)->inner;

    inner->ops->free(inner, space, data);
}

static const char *payload_last_error(struct ddp_coll *coll)
{
    struct ddp_coll *inner = payload_of(coll)->inner;

    return inner->ops->last_error(inner);
}

static void payload_hint(struct ddp_coll *coll, struct ddp_idle_hint *hint)
{
    struct ddp_coll *inner = payload_of(coll)->inner;

    inner->ops->hint(inner, hint);
}

static void payload_destroy(struct ddp_coll *coll)
{
    struct payload *payload = payload_of(coll);
    struct ddp_mem *mem = coll->env->mem;

    ddp_transfer_fini(&payload->transfer);
    payload->inner->ops->destroy(payload->inner);
    ddp_mem_free(mem, payload->open_seq);
    ddp_mem_free(mem, payload);
}

static const struct ddp_coll_ops payload_ops = {
    .post = payload_post,
    .poll = payload_poll,
    .revoke = payload_revoke,
    .is_revoked = payload_is_revoked,
    .dead_rank = payload_dead_rank,
    .alloc = payload_alloc,
    .free = payload_free,
    .last_error = payload_last_error,
    .hint = payload_hint,
    .destroy = payload_destroy,
};

ddp_status harness_payload_create(struct ddp_coll *inner, const char *run_dir, uint32_t step,
                                  struct ddp_coll **out)
{
    struct ddp_mem *mem = inner->env->mem;
    struct payload *payload = ddp_mem_array(mem, 1, sizeof *payload);
    ddp_status status;

    if (payload == NULL) {
        return DDP_E_NOMEM;
    }
    status = ddp_transfer_init(&payload->transfer, inner->device, inner->env->idle,
                               inner->env->clock, 0);
    if (status != DDP_OK) {
        ddp_mem_free(mem, payload);
        return status;
    }
    payload->base = *inner;
    payload->base.ops = &payload_ops;
    payload->inner = inner;
    payload->run_dir = run_dir;
    payload->step = step;
    payload->open_capacity = 8;
    payload->open_seq = ddp_mem_array(mem, payload->open_capacity, sizeof payload->open_seq[0]);
    if (payload->open_seq == NULL) {
        ddp_transfer_fini(&payload->transfer);
        ddp_mem_free(mem, payload);
        return DDP_E_NOMEM;
    }
    *out = &payload->base;
    return DDP_OK;
}
