/* Groups over the NCCL stand-in on the CUDA stand-in, one process a rank, over shared memory: the
 * adapter with real asynchrony, real deaths and real threads. No GPU result. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/cuda/cuda.h"
#include "ddpcore/device/transfer.h"
#include "ddpcore/nccl/nccl.h"
#include "ddpcore/transport/shm.h"
#include "tests/ct.h"
#include "tests/standin/cuda/include/ddp_standin.h"
#include "tests/unit/transport/transport_ranks.h"

#define COUNT   5000u
#define WAIT_NS (20 * DDP_NS_PER_S)

/* What differs between cases. */
struct setup {
    const char *library, *script;
    enum ddp_algorithm_id algorithm;
    bool is_checked, is_strict_abort;
    bool is_hosted; /* rank 0 serves the store through which the id goes */
};

struct rank {
    struct rank_context *context;
    struct ddp_nccl_library *library;
    struct ddp_device *device;
    struct ddp_coll *coll;
    struct ddp_store *hosted; /* NULL: the parent's */
    struct ddp_coll_work work;
    float *data; /* device memory of COUNT floats per member */
};

static struct setup setup;

static ddp_status poll_work(void *self)
{
    struct rank *rank = self;

    return rank->coll->ops->poll(rank->coll, &rank->work);
}

static void hint_work(void *self, struct ddp_idle_hint *hint)
{
    struct rank *rank = self;

    rank->coll->ops->hint(rank->coll, hint);
}

static ddp_status wait_work(struct rank *rank, uint64_t timeout_ns)
{
    struct ddp_env *env = rank->context->env;
    const struct ddp_pollable pollable = {poll_work, hint_work, rank};

    return ddp_wait(env->idle, env->clock, &pollable,
                    ddp_clock_deadline_ns(env->clock, timeout_ns));
}

static ddp_status post(struct rank *rank, enum ddp_coll_kind kind, size_t elem_count, void *data)
{
    const uint64_t seq = rank->work.seq + 1;

    memset(&rank->work, 0, sizeof(rank->work));
    rank->work.seq = seq;
    rank->work.status = DDP_PENDING;
    rank->work.args.kind = kind;
    rank->work.args.dtype = DDP_DTYPE_F32;
    rank->work.args.elem_count = elem_count;
    rank->work.args.root = kind == DDP_COLL_BROADCAST ? rank->context->count - 1 : 0;
    rank->work.args.input = data;
    rank->work.args.output = data;
    return rank->coll->ops->post(rank->coll, &rank->work);
}

static ddp_status join_group(struct rank *rank, struct ddp_transport *transport, const char *name,
                             struct ddp_coll **out)
{
    const struct ddp_coll_nccl_config config = {
        .library = rank->library,
        .store = rank->hosted != NULL ? rank->hosted : rank->context->store,
        .name = name,
        .comm = 42,
        .is_checked = setup.is_checked,
        .init_timeout_ns = WAIT_NS,
        .algorithm = setup.algorithm};
    struct ddp_err err = {""};
    ddp_status status =
        ddp_coll_nccl_create(rank->context->env, transport, rank->device, &config, out, &err);

    if (status != DDP_OK && rank->context->failure[0] == '\0') {
        (void)snprintf(rank->context->failure, sizeof(rank->context->failure), "rank %u: %.200s",
                       rank->context->rank, err.text);
    }
    return status;
}

/* A store that rank 0 serves while it waits in it, and only then. */
static void host_store(struct rank *rank)
{
    struct rank_context *context = rank->context;
    struct ddp_env *env = context->env;
    uint64_t deadline_ns = ddp_clock_deadline_ns(env->clock, WAIT_NS);
    struct ddp_store_server *server = NULL;
    uint8_t value[DDP_STORE_VALUE_BYTES_MAX] = {0};
    size_t size_bytes = 0;
    uint16_t port = 0;
    int fd = -1;

    if (context->rank == 0) {
        RANK_CHECK(context, ddp_store_listen("127.0.0.1", 0, &fd, &port, NULL) == DDP_OK);
        RANK_CHECK(context, ddp_store_server_create(env->mem, fd, &server, NULL) == DDP_OK &&
                                ddp_store_host_create(env, server, &rank->hosted) == DDP_OK);
        RANK_CHECK(context, ddp_store_set(env, context->store, "port", &port, sizeof(port),
                                          deadline_ns) == DDP_OK);
    } else {
        RANK_CHECK(context, ddp_store_get(env, context->store, "port", value, &size_bytes,
                                          deadline_ns) == DDP_OK);
        memcpy(&port, value, sizeof(port));
        RANK_CHECK(context, ddp_store_tcp_create(env, "127.0.0.1", port, 0, deadline_ns,
                                                 &rank->hosted, NULL) == DDP_OK);
    }
}

static bool await_all(struct rank_context *context, const char *name)
{
    const uint64_t deadline_ns = ddp_clock_deadline_ns(context->env->clock, WAIT_NS);
    const bool is_met = ddp_store_barrier(context->env, context->store, name, context->count,
                                          deadline_ns) == DDP_OK;

    RANK_CHECK(context, is_met);
    return is_met;
}

/* All share the second card, so each is told to be a host of its own. */
static bool begin(struct rank *rank, struct rank_context *context)
{
    const struct ddp_device_cuda_config cuda = {.cublas_path = CUBLAS_STANDIN, .ordinal = 1};
    struct ddp_err err = {""};
    char host[32];

    memset(rank, 0, sizeof(*rank));
    rank->context = context;
    RANK_CHECK(context, setenv("DDP_STANDIN_CARDS", "2", 1) == 0);
    (void)snprintf(host, sizeof(host), "host-%u", context->rank);
    RANK_CHECK(context, setenv("NCCL_HOSTID", host, 1) == 0);
    RANK_CHECK(context, setenv("DDP_NCCL_STANDIN_SCRIPT", setup.script, 1) == 0);
    RANK_CHECK(context,
               setenv("DDP_NCCL_STANDIN_STRICT_ABORT", setup.is_strict_abort ? "1" : "0", 1) == 0);
    if (ddp_nccl_library_open(context->env->mem, setup.library, &rank->library, &err) != DDP_OK ||
        ddp_device_cuda_create(context->env->mem, &cuda, &rank->device, &err) != DDP_OK) {
        (void)snprintf(context->failure, sizeof(context->failure), "%.200s", err.text);
        return false;
    }
    if (setup.is_hosted) {
        host_store(rank);
    }
    if (join_group(rank, context->transport, "world", &rank->coll) != DDP_OK) {
        context->transport = NULL;
        return false;
    }
    context->transport = NULL;
    if (rank->hosted != NULL) {
        rank->hosted->ops->destroy(rank->hosted);
    }
    rank->data = rank->coll->ops->alloc(rank->coll, COUNT * context->count * sizeof(float),
                                        DDP_SPACE_DEVICE);
    RANK_CHECK(context, rank->data != NULL);
    /* What one of them is about to do must not reach another while that one still joins. */
    return rank->data != NULL && await_all(context, "begun");
}

static void end(struct rank *rank)
{
    struct ddp_standin_report report;

    rank->coll->ops->free(rank->coll, DDP_SPACE_DEVICE, rank->data);
    rank->coll->ops->destroy(rank->coll);
    /* No thread has made a context on the first card, where threads start out. */
    ddp_standin_report_get(&report);
    RANK_CHECK(rank->context, report.card_mask == 1u << 1);
    rank->device->ops->destroy(rank->device);
    ddp_nccl_library_close(rank->library);
}

/* Through a pinned buffer, which the device reaches. */
static float *pinned(struct rank *rank)
{
    return rank->coll->ops->alloc(rank->coll, COUNT * rank->context->count * sizeof(float),
                                  DDP_SPACE_HOST);
}

static void check_all_reduce(struct rank *rank, float *host)
{
    const struct ddp_device_ops *ops = rank->device->ops;
    uint32_t count = rank->context->count;
    struct ddp_device_event *copied = NULL;

    for (uint32_t i = 0; i < COUNT; i++) {
        host[i] = (float)(i + 1000 * rank->context->rank);
    }
    /* The copy is the producer: post does not wait for it here. */
    RANK_CHECK(rank->context,
               ops->copy(rank->device, NULL, rank->data, host, COUNT * sizeof(float)) == DDP_OK);
    RANK_CHECK(rank->context, post(rank, DDP_COLL_ALL_REDUCE, COUNT, rank->data) == DDP_OK);
    RANK_CHECK(rank->context, wait_work(rank, WAIT_NS) == DDP_OK);
    RANK_CHECK(rank->context,
               ops->copy(rank->device, NULL, host, rank->data, COUNT * sizeof(float)) == DDP_OK);
    RANK_CHECK(rank->context, ops->event_create(rank->device, &copied) == DDP_OK);
    RANK_CHECK(rank->context, ops->event_record(rank->device, copied, NULL) == DDP_OK);
    while (ops->event_query(rank->device, copied) == DDP_PENDING) {
    }
    ops->event_destroy(rank->device, copied);
    for (uint32_t i = 0; i < COUNT; i++) {
        RANK_CHECK(rank->context, host[i] == (float)(count * i + 1000 * (count * (count - 1) / 2)));
    }
}

/* Pinned memory goes to NCCL as it is. */
static void check_host_memory(struct rank *rank, float *host)
{
    uint32_t last = rank->context->count - 1;

    for (uint32_t i = 0; i < COUNT; i++) {
        host[i] = (float)rank->context->rank;
    }
    RANK_CHECK(rank->context, post(rank, DDP_COLL_BROADCAST, COUNT, host) == DDP_OK);
    RANK_CHECK(rank->context, wait_work(rank, WAIT_NS) == DDP_OK);
    RANK_CHECK(rank->context, host[0] == (float)last && host[COUNT - 1] == (float)last);
    for (uint32_t i = 0; i < COUNT; i++) {
        host[rank->context->rank * COUNT + i] = (float)rank->context->rank;
    }
    RANK_CHECK(rank->context, post(rank, DDP_COLL_ALL_GATHER, COUNT, host) == DDP_OK);
    RANK_CHECK(rank->context, wait_work(rank, WAIT_NS) == DDP_OK);
    for (uint32_t i = 0; i <= last; i++) {
        RANK_CHECK(rank->context, host[i * COUNT] == (float)i);
    }
}

static void work_well(struct rank_context *context)
{
    struct rank rank;
    float *host;

    if (!begin(&rank, context)) {
        return;
    }
    host = pinned(&rank);
    RANK_CHECK(context, host != NULL);
    for (int i = 0; i < 5 && context->failure[0] == '\0'; i++) {
        check_all_reduce(&rank, host);
        check_host_memory(&rank, host);
        RANK_CHECK(context, post(&rank, DDP_COLL_BARRIER, 0, NULL) == DDP_OK);
        RANK_CHECK(context, wait_work(&rank, WAIT_NS) == DDP_OK);
    }
    rank.coll->ops->free(rank.coll, DDP_SPACE_HOST, host);
    end(&rank);
}

CT_TEST(nccl_processes, collectives_give_their_results)
{
    static const struct setup setups[] = {
        {NCCL_STANDIN, "", DDP_ALGORITHM_NONE, true, false, false},
        {NCCL_STANDIN, "", DDP_ALGORITHM_NONE, false, false, false},
        {NCCL_STANDIN_OLD, "", DDP_ALGORITHM_NONE, true, false, false},
        {NCCL_STANDIN, "", DDP_ALGORITHM_RING, true, false, false},
        {NCCL_STANDIN, "", DDP_ALGORITHM_RECURSIVE_DOUBLING, false, false, false},
    };

    for (size_t i = 0; i < sizeof(setups) / sizeof(setups[0]); i++) {
        setup = setups[i];
        ranks_run_shm(i % 2 == 0 ? 3 : 2, work_well);
    }
}

static void one_dies(struct rank_context *context)
{
    struct ddp_revocation revocation;
    struct rank rank;

    if (!begin(&rank, context)) {
        return;
    }
    RANK_CHECK(context, post(&rank, DDP_COLL_ALL_REDUCE, COUNT, rank.data) == DDP_OK);
    RANK_CHECK(context, wait_work(&rank, WAIT_NS) == DDP_OK);
    /* A member whose own part is complete may be ahead of the others. */
    RANK_CHECK(context,
               ddp_store_barrier(context->env, context->store, "reduced", context->count,
                                 ddp_clock_deadline_ns(context->env->clock, WAIT_NS)) == DDP_OK);
    if (context->rank == 1) {
        context->die(context);
    }
    (void)post(&rank, DDP_COLL_ALL_REDUCE, COUNT, rank.data);
    RANK_CHECK(context, wait_work(&rank, WAIT_NS) == DDP_E_PEER_DIED);
    RANK_CHECK(context, rank.coll->ops->dead_rank(rank.coll) == 1);
    RANK_CHECK(context, !rank.coll->ops->is_revoked(rank.coll, &revocation));
    end(&rank);
}

CT_TEST(nccl_processes, member_that_serves_the_store_lets_all_join)
{
    setup = (struct setup){NCCL_STANDIN, "", DDP_ALGORITHM_NONE, true, false, true};
    for (int i = 0; i < 3; i++) {
        ranks_run_shm(4, work_well);
    }
}

/* With NCCL's own algorithms and aborts. */
static void run_script(const char *library, const char *script, bool is_checked, uint32_t count,
                       rank_program *program)
{
    setup = (struct setup){library, script, DDP_ALGORITHM_NONE, is_checked, false, false};
    ranks_run_shm(count, program);
}

CT_TEST(nccl_processes, death_is_named_by_all_survivors)
{
    for (int is_checked = 0; is_checked < 2; is_checked++) {
        run_script(NCCL_STANDIN, "", is_checked != 0, 3, one_dies);
        run_script(NCCL_STANDIN_OLD, "", is_checked != 0, 3, one_dies);
    }
}

/* The scripted error strikes rank 1 only. */
static void one_fails(struct rank_context *context)
{
    ddp_status status = DDP_OK;
    struct ddp_revocation revocation = {0};
    struct rank rank;

    if (!begin(&rank, context)) {
        return;
    }
    for (int i = 0; i < 200 && status == DDP_OK; i++) {
        status = post(&rank, DDP_COLL_ALL_REDUCE, COUNT, rank.data);
        status = status == DDP_OK ? wait_work(&rank, WAIT_NS) : status;
    }
    RANK_CHECK(context, status == (context->rank == 1 ? DDP_E_SYSTEM : DDP_E_REVOKED));
    RANK_CHECK(context, rank.coll->ops->is_revoked(rank.coll, &revocation));
    RANK_CHECK(context, revocation.rank == 1 && revocation.status == DDP_E_SYSTEM);
    RANK_CHECK(context, context->rank != 1 || rank.coll->ops->last_error(rank.coll)[0] != '\0');
    end(&rank);
}

CT_TEST(nccl_processes, error_of_one_ends_all)
{
    for (int is_checked = 0; is_checked < 2; is_checked++) {
        run_script(NCCL_STANDIN, "rank1:async_after_op=2:system_error", is_checked != 0, 3,
                   one_fails);
        run_script(NCCL_STANDIN, "rank1:launch2=internal_error", is_checked != 0, 3, one_fails);
        run_script(NCCL_STANDIN, "rank1:op3=system_error", is_checked != 0, 3, one_fails);
    }
}

/* A collective that hangs inside NCCL: the caller gives up, and then all of them can. */
static void one_hangs(struct rank_context *context)
{
    const struct ddp_revocation revocation = {.rank = context->rank, .status = DDP_E_TIMEOUT};
    struct rank rank;

    if (!begin(&rank, context)) {
        return;
    }
    RANK_CHECK(context, post(&rank, DDP_COLL_ALL_REDUCE, COUNT, rank.data) == DDP_OK);
    RANK_CHECK(context, wait_work(&rank, WAIT_NS) == DDP_OK);
    RANK_CHECK(context, post(&rank, DDP_COLL_ALL_REDUCE, COUNT, rank.data) == DDP_OK);
    if (context->rank == 0) {
        RANK_CHECK(context, wait_work(&rank, 50 * DDP_NS_PER_MS) == DDP_E_TIMEOUT);
        rank.coll->ops->revoke(rank.coll, &revocation);
    }
    RANK_CHECK(context, wait_work(&rank, WAIT_NS) == DDP_E_REVOKED);
    end(&rank);
}

CT_TEST(nccl_processes, hang_can_be_revoked)
{
    run_script(NCCL_STANDIN, "op2=hang", true, 2, one_hangs);
    run_script(NCCL_STANDIN, "launch2=hang", false, 2, one_hangs);
    run_script(NCCL_STANDIN_OLD, "op2=hang", true, 2, one_hangs);
}

static void one_differs(struct rank_context *context)
{
    ddp_status status;
    struct rank rank;

    if (!begin(&rank, context)) {
        return;
    }
    (void)post(&rank, DDP_COLL_ALL_REDUCE, context->rank == 1 ? COUNT - 1 : COUNT, rank.data);
    status = wait_work(&rank, WAIT_NS);
    RANK_CHECK(context, status == DDP_E_MISMATCH || status == DDP_E_REVOKED);
    end(&rank);
}

CT_TEST(nccl_processes, mismatch_ends_all)
{
    run_script(NCCL_STANDIN, "", true, 3, one_differs);
}

/* Two groups, both stuck, with a NCCL whose aborts wait for all kernels of the card: neither abort
 * returns before both were started. */
static void both_stuck(struct rank_context *context)
{
    const struct ddp_shm_config config = {.group_name = "second",
                                          .member = context->rank,
                                          .member_count = context->count,
                                          .heap_bytes = 1 << 20};
    const struct ddp_revocation revocation = {context->rank, DDP_E_STATE, 0, 0};
    struct ddp_transport *transport = NULL;
    struct ddp_err err = {""};
    struct rank groups[2];

    if (!begin(&groups[0], context)) {
        return;
    }
    groups[1] = groups[0];
    RANK_CHECK(context, ddp_shm_create(context->env, context->store, &config,
                                       ddp_clock_deadline_ns(context->env->clock, WAIT_NS),
                                       &transport, &err) == DDP_OK);
    if (transport == NULL ||
        join_group(&groups[1], transport, "second", &groups[1].coll) != DDP_OK) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        RANK_CHECK(context, post(&groups[i], DDP_COLL_ALL_REDUCE, COUNT, groups[i].data) == DDP_OK);
        RANK_CHECK(context, wait_work(&groups[i], 20 * DDP_NS_PER_MS) == DDP_E_TIMEOUT);
    }
    /* A poll starts the abort, and does not wait for it. */
    for (int i = 0; i < 2; i++) {
        groups[i].coll->ops->revoke(groups[i].coll, &revocation);
        (void)groups[i].coll->ops->poll(groups[i].coll, &groups[i].work);
    }
    for (int i = 0; i < 2; i++) {
        RANK_CHECK(context, wait_work(&groups[i], WAIT_NS) == DDP_E_REVOKED);
    }
    groups[1].coll->ops->destroy(groups[1].coll);
    end(&groups[0]);
}

CT_TEST(nccl_processes, stuck_groups_are_aborted_together)
{
    setup = (struct setup){NCCL_STANDIN, "op1=hang", DDP_ALGORITHM_NONE, false, true, false};
    ranks_run_shm(2, both_stuck);
    setup = (struct setup){NCCL_STANDIN_OLD, "op1=hang", DDP_ALGORITHM_NONE, false, true, false};
    ranks_run_shm(2, both_stuck);
}

/* The last rank stops taking part; the others go on without it. */
static void last_hangs(struct rank_context *context)
{
    const struct ddp_shm_config config = {.group_name = "rest",
                                          .member = context->rank,
                                          .member_count = context->count - 1,
                                          .heap_bytes = 1 << 20};
    const struct ddp_coll_nccl_config nccl = {
        .name = "rest", .comm = 43, .is_checked = true, .init_timeout_ns = WAIT_NS};
    const uint32_t excluded[] = {context->count - 1};
    uint64_t deadline_ns = ddp_clock_deadline_ns(context->env->clock, WAIT_NS);
    struct ddp_transport *transport = NULL;
    struct ddp_err err = {""};
    struct rank rank;
    float *host;

    if (!begin(&rank, context)) {
        return;
    }
    host = pinned(&rank);
    check_all_reduce(&rank, host);
    if (context->rank < context->count - 1) {
        struct rank rest = rank;

        RANK_CHECK(context, post(&rank, DDP_COLL_ALL_REDUCE, COUNT, rank.data) == DDP_OK);
        RANK_CHECK(context, wait_work(&rank, 20 * DDP_NS_PER_MS) == DDP_E_TIMEOUT);
        RANK_CHECK(context, ddp_shm_create(context->env, context->store, &config, deadline_ns,
                                           &transport, &err) == DDP_OK);
        if (transport == NULL || ddp_coll_nccl_shrink(rank.coll, transport, &nccl, excluded, 1,
                                                      &rest.coll, &err) != DDP_OK) {
            (void)snprintf(context->failure, sizeof(context->failure), "%.200s", err.text);
            return;
        }
        RANK_CHECK(context, rank.work.status == DDP_E_REVOKED);
        rest.work.seq = 0;
        context->count--;
        check_all_reduce(&rest, host);
        check_all_reduce(&rest, host);
        context->count++;
        rest.coll->ops->destroy(rest.coll);
    }
    (void)await_all(context, "end");
    rank.coll->ops->free(rank.coll, DDP_SPACE_HOST, host);
    end(&rank);
}

CT_TEST(nccl_processes, group_shrinks_around_a_rank_that_hangs)
{
    run_script(NCCL_STANDIN, "", false, 3, last_hangs);
    ranks_run_shm(4, last_hangs);
}
