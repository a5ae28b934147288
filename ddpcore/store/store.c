/* Blocking forms of the store's calls, and the barrier built from them. */
#include "ddpcore/store/store.h"

#include <stdio.h>
#include <string.h>

struct call {
    struct ddp_store *store;
    const char *key;
    const void *value;
    void *out_value;
    size_t size_bytes;
    size_t *out_size_bytes;
    int64_t amount;
    int64_t sum;
};

static void call_hint(void *self, struct ddp_idle_hint *hint)
{
    const struct call *call = self;

    call->store->ops->hint(call->store, hint);
}

static ddp_status set_poll(void *self)
{
    const struct call *call = self;

    return call->store->ops->set(call->store, call->key, call->value, call->size_bytes);
}

static ddp_status get_poll(void *self)
{
    const struct call *call = self;

    return call->store->ops->get(call->store, call->key, call->out_value, call->out_size_bytes);
}

static ddp_status add_poll(void *self)
{
    struct call *call = self;

    return call->store->ops->add(call->store, call->key, call->amount, &call->sum);
}

static ddp_status wait_call(struct ddp_env *env, struct call *call, ddp_status (*poll)(void *self),
                            uint64_t deadline_ns)
{
    const struct ddp_pollable pollable = {poll, call_hint, call};

    DDP_ASSERT(call->store != NULL && call->key != NULL);
    return ddp_wait(env->idle, env->clock, &pollable, deadline_ns);
}

ddp_status ddp_store_set(struct ddp_env *env, struct ddp_store *store, const char *key,
                         const void *value, size_t size_bytes, uint64_t deadline_ns)
{
    struct call call = {.store = store, .key = key, .value = value, .size_bytes = size_bytes};

    return wait_call(env, &call, set_poll, deadline_ns);
}

ddp_status ddp_store_get(struct ddp_env *env, struct ddp_store *store, const char *key, void *value,
                         size_t *out_size_bytes, uint64_t deadline_ns)
{
    struct call call = {
        .store = store, .key = key, .out_value = value, .out_size_bytes = out_size_bytes};

    return wait_call(env, &call, get_poll, deadline_ns);
}

/* Count up "<name>/<counter>"; the last of `count` sets "<name>/<flag>". */
static ddp_status count_up(struct ddp_env *env, struct ddp_store *store, const char *name,
                           const char *const labels[2], uint32_t count, uint64_t deadline_ns)
{
    char key[DDP_STORE_KEY_BYTES_MAX + 1];
    struct call call = {.store = store, .key = key, .amount = 1};

    (void)snprintf(key, sizeof(key), "%s/%s", name, labels[0]);
    DDP_TRY(wait_call(env, &call, add_poll, deadline_ns));
    if (call.sum != (int64_t)count) {
        return DDP_OK;
    }
    (void)snprintf(key, sizeof(key), "%s/%s", name, labels[1]);
    return ddp_store_set(env, store, key, "1", 1, deadline_ns);
}

static ddp_status wait_flag(struct ddp_env *env, struct ddp_store *store, const char *name,
                            const char *label, uint64_t deadline_ns)
{
    char key[DDP_STORE_KEY_BYTES_MAX + 1];
    uint8_t value[DDP_STORE_VALUE_BYTES_MAX];
    size_t value_bytes;

    (void)snprintf(key, sizeof(key), "%s/%s", name, label);
    return ddp_store_get(env, store, key, value, &value_bytes, deadline_ns);
}

ddp_status ddp_store_barrier(struct ddp_env *env, struct ddp_store *store, const char *name,
                             uint32_t count, uint64_t deadline_ns)
{
    static const char *const arriving[2] = {"arrived", "complete"};
    static const char *const leaving[2] = {"left", "empty"};

    DDP_ASSERT(count > 0);
    if (strlen(name) + 16 > DDP_STORE_KEY_BYTES_MAX) {
        return DDP_E_INVALID;
    }
    DDP_TRY(count_up(env, store, name, arriving, count, deadline_ns));
    DDP_TRY(wait_flag(env, store, name, arriving[1], deadline_ns));
    /* The host serves the others only while it waits, so it leaves last. */
    DDP_TRY(count_up(env, store, name, leaving, count, deadline_ns));
    return store->is_host ? wait_flag(env, store, name, leaving[1], deadline_ns) : DDP_OK;
}

const char *ddp_store_error_text(const struct ddp_store *store, ddp_status status)
{
    const bool is_lost = status == DDP_E_IO || status == DDP_E_PEER_DIED;

    return is_lost && store->lost[0] != '\0' ? store->lost : ddp_status_text(status);
}

static ddp_status enroll(struct ddp_env *env, struct ddp_store *store, const char *group,
                         uint32_t member, uint32_t count, uint64_t deadline_ns, struct ddp_err *err)
{
    char key[DDP_STORE_KEY_BYTES_MAX + 1];
    struct call call = {.store = store, .key = key};
    uint8_t told[DDP_STORE_VALUE_BYTES_MAX];
    size_t told_bytes;

    DDP_ASSERT(member < count);
    if (strlen(group) + 24 > DDP_STORE_KEY_BYTES_MAX) {
        return ddp_err_set(err, DDP_E_INVALID, "the name of group %.32s... is too long", group);
    }
    (void)snprintf(key, sizeof(key), "%s/member/%u", group, member);
    call.amount = 1;
    DDP_TRY(wait_call(env, &call, add_poll, deadline_ns));
    if (call.sum != 1) {
        return ddp_err_set(err, DDP_E_MEMBER, "another process is rank %u of group %s, too", member,
                           group);
    }
    (void)snprintf(key, sizeof(key), "%s/members", group);
    if (member == 0) {
        DDP_TRY(ddp_store_set(env, store, key, &count, sizeof(count), deadline_ns));
    }
    DDP_TRY(ddp_store_get(env, store, key, told, &told_bytes, deadline_ns));
    if (told_bytes != sizeof(count) || memcmp(told, &count, sizeof(count)) != 0) {
        uint32_t others = 0;

        memcpy(&others, told, told_bytes < sizeof(others) ? told_bytes : sizeof(others));
        return ddp_err_set(err, DDP_E_MEMBER,
                           "group %s has %u ranks for rank 0, and %u for rank %u", group, others,
                           count, member);
    }
    return DDP_OK;
}

ddp_status ddp_store_enroll(struct ddp_env *env, struct ddp_store *store, const char *group,
                            uint32_t member, uint32_t count, uint64_t deadline_ns,
                            struct ddp_err *err)
{
    struct ddp_err why = {""};
    ddp_status status = enroll(env, store, group, member, count, deadline_ns, &why);

    if (status == DDP_OK) {
        return DDP_OK;
    }
    return why.text[0] != '\0' ? ddp_err_set(err, status, "%s", why.text)
                               : ddp_err_set(err, status, "joining group %s: %s", group,
                                             ddp_store_error_text(store, status));
}
