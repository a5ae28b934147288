/* The store's TCP client. One request under way; calling again with the same arguments asks for its
 * response. */
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ddpcore/seam/link.h"
#include "ddpcore/store/wire.h"

#define ADDRESSES_MAX 8u

struct address {
    struct sockaddr_storage name;
    socklen_t name_bytes;
};

struct tcp_store {
    struct ddp_store base;
    struct ddp_env *env;
    int32_t host_rank; /* -1: none */
    bool is_host_lost; /* and recorded to be */
    int fd;            /* -1: none */
    char place[96];    /* address and port, as they were given */
    struct address addresses[ADDRESSES_MAX];
    uint32_t address_count, address_next;

    uint32_t id; /* of the request under way */
    bool has_request;
    size_t request_bytes, request_sent;
    uint8_t request[DDP_STORE_REQUEST_MAX];
    size_t response_bytes;
    uint8_t response[DDP_STORE_RESPONSE_MAX];
};

/* A connection to a free port of this host may meet itself: both ends are then the same socket. */
static bool is_self_connected(int fd)
{
    struct sockaddr_storage own, other;
    socklen_t own_bytes = sizeof(own), other_bytes = sizeof(other);

    memset(&own, 0, sizeof(own));
    memset(&other, 0, sizeof(other));
    (void)getsockname(fd, (struct sockaddr *)&own, &own_bytes);
    (void)getpeername(fd, (struct sockaddr *)&other, &other_bytes);
    return memcmp(&own, &other, sizeof(own)) == 0;
}

static void try_next_address(struct tcp_store *store)
{
    (void)close(store->fd);
    store->fd = -1;
    store->address_next++;
    if (store->address_next == store->address_count) {
        store->address_next = 0;
    }
}

/* PENDING until connected. A refusal means that the server has not started yet. */
static ddp_status connect_poll(void *self)
{
    struct tcp_store *store = self;
    const struct address *address = &store->addresses[store->address_next];
    const int one = 1;
    bool is_connected;

    DDP_ASSERT(store->address_next < store->address_count);
    if (store->fd < 0) {
        store->fd = socket(address->name.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    }
    is_connected =
        connect(store->fd, (const struct sockaddr *)&address->name, address->name_bytes) == 0;
    if (is_connected && !is_self_connected(store->fd)) {
        (void)setsockopt(store->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        return DDP_OK;
    }
    if (is_connected || (errno != EINPROGRESS && errno != EALREADY)) {
        try_next_address(store);
    }
    return DDP_PENDING;
}

static void connect_hint(void *self, struct ddp_idle_hint *hint)
{
    const struct tcp_store *store = self;

    hint->fd = store->fd;
    hint->fd_events = POLLOUT;
}

static void tcp_hint(struct ddp_store *base, struct ddp_idle_hint *hint)
{
    const struct tcp_store *store = (const struct tcp_store *)base;

    hint->doorbell = NULL;
    hint->fd = store->fd;
    hint->fd_events = store->request_sent == store->request_bytes ? POLLIN : POLLIN | POLLOUT;
}

/* With the rank that had it, if one had: of that rank, only this connection is known to be gone.
 * call failed with this error; 0: recv, and the connection was closed. */
static ddp_status server_is_gone(struct tcp_store *store, const char *call, int error)
{
    (void)snprintf(store->base.lost, sizeof(store->base.lost), "store at %s: %s: %s", store->place,
                   call, error != 0 ? strerror(error) : "the connection was closed");
    if (store->host_rank < 0) {
        return DDP_E_IO;
    }
    if (!store->is_host_lost) {
        ddp_recorder_event(store->env->recorder, DDP_EVENT_LINK_LOST, (uint64_t)store->host_rank,
                           (uint64_t)(error == 0 ? DDP_LINK_ENDED : DDP_LINK_RESET),
                           (uint64_t)error, 0, 0);
    }
    store->is_host_lost = true;
    store->base.dead_rank = store->host_rank;
    return DDP_E_PEER_DIED;
}

/* PENDING: not all of the request has left. */
static ddp_status flush(struct tcp_store *store)
{
    ddp_status status =
        ddp_store_flush(store->fd, store->request, store->request_bytes, &store->request_sent);

    return status == DDP_E_IO ? server_is_gone(store, "send", errno) : status;
}

/* Make this the request under way, unless it is already. PENDING: an older request that nobody
 * waits for any more is half sent, and the rest of it must leave first. */
static ddp_status place_request(struct tcp_store *store, const struct ddp_store_request *request)
{
    uint8_t frame[DDP_STORE_REQUEST_MAX];
    size_t size_bytes = DDP_STORE_REQUEST_HEAD + request->key_bytes + request->payload_bytes;

    DDP_ASSERT(size_bytes <= sizeof(frame));
    ddp_store_put_u32(frame, (uint32_t)(size_bytes - 4));
    ddp_store_put_u32(frame + 4, store->id);
    frame[8] = (uint8_t)request->op;
    frame[9] = (uint8_t)request->key_bytes;
    frame[10] = (uint8_t)(request->key_bytes >> 8);
    memcpy(frame + DDP_STORE_REQUEST_HEAD, request->key, request->key_bytes);
    memcpy(frame + DDP_STORE_REQUEST_HEAD + request->key_bytes, request->payload,
           request->payload_bytes);
    if (store->has_request && memcmp(frame, store->request, size_bytes) == 0) {
        return DDP_OK;
    }
    if (store->has_request) {
        DDP_TRY(flush(store));
    }
    ddp_store_put_u32(frame + 4, ++store->id);
    memcpy(store->request, frame, size_bytes);
    store->request_bytes = size_bytes;
    store->request_sent = 0;
    store->has_request = true;
    return DDP_OK;
}

/* An answer that no server gives is damage on the way, not something that it says of the job. */
static ddp_status decode(struct tcp_store *store, const uint8_t *payload, size_t payload_bytes)
{
    ddp_status status = (ddp_status)(0 - store->response[8]);

    if (status == DDP_E_PEER_DIED && payload_bytes == 4) {
        store->base.dead_rank = (int32_t)ddp_store_get_u32(payload);
    }
    if (status != DDP_OK && status != DDP_E_PEER_DIED && status != DDP_E_STATE &&
        status != DDP_E_OVERFLOW) {
        (void)snprintf(store->base.lost, sizeof(store->base.lost),
                       "store at %s: an answer with status %d, which it never gives", store->place,
                       (int)status);
        return DDP_E_IO;
    }
    return status;
}

/* What the response says; PENDING: the buffer does not hold it yet. Responses to older requests are
 * dropped. */
static ddp_status take_response(struct tcp_store *store, uint8_t *payload,
                                size_t *out_payload_bytes)
{
    ddp_status status = DDP_PENDING;

    while (status == DDP_PENDING && store->response_bytes >= 4) {
        size_t size_bytes = (size_t)ddp_store_get_u32(store->response) + 4;

        if (size_bytes < DDP_STORE_RESPONSE_HEAD || size_bytes > DDP_STORE_RESPONSE_MAX) {
            (void)snprintf(store->base.lost, sizeof(store->base.lost),
                           "store at %s: an answer of %zu bytes", store->place, size_bytes);
            return DDP_E_IO;
        }
        if (store->response_bytes < size_bytes) {
            break;
        }
        DDP_ASSERT(store->response_bytes <= sizeof(store->response));
        if (ddp_store_get_u32(store->response + 4) > store->id) {
            (void)snprintf(store->base.lost, sizeof(store->base.lost),
                           "store at %s: an answer to request %" PRIu32 " of %" PRIu32,
                           store->place, ddp_store_get_u32(store->response + 4), store->id);
            return DDP_E_IO;
        }
        if (ddp_store_get_u32(store->response + 4) == store->id) {
            *out_payload_bytes = size_bytes - DDP_STORE_RESPONSE_HEAD;
            memcpy(payload, store->response + DDP_STORE_RESPONSE_HEAD, *out_payload_bytes);
            store->has_request = false;
            status = decode(store, payload, *out_payload_bytes);
        }
        store->response_bytes -= size_bytes;
        memmove(store->response, store->response + size_bytes, store->response_bytes);
    }
    return status;
}

/* out: uint8_t[DDP_STORE_VALUE_BYTES_MAX] for the response's payload. */
static ddp_status ask(struct ddp_store *base, enum ddp_store_op op, const char *key,
                      const void *payload, size_t payload_bytes, uint8_t *out, size_t *out_bytes)
{
    struct tcp_store *store = (struct tcp_store *)base;
    struct ddp_store_request request;
    ddp_status status;

    DDP_TRY(ddp_store_request_init(&request, op, key, payload, payload_bytes));
    DDP_TRY(place_request(store, &request));
    DDP_ASSERT(store->has_request && store->fd >= 0);
    status = flush(store);
    if (status < DDP_OK) {
        return status;
    }
    do {
        status = ddp_store_fill(store->fd, store->response, sizeof(store->response),
                                &store->response_bytes);
        if (status == DDP_E_IO) {
            return server_is_gone(store, "recv", errno);
        }
        DDP_TRY(status);
        status = take_response(store, out, out_bytes);
    } while (status == DDP_PENDING);
    return status;
}

static ddp_status tcp_set(struct ddp_store *store, const char *key, const void *value,
                          size_t size_bytes)
{
    uint8_t payload[DDP_STORE_VALUE_BYTES_MAX];
    size_t payload_bytes;

    return ask(store, DDP_STORE_OP_SET, key, value, size_bytes, payload, &payload_bytes);
}

static ddp_status tcp_get(struct ddp_store *store, const char *key, void *value,
                          size_t *out_size_bytes)
{
    return ask(store, DDP_STORE_OP_GET, key, "", 0, value, out_size_bytes);
}

static ddp_status tcp_add(struct ddp_store *store, const char *key, int64_t amount, int64_t *out)
{
    uint8_t payload[DDP_STORE_VALUE_BYTES_MAX];
    uint8_t amount_bytes[8];
    size_t payload_bytes;

    ddp_store_put_i64(amount_bytes, amount);
    DDP_TRY(ask(store, DDP_STORE_OP_ADD, key, amount_bytes, sizeof(amount_bytes), payload,
                &payload_bytes));
    if (payload_bytes != 8) {
        (void)snprintf(store->lost, sizeof(store->lost), "store at %s: a sum of %zu bytes, not 8",
                       ((const struct tcp_store *)store)->place, payload_bytes);
        return DDP_E_IO;
    }
    *out = ddp_store_get_i64(payload);
    return DDP_OK;
}

static void tcp_destroy(struct ddp_store *base)
{
    struct tcp_store *store = (struct tcp_store *)base;

    (void)close(store->fd);
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

static ddp_status open_connection(struct tcp_store *store, const char *address, uint16_t port,
                                  uint64_t deadline_ns, struct ddp_err *err)
{
    const struct ddp_pollable connecting = {connect_poll, connect_hint, store};
    ddp_status status;

    DDP_TRY(resolve(store, address, port, err));
    status = ddp_wait(store->env->idle, store->env->clock, &connecting, deadline_ns);
    return status == DDP_OK ? DDP_OK
                            : ddp_err_set(err, status, "connecting to the store at %s:%u: %s",
                                          address, port, ddp_status_text(status));
}

ddp_status ddp_store_tcp_create(struct ddp_env *env, const char *address, uint16_t port,
                                int32_t host_rank, uint64_t deadline_ns, struct ddp_store **out,
                                struct ddp_err *err)
{
    static const struct ddp_store_ops ops = {tcp_set, tcp_get, tcp_add, tcp_hint, tcp_destroy};
    struct tcp_store *store = ddp_mem_array(env->mem, 1, sizeof(*store));
    ddp_status status;

    if (store == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a store client");
    }
    store->base = (struct ddp_store){.ops = &ops, .dead_rank = -1};
    store->env = env;
    store->host_rank = host_rank;
    store->fd = -1;
    (void)snprintf(store->place, sizeof(store->place), "%.88s:%u", address, port);
    status = open_connection(store, address, port, deadline_ns, err);
    if (status != DDP_OK) {
        tcp_destroy(&store->base);
        return status;
    }
    *out = &store->base;
    return DDP_OK;
}
