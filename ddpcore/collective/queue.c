/* See the header. */
#include "ddpcore/collective/queue.h"

static bool is_revoked(const struct ddp_queue *queue)
{
    struct ddp_revocation revocation;

    return queue->transport->ops->is_revoked(queue->transport, &revocation);
}

static int32_t dead_rank(const struct ddp_queue *queue)
{
    int32_t member = queue->transport->ops->dead_peer(queue->transport);

    DDP_ASSERT(member < (int32_t)queue->base.member_count);
    return member < 0 ? -1 : (int32_t)queue->member_rank[member];
}

/* A member died, but perhaps not one that this member waits for directly. Living members may still
 * pass on what the dead one had sent, so the wait goes on for the transport's grace. */
static ddp_status wait_after_death(struct ddp_queue *queue)
{
    struct ddp_clock *clock = queue->base.env->clock;

    if (queue->death_known_ns == 0) {
        queue->death_known_ns = ddp_clock_now_ns(clock);
        return DDP_PENDING;
    }
    return ddp_clock_now_ns(clock) - queue->death_known_ns >= DDP_TRANSPORT_DEATH_GRACE_NS
               ? DDP_E_PEER_DIED
               : DDP_PENDING;
}

static ddp_status check_deaths(struct ddp_queue *queue)
{
    return queue->transport->ops->dead_peer(queue->transport) < 0 ? DDP_PENDING
                                                                  : wait_after_death(queue);
}

ddp_status ddp_queue_check_members(struct ddp_queue *queue)
{
    return is_revoked(queue) ? DDP_E_REVOKED : check_deaths(queue);
}

ddp_status ddp_queue_explain(struct ddp_queue *queue, ddp_status error)
{
    ddp_status unexplained = error;
    uint64_t now_ns;

    DDP_ASSERT(error < DDP_OK);
    if (queue->engine->may_be_death == NULL) {
        return error;
    }
    if (!queue->engine->may_be_death(queue, error, &unexplained)) {
        DDP_ASSERT(unexplained < DDP_OK);
        return unexplained;
    }
    DDP_ASSERT(unexplained < DDP_OK);
    if (dead_rank(queue) >= 0) {
        return DDP_E_PEER_DIED;
    }
    now_ns = ddp_clock_now_ns(queue->base.env->clock);
    if (queue->suspected_ns == 0) {
        queue->suspected_ns = now_ns;
    }
    return now_ns - queue->suspected_ns < DDP_QUEUE_SUSPICION_NS ? DDP_PENDING : unexplained;
}

void ddp_queue_announce(struct ddp_queue *queue, ddp_status status, uint64_t seq)
{
    const struct ddp_env *env = queue->base.env;
    const struct ddp_revocation revocation = {env->rank, status,
                                              env->recorder != NULL ? env->recorder->step : 0, seq};

    DDP_ASSERT(status < DDP_OK);
    if (status != DDP_E_REVOKED && status != DDP_E_PEER_DIED && !is_revoked(queue)) {
        queue->transport->ops->revoke(queue->transport, &revocation);
    }
}

void ddp_coll_give_up(struct ddp_env *env, struct ddp_transport *transport, ddp_status status)
{
    const struct ddp_revocation revocation = {env->rank, status,
                                              env->recorder != NULL ? env->recorder->step : 0, 0};

    DDP_ASSERT(status < DDP_OK);
    ddp_recorder_event(env->recorder, DDP_EVENT_REVOKE, env->rank, (uint64_t)status,
                       revocation.step, 0, 0);
    ddp_recorder_revoked(env->recorder, env->rank, status);
    transport->ops->revoke(transport, &revocation);
    transport->ops->destroy(transport);
}

ddp_status ddp_queue_pass_armed_point(const struct ddp_queue *queue, enum ddp_fault_point point,
                                      const struct ddp_coll_work *work, bool *out_skip)
{
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    enum ddp_fault_action action;

    context.bucket = work->args.role == DDP_ROLE_BUCKET ? (int32_t)work->args.index : -1;
    context.seq = work->seq;
    context.device = queue->stream != NULL ? queue->base.device : NULL;
    context.stream = queue->stream;
    action = ddp_fault_point(queue->base.env->faults, point, &context);
    *out_skip = action == DDP_FAULT_SKIP;
    return action == DDP_FAULT_FAIL ? DDP_E_INJECTED : DDP_OK;
}

static void append(struct ddp_queue *queue, struct ddp_coll_work *work)
{
    DDP_ASSERT((queue->head == NULL) == (queue->tail == NULL));
    /* Compared with queued works only: probes have their own numbers. */
    DDP_ASSERT(queue->tail == NULL || work->seq > queue->tail->seq);
    work->next = NULL;
    if (queue->tail != NULL) {
        queue->tail->next = work;
    } else {
        queue->head = work;
    }
    queue->tail = work;
}

static void end_head(struct ddp_queue *queue, ddp_status status)
{
    struct ddp_coll_work *work = queue->head;

    DDP_ASSERT(status != DDP_PENDING && work->status == DDP_PENDING);
    queue->engine->release(queue, work);
    queue->head = work->next;
    if (queue->head == NULL) {
        DDP_ASSERT(queue->tail == work);
        queue->tail = NULL;
    }
    work->next = NULL;
    work->engine = NULL;
    work->status = status;
}

void ddp_queue_close(struct ddp_queue *queue, ddp_status error)
{
    DDP_ASSERT(error < DDP_OK);
    if (queue->failed == DDP_OK) {
        queue->failed = error;
    }
}

void ddp_queue_drain(struct ddp_queue *queue)
{
    DDP_ASSERT(queue->failed != DDP_OK);
    if (queue->engine->is_quiet != NULL && !queue->engine->is_quiet(queue)) {
        return;
    }
    while (queue->head != NULL) {
        end_head(queue, queue->failed);
    }
}

void ddp_queue_fail(struct ddp_queue *queue, ddp_status error)
{
    if (queue->failed == DDP_OK) {
        ddp_queue_close(queue, error);
        if (queue->engine->stop != NULL) {
            queue->engine->stop(queue, error);
        }
    }
    ddp_queue_drain(queue);
}

/* End the group with an error that happened here or was noticed here. */
static void end_group(struct ddp_queue *queue, ddp_status error)
{
    if (queue->engine->announces_errors) {
        ddp_queue_announce(queue, error, queue->head != NULL ? queue->head->seq : 0);
    }
    ddp_queue_fail(queue, error);
}

/* Completed work keeps OK even if the group fails later. */
static inline ddp_status run(struct ddp_queue *queue)
{
    const struct ddp_engine *engine = queue->engine;
    ddp_status ahead = engine->run_ahead != NULL ? engine->run_ahead(queue) : DDP_OK;
    ddp_status status = DDP_OK;

    while (queue->head != NULL) {
        status = engine->run_head(queue, queue->head);
        if (status != DDP_OK) {
            break;
        }
        end_head(queue, DDP_OK);
    }
    if (ahead < DDP_OK) {
        return ahead;
    }
    return status == DDP_PENDING ? check_deaths(queue) : status;
}

/* Move the queue on as far as possible now. */
static inline void drive(struct ddp_queue *queue)
{
    ddp_status status;

    if (queue->failed != DDP_OK) {
        ddp_queue_drain(queue);
        return;
    }
    status = is_revoked(queue) ? DDP_E_REVOKED : run(queue);
    if (status < DDP_OK) {
        status = ddp_queue_explain(queue, status);
    }
    if (status < DDP_OK) {
        end_group(queue, status);
    }
}

static ddp_status check(const struct ddp_queue *queue, const struct ddp_coll_args *args)
{
    if ((unsigned)args->kind >= DDP_COLL_KIND_COUNT || (unsigned)args->dtype >= DDP_DTYPE_COUNT ||
        (unsigned)args->redop >= DDP_REDOP_COUNT || args->root >= queue->base.member_count) {
        return DDP_E_INVALID;
    }
    return queue->engine->check != NULL ? queue->engine->check(queue, args) : DDP_OK;
}

static ddp_status enqueue(struct ddp_queue *queue, struct ddp_coll_work *work)
{
    ddp_status status = queue->engine->prepare(queue, work);

    DDP_ASSERT(status != DDP_PENDING && (status == DDP_OK) == (work->engine != NULL));
    if (status == DDP_E_DEVICE) {
        end_group(queue, DDP_E_DEVICE);
    }
    if (status == DDP_OK) {
        append(queue, work);
    }
    return status;
}

static ddp_status queue_post(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    struct ddp_queue *queue = (struct ddp_queue *)coll;
    ddp_status injected;
    bool is_skipped;

    DDP_ASSERT(!queue->is_over);
    DDP_ASSERT(work->engine == NULL); /* it is queued nowhere */
    injected = ddp_queue_pass_point(queue, DDP_FAULT_POINT_COLLECTIVE_ENQUEUE, work, &is_skipped);
    if (is_skipped) {
        work->status = DDP_OK;
        return DDP_OK;
    }
    work->status = queue->failed != DDP_OK ? queue->failed : injected;
    if (work->status == DDP_OK) {
        work->status = check(queue, &work->args);
    }
    if (work->status == DDP_OK) {
        work->status = enqueue(queue, work);
    }
    if (work->status != DDP_OK) {
        return work->status;
    }
    work->status = DDP_PENDING;
    if (queue->engine->starts_at_post) {
        drive(queue);
    }
    return DDP_OK;
}

static ddp_status queue_poll(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    if (work->status == DDP_PENDING) {
        drive((struct ddp_queue *)coll);
    }
    return work->status;
}

static void queue_revoke(struct ddp_coll *coll, const struct ddp_revocation *revocation)
{
    struct ddp_queue *queue = (struct ddp_queue *)coll;

    queue->transport->ops->revoke(queue->transport, revocation);
}

static bool queue_is_revoked(struct ddp_coll *coll, struct ddp_revocation *out)
{
    struct ddp_queue *queue = (struct ddp_queue *)coll;

    return queue->transport->ops->is_revoked(queue->transport, out);
}

static int32_t queue_dead_rank(struct ddp_coll *coll)
{
    return dead_rank((struct ddp_queue *)coll);
}

static void *queue_alloc(struct ddp_coll *coll, size_t size_bytes, enum ddp_space space)
{
    struct ddp_queue *queue = (struct ddp_queue *)coll;
    struct ddp_device *device = coll->device;
    void *data = NULL;

    if (queue->engine->alloc != NULL) {
        return queue->engine->alloc(queue, size_bytes);
    }
    return device->ops->alloc(device, size_bytes, space, &data) == DDP_OK ? data : NULL;
}

static void queue_free(struct ddp_coll *coll, enum ddp_space space, void *data)
{
    struct ddp_queue *queue = (struct ddp_queue *)coll;

    if (queue->engine->free != NULL) {
        queue->engine->free(queue, data);
    } else {
        coll->device->ops->free(coll->device, space, data);
    }
}

static const char *queue_last_error(struct ddp_coll *coll)
{
    return ((struct ddp_queue *)coll)->err.text;
}

/* Only messages ring a doorbell. Without doorbell and descriptor, an idle wait polls again soon. A
 * function of its own, so that queue_hint stays short: executors call it before each idle poll. */
static __attribute__((noinline)) void hint_beside_library(const struct ddp_queue *queue,
                                                          struct ddp_idle_hint *hint)
{
    if (queue->failed == DDP_OK && queue->suspected_ns == 0 &&
        (queue->head == NULL || queue->engine->waits_for_message(queue, queue->head))) {
        queue->transport->ops->hint(queue->transport, hint);
    } else {
        hint->doorbell = NULL;
        hint->fd = -1;
    }
}

static void queue_hint(struct ddp_coll *coll, struct ddp_idle_hint *hint)
{
    struct ddp_queue *queue = (struct ddp_queue *)coll;

    if (queue->engine->waits_for_message == NULL) {
        queue->transport->ops->hint(queue->transport, hint);
    } else {
        hint_beside_library(queue, hint);
    }
}

static bool queue_awaits(struct ddp_coll *coll, const struct ddp_coll_work *work, uint32_t member)
{
    const struct ddp_queue *queue = (const struct ddp_queue *)coll;

    DDP_ASSERT(member < coll->member_count);
    return work == queue->head && queue->engine->awaits != NULL &&
           queue->engine->awaits(queue, work, member);
}

static void queue_destroy(struct ddp_coll *coll)
{
    struct ddp_queue *queue = (struct ddp_queue *)coll;

    DDP_ASSERT(!queue->is_over);
    queue->is_over = true;
    queue->engine->destroy(queue);
}

static const struct ddp_coll_ops queue_ops = {
    .post = queue_post,
    .poll = queue_poll,
    .revoke = queue_revoke,
    .is_revoked = queue_is_revoked,
    .dead_rank = queue_dead_rank,
    .alloc = queue_alloc,
    .free = queue_free,
    .last_error = queue_last_error,
    .awaits = queue_awaits,
    .hint = queue_hint,
    .destroy = queue_destroy,
};

ddp_status ddp_queue_init(struct ddp_queue *queue, const struct ddp_engine *engine,
                          struct ddp_env *env, struct ddp_device *device,
                          struct ddp_transport *transport, uint64_t comm,
                          const uint32_t *member_rank)
{
    const uint32_t count = transport->member_count;

    DDP_ASSERT(transport->member < count);
    DDP_ASSERT(queue->engine == NULL && queue->head == NULL);
    DDP_ASSERT(engine->prepare != NULL && engine->release != NULL && engine->run_head != NULL);
    DDP_ASSERT((engine->alloc == NULL) == (engine->free == NULL));
    queue->member_rank = ddp_mem_array(env->mem, count, sizeof(*queue->member_rank));
    if (queue->member_rank == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        queue->member_rank[i] = member_rank == NULL ? i : member_rank[i];
    }
    queue->base = (struct ddp_coll){.ops = &queue_ops,
                                    .env = env,
                                    .device = device,
                                    .comm = comm,
                                    .member = transport->member,
                                    .member_count = count,
                                    .member_rank = queue->member_rank};
    queue->engine = engine;
    queue->transport = transport;
    return DDP_OK;
}

void ddp_queue_fini(struct ddp_queue *queue)
{
    DDP_ASSERT(queue->head == NULL && queue->tail == NULL);
    ddp_mem_free(queue->base.env->mem, queue->member_rank);
    queue->member_rank = NULL;
}

struct ddp_queue *ddp_queue_of(struct ddp_coll *coll, const struct ddp_engine *engine)
{
    struct ddp_queue *queue = (struct ddp_queue *)coll;

    DDP_ASSERT(coll->ops == &queue_ops);
    DDP_ASSERT(queue->engine == engine);
    return queue;
}
