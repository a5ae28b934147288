/* The queue of a group over NCCL. Works agree on the control channel (if checked), are put on the
 * communication stream one after the other while the communicator is READY, and end in order when
 * their events have come. Whatever fails ends the whole group. */
#include <string.h>

#include "ddpcore/nccl/state.h"

/* NCCL tells of a dead peer by its sockets, which an ending process closes first; the process is
 * reported dead last, after the driver has torn its GPU context down. So long an error that may be
 * a death waits for one, before the group is told that this rank gave up. */
#define SUSPICION_NS DDP_NS_PER_S

bool ddp_nccl_coll_is_gone(const struct ddp_nccl_coll *coll)
{
    return coll->comm == NULL || ddp_nccl_comm_state(coll->comm) == DDP_NCCL_COMM_GONE;
}

/* Whether no kernel of NCCL's can be running. */
static bool is_quiet(const struct ddp_nccl_coll *coll)
{
    enum ddp_nccl_comm_state state;

    if (ddp_nccl_coll_is_gone(coll)) {
        return true;
    }
    state = ddp_nccl_comm_state(coll->comm);
    return state == DDP_NCCL_COMM_REVOKED || state == DDP_NCCL_COMM_SHRUNK;
}

static void end_head(struct ddp_nccl_coll *coll, ddp_status status)
{
    struct ddp_coll_work *work = coll->head;
    struct ddp_nccl_job *job = ddp_nccl_job_of(work);

    coll->head = work->next;
    if (coll->head == NULL) {
        coll->tail = NULL;
    }
    if (job->plan != NULL) {
        job->plan->users--;
        job->plan = NULL;
    }
    job->work = NULL;
    /* After a failure the control channel may still hold the job's agreement; but then no job is
     * taken any more. */
    job->next_free = coll->free_jobs;
    coll->free_jobs = job;
    work->next = NULL;
    work->engine = NULL;
    work->status = status;
}

/* NCCL and kernels may write to the buffers of started works until the communicator has ended. */
void ddp_nccl_coll_end_works(struct ddp_nccl_coll *coll)
{
    bool is_started = coll->head != NULL && ddp_nccl_job_of(coll->head)->phase >= DDP_NCCL_STARTED;

    if (coll->comm != NULL) {
        (void)ddp_nccl_comm_poll(coll->comm);
    }
    if (is_started && !is_quiet(coll)) {
        return;
    }
    while (coll->head != NULL) {
        end_head(coll, coll->failed);
    }
    coll->agreeing = NULL;
    coll->launching = NULL;
}

static void keep_text(struct ddp_nccl_coll *coll, ddp_status status)
{
    const char *text = "";

    if (coll->err.text[0] != '\0') {
        return;
    }
    if (coll->comm != NULL) {
        text = ddp_nccl_comm_error(coll->comm);
    }
    if (text[0] == '\0' && status == DDP_E_DEVICE) {
        text = coll->device->ops->last_error(coll->device);
    }
    (void)ddp_err_set(&coll->err, status, "%s", text);
}

static void tell(struct ddp_nccl_coll *coll, ddp_status status)
{
    ddp_control_tell(&coll->control, status, coll->head != NULL ? coll->head->seq : 0);
}

void ddp_nccl_coll_fail(struct ddp_nccl_coll *coll, ddp_status status)
{
    if (coll->failed != DDP_OK) {
        return;
    }
    coll->failed = status;
    keep_text(coll, status);
    if (coll->comm != NULL) {
        ddp_nccl_comm_abort(coll->comm);
    }
    ddp_nccl_coll_end_works(coll);
}

static ddp_status agree(struct ddp_nccl_coll *coll)
{
    while (coll->agreeing != NULL) {
        struct ddp_nccl_job *job = ddp_nccl_job_of(coll->agreeing);

        if (job->phase == DDP_NCCL_AGREEING) {
            DDP_TRY(coll->control.coll->ops->poll(coll->control.coll, &job->agreement));
            job->phase = DDP_NCCL_WAITING;
            /* Whose message came last says nothing of the wait for NCCL. */
            ddp_recorder_wait_peer(coll->base.env->recorder, -1);
        }
        coll->agreeing = coll->agreeing->next;
    }
    return DDP_OK;
}

/* Ask NCCL how it is. The fault point is passed once for each collective, so that how often does
 * not depend on timing. */
static ddp_status ask(struct ddp_nccl_coll *coll)
{
    struct ddp_nccl_job *job = NULL;

    if (coll->launching != NULL) {
        job = ddp_nccl_job_of(coll->launching);
    }
    if (job != NULL && job->phase == DDP_NCCL_STARTED && !job->is_asked) {
        struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;

        job->is_asked = true;
        context.seq = job->work->seq;
        context.bucket =
            job->work->args.role == DDP_ROLE_BUCKET ? (int32_t)job->work->args.index : -1;
        context.device = coll->device;
        context.stream = coll->stream;
        if (ddp_fault_point(coll->base.env->faults, DDP_FAULT_POINT_NCCL_ASYNC_ERROR, &context) ==
            DDP_FAULT_FAIL) {
            return ddp_nccl_comm_fail(coll->comm, DDP_NCCL_REMOTE_ERROR, "injected");
        }
    }
    return ddp_nccl_comm_poll(coll->comm);
}

/* Put agreed works on the stream, in order. */
static ddp_status launch(struct ddp_nccl_coll *coll)
{
    while (coll->launching != NULL) {
        struct ddp_nccl_job *job = ddp_nccl_job_of(coll->launching);

        if (job->phase == DDP_NCCL_AGREEING) {
            return DDP_PENDING;
        }
        if (ddp_nccl_is_empty(&job->work->args)) {
            job->phase = DDP_NCCL_RUNNING;
        } else {
            DDP_TRY(ask(coll));
            DDP_TRY(ddp_nccl_launch(coll, job));
        }
        coll->launching = coll->launching->next;
    }
    return DDP_OK;
}

static ddp_status retire(struct ddp_nccl_coll *coll)
{
    struct ddp_device *device = coll->device;

    while (coll->head != NULL) {
        struct ddp_nccl_job *job = ddp_nccl_job_of(coll->head);

        if (job->phase != DDP_NCCL_RUNNING) {
            return DDP_PENDING;
        }
        if (!ddp_nccl_is_empty(&job->work->args)) {
            DDP_TRY(device->ops->event_query(device, job->done));
        }
        end_head(coll, DDP_OK);
    }
    return DDP_OK;
}

/* What has ended well has, whatever else went wrong since. */
static ddp_status move(struct ddp_nccl_coll *coll)
{
    ddp_status status;
    ddp_status retired;

    if (ddp_control_is_revoked(&coll->control)) {
        /* Perhaps by a rank that gave up before it could see who had died. */
        return ddp_control_dead_rank(&coll->control) >= 0 && coll->suspected_ns != 0
                   ? DDP_E_PEER_DIED
                   : DDP_E_REVOKED;
    }
    status = agree(coll);
    if (status >= 0) {
        status = launch(coll);
    }
    if (status >= 0) {
        status = ddp_nccl_comm_poll(coll->comm);
    }
    retired = retire(coll);
    if (status < 0 || retired != DDP_PENDING) {
        return status < 0 ? status : retired;
    }
    return ddp_control_look_for_death(&coll->control);
}

/* NCCL said so, not the control channel, where members also leave in good order. */
static bool is_library_error(const struct ddp_nccl_coll *coll)
{
    return coll->comm != NULL && ddp_nccl_comm_error(coll->comm)[0] != '\0';
}

/* Besides a remote error: a call that connects members learns of a connection that its proxy lost
 * as an internal error, and of a socket as a system error. */
static bool may_be_death(const struct ddp_nccl_coll *coll, ddp_status status)
{
    return status == DDP_E_PEER_DIED || (status == DDP_E_SYSTEM && is_library_error(coll));
}

ddp_status ddp_nccl_coll_explain(struct ddp_nccl_coll *coll, ddp_status status)
{
    uint64_t now_ns = ddp_clock_now_ns(coll->base.env->clock);

    if (!may_be_death(coll, status)) {
        return status;
    }
    if (ddp_control_dead_rank(&coll->control) >= 0) {
        return DDP_E_PEER_DIED;
    }
    if (coll->suspected_ns == 0) {
        coll->suspected_ns = now_ns;
    }
    if (now_ns - coll->suspected_ns < SUSPICION_NS) {
        return DDP_PENDING;
    }
    /* The library lost a member that nobody else misses. */
    return status == DDP_E_PEER_DIED && is_library_error(coll) ? DDP_E_DEVICE : status;
}

void ddp_nccl_coll_drive(struct ddp_nccl_coll *coll)
{
    ddp_status status;

    if (coll->failed != DDP_OK) {
        ddp_nccl_coll_end_works(coll);
        return;
    }
    status = move(coll);
    if (status < 0) {
        status = ddp_nccl_coll_explain(coll, status);
    }
    if (status < 0) {
        tell(coll, status);
        ddp_nccl_coll_fail(coll, status);
    }
}

static bool is_valid(const struct ddp_nccl_coll *coll, const struct ddp_coll_args *args)
{
    return (unsigned)args->kind < DDP_COLL_KIND_COUNT && (unsigned)args->dtype < DDP_DTYPE_COUNT &&
           (unsigned)args->redop < DDP_REDOP_COUNT && args->root < coll->base.member_count;
}

static ddp_status take_job(struct ddp_nccl_coll *coll, struct ddp_nccl_job **out)
{
    struct ddp_device *device = coll->device;
    struct ddp_nccl_job *job = coll->free_jobs;

    if (job != NULL) {
        coll->free_jobs = job->next_free;
    } else {
        job = ddp_mem_array(coll->base.env->mem, 1, sizeof(*job));
        if (job == NULL) {
            return DDP_E_NOMEM;
        }
        job->next_owned = coll->jobs;
        coll->jobs = job;
    }
    job->next_free = NULL;
    *out = job;
    if (job->produced == NULL) {
        DDP_TRY(device->ops->event_create(device, &job->produced));
    }
    return job->done != NULL ? DDP_OK : device->ops->event_create(device, &job->done);
}

static ddp_status prepare(struct ddp_nccl_coll *coll, struct ddp_nccl_job *job,
                          struct ddp_coll_work *work)
{
    struct ddp_device *device = coll->device;
    bool is_empty = ddp_nccl_is_empty(&work->args);

    job->work = work;
    job->is_asked = false;
    job->plan = NULL;
    job->round = 0;
    job->is_after = false;
    job->phase = coll->is_checked ? DDP_NCCL_AGREEING : DDP_NCCL_WAITING;
    if (coll->plans.algorithm != NULL && work->args.kind == DDP_COLL_ALL_REDUCE && !is_empty) {
        DDP_TRY(ddp_nccl_plan_cache_take(&coll->plans, work->args.dtype, work->args.elem_count,
                                         work->args.input == work->args.output, &job->plan,
                                         &coll->err));
    }
    if (!is_empty) {
        DDP_TRY(device->ops->event_record(device, job->produced, work->args.producer));
    }
    if (!coll->is_checked) {
        return DDP_OK;
    }
    return ddp_control_agree(&coll->control, &job->agreement, work);
}

static ddp_status enqueue(struct ddp_nccl_coll *coll, struct ddp_coll_work *work)
{
    struct ddp_nccl_job *job = NULL;
    ddp_status status = take_job(coll, &job);

    if (status == DDP_OK) {
        status = prepare(coll, job, work);
    }
    if (status != DDP_OK) {
        if (job != NULL) {
            if (job->plan != NULL) {
                job->plan->users--;
                job->plan = NULL;
            }
            job->next_free = coll->free_jobs;
            coll->free_jobs = job;
        }
        return status;
    }
    work->engine = job;
    if (coll->tail != NULL) {
        coll->tail->next = work;
    } else {
        coll->head = work;
    }
    coll->tail = work;
    coll->agreeing = coll->agreeing != NULL ? coll->agreeing : work;
    coll->launching = coll->launching != NULL ? coll->launching : work;
    return DDP_OK;
}

static ddp_status nccl_post(struct ddp_coll *base, struct ddp_coll_work *work)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)base;
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    enum ddp_fault_action action;

    work->next = NULL;
    work->engine = NULL;
    context.bucket = work->args.role == DDP_ROLE_BUCKET ? (int32_t)work->args.index : -1;
    context.seq = work->seq;
    context.device = coll->device;
    context.stream = coll->stream;
    action = ddp_fault_point(base->env->faults, DDP_FAULT_POINT_COLLECTIVE_ENQUEUE, &context);
    if (action == DDP_FAULT_SKIP) {
        work->status = DDP_OK;
        return DDP_OK;
    }
    work->status = coll->failed;
    if (work->status == DDP_OK && action == DDP_FAULT_FAIL) {
        work->status = DDP_E_INJECTED;
    }
    if (work->status == DDP_OK && !is_valid(coll, &work->args)) {
        work->status = DDP_E_INVALID;
    }
    if (work->status == DDP_OK) {
        work->status = enqueue(coll, work);
        if (work->status == DDP_E_DEVICE) {
            tell(coll, DDP_E_DEVICE);
            ddp_nccl_coll_fail(coll, DDP_E_DEVICE);
        }
    }
    if (work->status != DDP_OK) {
        return work->status;
    }
    work->status = DDP_PENDING;
    ddp_nccl_coll_drive(coll);
    return DDP_OK;
}

static ddp_status nccl_poll(struct ddp_coll *base, struct ddp_coll_work *work)
{
    if (work->status == DDP_PENDING) {
        ddp_nccl_coll_drive((struct ddp_nccl_coll *)base);
    }
    return work->status;
}

static void nccl_revoke(struct ddp_coll *base, const struct ddp_revocation *revocation)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)base;

    coll->control.coll->ops->revoke(coll->control.coll, revocation);
}

static bool nccl_is_revoked(struct ddp_coll *base, struct ddp_revocation *out)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)base;

    return coll->control.coll->ops->is_revoked(coll->control.coll, out);
}

static int32_t nccl_dead_rank(struct ddp_coll *base)
{
    return ddp_control_dead_rank(&((struct ddp_nccl_coll *)base)->control);
}

static void *nccl_alloc(struct ddp_coll *base, size_t size_bytes, enum ddp_space space)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)base;
    void *data = NULL;

    return coll->device->ops->alloc(coll->device, size_bytes, space, &data) == DDP_OK ? data : NULL;
}

static void nccl_free(struct ddp_coll *base, enum ddp_space space, void *data)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)base;

    coll->device->ops->free(coll->device, space, data);
}

static const char *nccl_last_error(struct ddp_coll *base)
{
    return ((struct ddp_nccl_coll *)base)->err.text;
}

/* What NCCL and the device do rings no bell: with neither doorbell nor descriptor, idling looks
 * again soon (idle.c). Only a wait for members' agreement can sleep on the control channel. */
static void nccl_hint(struct ddp_coll *base, struct ddp_idle_hint *hint)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)base;

    hint->doorbell = NULL;
    hint->fd = -1;
    if (coll->failed == DDP_OK && coll->suspected_ns == 0 &&
        (coll->head == NULL || ddp_nccl_job_of(coll->head)->phase == DDP_NCCL_AGREEING)) {
        coll->control.coll->ops->hint(coll->control.coll, hint);
    }
}

const struct ddp_coll_ops ddp_nccl_coll_ops = {
    .name = "nccl",
    .post = nccl_post,
    .poll = nccl_poll,
    .revoke = nccl_revoke,
    .is_revoked = nccl_is_revoked,
    .dead_rank = nccl_dead_rank,
    .alloc = nccl_alloc,
    .free = nccl_free,
    .last_error = nccl_last_error,
    .hint = nccl_hint,
    .destroy = ddp_nccl_coll_destroy,
};
