/* The store of the simulator: one table on the net. A value set by a rank is visible to the others
 * one latency later; ranks that asked too early are woken then. */
#include <string.h>

#include "ddpcore/transport/loop_net.h"

struct loop_store {
    struct ddp_store base;
    struct ddp_env *env;
    struct ddp_loop_net *net;
};

static bool is_key_valid(const char *name)
{
    return strlen(name) <= DDP_STORE_KEY_BYTES_MAX;
}

static ddp_status assign(struct loop_store *store, struct ddp_loop_key *key, const void *value,
                         size_t size_bytes)
{
    struct ddp_loop_net *net = store->net;
    struct ddp_mem *mem = net->config.mem;
    uint8_t *copy = ddp_mem_array(mem, size_bytes + 1, 1);

    if (copy == NULL) {
        return DDP_E_NOMEM;
    }
    if (size_bytes > 0) {
        memcpy(copy, value, size_bytes);
    }
    key->setter = store->env->rank;
    key->visible_ns = ddp_loop_net_now_ns(net) + net->config.latency_ns;
    DDP_ASSERT(key->setter < net->config.world_size);
    ddp_mem_free(mem, key->value);
    key->value = copy;
    key->size_bytes = size_bytes;
    for (uint32_t rank = 0; rank < net->config.world_size; rank++) {
        if ((key->waiting[rank / 64] >> (rank % 64) & 1) != 0) {
            ddp_loop_net_wake(net, rank, key->visible_ns);
        }
    }
    return DDP_OK;
}

static ddp_status loop_store_set(struct ddp_store *base, const char *name, const void *value,
                                 size_t size_bytes)
{
    struct loop_store *store = (struct loop_store *)base;
    struct ddp_loop_key *key;

    if (!is_key_valid(name) || size_bytes > DDP_STORE_VALUE_BYTES_MAX) {
        return DDP_E_INVALID;
    }
    key = ddp_loop_net_key(store->net, name);
    return key == NULL ? DDP_E_NOMEM : assign(store, key, value, size_bytes);
}

/* A rank that died cannot set anything any more: waiting for a key may be waiting for ever. */
static ddp_status find_dead(struct loop_store *store)
{
    struct ddp_loop_net *net = store->net;

    for (uint32_t rank = 0; net->dead_count > 0 && rank < net->config.world_size; rank++) {
        if (ddp_loop_net_is_dead(net, rank) && !net->ranks[rank].is_excused) {
            store->base.dead_rank = (int32_t)rank;
            return DDP_E_PEER_DIED;
        }
    }
    return DDP_PENDING;
}

static ddp_status loop_store_get(struct ddp_store *base, const char *name, void *value,
                                 size_t *out_size_bytes)
{
    struct loop_store *store = (struct loop_store *)base;
    uint32_t rank = store->env->rank;
    struct ddp_loop_key *key;

    if (!is_key_valid(name)) {
        return DDP_E_INVALID;
    }
    key = ddp_loop_net_key(store->net, name);
    if (key == NULL) {
        return DDP_E_NOMEM;
    }
    DDP_ASSERT(key->size_bytes <= DDP_STORE_VALUE_BYTES_MAX);
    if (key->value == NULL) {
        key->waiting[rank / 64] |= UINT64_C(1) << (rank % 64);
        return find_dead(store);
    }
    if (key->setter != rank && ddp_loop_net_now_ns(store->net) < key->visible_ns) {
        ddp_loop_net_wake(store->net, rank, key->visible_ns);
        return DDP_PENDING;
    }
    memcpy(value, key->value, key->size_bytes);
    *out_size_bytes = key->size_bytes;
    return DDP_OK;
}

static ddp_status loop_store_add(struct ddp_store *base, const char *name, int64_t amount,
                                 int64_t *out)
{
    struct loop_store *store = (struct loop_store *)base;
    struct ddp_loop_key *key;
    int64_t sum = 0;

    if (!is_key_valid(name)) {
        return DDP_E_INVALID;
    }
    key = ddp_loop_net_key(store->net, name);
    if (key == NULL) {
        return DDP_E_NOMEM;
    }
    if (key->value != NULL) {
        if (key->size_bytes != sizeof(sum)) {
            return DDP_E_STATE;
        }
        memcpy(&sum, key->value, sizeof(sum));
    }
    if (__builtin_add_overflow(sum, amount, &sum)) {
        return DDP_E_OVERFLOW;
    }
    *out = sum;
    return assign(store, key, &sum, sizeof(sum));
}

static void loop_store_hint(struct ddp_store *store, struct ddp_idle_hint *hint)
{
    (void)store;
    hint->doorbell = NULL;
    hint->fd = -1;
}

static void loop_store_destroy(struct ddp_store *base)
{
    struct loop_store *store = (struct loop_store *)base;

    ddp_mem_free(store->env->mem, store);
}

ddp_status ddp_loop_store_create(struct ddp_loop_net *net, struct ddp_env *env,
                                 struct ddp_store **out)
{
    static const struct ddp_store_ops ops = {loop_store_set, loop_store_get, loop_store_add,
                                             loop_store_hint, loop_store_destroy};
    struct loop_store *store = ddp_mem_array(env->mem, 1, sizeof(*store));

    DDP_ASSERT(env->rank < net->config.world_size);
    if (store == NULL) {
        return DDP_E_NOMEM;
    }
    store->base.ops = &ops;
    store->base.dead_rank = -1;
    store->env = env;
    store->net = net;
    *out = &store->base;
    return DDP_OK;
}
