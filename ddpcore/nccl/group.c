/* How a group over NCCL begins and ends. Joining: the id travels through the store, everybody
 * connects, and the control channel tells if somebody cannot. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/nccl/state.h"

#define DEFAULT_ABORT_TIMEOUT_NS (10 * DDP_NS_PER_S)

/* The last two are for a member that serves the store: once it connects, it serves no more. */
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
        return joining->coll->base.member == 0 ? ops->set(joining->store, joining->key[0],
                                                          joining->id.internal, sizeof(joining->id))
                                               : ops->get(joining->store, joining->key[0],
                                                          joining->value, &joining->value_bytes);
    case COUNT_UP:
        return ops->add(joining->store, joining->key[1], 1, &joining->joined);
    case SAY_ALL:
        return joining->joined < (int64_t)joining->coll->base.member_count
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
    return status != DDP_PENDING ? status : ddp_control_look_at_members(&joining->coll->control);
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
    struct ddp_env *env = coll->base.env;
    const struct ddp_pollable pollable = {poll_share, hint_share, joining};
    ddp_status status;

    for (int i = 0; i < 3; i++) {
        if (snprintf(joining->key[i], sizeof(joining->key[i]), "nccl/%s/%s", name, keys[i]) >=
            (int)sizeof(joining->key[i])) {
            return ddp_err_set(err, DDP_E_INVALID, "the name is too long for a key");
        }
    }
    if (coll->base.member == 0) {
        uint8_t id[DDP_NCCL_ID_BYTES];

        DDP_TRY(ddp_nccl_unique_id(coll->library, id, err));
        memcpy(joining->id.internal, id, sizeof(id));
    }
    status = ddp_wait(env->idle, env->clock, &pollable, deadline_ns);
    if (status == DDP_OK && coll->base.member != 0 && joining->value_bytes != sizeof(joining->id)) {
        return ddp_err_set(err, DDP_E_CORRUPT, "the id has %zu bytes instead of %u",
                           joining->value_bytes, DDP_NCCL_ID_BYTES);
    }
    if (status == DDP_OK && coll->base.member != 0) {
        memcpy(joining->id.internal, joining->value, sizeof(joining->id));
    }
    return status == DDP_OK
               ? DDP_OK
               : ddp_err_set(err, status, "%s, while the id was shared", ddp_status_text(status));
}

static ddp_status poll_connect(void *self)
{
    struct joining *joining = self;
    ddp_status status = ddp_nccl_comm_poll(joining->coll->comm);

    if (status < 0) {
        status = ddp_nccl_coll_explain(joining->coll, status);
    }
    return status != DDP_PENDING ? status : ddp_control_look_at_members(&joining->coll->control);
}

static ddp_status connect_all(struct joining *joining, const struct ddp_coll_nccl_config *config,
                              uint64_t deadline_ns, struct ddp_err *err)
{
    struct ddp_nccl_coll *coll = joining->coll;
    struct ddp_env *env = coll->base.env;
    const struct ddp_pollable pollable = {poll_connect, NULL, joining};
    const uint64_t now_ns = ddp_clock_now_ns(env->clock);
    const struct ddp_nccl_comm_config comm = {
        .library = coll->library,
        .clock = env->clock,
        .thread = coll->device->thread,
        .id = joining->id,
        .member = coll->base.member,
        .member_count = coll->base.member_count,
        .init_timeout_ns = deadline_ns == DDP_DEADLINE_NEVER ? 0
                           : deadline_ns > now_ns            ? deadline_ns - now_ns
                                                             : 1,
        .end_timeout_ns =
            config->abort_timeout_ns != 0 ? config->abort_timeout_ns : DEFAULT_ABORT_TIMEOUT_NS};
    ddp_status status;

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
    struct ddp_device *device = coll->device;
    ddp_status status = device->ops->stream_create(device, &coll->stream);

    if (status == DDP_OK) {
        status = device->ops->alloc(device, sizeof(float), DDP_SPACE_DEVICE, &coll->token);
    }
    return status == DDP_OK ? DDP_OK
                            : ddp_err_set(err, status, "%s", device->ops->last_error(device));
}

/* Whether the algorithm fits can be seen from any count: try one with uneven parts, in place and
 * not. */
static ddp_status check_algorithm(struct ddp_nccl_coll *coll,
                                  const struct ddp_coll_nccl_config *config, struct ddp_err *err)
{
    if (config->algorithm == DDP_ALGORITHM_NONE) {
        return DDP_OK;
    }
    DDP_TRY(
        ddp_algorithm_require(DDP_COLL_ALL_REDUCE, config->algorithm, &coll->plans.algorithm, err));
    coll->plans.mem = coll->base.env->mem;
    coll->plans.member = coll->base.member;
    coll->plans.member_count = coll->base.member_count;
    coll->plans.segment_bytes = config->segment_bytes;
    coll->plans.observer = config->observer;
    for (int is_in_place = 0; is_in_place < 2; is_in_place++) {
        const struct ddp_schedule_params params = {.kind = DDP_COLL_ALL_REDUCE,
                                                   .dtype = DDP_DTYPE_F32,
                                                   .rank = coll->base.member,
                                                   .size = coll->base.member_count,
                                                   .elem_count =
                                                       3 * (size_t)coll->base.member_count + 1,
                                                   .segment_elem_count = 2,
                                                   .is_in_place = is_in_place};
        struct ddp_nccl_plan *plan = NULL;

        DDP_TRY(ddp_nccl_plan_create(coll->plans.mem, coll->plans.algorithm, &params, &plan, err));
        ddp_nccl_plan_destroy(coll->plans.mem, plan);
    }
    return DDP_OK;
}

static ddp_status join(struct ddp_nccl_coll *coll, const struct ddp_coll_nccl_config *config,
                       struct ddp_err *err)
{
    struct ddp_env *env = coll->base.env;
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
    ddp_control_tell(&coll->control, status, 0);
    coll->failed = status;
    ddp_nccl_coll_destroy(&coll->base);
    (void)ddp_err_wrap(err, status, "NCCL group %s", name);
    return status;
}

ddp_status ddp_nccl_coll_make(struct ddp_env *env, struct ddp_transport *transport,
                              struct ddp_device *device, const struct ddp_nccl_library *library,
                              const struct ddp_coll_nccl_config *config, struct ddp_nccl_coll **out,
                              struct ddp_err *err)
{
    struct ddp_nccl_coll *coll = ddp_mem_array(env->mem, 1, sizeof(*coll));
    ddp_status status;

    if (coll == NULL) {
        transport->ops->destroy(transport);
        (void)ddp_err_set(err, DDP_E_NOMEM, "no memory for a collective");
        return DDP_E_NOMEM;
    }
    coll->base.ops = &ddp_nccl_coll_ops;
    coll->base.env = env;
    coll->base.device = device;
    coll->base.comm = config->comm;
    coll->base.member = transport->member;
    coll->base.member_count = transport->member_count;
    coll->library = library;
    coll->device = device;
    coll->progress = config->progress;
    coll->is_checked = config->is_checked;
    status =
        ddp_control_open(&coll->control, env, transport, config->comm, config->member_rank, err);
    if (status != DDP_OK) {
        transport->ops->destroy(transport);
        coll->failed = status;
        ddp_nccl_coll_destroy(&coll->base);
        (void)ddp_err_wrap(err, status, "NCCL group %s", config->name);
        return status;
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
    status = ddp_nccl_coll_prepare_device(coll, err);
    if (status == DDP_OK) {
        status = join(coll, config, err);
    }
    if (status != DDP_OK) {
        return ddp_nccl_coll_give_up(coll, config->name, status, err);
    }
    *out = &coll->base;
    return DDP_OK;
}

/* The end of a communicator. It keeps its own deadlines. */
static ddp_status poll_gone(void *self)
{
    struct ddp_nccl_coll *coll = self;

    (void)ddp_nccl_comm_poll(coll->comm);
    if (ddp_nccl_comm_state(coll->comm) == DDP_NCCL_COMM_FINALIZING &&
        ddp_control_look_at_members(&coll->control) != DDP_PENDING) {
        ddp_nccl_comm_abort(coll->comm);
    }
    return ddp_nccl_coll_is_gone(coll) ? DDP_OK : DDP_PENDING;
}

/* Returns whether NCCL has let go of everything. */
static bool end_comm(struct ddp_nccl_coll *coll)
{
    struct ddp_env *env = coll->base.env;
    const struct ddp_pollable pollable = {poll_gone, NULL, coll};
    ddp_status status;

    if (coll->comm == NULL) {
        return true;
    }
    if (coll->failed == DDP_OK && coll->head == NULL && ddp_nccl_comm_poll(coll->comm) == DDP_OK &&
        ddp_nccl_comm_state(coll->comm) == DDP_NCCL_COMM_READY) {
        ddp_nccl_comm_finalize(coll->comm);
    } else {
        ddp_nccl_comm_abort(coll->comm);
    }
    status = ddp_wait(env->idle, env->clock, &pollable, DDP_DEADLINE_NEVER);
    DDP_ASSERT(status == DDP_OK);
    return ddp_nccl_comm_poll(coll->comm) == DDP_OK;
}

static void free_jobs(struct ddp_nccl_coll *coll, bool is_quiet)
{
    struct ddp_device *device = coll->device;

    while (coll->jobs != NULL) {
        struct ddp_nccl_job *gone = coll->jobs;

        coll->jobs = gone->next_owned;
        if (is_quiet && gone->produced != NULL) {
            device->ops->event_destroy(device, gone->produced);
        }
        if (is_quiet && gone->done != NULL) {
            device->ops->event_destroy(device, gone->done);
        }
        ddp_mem_free(coll->base.env->mem, gone);
    }
}

void ddp_nccl_coll_destroy(struct ddp_coll *base)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)base;
    struct ddp_device *device = coll->device;
    /* If NCCL hangs, its kernels may still use the stream, and to free memory waits for them. */
    bool is_quiet = end_comm(coll);

    ddp_nccl_coll_fail(coll, DDP_E_STATE);
    ddp_nccl_coll_drive(coll);
    ddp_control_leave(&coll->control);
    free_jobs(coll, is_quiet);
    if (is_quiet && coll->stream != NULL) {
        device->ops->free(device, DDP_SPACE_DEVICE, coll->token);
        device->ops->free(device, DDP_SPACE_DEVICE, coll->workspace);
        device->ops->stream_destroy(device, coll->stream);
    }
    if (coll->comm != NULL) {
        ddp_nccl_comm_destroy(coll->comm);
    }
    ddp_nccl_plan_cache_fini(&coll->plans);
    ddp_control_close(&coll->control);
    ddp_mem_free(base->env->mem, coll);
}

struct aborting {
    struct ddp_coll *const *colls;
    size_t count;
};

static ddp_status poll_all_gone(void *self)
{
    struct aborting *aborting = self;
    ddp_status status = DDP_OK;

    for (size_t i = 0; i < aborting->count; i++) {
        struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)aborting->colls[i];

        ddp_nccl_coll_drive(coll);
        if (!ddp_nccl_coll_is_gone(coll)) {
            status = DDP_PENDING;
        }
    }
    return status;
}

ddp_status ddp_coll_nccl_abort_all(struct ddp_coll *const *colls, size_t count, uint64_t timeout_ns)
{
    struct aborting aborting = {colls, count};
    const struct ddp_pollable pollable = {poll_all_gone, NULL, &aborting};
    struct ddp_env *env;
    ddp_status status;

    if (count == 0) {
        return DDP_OK;
    }
    for (size_t i = 0; i < count; i++) {
        DDP_ASSERT(colls[i]->ops == &ddp_nccl_coll_ops);
        ddp_nccl_coll_fail((struct ddp_nccl_coll *)colls[i], DDP_E_STATE);
    }
    env = colls[0]->env;
    status =
        ddp_wait(env->idle, env->clock, &pollable, ddp_clock_deadline_ns(env->clock, timeout_ns));
    for (size_t i = 0; status == DDP_OK && i < count; i++) {
        status = ddp_nccl_comm_poll(((struct ddp_nccl_coll *)colls[i])->comm);
    }
    return status;
}
