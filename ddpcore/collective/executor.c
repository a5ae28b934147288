/* Runs schedules on a transport and a device. Works of a group run strictly one after the other, in
 * the order in which they were posted; nothing is sent before the first poll. Each poll walks the
 * active steps until none of them moves. Messages are consumed where they lie. */
#include "ddpcore/collective/executor.h"

#include <string.h>

/* Bounds what an idle poll costs in large groups. */
enum { STRAYS_PER_POLL = 64 };

static bool is_in_place(const struct ddp_executor *executor, const struct ddp_coll_args *args)
{
    size_t block_bytes = args->elem_count * ddp_dtype_size_bytes(args->dtype);

    if (args->kind == DDP_COLL_BROADCAST && executor->base.member != args->root) {
        return true; /* only the root's input counts */
    }
    if (args->input == args->output) {
        return true;
    }
    return args->kind == DDP_COLL_ALL_GATHER &&
           args->input == (const char *)args->output + executor->base.member * block_bytes;
}

static struct ddp_compiled_key key_of(const struct ddp_executor *executor,
                                      const struct ddp_coll_args *args)
{
    struct ddp_compiled_key key;

    memset(&key, 0, sizeof(key));
    if (executor->is_agreement) {
        key.kind = DDP_COLL_BARRIER;
        return key;
    }
    key.kind = args->kind;
    key.dtype = args->dtype;
    key.elem_count = args->kind == DDP_COLL_BARRIER ? 0 : args->elem_count;
    key.root = args->kind == DDP_COLL_BROADCAST ? args->root : 0;
    key.is_in_place = is_in_place(executor, args);
    return key;
}

static bool is_valid(const struct ddp_executor *executor, const struct ddp_coll_args *args)
{
    return (unsigned)args->kind < DDP_COLL_KIND_COUNT && (unsigned)args->dtype < DDP_DTYPE_COUNT &&
           (unsigned)args->redop < DDP_REDOP_COUNT && args->root < executor->base.member_count;
}

static void end_head(struct ddp_executor *executor, ddp_status status)
{
    struct ddp_coll_work *work = executor->head;
    struct ddp_compiled *compiled = work->engine;

    executor->head = work->next;
    if (executor->head == NULL) {
        executor->tail = NULL;
    }
    executor->is_running = false;
    compiled->users--;
    work->next = NULL;
    work->engine = NULL;
    work->status = status;
}

static void fail_all(struct ddp_executor *executor, ddp_status status)
{
    executor->failed = status;
    while (executor->head != NULL) {
        end_head(executor, status);
    }
}

static ddp_status executor_post(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    struct ddp_executor *executor = (struct ddp_executor *)coll;
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    struct ddp_compiled_key key;
    struct ddp_compiled *compiled = NULL;
    enum ddp_fault_action action;

    work->next = NULL;
    work->engine = NULL;
    context.bucket = work->args.role == DDP_ROLE_BUCKET ? (int32_t)work->args.index : -1;
    context.seq = work->seq;
    action = ddp_fault_point(coll->env->faults, DDP_FAULT_POINT_COLLECTIVE_ENQUEUE, &context);
    if (action == DDP_FAULT_SKIP) {
        work->status = DDP_OK;
        return DDP_OK;
    }
    work->status = executor->failed;
    if (work->status == DDP_OK && action == DDP_FAULT_FAIL) {
        work->status = DDP_E_INJECTED;
    }
    if (work->status == DDP_OK && !is_valid(executor, &work->args)) {
        work->status = DDP_E_INVALID;
    }
    if (work->status == DDP_OK) {
        key = key_of(executor, &work->args);
        work->status = ddp_compiled_cache_take(&executor->cache, &key, &compiled);
    }
    if (work->status != DDP_OK) {
        return work->status;
    }
    work->engine = compiled;
    work->status = DDP_PENDING;
    if (executor->tail != NULL) {
        executor->tail->next = work;
    } else {
        executor->head = work;
    }
    executor->tail = work;
    return DDP_OK;
}

/* One walk over the active steps. Steps released on the way are appended and walked too.
 * *out_progress: whether any step completed. */
static ddp_status walk(struct ddp_executor *executor, struct ddp_compiled *compiled,
                       bool *out_progress)
{
    uint32_t kept = 0;
    uint32_t walked = 0;
    ddp_status failed = DDP_OK;

    while (walked < compiled->active_count) {
        uint32_t index = compiled->active[walked++];
        ddp_status status = ddp_executor_step(executor, compiled, index);

        if (status == DDP_OK) {
            ddp_compiled_release_successors(compiled, index);
            *out_progress = true;
        } else if (status == DDP_PENDING) {
            compiled->active[kept++] = index;
        } else {
            failed = status;
            break;
        }
    }
    compiled->active_count = kept;
    return failed;
}

/* Show whom the head waits for: a missing message before a missing acknowledgement. */
static void record_wait(const struct ddp_executor *executor, const struct ddp_compiled *compiled)
{
    uint32_t index = compiled->active[0];

    if (executor->base.env->recorder == NULL) {
        return;
    }
    for (uint32_t i = 0; i < compiled->active_count; i++) {
        if (compiled->steps[compiled->active[i]].kind != DDP_STEP_SEND) {
            index = compiled->active[i];
            break;
        }
    }
    ddp_recorder_wait_peer(executor->base.env->recorder,
                           (int32_t)executor->member_rank[compiled->steps[index].peer]);
}

/* Nothing moved. Somebody died, though perhaps nobody that this rank waits for directly: living
 * peers get a moment to pass on what the dead one had sent, then the wait is over. */
static ddp_status look_for_death(struct ddp_executor *executor)
{
    struct ddp_clock *clock = executor->base.env->clock;

    if (executor->transport->ops->dead_peer(executor->transport) < 0) {
        return DDP_PENDING;
    }
    if (executor->death_known_ns == 0) {
        executor->death_known_ns = ddp_clock_now_ns(clock);
        return DDP_PENDING;
    }
    return ddp_clock_now_ns(clock) - executor->death_known_ns >= DDP_TRANSPORT_DEATH_GRACE_NS
               ? DDP_E_PEER_DIED
               : DDP_PENDING;
}

/* Nothing moved. A peer that posted another collective may be sending to ranks that do not listen
 * to it in this one, and its message would wait for ever. Whoever it came from: a message of this
 * sequence number with another signature, or of an earlier number, is a mismatch. Errors are left
 * to the steps that wait for that peer. */
static ddp_status look_for_stray(struct ddp_executor *executor)
{
    struct ddp_transport *transport = executor->transport;
    uint32_t count = executor->base.member_count;

    for (uint32_t i = 0; i < count && i < STRAYS_PER_POLL; i++) {
        uint32_t peer = executor->next_stray;
        struct ddp_message message;

        executor->next_stray = (peer + 1) % count;
        if (peer == executor->base.member ||
            transport->ops->recv_peek(transport, peer, &message) != DDP_OK) {
            continue;
        }
        if (message.seq < executor->head->seq ||
            (message.seq == executor->head->seq && message.signature != executor->signature)) {
            return ddp_executor_mismatch(executor);
        }
    }
    return DDP_PENDING;
}

/* Run the head until it ends or nothing moves. */
static ddp_status run_head(struct ddp_executor *executor)
{
    struct ddp_coll_work *work = executor->head;
    struct ddp_compiled *compiled = work->engine;
    bool has_progress;

    if (!executor->is_running) {
        DDP_TRY(ddp_compiled_cache_start(&executor->cache, compiled, work->args.input,
                                         work->args.output));
        executor->signature = executor->is_checked
                                  ? ddp_coll_signature(executor->base.comm, work->seq, &work->args)
                                  : 0;
        executor->is_running = true;
    }
    do {
        has_progress = false;
        DDP_TRY(walk(executor, compiled, &has_progress));
        if (compiled->active_count == 0) {
            return DDP_OK;
        }
    } while (has_progress);
    record_wait(executor, compiled);
    if (executor->is_checked && look_for_stray(executor) != DDP_PENDING) {
        return DDP_E_MISMATCH;
    }
    return look_for_death(executor);
}

static ddp_status executor_poll(struct ddp_coll *coll, struct ddp_coll_work *work)
{
    struct ddp_executor *executor = (struct ddp_executor *)coll;
    struct ddp_revocation revocation;

    if (work->status != DDP_PENDING) {
        return work->status;
    }
    if (executor->transport->ops->is_revoked(executor->transport, &revocation)) {
        fail_all(executor, DDP_E_REVOKED);
        return work->status;
    }
    while (executor->head != NULL) {
        ddp_status status = run_head(executor);

        if (status == DDP_PENDING) {
            break;
        }
        if (status == DDP_OK) {
            end_head(executor, DDP_OK);
        } else {
            fail_all(executor, status);
        }
    }
    return work->status;
}

static void executor_revoke(struct ddp_coll *coll, const struct ddp_revocation *revocation)
{
    struct ddp_executor *executor = (struct ddp_executor *)coll;

    executor->transport->ops->revoke(executor->transport, revocation);
}

static bool executor_is_revoked(struct ddp_coll *coll, struct ddp_revocation *out)
{
    struct ddp_executor *executor = (struct ddp_executor *)coll;

    return executor->transport->ops->is_revoked(executor->transport, out);
}

static int32_t executor_dead_rank(struct ddp_coll *coll)
{
    struct ddp_executor *executor = (struct ddp_executor *)coll;
    int32_t member = executor->transport->ops->dead_peer(executor->transport);

    return member < 0 ? -1 : (int32_t)executor->member_rank[member];
}

static void *executor_alloc(struct ddp_coll *coll, size_t size_bytes, enum ddp_space space)
{
    struct ddp_executor *executor = (struct ddp_executor *)coll;

    (void)space; /* only devices in host memory are accepted */
    return executor->transport->ops->alloc(executor->transport, size_bytes);
}

static void executor_free(struct ddp_coll *coll, enum ddp_space space, void *data)
{
    struct ddp_executor *executor = (struct ddp_executor *)coll;

    (void)space;
    executor->transport->ops->free(executor->transport, data);
}

static const char *executor_last_error(struct ddp_coll *coll)
{
    (void)coll;
    return "";
}

static void executor_hint(struct ddp_coll *coll, struct ddp_idle_hint *hint)
{
    struct ddp_executor *executor = (struct ddp_executor *)coll;

    executor->transport->ops->hint(executor->transport, hint);
}

static void executor_destroy(struct ddp_coll *coll)
{
    struct ddp_executor *executor = (struct ddp_executor *)coll;

    fail_all(executor, DDP_E_STATE);
    ddp_compiled_cache_fini(&executor->cache);
    executor->transport->ops->destroy(executor->transport);
    ddp_mem_free(coll->env->mem, executor->member_rank);
    ddp_mem_free(coll->env->mem, executor);
}

static const struct ddp_coll_ops executor_ops = {
    .name = "schedule",
    .post = executor_post,
    .poll = executor_poll,
    .revoke = executor_revoke,
    .is_revoked = executor_is_revoked,
    .dead_rank = executor_dead_rank,
    .alloc = executor_alloc,
    .free = executor_free,
    .last_error = executor_last_error,
    .hint = executor_hint,
    .destroy = executor_destroy,
};

static ddp_status find_algorithms(struct ddp_executor *executor, enum ddp_algorithm_id id,
                                  struct ddp_err *err)
{
    for (uint32_t kind = 0; kind < DDP_COLL_KIND_COUNT; kind++) {
        DDP_TRY(ddp_algorithm_require((enum ddp_coll_kind)kind,
                                      kind == DDP_COLL_ALL_REDUCE ? id : DDP_ALGORITHM_NONE,
                                      &executor->cache.source.algorithm[kind], err));
    }
    return DDP_OK;
}

ddp_status ddp_coll_schedule_create(struct ddp_env *env, struct ddp_transport *transport,
                                    struct ddp_device *device,
                                    const struct ddp_coll_schedule_config *config,
                                    struct ddp_coll **out, struct ddp_err *err)
{
    struct ddp_executor *executor;
    ddp_status status;

    if (!device->ops->is_host_memory) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED, "schedules need a device in host memory, not %s",
                           device->ops->name);
    }
    executor = ddp_mem_array(env->mem, 1, sizeof(*executor));
    if (executor == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a collective");
    }
    status = find_algorithms(executor, config->algorithm, err);
    if (status != DDP_OK) {
        goto out;
    }
    executor->member_rank =
        ddp_mem_array(env->mem, transport->member_count, sizeof(*executor->member_rank));
    if (executor->member_rank == NULL) {
        status = ddp_err_set(err, DDP_E_NOMEM, "no memory for a collective");
        goto out;
    }
    for (uint32_t i = 0; i < transport->member_count; i++) {
        executor->member_rank[i] = config->member_rank == NULL ? i : config->member_rank[i];
    }
    executor->base.ops = &executor_ops;
    executor->base.env = env;
    executor->base.device = device;
    executor->base.comm = config->comm;
    executor->base.member = transport->member;
    executor->base.member_count = transport->member_count;
    executor->transport = transport;
    executor->device = device;
    executor->is_checked = config->is_checked || config->is_agreement;
    executor->is_agreement = config->is_agreement;
    executor->cache.source.mem = env->mem;
    executor->cache.source.transport = transport;
    executor->cache.source.segment_bytes = config->segment_bytes;
    executor->cache.source.observer = config->observer;
    *out = &executor->base;
    return DDP_OK;
out:
    ddp_mem_free(env->mem, executor);
    return status;
}
