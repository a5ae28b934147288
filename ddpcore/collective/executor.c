/* The engine that runs schedules on a transport and a device, one after the other; nothing is sent
 * before the first poll. Each poll walks the active steps until none of them moves. Messages are
 * consumed where they lie. */
#include "ddpcore/collective/executor.h"

/* Limits the cost of an idle poll in large groups. */
enum { STRAYS_PER_POLL = 64 };

static ddp_status executor_prepare(struct ddp_queue *queue, struct ddp_coll_work *work)
{
    struct ddp_executor *executor = (struct ddp_executor *)queue;
    struct ddp_cache_key key = {.kind = DDP_COLL_BARRIER};
    struct ddp_cached *cached = NULL;
    bool is_moved = ddp_executor_moves(executor, &work->args);

    if (is_moved && !executor->is_checked) {
        work->engine = executor; /* there is no schedule */
        return DDP_OK;
    }
    if (!executor->is_agreement && !is_moved) {
        key = ddp_cache_key_of(&work->args, queue->base.member);
    }
    DDP_TRY(ddp_cache_take(&executor->cache, &key, &cached, &queue->err));
    work->engine = cached;
    return DDP_OK;
}

static void executor_release(struct ddp_queue *queue, struct ddp_coll_work *work)
{
    struct ddp_executor *executor = (struct ddp_executor *)queue;

    executor->is_running = false;
    executor->is_moving = false;
    ddp_links_await(executor->links, 0, 0);
    if (work->engine != executor) {
        ddp_cache_give_back(work->engine);
    }
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

/* Record which peer the head waits for. A missing message is named before a missing
 * acknowledgement. */
static void record_wait(const struct ddp_executor *executor, const struct ddp_compiled *compiled)
{
    uint32_t index = compiled->active[0];
    uint32_t peer = 0;
    uint64_t key = 0;

    if (executor->queue.base.env->recorder == NULL) {
        return;
    }
    for (uint32_t i = 0; i < compiled->active_count; i++) {
        if (compiled->steps[compiled->active[i]].kind != DDP_STEP_SEND) {
            index = compiled->active[i];
            peer = compiled->steps[index].peer;
            key = ddp_executor_link(executor, peer);
            break;
        }
    }
    ddp_links_await(executor->links, key, key != 0 ? executor->counts[peer].taken : 0);
    ddp_recorder_wait_peer(executor->queue.base.env->recorder,
                           (int32_t)executor->queue.member_rank[compiled->steps[index].peer]);
}

/* Nothing moved. A peer that posted another collective may be sending to members that do not
 * receive from it in this one; its message would then never be read. So look at the messages of all
 * peers: one with this sequence number and another signature, or with an earlier one, is a
 * mismatch; one that is not the next of that peer's shows a loss. Transport errors are left to the
 * steps that wait for that peer. */
static ddp_status look_for_stray(struct ddp_executor *executor)
{
    struct ddp_transport *transport = executor->queue.transport;
    uint32_t count = executor->queue.base.member_count;

    for (uint32_t i = 0; i < count && i < STRAYS_PER_POLL; i++) {
        uint32_t peer = executor->next_stray;
        struct ddp_message message;

        executor->next_stray = peer + 1 == count ? 0 : peer + 1;
        if (peer == executor->queue.base.member ||
            transport->ops->recv_peek(transport, peer, &message) != DDP_OK) {
            continue;
        }
        if (message.number != executor->counts[peer].taken) {
            return ddp_executor_astray(executor, peer, &message);
        }
        if (message.seq < executor->queue.head->seq || (message.seq == executor->queue.head->seq &&
                                                        message.signature != executor->signature)) {
            return ddp_executor_mismatch(executor, peer, &message);
        }
    }
    return DDP_PENDING;
}

/* Run the head's schedule until it ends or nothing moves. */
static ddp_status executor_run_head(struct ddp_queue *queue, struct ddp_coll_work *head)
{
    struct ddp_executor *executor = (struct ddp_executor *)queue;
    struct ddp_compiled *compiled = head->engine;
    bool has_progress;

    if (!executor->is_running) {
        DDP_TRY(
            ddp_compiled_start(compiled, &executor->scratch, head->args.input, head->args.output));
        executor->signature =
            executor->is_checked ? ddp_coll_signature(queue->base.comm, &head->args) : 0;
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
    return executor->is_checked ? look_for_stray(executor) : DDP_PENDING;
}

/* The same where a mover does all-reduces: after the schedule of the agreement, if there is one. */
static ddp_status mover_run_head(struct ddp_queue *queue, struct ddp_coll_work *head)
{
    struct ddp_executor *executor = (struct ddp_executor *)queue;

    if (head->engine != executor && !executor->is_moving) {
        DDP_TRY(executor_run_head(queue, head));
    }
    executor->is_running = false;
    ddp_links_await(executor->links, 0, 0);
    return ddp_executor_moves(executor, &head->args) ? ddp_executor_move(executor, head) : DDP_OK;
}

static bool executor_awaits(const struct ddp_queue *queue, const struct ddp_coll_work *head,
                            uint32_t member)
{
    const struct ddp_executor *executor = (const struct ddp_executor *)queue;
    const struct ddp_compiled *compiled = head->engine;
    bool is_awaited = false;

    for (uint32_t i = 0; executor->is_running && i < compiled->active_count; i++) {
        const struct ddp_compiled_step *step = &compiled->steps[compiled->active[i]];

        is_awaited |= (step->kind == DDP_STEP_RECV || step->kind == DDP_STEP_RECV_REDUCE) &&
                      step->peer == member;
    }
    return is_awaited;
}

static void *executor_alloc(struct ddp_queue *queue, size_t size_bytes)
{
    return queue->transport->ops->alloc(queue->transport, size_bytes);
}

static void executor_free(struct ddp_queue *queue, void *data)
{
    queue->transport->ops->free(queue->transport, data);
}

static void executor_destroy(struct ddp_queue *queue)
{
    struct ddp_executor *executor = (struct ddp_executor *)queue;
    struct ddp_mem *mem = queue->base.env->mem;

    ddp_queue_fail(queue, DDP_E_STATE);
    ddp_cache_fini(&executor->cache);
    ddp_compiled_scratch_fini(&executor->scratch);
    queue->transport->ops->destroy(queue->transport);
    ddp_queue_fini(queue);
    ddp_mem_free(mem, executor->node_of_member);
    ddp_mem_free(mem, executor->counts);
    ddp_mem_free(mem, executor);
}

static const struct ddp_engine executor_engine = {
    .prepare = executor_prepare,
    .release = executor_release,
    .run_head = executor_run_head,
    .awaits = executor_awaits,
    .alloc = executor_alloc,
    .free = executor_free,
    .destroy = executor_destroy,
};

static const struct ddp_engine mover_engine = {
    .announces_errors = true,
    .prepare = executor_prepare,
    .release = executor_release,
    .run_head = mover_run_head,
    .may_be_death = ddp_executor_may_be_death,
    .waits_for_message = ddp_executor_waits_for_message,
    .awaits = executor_awaits,
    .stop = ddp_executor_stop,
    .alloc = executor_alloc,
    .free = executor_free,
    .destroy = executor_destroy,
};

/* A step of the same operands may be of the other kind. */
static bool is_exchangeable(int64_t a, int64_t b)
{
    return a == b || (a == DDP_STEP_RECV && b == DDP_STEP_RECV_REDUCE) ||
           (a == DDP_STEP_RECV_REDUCE && b == DDP_STEP_RECV);
}

/* Point collective/schedule: an algorithm with a mistake. root: whose schedule is to run. */
static ddp_status pass_schedule(const struct ddp_cache *cache, struct ddp_schedule *schedule,
                                uint32_t *root)
{
    const size_t root_at = 3 * schedule->step_count;
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    ddp_status status = DDP_OK;
    int64_t *words;

    if (!ddp_fault_point_is_armed(cache->env->faults, DDP_FAULT_POINT_COLLECTIVE_SCHEDULE)) {
        return DDP_OK;
    }
    words = ddp_mem_array(cache->mem, root_at + 1, sizeof(*words));
    if (words == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t i = 0; i < schedule->step_count; i++) {
        words[2 * i] = schedule->steps[i].kind;
        words[2 * i + 1] = schedule->steps[i].dep_count;
        words[2 * schedule->step_count + i] = schedule->steps[i].round;
    }
    words[root_at] = schedule->params.root;
    context.data = words;
    context.elem_count = root_at + 1;
    context.dtype = DDP_DTYPE_I64;
    if (ddp_fault_point(cache->env->faults, DDP_FAULT_POINT_COLLECTIVE_SCHEDULE, &context) ==
        DDP_FAULT_FAIL) {
        status = DDP_E_INJECTED;
    }
    for (size_t i = 0; status == DDP_OK && i < schedule->step_count; i++) {
        struct ddp_step *step = &schedule->steps[i];
        int64_t round = words[2 * schedule->step_count + i];

        if (!is_exchangeable(words[2 * i], step->kind) || words[2 * i + 1] < 0 ||
            words[2 * i + 1] > step->dep_count || round < 0 || round > UINT32_MAX) {
            status = DDP_E_INVALID;
        } else {
            step->kind = (enum ddp_step_kind)words[2 * i];
            step->dep_count = (uint32_t)words[2 * i + 1];
            step->round = (uint32_t)round;
        }
    }
    if (status == DDP_OK && (words[root_at] < 0 || words[root_at] >= schedule->params.size)) {
        status = DDP_E_INVALID;
    }
    *root = status == DDP_OK ? (uint32_t)words[root_at] : schedule->params.root;
    ddp_mem_free(cache->mem, words);
    return status;
}

static ddp_status emit(const struct ddp_cache *cache, const struct ddp_schedule_params *params,
                       struct ddp_schedule *schedule, struct ddp_err *err)
{
    ddp_schedule_init(schedule, cache->mem, cache->present->name, params);
    if (cache->emitter != NULL && params->kind == DDP_COLL_ALL_REDUCE) {
        return cache->emitter->emit(cache->emitter, schedule, err);
    }
    cache->present->emit(schedule);
    return schedule->status;
}

static ddp_status create_compiled(struct ddp_cache *cache, const struct ddp_schedule_params *params,
                                  struct ddp_cached **out, struct ddp_err *err)
{
    struct ddp_schedule_params other = *params;
    struct ddp_compiled *compiled = NULL;
    struct ddp_schedule schedule;
    ddp_status status = emit(cache, params, &schedule, err);

    if (status == DDP_OK) {
        status = pass_schedule(cache, &schedule, &other.root);
    }
    if (status == DDP_OK && other.root != params->root) {
        ddp_schedule_fini(&schedule);
        status = emit(cache, &other, &schedule, err);
    }
    if (status == DDP_OK && cache->observer != NULL) {
        status = cache->observer->used(cache->observer, &schedule);
    }
    if (status == DDP_OK) {
        status = ddp_compiled_create(cache->mem, &schedule, &compiled);
    }
    ddp_schedule_fini(&schedule);
    *out = (struct ddp_cached *)compiled;
    return status;
}

static void destroy_compiled(struct ddp_cache *cache, struct ddp_cached *cached)
{
    ddp_compiled_destroy(cache->mem, (struct ddp_compiled *)cached);
}

static const struct ddp_cache_ops compiled_ops = {create_compiled, destroy_compiled};

static ddp_status find_algorithms(struct ddp_cache *cache,
                                  const struct ddp_coll_schedule_config *config,
                                  struct ddp_err *err)
{
    for (uint32_t kind = 0; kind < DDP_COLL_KIND_COUNT; kind++) {
        enum ddp_algorithm_id chosen =
            kind == DDP_COLL_ALL_REDUCE ? config->algorithm : config->of_kind[kind];

        DDP_TRY(
            ddp_algorithm_require((enum ddp_coll_kind)kind, chosen, &cache->algorithm[kind], err));
    }
    for (size_t i = 0; i < config->choice_count; i++) {
        const struct ddp_algorithm *algorithm;

        DDP_TRY(ddp_algorithm_require(DDP_COLL_ALL_REDUCE, config->choices[i].algorithm, &algorithm,
                                      err));
        if (i > 0 && config->choices[i].bytes_max <= config->choices[i - 1].bytes_max) {
            return ddp_err_set(err, DDP_E_INVALID, "choice %zu is not larger than the one before",
                               i);
        }
    }
    if (config->algorithm == DDP_ALGORITHM_NONE) {
        cache->choices = config->choices;
        cache->choice_count = config->choice_count;
    }
    return DDP_OK;
}

static ddp_status find_nodes(struct ddp_executor *executor,
                             const struct ddp_coll_schedule_config *config)
{
    uint32_t count = executor->queue.base.member_count;

    if (config->node_of_rank == NULL) {
        return DDP_OK;
    }
    executor->node_of_member =
        ddp_mem_array(executor->queue.base.env->mem, count, sizeof(*executor->node_of_member));
    for (uint32_t m = 0; executor->node_of_member != NULL && m < count; m++) {
        executor->node_of_member[m] =
            (uint32_t)config->node_of_rank[executor->queue.member_rank[m]];
    }
    return executor->node_of_member == NULL ? DDP_E_NOMEM : DDP_OK;
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
    executor->counts = ddp_mem_array(env->mem, transport->member_count, sizeof(*executor->counts));
    if (executor->counts == NULL) {
        status = ddp_err_set(err, DDP_E_NOMEM, "no memory for a collective");
        goto out;
    }
    status = find_algorithms(&executor->cache, config, err);
    if (status != DDP_OK) {
        goto out;
    }
    status =
        ddp_queue_init(&executor->queue, config->mover != NULL ? &mover_engine : &executor_engine,
                       env, device, transport, config->comm, config->member_rank);
    if (status != DDP_OK) {
        (void)ddp_err_set(err, status, "no memory for a collective");
        goto out;
    }
    status = find_nodes(executor, config);
    if (status != DDP_OK) {
        ddp_queue_fini(&executor->queue);
        (void)ddp_err_set(err, status, "no memory for a collective");
        goto out;
    }
    executor->links = env->recorder != NULL ? &env->recorder->page->links : NULL;
    ddp_links_clear(executor->links); /* numbers begin anew */
    executor->is_checked = config->is_checked || config->is_agreement;
    executor->is_agreement = config->is_agreement;
    executor->mover = config->mover;
    executor->cache.ops = &compiled_ops;
    executor->cache.mem = env->mem;
    executor->cache.env = env;
    executor->cache.member = transport->member;
    executor->cache.member_count = transport->member_count;
    executor->cache.node_of_rank = executor->node_of_member;
    executor->cache.segment_bytes = config->segment_bytes;
    executor->cache.observer = config->observer;
    executor->cache.emitter = config->emitter;
    executor->scratch.mem = env->mem;
    executor->scratch.transport = transport;
    *out = &executor->queue.base;
    return DDP_OK;
out:
    ddp_mem_free(env->mem, executor->counts);
    ddp_mem_free(env->mem, executor);
    return status;
}
