/* Construction of the tcp transport. Every member listens, publishes where, learns where the others
 * listen, and then connects to each and is connected to by each. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/transport/tcp_join.h"

#define ADDRESS_BYTES       256u
#define SLOT_COUNT_DEFAULT  16u
#define SLOT_COUNT_MAX      1024u
#define SILENCE_DEFAULT_NS  (5 * DDP_NS_PER_S)
#define MESSAGE_MAX_DEFAULT (UINT64_C(1) << 40)

/* What a member publishes. */
struct place {
    uint64_t nonce;
    uint32_t port;
    uint32_t pad;
    char address[ADDRESS_BYTES];
};

static ddp_status system_error(struct ddp_tcp_attach *attach, const char *what)
{
    return ddp_err_set(attach->err, DDP_E_SYSTEM, "%s: %s", what, strerror(errno));
}

/* --- who is where ----------------------------------------------------------------------------- */

static ddp_status publish(struct ddp_tcp_attach *attach)
{
    const struct ddp_tcp_config *config = attach->config;
    struct place place = {.nonce = 0};
    char key[DDP_STORE_KEY_BYTES_MAX];
    uint16_t port;

    if (getrandom(&attach->endpoint->nonce, sizeof attach->endpoint->nonce, 0) !=
        sizeof attach->endpoint->nonce) {
        return system_error(attach, "getrandom");
    }
    DDP_TRY(ddp_store_listen(config->address, 0, &attach->listen_fd, &port, attach->err));
    place.nonce = attach->endpoint->nonce;
    place.port = port;
    (void)snprintf(place.address, sizeof place.address, "%s", config->address);
    (void)snprintf(key, sizeof key, "%s/tcp/%u", config->group_name, config->member);
    return ddp_store_set(attach->endpoint->env, attach->store, key, &place, sizeof place,
                         attach->deadline_ns);
}

static ddp_status resolve(struct ddp_tcp_attach *attach, uint32_t member, struct place *place)
{
    struct addrinfo wanted = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    struct ddp_tcp_caller *caller = &attach->callers[member];
    char service[8];
    int code;

    place->address[sizeof place->address - 1] = '\0';
    (void)snprintf(service, sizeof service, "%u", place->port & 0xffffu);
    code = getaddrinfo(place->address, service, &wanted, &found);
    if (code != 0) {
        return ddp_err_set(attach->err, DDP_E_IO, "rank %u listens at %s: %s",
                           ddp_tcp_rank_of(attach, member), place->address, gai_strerror(code));
    }
    memcpy(&caller->name, found->ai_addr, found->ai_addrlen);
    caller->name_bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return DDP_OK;
}

static ddp_status look_up(struct ddp_tcp_attach *attach, uint32_t member)
{
    uint8_t value[DDP_STORE_VALUE_BYTES_MAX];
    char key[DDP_STORE_KEY_BYTES_MAX];
    struct place place;
    size_t value_bytes;

    (void)snprintf(key, sizeof key, "%s/tcp/%u", attach->config->group_name, member);
    DDP_TRY(ddp_store_get(attach->endpoint->env, attach->store, key, value, &value_bytes,
                          attach->deadline_ns));
    if (value_bytes != sizeof place) {
        return ddp_err_set(attach->err, DDP_E_SYSTEM, "store key %s holds %zu bytes, not %zu", key,
                           value_bytes, sizeof place);
    }
    memcpy(&place, value, sizeof place);
    attach->endpoint->peers[member].nonce = place.nonce;
    return resolve(attach, member, &place);
}

static ddp_status attach_all(struct ddp_tcp_attach *attach)
{
    struct ddp_tcp_endpoint *endpoint = attach->endpoint;
    char name[DDP_STORE_KEY_BYTES_MAX];

    DDP_TRY(publish(attach));
    for (uint32_t i = 0; i < attach->config->member_count; i++) {
        if (i != attach->config->member) {
            DDP_TRY(look_up(attach, i));
        }
    }
    /* Whoever hosts the store serves it until all have what they need. */
    (void)snprintf(name, sizeof name, "%s/tcp/known", attach->config->group_name);
    DDP_TRY(ddp_store_barrier(endpoint->env, attach->store, name, attach->config->member_count,
                              attach->deadline_ns));
    attach->missing = 2 * (attach->config->member_count - 1);
    DDP_TRY(ddp_tcp_join(attach));
    for (uint32_t i = 0; i < attach->config->member_count; i++) {
        struct ddp_tcp_peer *peer = &endpoint->peers[i];

        if (i == attach->config->member) {
            continue;
        }
        /* The greetings were number 0 of each direction. */
        peer->out_number = 1;
        peer->reply_number = 1;
        ddp_tcp_reader_init(&peer->replies, endpoint->env->mem, endpoint->nonce, 1, 0);
        ddp_tcp_reader_init(&peer->messages, endpoint->env->mem, endpoint->nonce, 1,
                            endpoint->message_bytes_max);
        DDP_TRY(ddp_tcp_link_open(endpoint, i, attach->err));
    }
    return DDP_OK;
}

static ddp_status create_endpoint(struct ddp_env *env, const struct ddp_tcp_config *config,
                                  struct ddp_tcp_endpoint **out, struct ddp_err *err)
{
    struct ddp_tcp_endpoint *endpoint = ddp_mem_array(env->mem, 1, sizeof *endpoint);
    uint32_t wanted = config->slot_count == 0 ? SLOT_COUNT_DEFAULT : config->slot_count;

    if (endpoint == NULL) {
        return DDP_E_NOMEM;
    }
    *out = endpoint;
    endpoint->base = (struct ddp_transport){&ddp_tcp_ops, config->member, config->member_count};
    endpoint->env = env;
    endpoint->dead_peer = -1;
    endpoint->message_bytes_max =
        config->message_bytes_max == 0 ? MESSAGE_MAX_DEFAULT : config->message_bytes_max;
    endpoint->silence_ns = config->silence_ns == 0 ? SILENCE_DEFAULT_NS : config->silence_ns;
    endpoint->slot_count = 1;
    while (endpoint->slot_count < wanted && endpoint->slot_count < SLOT_COUNT_MAX) {
        endpoint->slot_count *= 2;
    }
    endpoint->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (endpoint->epoll_fd < 0) {
        return ddp_err_set(err, errno == EMFILE || errno == ENFILE ? DDP_E_NO_FD : DDP_E_SYSTEM,
                           "epoll_create1: %s", strerror(errno));
    }
    endpoint->peers = ddp_mem_array(env->mem, config->member_count, sizeof *endpoint->peers);
    if (endpoint->peers == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t i = 0; i < config->member_count; i++) {
        endpoint->peers[i].rank = config->member_rank != NULL ? config->member_rank[i] : i;
        endpoint->peers[i].out_fd = -1;
        endpoint->peers[i].in_fd = -1;
    }
    for (uint32_t i = 0; i < config->member_count; i++) {
        endpoint->peers[i].slots =
            ddp_mem_array(env->mem, endpoint->slot_count, sizeof *endpoint->peers[i].slots);
        if (endpoint->peers[i].slots == NULL) {
            return DDP_E_NOMEM;
        }
    }
    return DDP_OK;
}

static ddp_status check_config(const struct ddp_tcp_config *config, struct ddp_err *err)
{
    if (config->member_count == 0 || config->member_count > DDP_TCP_MEMBERS_MAX ||
        config->member >= config->member_count ||
        strlen(config->group_name) + 32 > DDP_STORE_KEY_BYTES_MAX) {
        return ddp_err_set(err, DDP_E_INVALID, "group %.64s: member %u of %u, at most %u over tcp",
                           config->group_name, config->member, config->member_count,
                           DDP_TCP_MEMBERS_MAX);
    }
    if (strlen(config->address) >= ADDRESS_BYTES || config->silence_ns % DDP_NS_PER_S != 0 ||
        config->silence_ns > DDP_TCP_SILENCE_MAX_S * DDP_NS_PER_S) {
        return ddp_err_set(
            err, DDP_E_INVALID,
            "group %.64s: address %.64s, silence %.3f s; at most %u bytes, and whole "
            "seconds up to %u",
            config->group_name, config->address, (double)config->silence_ns / (double)DDP_NS_PER_S,
            ADDRESS_BYTES - 1, (unsigned)DDP_TCP_SILENCE_MAX_S);
    }
    return DDP_OK;
}

ddp_status ddp_tcp_create(struct ddp_env *env, struct ddp_store *store,
                          const struct ddp_tcp_config *config, uint64_t deadline_ns,
                          struct ddp_transport **out, struct ddp_err *err)
{
    struct ddp_err why = {""};
    struct ddp_tcp_attach *attach;
    ddp_status status;

    DDP_TRY(check_config(config, err));
    /* Before anything is sized by a count that may be wrong. */
    DDP_TRY(ddp_store_enroll(env, store, config->group_name, config->member, config->member_count,
                             deadline_ns, err));
    attach = ddp_mem_array(env->mem, 1, sizeof *attach);
    if (attach == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory to join a group");
    }
    attach->store = store;
    attach->config = config;
    attach->deadline_ns = deadline_ns;
    attach->err = &why;
    attach->group = ddp_hash_text(config->group_name);
    attach->listen_fd = -1;
    for (uint32_t i = 0; i < DDP_TCP_GUEST_COUNT; i++) {
        attach->guests[i].fd = -1;
    }
    attach->callers = ddp_mem_array(env->mem, config->member_count, sizeof *attach->callers);
    status = attach->callers == NULL ? DDP_E_NOMEM
                                     : create_endpoint(env, config, &attach->endpoint, &why);
    if (status == DDP_OK) {
        status = attach_all(attach);
    }
    for (uint32_t i = 0; i < DDP_TCP_GUEST_COUNT; i++) {
        if (attach->guests[i].fd >= 0) {
            (void)close(attach->guests[i].fd);
        }
    }
    if (attach->listen_fd >= 0) {
        (void)close(attach->listen_fd);
    }
    if (status == DDP_OK) {
        *out = &attach->endpoint->base;
    } else {
        if (attach->endpoint != NULL) {
            ddp_tcp_endpoint_destroy(attach->endpoint);
        }
        (void)ddp_err_set(err, status, "joining group %s: %s", config->group_name,
                          why.text[0] != '\0' ? why.text : ddp_status_text(status));
    }
    ddp_mem_free(env->mem, attach->callers);
    ddp_mem_free(env->mem, attach);
    return status;
}

ddp_status ddp_tcp_local_address(const char *remote, uint16_t port, char *address,
                                 size_t size_bytes, struct ddp_err *err)
{
    struct addrinfo wanted = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    struct sockaddr_storage own;
    socklen_t own_bytes = sizeof own;
    char service[8];
    bool is_known = false;
    int code, fd;

    (void)snprintf(service, sizeof service, "%u", port);
    code = getaddrinfo(remote, service, &wanted, &found);
    if (code != 0) {
        return ddp_err_set(err, DDP_E_IO, "%s: %s", remote, gai_strerror(code));
    }
    /* Connecting a datagram socket only chooses the route. */
    fd = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    code = errno;
    if (fd >= 0) {
        do {
            is_known = connect(fd, found->ai_addr, found->ai_addrlen) == 0;
        } while (!is_known && errno == EINTR);
        is_known = is_known && getsockname(fd, (struct sockaddr *)&own, &own_bytes) == 0;
        code = errno;
        (void)close(fd);
    }
    freeaddrinfo(found);
    if (!is_known) {
        return ddp_err_set(err, DDP_E_IO, "no way to %s: %s", remote, strerror(code));
    }
    code = getnameinfo((const struct sockaddr *)&own, own_bytes, address, (socklen_t)size_bytes,
                       NULL, 0, NI_NUMERICHOST);
    return code == 0
               ? DDP_OK
               : ddp_err_set(err, DDP_E_IO, "address towards %s: %s", remote, gai_strerror(code));
}
