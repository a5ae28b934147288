/* Purpose: join the ranks of a team by a transport.
 * Idea: rank 0 has the store and says in shared memory where; nothing is inherited, so it does not
 * matter who started the processes. */
#include <unistd.h>

#include "ddpcore/store/store.h"
#include "ddpcore/transport/shm.h"
#include "ddpcore/transport/tcp.h"
#include "harness/lab/engine.h"

#define HEAP_SLACK_BYTES ((size_t)1 << 20)

static uint32_t *port_of(const struct harness_lab_engine *engine)
{
    DDP_ASSERT(engine->number < HARNESS_LAB_COMMS_MAX);
    return &engine->shared->port[engine->number];
}

static ddp_status host_store(struct harness_lab_engine *engine, struct ddp_store **out)
{
    struct ddp_env *env = &engine->env;
    struct ddp_err *err = engine->err;
    struct ddp_store_server *server = NULL;
    uint16_t port = 0;
    int fd = -1;
    ddp_status status = ddp_store_listen("127.0.0.1", 0, &fd, &port, err);

    if (status == DDP_OK) {
        status = ddp_store_server_create(env->mem, fd, &server, err);
        if (status != DDP_OK) {
            (void)close(fd);
        }
    }
    if (status == DDP_OK) {
        status = ddp_store_host_create(env, server, out);
        if (status != DDP_OK) {
            ddp_store_server_destroy(server);
        }
    }
    if (status == DDP_OK) {
        __atomic_store_n(port_of(engine), port, __ATOMIC_RELEASE);
    }
    return status;
}

static ddp_status port_poll(void *self)
{
    return __atomic_load_n((uint32_t *)self, __ATOMIC_ACQUIRE) != 0 ? DDP_OK : DDP_PENDING;
}

static ddp_status find_store(struct harness_lab_engine *engine, uint64_t deadline_ns,
                             struct ddp_store **out)
{
    struct ddp_env *env = &engine->env;
    struct ddp_err *err = engine->err;
    const struct ddp_pollable pollable = {port_poll, NULL, port_of(engine)};
    ddp_status status = ddp_wait(env->idle, env->clock, &pollable, deadline_ns);

    if (status != DDP_OK) {
        return ddp_err_set(err, status, "rank 0 has no store");
    }
    return ddp_store_tcp_create(env, "127.0.0.1", (uint16_t)*port_of(engine), 0, deadline_ns, out,
                                err);
}

ddp_status harness_lab_connect(struct harness_lab_engine *engine, struct ddp_transport **out)
{
    struct ddp_env *env = &engine->env;
    uint64_t deadline_ns = ddp_clock_deadline_ns(env->clock, HARNESS_LAB_TIMEOUT_NS);
    const struct ddp_tcp_config tcp = {.group_name = "lab",
                                       .member = env->rank,
                                       .member_count = env->world_size,
                                       .address = "127.0.0.1"};
    struct ddp_shm_config shm = {.group_name = "lab",
                                 .member = env->rank,
                                 .member_count = env->world_size,
                                 .heap_bytes = 4 * engine->shared->arena_bytes + HEAP_SLACK_BYTES};
    struct ddp_store *store = NULL;
    ddp_status status =
        env->rank == 0 ? host_store(engine, &store) : find_store(engine, deadline_ns, &store);

    if (status == DDP_OK) {
        status = engine->shared->request.transport == HARNESS_LAB_TCP
                     ? ddp_tcp_create(env, store, &tcp, deadline_ns, out, engine->err)
                     : ddp_shm_create(env, store, &shm, deadline_ns, out, engine->err);
    }
    if (store != NULL) {
        store->ops->destroy(store);
    }
    return status;
}
