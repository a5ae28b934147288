/* Joining a tcp group: what tcp_attach.c (who listens where) and tcp_join.c (the connections)
 * share. Internal. */
#ifndef DDPCORE_TRANSPORT_TCP_JOIN_H
#define DDPCORE_TRANSPORT_TCP_JOIN_H

#include <sys/socket.h>

#include "ddpcore/transport/tcp_endpoint.h"

/* Connections of nobody known that are waited for at a time; the oldest goes for a new one. */
#define DDP_TCP_GUEST_COUNT 64u

enum ddp_tcp_call {
    DDP_TCP_CALL_NEW,
    DDP_TCP_CALL_CONNECTING,
    DDP_TCP_CALL_GREETED,
    DDP_TCP_CALL_DONE
};

/* A connection of ours to a member that is being made. */
struct ddp_tcp_caller {
    struct sockaddr_storage name;
    socklen_t name_bytes;
    enum ddp_tcp_call state;
    size_t bytes; /* of the greeting that were sent, then of the answer that came */
    uint8_t head[DDP_TCP_HEAD_BYTES];
};

/* A connection to us of somebody who has not said who it is. */
struct ddp_tcp_guest {
    int fd; /* -1: none */
    size_t bytes;
    uint8_t head[DDP_TCP_HEAD_BYTES];
};

struct ddp_tcp_attach {
    struct ddp_tcp_endpoint *endpoint;
    struct ddp_store *store;
    const struct ddp_tcp_config *config;
    uint64_t deadline_ns;
    struct ddp_err *err;
    uint64_t group;
    struct ddp_tcp_caller *callers; /* [member_count] */
    struct ddp_tcp_guest guests[DDP_TCP_GUEST_COUNT];
    uint32_t next_guest;
    uint32_t missing; /* connections, of both directions */
    int listen_fd;    /* -1: none */
};

static inline uint32_t ddp_tcp_rank_of(const struct ddp_tcp_attach *attach, uint32_t member)
{
    return attach->config->member_rank != NULL ? attach->config->member_rank[member] : member;
}

/* Make the connections, once all members' places and nonces are known. Errors: those of
 * ddp_tcp_create. */
DDP_MUST_USE ddp_status ddp_tcp_join(struct ddp_tcp_attach *attach);

#endif
