/* The store's TCP server: an event loop that its owner pumps. A client that breaks the rules of
 * frames is closed; the others are not affected. Clients that are closed in the middle of a batch
 * of events are freed at its end, because later events of the batch may name them. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/seam/link.h"
#include "ddpcore/store/wire.h"

#define KEY_CHAINS 256u
#define KEYS_MAX   65536u
#define BATCH      64
#define BATCHES    16 /* per pump: a pump ends even under constant load */

struct key {
    struct key *next;
    char *name;
    size_t name_bytes;
    uint8_t *value; /* NULL: asked for, not set */
    size_t value_bytes;
};

struct client {
    struct client *next;
    int fd;
    bool is_closed;
    bool is_writing;         /* watched for EPOLLOUT instead of EPOLLIN */
    const struct key *asked; /* key of the request that waits, or NULL */
    uint32_t asked_id;
    size_t in_bytes, out_bytes, out_sent;
    uint8_t in[DDP_STORE_REQUEST_MAX];
    uint8_t out[DDP_STORE_RESPONSE_MAX];
};

struct ddp_store_server {
    struct ddp_mem *mem;
    struct ddp_recorder *recorder; /* of the rank that has the server, or NULL */
    int listen_fd;
    int epoll_fd;
    struct client *clients;
    struct key *keys[KEY_CHAINS];
    uint32_t key_count;
    bool is_exhausted; /* see wire.h */
    bool has_death;
    uint32_t dead_rank;
};

ddp_status ddp_store_server_create(struct ddp_mem *mem, int listen_fd,
                                   struct ddp_store_server **out, struct ddp_err *err)
{
    struct ddp_store_server *server = ddp_mem_array(mem, 1, sizeof(*server));
    struct epoll_event event = {.events = EPOLLIN};

    DDP_ASSERT(listen_fd >= 0);
    if (server == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for a store server");
    }
    server->mem = mem;
    server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    /* data.ptr NULL marks the listening socket */
    if (server->epoll_fd < 0 ||
        epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, listen_fd, &event) != 0) {
        ddp_status status =
            ddp_err_set(err, DDP_E_SYSTEM, "store server: epoll: %s", strerror(errno));

        if (server->epoll_fd >= 0) {
            (void)close(server->epoll_fd);
        }
        ddp_mem_free(mem, server);
        return status;
    }
    server->listen_fd = listen_fd;
    *out = server;
    return DDP_OK;
}

int ddp_store_server_fd(const struct ddp_store_server *server)
{
    return server->epoll_fd;
}

void ddp_store_server_set_recorder(struct ddp_store_server *server, struct ddp_recorder *recorder)
{
    server->recorder = recorder;
}

bool ddp_store_server_is_exhausted(const struct ddp_store_server *server)
{
    return server->is_exhausted;
}

static void close_client(struct client *client)
{
    if (!client->is_closed) {
        client->is_closed = true;
        client->asked = NULL;
        (void)close(client->fd);
    }
}

/* A call on the connection failed here, or nothing of what came makes sense. Recorded before the
 * client can see it: whose record is first, its calls failed. Which rank it is was never said. */
static void break_client(struct ddp_store_server *server, struct client *client, enum ddp_link why,
                         int error)
{
    ddp_recorder_event(server->recorder, DDP_EVENT_LINK_LOST, UINT64_MAX, (uint64_t)why,
                       (uint64_t)error, 0, 0);
    close_client(client);
}

static void free_closed(struct ddp_store_server *server)
{
    struct client **link = &server->clients;

    while (*link != NULL) {
        struct client *client = *link;

        if (client->is_closed) {
            *link = client->next;
            ddp_mem_free(server->mem, client);
        } else {
            link = &client->next;
        }
    }
}

/* Send what is left of the response; while some is, the client's requests are not read. */
static void flush_client(struct ddp_store_server *server, struct client *client)
{
    const ddp_status status =
        ddp_store_flush(client->fd, client->out, client->out_bytes, &client->out_sent);
    const bool is_writing = status == DDP_PENDING;
    struct epoll_event event = {.events = is_writing ? EPOLLOUT : EPOLLIN, .data.ptr = client};

    DDP_ASSERT(client->out_sent <= client->out_bytes);
    if (status < DDP_OK) {
        break_client(server, client, DDP_LINK_RESET, errno);
        return;
    }
    if (!is_writing) {
        client->out_bytes = 0;
        client->out_sent = 0;
    }
    if (client->is_writing != is_writing) {
        client->is_writing = is_writing;
        if (epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, client->fd, &event) != 0) {
            break_client(server, client, DDP_LINK_RESET, errno);
        }
    }
}

/* The payload stands behind the head already. */
static void respond(struct ddp_store_server *server, struct client *client, uint32_t id,
                    ddp_status status, size_t payload_bytes)
{
    DDP_ASSERT(!client->is_closed && client->out_bytes == 0);
    DDP_ASSERT(status <= DDP_OK && payload_bytes <= DDP_STORE_VALUE_BYTES_MAX);
    client->out_bytes = DDP_STORE_RESPONSE_HEAD + payload_bytes;
    ddp_store_put_u32(client->out, (uint32_t)(client->out_bytes - 4));
    ddp_store_put_u32(client->out + 4, id);
    client->out[8] = (uint8_t)-status;
    client->asked = NULL;
    flush_client(server, client);
}

static void free_key(struct ddp_mem *mem, struct key *key)
{
    ddp_mem_free(mem, key->name);
    ddp_mem_free(mem, key->value);
    ddp_mem_free(mem, key);
}

static struct key *find_key(struct ddp_store_server *server,
                            const struct ddp_store_request *request)
{
    uint64_t hash = ddp_hash_bytes(request->key, request->key_bytes, 0);
    struct key **first = &server->keys[hash % KEY_CHAINS];
    struct key *key = *first;

    DDP_ASSERT(request->key_bytes > 0 && request->key_bytes <= DDP_STORE_KEY_BYTES_MAX);
    while (key != NULL && (key->name_bytes != request->key_bytes ||
                           memcmp(key->name, request->key, request->key_bytes) != 0)) {
        key = key->next;
    }
    if (key != NULL || server->key_count == KEYS_MAX) {
        return key;
    }
    key = ddp_mem_array(server->mem, 1, sizeof(*key));
    if (key == NULL) {
        return NULL;
    }
    key->name = ddp_mem_array(server->mem, request->key_bytes, 1);
    if (key->name == NULL) {
        free_key(server->mem, key);
        return NULL;
    }
    memcpy(key->name, request->key, request->key_bytes);
    key->name_bytes = request->key_bytes;
    key->next = *first;
    *first = key;
    server->key_count++;
    DDP_ASSERT(server->key_count <= KEYS_MAX);
    return key;
}

/* A rank that died cannot set anything any more: waiting for a key may be waiting for ever. */
static ddp_status get(const struct ddp_store_server *server, const struct key *key,
                      uint8_t *payload, size_t *out_payload_bytes)
{
    if (key->value != NULL) {
        memcpy(payload, key->value, key->value_bytes);
        *out_payload_bytes = key->value_bytes;
        return DDP_OK;
    }
    if (server->has_death) {
        ddp_store_put_u32(payload, server->dead_rank);
        *out_payload_bytes = 4;
        return DDP_E_PEER_DIED;
    }
    return DDP_PENDING;
}

/* Answer the request that waits, now that it can be. */
static void respond_asked(struct ddp_store_server *server, struct client *client)
{
    size_t payload_bytes = 0;
    ddp_status status =
        get(server, client->asked, client->out + DDP_STORE_RESPONSE_HEAD, &payload_bytes);

    respond(server, client, client->asked_id, status, payload_bytes);
}

static ddp_status assign(struct ddp_store_server *server, struct key *key, const void *value,
                         size_t value_bytes)
{
    uint8_t *copy = ddp_mem_array(server->mem, value_bytes + 1, 1);

    DDP_ASSERT(value_bytes <= DDP_STORE_VALUE_BYTES_MAX);
    if (copy == NULL) {
        return DDP_E_NOMEM;
    }
    memcpy(copy, value, value_bytes);
    ddp_mem_free(server->mem, key->value);
    key->value = copy;
    key->value_bytes = value_bytes;
    for (struct client *client = server->clients; client != NULL; client = client->next) {
        if (client->asked == key) {
            respond_asked(server, client);
        }
    }
    return DDP_OK;
}

static ddp_status add(struct ddp_store_server *server, struct key *key, int64_t amount,
                      uint8_t sum_bytes[8])
{
    int64_t sum = 0;

    if (key->value != NULL) {
        if (key->value_bytes != sizeof(sum)) {
            return DDP_E_STATE;
        }
        sum = ddp_store_get_i64(key->value);
    }
    if (__builtin_add_overflow(sum, amount, &sum)) {
        return DDP_E_OVERFLOW;
    }
    ddp_store_put_i64(sum_bytes, sum);
    return assign(server, key, sum_bytes, 8);
}

ddp_status ddp_store_server_answer(struct ddp_store_server *server,
                                   const struct ddp_store_request *request, uint8_t *payload,
                                   size_t *out_payload_bytes)
{
    struct key *key = find_key(server, request);

    *out_payload_bytes = 0;
    if (key == NULL) {
        return DDP_E_NOMEM;
    }
    switch (request->op) {
    case DDP_STORE_OP_SET:
        return assign(server, key, request->payload, request->payload_bytes);
    case DDP_STORE_OP_ADD:
        *out_payload_bytes = 8;
        return add(server, key, ddp_store_get_i64(request->payload), payload);
    default:
        return get(server, key, payload, out_payload_bytes);
    }
}

static void serve(struct ddp_store_server *server, struct client *client, uint32_t id,
                  const struct ddp_store_request *request)
{
    size_t payload_bytes;
    ddp_status status;

    DDP_ASSERT(!client->is_closed && client->out_bytes == 0);
    client->asked = NULL;
    status = ddp_store_server_answer(server, request, client->out + DDP_STORE_RESPONSE_HEAD,
                                     &payload_bytes);
    if (status == DDP_PENDING) {
        client->asked = find_key(server, request);
        client->asked_id = id;
    } else if (status == DDP_E_NOMEM) {
        /* Not the client's memory: it must not report so. It finds the server gone. */
        server->is_exhausted = true;
        close_client(client);
    } else {
        respond(server, client, id, status, payload_bytes);
    }
}

/* frame: whole, size_bytes long with its length word. */
static bool parse(const uint8_t *frame, size_t size_bytes, struct ddp_store_request *out)
{
    if (size_bytes < DDP_STORE_REQUEST_HEAD) {
        return false;
    }
    out->op = (enum ddp_store_op)frame[8];
    out->key_bytes = (size_t)frame[9] | (size_t)frame[10] << 8;
    if (out->key_bytes == 0 || out->key_bytes > DDP_STORE_KEY_BYTES_MAX ||
        out->key_bytes > size_bytes - DDP_STORE_REQUEST_HEAD) {
        return false;
    }
    out->key = frame + DDP_STORE_REQUEST_HEAD;
    out->payload = frame + DDP_STORE_REQUEST_HEAD + out->key_bytes;
    out->payload_bytes = size_bytes - DDP_STORE_REQUEST_HEAD - out->key_bytes;
    switch (out->op) {
    case DDP_STORE_OP_SET:
        return out->payload_bytes <= DDP_STORE_VALUE_BYTES_MAX;
    case DDP_STORE_OP_GET:
        return out->payload_bytes == 0;
    case DDP_STORE_OP_ADD:
        return out->payload_bytes == 8;
    default:
        return false;
    }
}

/* Serve the whole frames that have arrived, as long as responses leave at once. */
static void serve_frames(struct ddp_store_server *server, struct client *client)
{
    while (!client->is_closed && client->out_bytes == 0 && client->in_bytes >= 4) {
        size_t size_bytes = (size_t)ddp_store_get_u32(client->in) + 4;
        struct ddp_store_request request;

        if (size_bytes <= DDP_STORE_REQUEST_MAX && client->in_bytes < size_bytes) {
            return;
        }
        if (size_bytes > DDP_STORE_REQUEST_MAX || !parse(client->in, size_bytes, &request)) {
            break_client(server, client, DDP_LINK_DAMAGED, 0);
            return;
        }
        serve(server, client, ddp_store_get_u32(client->in + 4), &request);
        DDP_ASSERT(size_bytes <= client->in_bytes && client->in_bytes <= sizeof(client->in));
        client->in_bytes -= size_bytes;
        memmove(client->in, client->in + size_bytes, client->in_bytes);
    }
}

static void handle_client(struct ddp_store_server *server, struct client *client)
{
    if (client->is_closed) {
        return;
    }
    if (client->is_writing) {
        flush_client(server, client);
    } else if (ddp_store_fill(client->fd, client->in, sizeof(client->in), &client->in_bytes) ==
               DDP_E_IO) {
        if (errno != 0) {
            break_client(server, client, DDP_LINK_RESET, errno);
        }
        close_client(client);
    }
    serve_frames(server, client);
}

static void accept_clients(struct ddp_store_server *server)
{
    for (;;) {
        struct epoll_event event = {.events = EPOLLIN};
        struct client *client;
        int fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            return;
        }
        client = ddp_mem_array(server->mem, 1, sizeof(*client));
        if (client == NULL) {
            server->is_exhausted = true;
            (void)close(fd);
            return;
        }
        client->fd = fd;
        client->next = server->clients;
        server->clients = client;
        event.data.ptr = client;
        if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
            break_client(server, client, DDP_LINK_RESET, errno);
        }
    }
}

void ddp_store_server_pump(struct ddp_store_server *server)
{
    for (int batch = 0; batch < BATCHES; batch++) {
        struct epoll_event events[BATCH];
        int count = epoll_wait(server->epoll_fd, events, BATCH, 0);

        if (count <= 0) {
            return;
        }
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == NULL) {
                accept_clients(server);
            } else {
                handle_client(server, events[i].data.ptr);
            }
        }
        free_closed(server);
    }
}

void ddp_store_server_report_death(struct ddp_store_server *server, uint32_t rank)
{
    if (!server->has_death) {
        server->has_death = true;
        server->dead_rank = rank;
    }
    for (struct client *client = server->clients; client != NULL; client = client->next) {
        if (client->asked != NULL) {
            respond_asked(server, client);
        }
    }
    free_closed(server);
}

void ddp_store_server_destroy(struct ddp_store_server *server)
{
    if (server == NULL) {
        return;
    }
    for (struct client *client = server->clients; client != NULL; client = client->next) {
        close_client(client);
    }
    free_closed(server);
    for (uint32_t i = 0; i < KEY_CHAINS; i++) {
        while (server->keys[i] != NULL) {
            struct key *gone = server->keys[i];

            server->keys[i] = gone->next;
            free_key(server->mem, gone);
        }
    }
    (void)close(server->epoll_fd);
    (void)close(server->listen_fd);
    ddp_mem_free(server->mem, server);
}
