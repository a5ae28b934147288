/* A decorator of collectives that shows each one to ddprove, and lets it change, leave out or
 * double it. What the core posts is handed on as a work of the decorator's own, so that a
 * collective that is left out takes no number, as if the core had not come here. */
#include <string.h>

#include "harness/guest/ddpcore/ddprove_ddpcore.h"

/* One collective under way. */
struct watched_job {
    struct watched_job *next;
    struct ddp_coll_work *outer; /* the core's */
    struct ddp_coll_work work, twice;
    struct ddprove_guest_call call;
    bool is_shown; /* as waited for */
};

struct watched {
    struct ddp_coll base;
    struct ddp_coll *inner;
    uint32_t comm;
    uint64_t seq;             /* of the last one that was handed on */
    struct watched_job *jobs; /* in the order of their posts */
    struct watched_job *spare;
    bool is_waiting; /* the next poll is one of ddp_wait */
};

static const uint8_t dtypes[DDP_DTYPE_COUNT] = {
    [DDP_DTYPE_F32] = DDPROVE_GUEST_F32,   [DDP_DTYPE_F16] = DDPROVE_GUEST_F16,
    [DDP_DTYPE_BF16] = DDPROVE_GUEST_BF16, [DDP_DTYPE_F64] = DDPROVE_GUEST_F64,
    [DDP_DTYPE_I32] = DDPROVE_GUEST_I32,   [DDP_DTYPE_I64] = DDPROVE_GUEST_I64,
    [DDP_DTYPE_U8] = DDPROVE_GUEST_U8};
static const uint8_t redops[DDP_REDOP_COUNT] = {[DDP_REDOP_SUM] = DDPROVE_GUEST_SUM,
                                                [DDP_REDOP_MAX] = DDPROVE_GUEST_MAX,
                                                [DDP_REDOP_MIN] = DDPROVE_GUEST_MIN,
                                                [DDP_REDOP_PROD] = DDPROVE_GUEST_PROD};
static const uint8_t kinds[DDP_COLL_KIND_COUNT] = {
    [DDP_COLL_ALL_REDUCE] = DDPROVE_GUEST_ALL_REDUCE,
    [DDP_COLL_BROADCAST] = DDPROVE_GUEST_BROADCAST,
    [DDP_COLL_ALL_GATHER] = DDPROVE_GUEST_ALL_GATHER,
    [DDP_COLL_BARRIER] = DDPROVE_GUEST_BARRIER,
    [DDP_COLL_REDUCE_SCATTER] = DDPROVE_GUEST_REDUCE_SCATTER,
    [DDP_COLL_REDUCE] = DDPROVE_GUEST_REDUCE,
    [DDP_COLL_ALL_TO_ALL] = DDPROVE_GUEST_ALL_TO_ALL};

/* The number of the value in a table, or what is there now if the core knows no such thing. */
static uint32_t found(const uint8_t *table, uint32_t count, uint32_t value, uint32_t now)
{
    for (uint32_t i = 0; i < count; i++) {
        if (table[i] == value) {
            return i;
        }
    }
    return now;
}

static struct watched *watched_of(struct ddp_coll *coll)
{
    return (struct watched *)coll;
}

/* What this member puts in; NULL if it puts in nothing, or the host cannot read it. */
static const void *input_of(const struct watched *watched, const struct ddp_coll_args *args)
{
    const size_t size_bytes = args->elem_count * ddp_dtype_size_bytes(args->dtype);

    if (!watched->base.device->ops->is_host_memory || args->kind == DDP_COLL_BARRIER ||
        (args->kind == DDP_COLL_BROADCAST && watched->base.member != args->root)) {
        return NULL;
    }
    if (args->kind == DDP_COLL_ALL_GATHER && args->input == args->output) {
        return (const char *)args->output + watched->base.member * size_bytes;
    }
    return args->input;
}

static void *output_of(const struct watched *watched, const struct ddp_coll_args *args)
{
    return watched->base.device->ops->is_host_memory && args->kind != DDP_COLL_BARRIER &&
                   ddp_coll_output_blocks(args->kind, watched->base.member_count,
                                          watched->base.member == args->root) > 0
               ? args->output
               : NULL;
}

static struct ddprove_guest_call call_of(const struct watched *watched,
                                         const struct ddp_coll_args *args)
{
    const bool is_bucket = args->role == DDP_ROLE_BUCKET;

    return (struct ddprove_guest_call){
        .size_bytes = sizeof(struct ddprove_guest_call),
        .comm = watched->comm,
        .kind = kinds[args->kind],
        .dtype = dtypes[args->dtype],
        .redop = ddp_coll_kind_is_sum(args->kind) ? redops[args->redop] : DDPROVE_GUEST_NO_REDOP,
        .root = ddp_coll_kind_has_root(args->kind) ? args->root : 0,
        .elem_count = args->kind == DDP_COLL_BARRIER ? 0 : args->elem_count,
        .in = input_of(watched, args),
        .out = output_of(watched, args),
        .out_count =
            args->elem_count * ddp_coll_output_blocks(args->kind, watched->base.member_count,
                                                      watched->base.member == args->root),
        .bucket = is_bucket ? args->index + 1 : 0,
        .name = is_bucket ? NULL : ddp_coll_role_name(args->role)};
}

/* What a fault has made of the call. It never asks for more memory than the call has. */
static void take_over(const struct watched *watched, struct watched_job *job, const void *input)
{
    struct ddp_coll_args *args = &job->work.args;

    if (args->kind == DDP_COLL_BARRIER) {
        return;
    }
    args->dtype = (enum ddp_dtype)found(dtypes, DDP_DTYPE_COUNT, job->call.dtype, args->dtype);
    args->root = job->call.root % watched->base.member_count;
    args->elem_count = (size_t)job->call.elem_count;
    if (ddp_coll_kind_is_sum(args->kind)) {
        args->redop = (enum ddp_redop)found(redops, DDP_REDOP_COUNT, job->call.redop, args->redop);
    }
    if (job->call.in != input) {
        args->input = job->call.in;
    }
}

static void end_job(struct watched *watched, struct watched_job *job)
{
    struct watched_job **link = &watched->jobs;

    while (*link != job) {
        link = &(*link)->next;
    }
    *link = job->next;
    job->next = watched->spare;
    watched->spare = job;
}

static ddp_status hand_on(struct watched *watched, struct ddp_coll_work *work)
{
    work->seq = ++watched->seq;
    work->status = DDP_PENDING;
    return watched->inner->ops->post(watched->inner, work);
}

static ddp_status begin_job(struct watched *watched, struct ddp_coll_work *outer,
                            struct watched_job **out)
{
    struct watched_job *job = watched->spare;
    struct watched_job **link = &watched->jobs;

    if (job != NULL) {
        watched->spare = job->next;
        memset(job, 0, sizeof(*job));
    } else {
        job = ddp_mem_array(watched->base.env->mem, 1, sizeof(*job));
        if (job == NULL) {
            return DDP_E_NOMEM;
        }
    }
    job->outer = outer;
    job->work.args = outer->args;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = job;
    *out = job;
    return DDP_OK;
}

static ddp_status post_job(struct watched *watched, struct watched_job *job, int times)
{
    if (times > 1) {
        job->twice.args = job->work.args;
        DDP_TRY(hand_on(watched, &job->twice));
    }
    return hand_on(watched, &job->work);
}

static ddp_status watched_post(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    struct watched *watched = watched_of(coll);
    struct watched_job *job;
    const void *input;
    ddp_status status = begin_job(watched, work, &job);
    int times;

    work->status = status;
    if (status != DDP_OK) {
        return status;
    }
    job->call = call_of(watched, &work->args);
    input = job->call.in;
    times = ddprove_guest_call_post(&job->call);
    if (times > 0) {
        take_over(watched, job, input);
        status = post_job(watched, job, times);
        work->status = status < DDP_OK ? status : DDP_PENDING;
    }
    if (times <= 0 || status < DDP_OK) {
        ddprove_guest_call_failed(&job->call);
        end_job(watched, job);
    }
    return status;
}

static struct watched_job *job_of(const struct watched *watched, const struct ddp_coll_work *work)
{
    struct watched_job *job = watched->jobs;

    while (job != NULL && job->outer != work) {
        job = job->next;
    }
    return job;
}

static void show_wait(struct watched_job *job, bool is_waiting)
{
    if (job->is_shown != is_waiting) {
        job->is_shown = is_waiting;
        if (is_waiting) {
            ddprove_guest_call_wait_begin(&job->call);
        } else {
            ddprove_guest_call_wait_end(&job->call);
        }
    }
}

static ddp_status watched_poll(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    struct watched *watched = watched_of(coll);
    struct watched_job *job = job_of(watched, work);
    const bool is_waiting = watched->is_waiting;

    watched->is_waiting = false;
    if (job == NULL) {
        return work->status; /* it has ended before, or was left out */
    }
    work->status = watched->inner->ops->poll(watched->inner, &job->work);
    if (work->status == DDP_PENDING) {
        if (is_waiting) {
            show_wait(job, true);
        }
        return DDP_PENDING;
    }
    show_wait(job, false);
    if (work->status == DDP_OK) {
        ddprove_guest_call_done(&job->call);
    } else {
        ddprove_guest_call_failed(&job->call);
    }
    end_job(watched, job);
    return work->status;
}

static void watched_revoke(struct ddp_coll *coll, const struct ddp_revocation *revocation)
{
    struct watched *watched = watched_of(coll);

    /* Who gives up waits no longer. */
    for (struct watched_job *job = watched->jobs; job != NULL; job = job->next) {
        show_wait(job, false);
    }
    watched->inner->ops->revoke(watched->inner, revocation);
}

static bool watched_is_revoked(struct ddp_coll *coll, struct ddp_revocation *out)
{
    struct ddp_coll *inner = watched_of(coll)->inner;

    return inner->ops->is_revoked(inner, out);
}

static int32_t watched_dead_rank(struct ddp_coll *coll)
{
    struct ddp_coll *inner = watched_of(coll)->inner;

    return inner->ops->dead_rank(inner);
}

static void *watched_alloc(struct ddp_coll *coll, size_t size_bytes, enum ddp_space space)
{
    struct ddp_coll *inner = watched_of(coll)->inner;

    return inner->ops->alloc(inner, size_bytes, space);
}

static void watched_free(struct ddp_coll *coll, enum ddp_space space, void *data)
{
    struct ddp_coll *inner = watched_of(coll)->inner;

    inner->ops->free(inner, space, data);
}

static const char *watched_last_error(struct ddp_coll *coll)
{
    struct ddp_coll *inner = watched_of(coll)->inner;

    return inner->ops->last_error(inner);
}

static void watched_hint(struct ddp_coll *coll, struct ddp_idle_hint *hint)
{
    struct watched *watched = watched_of(coll);

    watched->is_waiting = true;
    watched->inner->ops->hint(watched->inner, hint);
}

static void free_jobs(struct ddp_mem *mem, struct watched_job *job)
{
    while (job != NULL) {
        struct watched_job *next = job->next;

        ddp_mem_free(mem, job);
        job = next;
    }
}

static void watched_destroy(struct ddp_coll *coll)
{
    struct watched *watched = watched_of(coll);
    struct ddp_mem *mem = coll->env->mem;

    watched->inner->ops->destroy(watched->inner);
    ddprove_guest_comm_free(watched->comm);
    for (struct watched_job *job = watched->jobs; job != NULL; job = job->next) {
        show_wait(job, false);
        ddprove_guest_call_failed(&job->call);
    }
    free_jobs(mem, watched->jobs);
    free_jobs(mem, watched->spare);
    ddp_mem_free(mem, watched);
}

static const struct ddp_coll_ops watched_ops = {
    .post = watched_post,
    .poll = watched_poll,
    .revoke = watched_revoke,
    .is_revoked = watched_is_revoked,
    .dead_rank = watched_dead_rank,
    .alloc = watched_alloc,
    .free = watched_free,
    .last_error = watched_last_error,
    .hint = watched_hint,
    .destroy = watched_destroy,
};

ddp_status ddprove_core_watch(void *context, const char *group, struct ddp_coll *inner,
                              struct ddp_coll **out)
{
    struct watched *watched = ddp_mem_array(inner->env->mem, 1, sizeof(*watched));

    (void)context;
    if (watched == NULL) {
        return DDP_E_NOMEM;
    }
    (void)ddprove_guest_attach((int)inner->env->rank, (int)inner->env->world_size);
    watched->base = *inner;
    watched->base.ops = &watched_ops;
    watched->inner = inner;
    watched->comm =
        ddprove_guest_comm_create(inner->comm, inner->member, inner->member_count, group);
    *out = &watched->base;
    return DDP_OK;
}
