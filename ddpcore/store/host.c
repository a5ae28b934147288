/* The store of the process that runs the server: its calls are answered at once, without a
 * connection. The others are served whenever it calls, and while it waits for something else. */
#include <poll.h>
#include <stddef.h>

#include "ddpcore/store/wire.h"

enum { SERVE_EVERY_NS = 200000 }; /* while the host waits: looking costs it a system call */

struct host_store {
    struct ddp_store base;
    struct ddp_idle_attendant attendant;
    uint64_t next_serve_ns;
    struct ddp_env *env;
    struct ddp_store_server *server;
};

static ddp_status ask(struct ddp_store *base, enum ddp_store_op op, const char *key,
                      const void *payload, size_t payload_bytes, uint8_t *out, size_t *out_bytes)
{
    const struct host_store *store = (const struct host_store *)base;
    struct ddp_store_request request;

    DDP_TRY(ddp_store_request_init(&request, op, key, payload, payload_bytes));
    ddp_store_server_pump(store->server);
    if (ddp_store_server_is_exhausted(store->server)) {
        return DDP_E_NOMEM;
    }
    return ddp_store_server_answer(store->server, &request, out, out_bytes);
}

/* Ranks of a group without this one may need the store while this one waits in a collective. */
static void attend(struct ddp_idle_attendant *attendant, uint64_t now_ns)
{
    struct host_store *store =
        (struct host_store *)((char *)attendant - offsetof(struct host_store, attendant));

    if (now_ns >= store->next_serve_ns) {
        ddp_store_server_pump(store->server);
        store->next_serve_ns = now_ns + SERVE_EVERY_NS;
    }
}

static ddp_status host_set(struct ddp_store *store, const char *key, const void *value,
                           size_t size_bytes)
{
    size_t none_bytes;

    return ask(store, DDP_STORE_OP_SET, key, value, size_bytes, NULL, &none_bytes);
}

static ddp_status host_get(struct ddp_store *store, const char *key, void *value,
                           size_t *out_size_bytes)
{
    return ask(store, DDP_STORE_OP_GET, key, "", 0, value, out_size_bytes);
}

static ddp_status host_add(struct ddp_store *store, const char *key, int64_t amount, int64_t *out)
{
    uint8_t amount_bytes[8], sum_bytes[8];
    size_t size_bytes;

    ddp_store_put_i64(amount_bytes, amount);
    DDP_TRY(ask(store, DDP_STORE_OP_ADD, key, amount_bytes, sizeof(amount_bytes), sum_bytes,
                &size_bytes));
    *out = ddp_store_get_i64(sum_bytes);
    return DDP_OK;
}

static void host_hint(struct ddp_store *base, struct ddp_idle_hint *hint)
{
    const struct host_store *store = (const struct host_store *)base;

    hint->doorbell = NULL;
    hint->fd = ddp_store_server_fd(store->server);
    hint->fd_events = POLLIN;
}

static void host_destroy(struct ddp_store *base)
{
    struct host_store *store = (struct host_store *)base;

    ddp_idle_remove(store->env->idle, &store->attendant);
    ddp_store_server_destroy(store->server);
    ddp_mem_free(store->env->mem, store);
}

ddp_status ddp_store_host_create(struct ddp_env *env, struct ddp_store_server *server,
                                 struct ddp_store **out)
{
    static const struct ddp_store_ops ops = {host_set, host_get, host_add, host_hint, host_destroy};
    struct host_store *store = ddp_mem_array(env->mem, 1, sizeof(*store));

    DDP_ASSERT(server != NULL);
    if (store == NULL) {
        return DDP_E_NOMEM;
    }
    store->base = (struct ddp_store){.ops = &ops, .dead_rank = -1, .is_host = true};
    store->env = env;
    store->server = server;
    ddp_store_server_set_recorder(server, env->recorder);
    store->attendant.attend = attend;
    ddp_idle_add(env->idle, &store->attendant);
    *out = &store->base;
    return DDP_OK;
}
