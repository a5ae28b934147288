/* NCCL under the work queue. Works agree on the control channel (if checked), are put on the
 * communication stream one after the other while the communicator is READY, and end in order when
 * their events have come. */
#include "ddpcore/nccl/state.h"

static void give_back(struct ddp_nccl_coll *coll, struct ddp_nccl_job *job)
{
    DDP_ASSERT(job->control.work != NULL);
    if (job->plan != NULL) {
        ddp_cache_give_back(&job->plan->cached);
        job->plan = NULL;
    }
    ddp_control_give_back(&coll->control, &job->control);
}

static ddp_status create_events(struct ddp_device *device, struct ddp_nccl_job *job)
{
    if (job->produced == NULL) {
        DDP_TRY(device->ops->event_create(device, &job->produced));
    }
    return job->done != NULL ? DDP_OK : device->ops->event_create(device, &job->done);
}

static ddp_status take_plan(struct ddp_nccl_coll *coll, struct ddp_nccl_job *job)
{
    const struct ddp_coll_args *args = &job->control.work->args;
    const struct ddp_cache_key key = ddp_cache_key_of(args, coll->queue.base.member);
    struct ddp_cached *cached;

    if (coll->plans.algorithm[args->kind] == NULL || ddp_queue_is_empty(args)) {
        return DDP_OK;
    }
    DDP_TRY(ddp_cache_take(&coll->plans, &key, &cached, &coll->queue.err));
    job->plan = (struct ddp_nccl_plan *)cached;
    return DDP_OK;
}

static ddp_status prepare_job(struct ddp_nccl_coll *coll, struct ddp_nccl_job *job)
{
    const struct ddp_coll_args *args = &job->control.work->args;
    struct ddp_device *device = coll->queue.base.device;

    DDP_ASSERT(job->plan == NULL);
    job->phase = DDP_NCCL_WAITING;
    job->is_asked = false;
    job->round = 0;
    job->is_after = false;
    job->alone_ns = 0;
    DDP_TRY(create_events(device, job));
    DDP_TRY(take_plan(coll, job));
    if (!ddp_queue_is_empty(args)) {
        DDP_TRY(device->ops->event_record(device, job->produced, args->producer));
    }
    return ddp_control_post(&coll->control, &job->control);
}

static ddp_status nccl_prepare(struct ddp_queue *queue, struct ddp_coll_work *work)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)queue;
    struct ddp_control_job *job;
    ddp_status status;

    DDP_TRY(ddp_control_take(&coll->control, work, &job));
    status = prepare_job(coll, (struct ddp_nccl_job *)job);
    if (status != DDP_OK) {
        give_back(coll, (struct ddp_nccl_job *)job);
        return status;
    }
    coll->agreeing = coll->agreeing != NULL ? coll->agreeing : work;
    coll->launching = coll->launching != NULL ? coll->launching : work;
    return DDP_OK;
}

static void nccl_release(struct ddp_queue *queue, struct ddp_coll_work *work)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)queue;

    DDP_ASSERT(queue->failed != DDP_OK || (coll->agreeing != work && coll->launching != work));
    if (coll->agreeing == work) {
        coll->agreeing = work->next;
    }
    if (coll->launching == work) {
        coll->launching = work->next;
    }
    give_back(coll, ddp_nccl_job_of(work));
}

static ddp_status agree(struct ddp_nccl_coll *coll)
{
    while (coll->agreeing != NULL) {
        DDP_TRY(ddp_control_poll(&coll->control, ddp_control_job_of(coll->agreeing)));
        coll->agreeing = coll->agreeing->next;
    }
    return DDP_OK;
}

/* Ask NCCL for errors. The fault point is passed once for each collective, so that the number of
 * hits does not depend on timing. */
static ddp_status ask(struct ddp_nccl_coll *coll, struct ddp_nccl_job *job)
{
    if (job->phase == DDP_NCCL_STARTED && !job->is_asked) {
        bool is_skipped;

        job->is_asked = true;
        if (ddp_queue_pass_point(&coll->queue, DDP_FAULT_POINT_NCCL_ASYNC_ERROR, job->control.work,
                                 &is_skipped) != DDP_OK) {
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

        DDP_ASSERT(job->phase != DDP_NCCL_RUNNING);
        if (!job->control.is_agreed) {
            return DDP_PENDING;
        }
        if (ddp_queue_is_empty(&coll->launching->args)) {
            job->phase = DDP_NCCL_RUNNING;
        } else {
            DDP_TRY(ask(coll, job));
            DDP_TRY(ddp_nccl_launch(coll, job));
        }
        DDP_ASSERT(job->phase == DDP_NCCL_RUNNING);
        coll->launching = coll->launching->next;
    }
    return DDP_OK;
}

static ddp_status nccl_run_ahead(struct ddp_queue *queue)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)queue;
    ddp_status status = agree(coll);

    if (status >= DDP_OK) {
        status = launch(coll);
    }
    return status >= DDP_OK ? ddp_nccl_comm_poll(coll->comm) : status;
}

/* A member that has left takes part in nothing more, and NCCL need not notice: the works behind
 * that wait for ever. In a checked group, all members have come to what NCCL runs. What that member
 * had a part in may still end here, for which it gets a while. */
static ddp_status await_rest(struct ddp_nccl_coll *coll, struct ddp_nccl_job *job)
{
    const struct ddp_env *env = coll->queue.base.env;

    if (coll->control.is_checked || !ddp_control_has_left(&coll->control)) {
        return DDP_PENDING;
    }
    if (job->alone_ns == 0) {
        job->alone_ns = ddp_clock_now_ns(env->clock);
    }
    return ddp_clock_now_ns(env->clock) - job->alone_ns < DDP_QUEUE_SUSPICION_NS ? DDP_PENDING
                                                                                 : DDP_E_PEER_DIED;
}

static ddp_status nccl_run_head(struct ddp_queue *queue, struct ddp_coll_work *head)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)queue;
    struct ddp_device *device = queue->base.device;
    struct ddp_nccl_job *job = ddp_nccl_job_of(head);
    ddp_status status = DDP_PENDING;

    if (job->phase == DDP_NCCL_RUNNING) {
        status =
            ddp_queue_is_empty(&head->args) ? DDP_OK : device->ops->event_query(device, job->done);
    }
    return status == DDP_PENDING ? await_rest(coll, job) : status;
}

/* Whether NCCL reported an error. */
static bool is_library_error(const struct ddp_nccl_coll *coll)
{
    return coll->comm != NULL && ddp_nccl_comm_error(coll->comm)[0] != '\0';
}

/* NCCL notices a dead peer by its closed sockets and reports a remote error; while members connect,
 * it reports an internal error (connection of a proxy) or a system error (socket). A member that
 * left in good order looks the same to it. If nobody turns out to be dead or to have left, the
 * remote error is NCCL's own: E_DEVICE. The control channel knows who died when it says so. */
static bool nccl_may_be_death(struct ddp_queue *queue, ddp_status error,
                              ddp_status *out_unexplained)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)queue;

    *out_unexplained = error;
    if (!is_library_error(coll) || (error != DDP_E_PEER_DIED && error != DDP_E_SYSTEM)) {
        return false;
    }
    if (ddp_control_has_left(&coll->control)) {
        *out_unexplained = DDP_E_PEER_DIED;
        return false;
    }
    *out_unexplained = error == DDP_E_PEER_DIED ? DDP_E_DEVICE : error;
    return true;
}

static void keep_text(struct ddp_nccl_coll *coll, ddp_status status)
{
    struct ddp_device *device = coll->queue.base.device;
    const char *text = "";

    if (coll->queue.err.text[0] != '\0') {
        return;
    }
    if (coll->comm != NULL) {
        text = ddp_nccl_comm_error(coll->comm);
    }
    if (text[0] == '\0' && status == DDP_E_DEVICE) {
        text = device->ops->last_error(device);
    }
    (void)ddp_err_set(&coll->queue.err, status, "%s", text);
}

static void nccl_stop(struct ddp_queue *queue, ddp_status status)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)queue;

    DDP_ASSERT(queue->failed == status);
    keep_text(coll, status);
    if (coll->comm != NULL) {
        ddp_nccl_comm_abort(coll->comm);
    }
}

/* NCCL and kernels may write to the buffers of started works until the communicator has ended, or
 * was stopped to be shrunk. */
static bool nccl_is_quiet(struct ddp_queue *queue)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)queue;
    enum ddp_nccl_comm_state state;

    if (coll->comm == NULL) {
        return true;
    }
    (void)ddp_nccl_comm_poll(coll->comm);
    if (queue->head == NULL || ddp_nccl_job_of(queue->head)->phase == DDP_NCCL_WAITING) {
        return true;
    }
    state = ddp_nccl_comm_state(coll->comm);
    return state == DDP_NCCL_COMM_GONE || state == DDP_NCCL_COMM_REVOKED ||
           state == DDP_NCCL_COMM_SHRUNK;
}

static ddp_status nccl_check(const struct ddp_queue *queue, const struct ddp_coll_args *args)
{
    (void)queue;
    return args->kind < DDP_COLL_POSTED_KIND_COUNT ? DDP_OK : DDP_E_UNSUPPORTED;
}

const struct ddp_engine ddp_nccl_engine = {
    .starts_at_post = true,
    .announces_errors = true,
    .check = nccl_check,
    .prepare = nccl_prepare,
    .release = nccl_release,
    .run_ahead = nccl_run_ahead,
    .run_head = nccl_run_head,
    .may_be_death = nccl_may_be_death,
    .waits_for_message = ddp_control_waits_for_message,
    .stop = nccl_stop,
    .is_quiet = nccl_is_quiet,
    .destroy = ddp_nccl_coll_destroy,
};
