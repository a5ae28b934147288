/* The store's TCP client. One request under way; calling again with the same arguments asks for its
 * response. Rank 0 may host the server in the same process: every call then pumps it too. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ddpcore/store/wire.h"

#define ADDRESSES_MAX 8u

struct address {
    struct sockaddr_storage name;
    socklen_t name_bytes;
};

struct tcp_store {
    struct ddp_store base;
    struct ddp_env *env;
    struct ddp_store_server *server;
    int fd;       /* -1: not connected */
    int epoll_fd; /* server and socket together; -1 without a server */
    bool is_connecting;
    bool is_failed;
    struct address addresses[ADDRESSES_MAX];
    uint32_t address_count, address_next;

    uint32_t id; /* of the request under way */
    bool has_request;
    size_t request_bytes, request_sent;
    uint8_t request[DDP_STORE_REQUEST_MAX];
    size_t response_bytes;
    uint8_t response[DDP_STORE_RESPONSE_MAX];
};

static void pump(struct tcp_store *store)
{
    if (store->server != NULL) {
        ddp_store_server_pump(store->server);
    }
}

static void watch(struct tcp_store *store, uint32_t events)
{
    struct epoll_event event = {.events = events};

    if (store->epoll_fd >= 0 && epoll_ctl(store->epoll_fd, EPOLL_CTL_MOD, store->fd, &event) != 0) {
        (void)epoll_ctl(store->epoll_fd, EPOLL_CTL_ADD, store->fd, &event);
    }
}

static void drop_socket(struct tcp_store *store)
{
    DDP_ASSERT(store->fd >= 0 && store->address_count > 0);
    (void)close(store->fd);
    store->fd = -1;
    store->is_connecting = false;
    store->address_next = (store->address_next + 1) % store->address_count;
}

/* A connection to a free port of this host may meet itself: both ends are then the same socket. */
static bool is_self_connected(int fd)
{
    struct sockaddr_storage own, other;
    socklen_t own_bytes = sizeof(own), other_bytes = sizeof(other);

    memset(&own, 0, sizeof(own));
    memset(&other, 0, sizeof(other));
    return getsockname(fd, (struct sockaddr *)&own, &own_bytes) == 0 &&
           getpeername(fd, (struct sockaddr *)&other, &other_bytes) == 0 &&
           own_bytes == other_bytes && memcmp(&own, &other, own_bytes) == 0;
}

static ddp_status finish_connect(struct tcp_store *store)
{
    struct pollfd watched = {store->fd, POLLOUT, 0};
    const int one = 1;
    int code = 0;
    socklen_t code_bytes = sizeof(code);

    if (poll(&watched, 1, 0) <= 0) {
        return DDP_PENDING;
    }
    if (getsockopt(store->fd, SOL_SOCKET, SO_ERROR, &code, &code_bytes) != 0 || code != 0 ||
        is_self_connected(store->fd)) {
        drop_socket(store);
        return DDP_PENDING;
    }
    (void)setsockopt(store->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    store->is_connecting = false;
    watch(store, EPOLLIN);
    return DDP_OK;
}

/* PENDING until connected. A refusal means that the server has not started yet. */
static ddp_status connect_poll(void *self)
{
    struct tcp_store *store = self;
    const struct address *address = &store->addresses[store->address_next];

    DDP_ASSERT(store->address_next < store->address_count);
    pump(store);
    if (store->fd < 0) {
        store->fd = socket(address->name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (store->fd < 0) {
            return DDP_E_IO;
        }
        store->is_connecting = true;
        if (connect(store->fd, (const struct sockaddr *)&address->name, address->name_bytes) != 0 &&
            errno != EINPROGRESS) {
            drop_socket(store);
            return DDP_PENDING;
        }
        watch(store, EPOLLOUT);
    }
    return finish_connect(store);
}

static void tcp_hint(struct ddp_store *base, struct ddp_idle_hint *hint)
{
    const struct tcp_store *store = (const struct tcp_store *)base;
    bool is_writing = store->is_connecting || store->request_sent < store->request_bytes;

    hint->doorbell = NULL;
    if (store->epoll_fd >= 0) {
        hint->fd = store->epoll_fd;
        hint->fd_events = POLLIN;
    } else {
        hint->fd = store->fd;
        hint->fd_events = is_writing ? POLLOUT | POLLIN : POLLIN;
    }
}

static void connect_hint(void *self, struct ddp_idle_hint *hint)
{
    tcp_hint(self, hint);
}

static ddp_status fail(struct tcp_store *store)
{
    store->is_failed = true;
    return DDP_E_IO;
}

/* Make this the request under way, unless it is already. PENDING: an older request that nobody
 * waits for any more is half sent, and the rest of it must leave first. */
static ddp_status place_request(struct tcp_store *store, enum ddp_store_op op, const char *key,
                                const void *payload, size_t payload_bytes)
{
    size_t key_bytes = strlen(key);
    uint8_t frame[DDP_STORE_REQUEST_MAX];
    size_t size_bytes = DDP_STORE_REQUEST_HEAD + key_bytes + payload_bytes;

    if (key_bytes == 0 || key_bytes > DDP_STORE_KEY_BYTES_MAX ||
        payload_bytes > DDP_STORE_VALUE_BYTES_MAX) {
        return DDP_E_INVALID;
    }
    DDP_ASSERT(size_bytes <= sizeof(frame));
    ddp_store_put_u32(frame, (uint32_t)(size_bytes - 4));
    ddp_store_put_u32(frame + 4, store->id);
    frame[8] = (uint8_t)op;
    frame[9] = (uint8_t)key_bytes;
    frame[10] = (uint8_t)(key_bytes >> 8);
    memcpy(frame + DDP_STORE_REQUEST_HEAD, key, key_bytes);
    if (payload_bytes > 0) {
        memcpy(frame + DDP_STORE_REQUEST_HEAD + key_bytes, payload, payload_bytes);
    }
    if (store->has_request && size_bytes == store->request_bytes &&
        memcmp(frame, store->request, size_bytes) == 0) {
        return DDP_OK;
    }
    if (store->has_request) {
        DDP_TRY(
            ddp_store_flush(store->fd, store->request, store->request_bytes, &store->request_sent));
    }
    ddp_store_put_u32(frame + 4, ++store->id);
    memcpy(store->request, frame, size_bytes);
    store->request_bytes = size_bytes;
    store->request_sent = 0;
    store->has_request = true;
    return DDP_OK;
}

/* Take one whole response out of the buffer, if there is one. Responses to older requests are
 * dropped. */
static ddp_status take_response(struct tcp_store *store, uint8_t *out_result, void *payload,
                                size_t *out_payload_bytes)
{
    while (store->response_bytes >= 4) {
        size_t size_bytes = (size_t)ddp_store_get_u32(store->response) + 4;
        bool is_ours;

        if (size_bytes < DDP_STORE_RESPONSE_HEAD || size_bytes > DDP_STORE_RESPONSE_MAX) {
            return DDP_E_IO;
        }
        if (store->response_bytes < size_bytes) {
            return DDP_PENDING;
        }
        DDP_ASSERT(store->response_bytes <= sizeof(store->response));
        is_ours = ddp_store_get_u32(store->response + 4) == store->id;
        if (is_ours) {
            *out_result = store->response[8];
            *out_payload_bytes = size_bytes - DDP_STORE_RESPONSE_HEAD;
            memcpy(payload, store->response + DDP_STORE_RESPONSE_HEAD, *out_payload_bytes);
        }
        store->response_bytes -= size_bytes;
        memmove(store->response, store->response + size_bytes, store->response_bytes);
        if (is_ours) {
            return DDP_OK;
        }
    }
    return DDP_PENDING;
}

static ddp_status decode_result(struct tcp_store *store, uint8_t result, const uint8_t *payload,
                                size_t payload_bytes)
{
    switch (result) {
    case DDP_STORE_RESULT_OK:
        return DDP_OK;
    case DDP_STORE_RESULT_DEAD:
        if (payload_bytes != 4) {
            return fail(store);
        }
        store->base.dead_rank = (int32_t)ddp_store_get_u32(payload);
        return DDP_E_PEER_DIED;
    case DDP_STORE_RESULT_STATE:
        return DDP_E_STATE;
    case DDP_STORE_RESULT_OVERFLOW:
        return DDP_E_OVERFLOW;
    case DDP_STORE_RESULT_NOMEM:
        return DDP_E_NOMEM;
    default:
        return fail(store);
    }
}

/* payload: uint8_t[DDP_STORE_VALUE_BYTES_MAX] for the response. */
static ddp_status call(struct tcp_store *store, uint8_t *payload, size_t *out_payload_bytes)
{
    ddp_status status =
        ddp_store_flush(store->fd, store->request, store->request_bytes, &store->request_sent);
    uint8_t result = 0;

    DDP_ASSERT(store->has_request && store->fd >= 0 && !store->is_connecting);
    watch(store, status == DDP_PENDING ? EPOLLIN | EPOLLOUT : EPOLLIN);
    if (status != DDP_OK && status != DDP_PENDING) {
        return fail(store);
    }
    pump(store);
    for (;;) {
        status = take_response(store, &result, payload, out_payload_bytes);
        if (status != DDP_PENDING) {
            break;
        }
        status = ddp_store_fill(store->fd, store->response, sizeof(store->response),
                                &store->response_bytes);
        if (status != DDP_OK) {
            break;
        }
    }
    if (status == DDP_PENDING) {
        return DDP_PENDING;
    }
    if (status != DDP_OK) {
        return fail(store);
    }
    store->has_request = false;
    return decode_result(store, result, payload, *out_payload_bytes);
}

static ddp_status request(struct tcp_store *store, enum ddp_store_op op, const char *key,
                          const void *payload, size_t payload_bytes)
{
    ddp_status status;

    if (store->is_failed) {
        return DDP_E_IO;
    }
    status = place_request(store, op, key, payload, payload_bytes);
    return status == DDP_E_IO ? fail(store) : status;
}

static ddp_status tcp_set(struct ddp_store *base, const char *key, const void *value,
                          size_t size_bytes)
{
    struct tcp_store *store = (struct tcp_store *)base;
    uint8_t payload[DDP_STORE_VALUE_BYTES_MAX];
    size_t payload_bytes;

    DDP_TRY(request(store, DDP_STORE_OP_SET, key, value, size_bytes));
    return call(store, payload, &payload_bytes);
}

static ddp_status tcp_get(struct ddp_store *base, const char *key, void *value,
                          size_t *out_size_bytes)
{
    struct tcp_store *store = (struct tcp_store *)base;

    DDP_TRY(request(store, DDP_STORE_OP_GET, key, NULL, 0));
    return call(store, value, out_size_bytes);
}

static ddp_status tcp_add(struct ddp_store *base, const char *key, int64_t amount, int64_t *out)
{
    struct tcp_store *store = (struct tcp_store *)base;
    uint8_t payload[DDP_STORE_VALUE_BYTES_MAX];
    uint8_t amount_bytes[8];
    size_t payload_bytes;

    ddp_store_put_i64(amount_bytes, amount);
    DDP_TRY(request(store, DDP_STORE_OP_ADD, key, amount_bytes, sizeof(amount_bytes)));
    DDP_TRY(call(store, payload, &payload_bytes));
    if (payload_bytes != 8) {
        return fail(store);
    }
    *out = ddp_store_get_i64(payload);
    return DDP_OK;
}

static void tcp_destroy(struct ddp_store *base)
{
    struct tcp_store *store = (struct tcp_store *)base;

    if (store->fd >= 0) {
        (void)close(store->fd);
    }
    if (store->epoll_fd >= 0) {
        (void)close(store->epoll_fd);
    }
    ddp_store_server_destroy(store->server);
    ddp_mem_free(store->env->mem, store);
}

static ddp_status resolve(struct tcp_store *store, const char *address, uint16_t port,
                          struct ddp_err *err)
{
    struct addrinfo wanted = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[8];
    int code;

    (void)snprintf(service, sizeof(service), "%u", port);
    code = getaddrinfo(address, service, &wanted, &found);
    if (code != 0) {
        return ddp_err_set(err, DDP_E_IO, "store at %s:%u: %s", address, port, gai_strerror(code));
    }
    for (const struct addrinfo *at = found; at != NULL && store->address_count < ADDRESSES_MAX;
         at = at->ai_next) {
        struct address *out = &store->addresses[store->address_count++];

        DDP_ASSERT(at->ai_addrlen <= sizeof(out->name));
        memcpy(&out->name, at->ai_addr, at->ai_addrlen);
        out->name_bytes = at->ai_addrlen;
    }
    freeaddrinfo(found);
    return DDP_OK;
}

static ddp_status join_epoll(struct tcp_store *store, struct ddp_err *err)
{
    struct epoll_event event = {.events = EPOLLIN};

    store->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (store->epoll_fd < 0 || epoll_ctl(store->epoll_fd, EPOLL_CTL_ADD,
                                         ddp_store_server_fd(store->server), &event) != 0) {
        return ddp_err_set(err, DDP_E_SYSTEM, "store client: epoll: %s", strerror(errno));
    }
    return DDP_OK;
}

ddp_status ddp_store_tcp_create(struct ddp_env *env, const char *address, uint16_t port,
                                struct ddp_store_server *server, uint64_t deadline_ns,
                                struct ddp_store **out, struct ddp_err *err)
{
    static const struct ddp_store_ops ops = {tcp_set, tcp_get, tcp_add, tcp_hint, tcp_destroy};
    struct tcp_store *store = ddp_mem_array(env->mem, 1, sizeof(*store));
    struct ddp_pollable connecting = {connect_poll, connect_hint, store};
    ddp_status status;

    if (store == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a store client");
    }
    store->base.ops = &ops;
    store->base.dead_rank = -1;
    store->env = env;
    store->fd = -1;
    store->epoll_fd = -1;
    status = resolve(store, address, port, err);
    if (status == DDP_OK && server != NULL) {
        store->base.is_host = true;
        store->server = server;
        status = join_epoll(store, err);
        store->server = status == DDP_OK ? server : NULL;
    }
    if (status == DDP_OK) {
        status = ddp_wait(env->idle, env->clock, &connecting, deadline_ns);
        if (status != DDP_OK) {
            (void)ddp_err_set(err, status, "connecting to the store at %s:%u: %s", address, port,
                              ddp_status_text(status));
        }
    }
    if (status != DDP_OK) {
        store->server = NULL; /* taken over on OK only */
        tcp_destroy(&store->base);
        return status;
    }
    *out = &store->base;
    return DDP_OK;
}
