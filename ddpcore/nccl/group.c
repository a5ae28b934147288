/* Creating a group over NCCL: member 0's id is shared through the store, all members connect, and
 * the control channel says if one of them cannot. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/nccl/state.h"

#define DEFAULT_ABORT_TIMEOUT_NS (10 * DDP_NS_PER_S)

/* The last two stages are for a member that serves the store: while it connects, it cannot serve,
 * so it first waits until all members have the id. */
enum joining_stage { SHARE_ID, COUNT_UP, SAY_ALL, AWAIT_ALL, SHARED };

struct joining {
    struct ddp_nccl_coll *coll;
    struct ddp_store *store;
    enum joining_stage stage;
    char key[3][DDP_STORE_KEY_BYTES_MAX]; /* the id; how many have it; set once all have */
    int64_t joined;
    struct ddp_nccl_id id;
    uint8_t value[DDP_STORE_VALUE_BYTES_MAX];
    size_t value_bytes;
    uint8_t scratch[DDP_STORE_VALUE_BYTES_MAX];
    size_t scratch_bytes;
};

static ddp_status share(struct joining *joining)
{
    const struct ddp_store_ops *ops = joining->store->ops;

    switch (joining->stage) {
    case SHARE_ID:
        return joining->coll->queue.base.member == 0
                   ? ops->set(joining->store, joining->key[0], joining->id.internal,
                              sizeof(joining->id))
                   : ops->get(joining->store, joining->key[0], joining->value,
                              &joining->value_bytes);
    case COUNT_UP:
        return ops->add(joining->store, joining->key[1], 1, &joining->joined);
    case SAY_ALL:
        return joining->joined < (int64_t)joining->coll->queue.base.member_count
                   ? DDP_OK
                   : ops->set(joining->store, joining->key[2], "", 1);
    case AWAIT_ALL:
        return joining->store->is_host ? ops->get(joining->store, joining->key[2], joining->scratch,
                                                  &joining->scratch_bytes)
                                       : DDP_OK;
    default:
        return DDP_OK;
    }
}

/* All are needed until all have connected: who leaves before that will not come any more. */
static ddp_status check_members(struct ddp_nccl_coll *coll)
{
    ddp_status status = ddp_queue_check_members(&coll->queue);

    return status == DDP_PENDING && ddp_control_has_left(&coll->control) ? DDP_E_PEER_DIED : status;
}

static ddp_status poll_share(void *self)
{
    struct joining *joining = self;
    ddp_status status = DDP_OK;

    while (joining->stage != SHARED && status == DDP_OK) {
        status = share(joining);
        if (status == DDP_OK) {
            joining->stage++;
        }
    }
    return status != DDP_PENDING ? status : check_members(joining->coll);
}

static void hint_share(void *self, struct ddp_idle_hint *hint)
{
    struct joining *joining = self;

    joining->store->ops->hint(joining->store, hint);
}

static ddp_status share_id(struct joining *joining, const char *name, uint64_t deadline_ns,
                           struct ddp_err *err)
{
    static const char *const keys[] = {"id", "joined", "all"};
    struct ddp_nccl_coll *coll = joining->coll;
    struct ddp_env *env = coll->queue.base.env;
    const struct ddp_pollable pollable = {poll_share, hint_share, joining};
    ddp_status status;

    for (int i = 0; i < 3; i++) {
        if (snprintf(joining->key[i], sizeof(joining->key[i]), "nccl/%s/%s", name, keys[i]) >=
            (int)sizeof(joining->key[i])) {
            return ddp_err_set(err, DDP_E_INVALID, "the name is too long for a key");
        }
    }
    if (coll->queue.base.member == 0) {
        uint8_t id[DDP_NCCL_ID_BYTES];

        DDP_TRY(ddp_nccl_unique_id(coll->library, id, err));
        memcpy(joining->id.internal, id, sizeof(id));
    }
    status = ddp_wait(env->idle, env->clock, &pollable, deadline_ns);
    if (status == DDP_OK && coll->queue.base.member != 0 &&
        joining->value_bytes != sizeof(joining->id)) {
        return ddp_err_set(err, DDP_E_CORRUPT, "the id has %zu bytes instead of %u",
                           joining->value_bytes, DDP_NCCL_ID_BYTES);
    }
    if (status == DDP_OK && coll->queue.base.member != 0) {
        memcpy(joining->id.internal, joining->value, sizeof(joining->id));
    }
    return status == DDP_OK ? DDP_OK
                            : ddp_err_set(err, status, "%s, while the id was shared",
                                          ddp_store_error_text(joining->store, status));
}

static ddp_status poll_connect(void *self)
{
    struct joining *joining = self;
    ddp_status status = ddp_nccl_comm_poll(joining->coll->comm);

    if (status < 0) {
        status = ddp_queue_explain(&joining->coll->queue, status);
    }
    return status != DDP_PENDING ? status : check_members(joining->coll);
}

static ddp_status connect_all(struct joining *joining, const struct ddp_coll_nccl_config *config,
                              uint64_t deadline_ns, struct ddp_err *err)
{
    struct ddp_nccl_coll *coll = joining->coll;
    struct ddp_env *env = coll->queue.base.env;
    const struct ddp_pollable pollable = {poll_connect, NULL, joining};
    const uint64_t now_ns = ddp_clock_now_ns(env->clock);
    const struct ddp_nccl_comm_config comm = {
        .library = coll->library,
        .clock = env->clock,
        .thread = coll->queue.base.device->thread,
        .id = joining->id,
        .member = coll->queue.base.member,
        .member_count = coll->queue.base.member_count,
        .init_timeout_ns = deadline_ns == DDP_DEADLINE_NEVER ? 0
                           : deadline_ns > now_ns            ? deadline_ns - now_ns
                                                             : 1,
        .end_timeout_ns =
            config->abort_timeout_ns != 0 ? config->abort_timeout_ns : DEFAULT_ABORT_TIMEOUT_NS};
    ddp_status status;

    DDP_ASSERT(coll->comm == NULL);
    DDP_TRY(ddp_nccl_comm_create(&comm, &coll->comm, err));
    status = ddp_wait(env->idle, env->clock, &pollable, DDP_DEADLINE_NEVER);
    if (status != DDP_OK) {
        const char *text = ddp_nccl_comm_error(coll->comm);

        return ddp_err_set(err, status, "%s", text[0] != '\0' ? text : ddp_status_text(status));
    }
    return DDP_OK;
}

ddp_status ddp_nccl_coll_prepare_device(struct ddp_nccl_coll *coll, struct ddp_err *err)
{
    struct ddp_device *device = coll->queue.base.device;
    ddp_status status;

    DDP_ASSERT(coll->queue.stream == NULL && coll->token == NULL);
    status = device->ops->stream_create(device, &coll->queue.stream);
    if (status == DDP_OK) {
        status = device->ops->alloc(device, sizeof(float), DDP_SPACE_DEVICE, &coll->token);
    }
    return status == DDP_OK ? DDP_OK
                            : ddp_err_set(err, status, "%s", device->ops->last_error(device));
}

/* Whether an algorithm fits NCCL's groups does not depend on the count: try one with uneven parts,
 * in place and not. */
static ddp_status check_algorithm(struct ddp_nccl_coll *coll,
                                  const struct ddp_coll_nccl_config *config, struct ddp_err *err)
{
    struct ddp_cache *plans = &coll->plans;

    if (config->algorithm == DDP_ALGORITHM_NONE) {
        return DDP_OK;
    }
    DDP_TRY(ddp_algorithm_require(DDP_COLL_ALL_REDUCE, config->algorithm,
                                  &plans->algorithm[DDP_COLL_ALL_REDUCE], err));
    plans->ops = &ddp_nccl_plan_cache_ops;
    plans->mem = coll->queue.base.env->mem;
    plans->member = coll->queue.base.member;
    plans->member_count = coll->queue.base.member_count;
    plans->segment_bytes = config->segment_bytes;
    plans->observer = config->observer;
    for (int is_in_place = 0; is_in_place < 2; is_in_place++) {
        const struct ddp_schedule_params params = {
            .kind = DDP_COLL_ALL_REDUCE,
            .dtype = DDP_DTYPE_F32,
            .rank = coll->queue.base.member,
            .size = coll->queue.base.member_count,
            .elem_count = 3 * (size_t)coll->queue.base.member_count + 1,
            .segment_elem_count = 2,
            .is_in_place = is_in_place};
        struct ddp_nccl_plan *plan = NULL;

        DDP_TRY(ddp_nccl_plan_create(plans->mem, plans->algorithm[DDP_COLL_ALL_REDUCE], &params,
                                     &plan, err));
        ddp_nccl_plan_destroy(plans->mem, plan);
    }
    return DDP_OK;
}

static ddp_status join(struct ddp_nccl_coll *coll, const struct ddp_coll_nccl_config *config,
                       struct ddp_err *err)
{
    struct ddp_env *env = coll->queue.base.env;
    uint64_t deadline_ns = ddp_clock_deadline_ns(env->clock, config->init_timeout_ns);
    struct joining *joining = ddp_mem_array(env->mem, 1, sizeof(*joining));
    ddp_status status;

    if (joining == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory to join a group");
    }
    joining->coll = coll;
    joining->store = config->store;
    status = share_id(joining, config->name, deadline_ns, err);
    if (status == DDP_OK) {
        status = connect_all(joining, config, deadline_ns, err);
    }
    ddp_mem_free(env->mem, joining);
    return status;
}

ddp_status ddp_nccl_coll_give_up(struct ddp_nccl_coll *coll, const char *name, ddp_status status,
                                 struct ddp_err *err)
{
    DDP_ASSERT(status < DDP_OK && coll->queue.head == NULL);
    ddp_queue_announce(&coll->queue, status, 0);
    ddp_queue_close(&coll->queue, status);
    coll->queue.base.ops->destroy(&coll->queue.base);
    return ddp_err_wrap(err, status, "NCCL group %s", name);
}

ddp_status ddp_nccl_coll_make(struct ddp_env *env, struct ddp_transport *transport,
                              struct ddp_device *device, const struct ddp_nccl_library *library,
                              const struct ddp_coll_nccl_config *config, struct ddp_nccl_coll **out,
                              struct ddp_err *err)
{
    struct ddp_nccl_coll *coll = ddp_mem_array(env->mem, 1, sizeof(*coll));
    ddp_status status;

    if (coll == NULL || ddp_queue_init(&coll->queue, &ddp_nccl_engine, env, device, transport,
                                       config->comm, config->member_rank) != DDP_OK) {
        ddp_coll_give_up(env, transport, DDP_E_NOMEM);
        ddp_mem_free(env->mem, coll);
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a collective");
    }
    coll->library = library;
    coll->progress = config->progress;
    status = ddp_control_open(&coll->control, &coll->queue, config->is_checked,
                              sizeof(struct ddp_nccl_job), err);
    if (status != DDP_OK) {
        coll->queue.base.ops->destroy(&coll->queue.base);
        return ddp_err_wrap(err, status, "NCCL group %s", config->name);
    }
    status = check_algorithm(coll, config, err);
    if (status != DDP_OK) {
        return ddp_nccl_coll_give_up(coll, config->name, status, err);
    }
    *out = coll;
    return DDP_OK;
}

ddp_status ddp_coll_nccl_create(struct ddp_env *env, struct ddp_transport *transport,
                                struct ddp_device *device,
                                const struct ddp_coll_nccl_config *config, struct ddp_coll **out,
                                struct ddp_err *err)
{
    struct ddp_nccl_coll *coll = NULL;
    ddp_status status;

    DDP_TRY(ddp_nccl_coll_make(env, transport, device, config->library, config, &coll, err));
    DDP_ASSERT(coll != NULL);
    status = ddp_nccl_coll_prepare_device(coll, err);
    if (status == DDP_OK) {
        status = join(coll, config, err);
    }
    if (status != DDP_OK) {
        return ddp_nccl_coll_give_up(coll, config->name, status, err);
    }
    *out = &coll->queue.base;
    return DDP_OK;
}
