/* One member's end of the tcp transport. Internal: shared by tcp.c (the table), tcp_link.c (what
 * moves on the connections) and tcp_attach.c (construction). */
#ifndef DDPCORE_TRANSPORT_TCP_ENDPOINT_H
#define DDPCORE_TRANSPORT_TCP_ENDPOINT_H

#include "ddpcore/transport/blocks.h"
#include "ddpcore/transport/tcp.h"
#include "ddpcore/transport/tcp_frame.h"

/* Of longer messages the range is the sender's again once the receiver acknowledged; of these, once
 * the system has taken them. Their acknowledgements are for the stream's room alone. */
#define DDP_TCP_SMALL_BYTES 2048u

/* A message that was posted. Until it is written, data is the caller's. */
struct ddp_tcp_slot {
    const uint8_t *data;
    size_t size_bytes;
    size_t sent_bytes; /* of head and data */
    uint8_t head[DDP_TCP_HEAD_BYTES];
};

struct ddp_tcp_peer {
    uint32_t rank;        /* global */
    uint64_t nonce;       /* the peer's */
    int out_fd, in_fd;    /* our messages go out; the peer's come in. -1: none */
    bool can_write;       /* out_fd may take more */
    bool can_read;        /* in_fd may have more */
    bool has_ended;       /* in_fd brings no more */
    bool is_cut;          /* a message cannot be finished: nothing more may be sent */
    bool is_revoking;     /* this member revoked, as follows */
    bool owes_revocation; /* it was not told of ours */
    bool owes_farewell;
    enum ddp_link lost;
    int lost_errno;
    struct ddp_revocation revocation;

    struct ddp_tcp_slot *slots;      /* [slot_count] of messages from `taken` on */
    uint64_t posted, written, taken; /* messages */
    uint64_t out_number;             /* frames sent on out_fd */
    struct ddp_tcp_reader replies;   /* what comes back on out_fd */

    struct ddp_tcp_reader messages; /* what comes on in_fd */
    uint64_t consumed, told;        /* messages acknowledged by the user, and to the peer */
    bool is_wanted;                 /* the peer may be waiting for the last acknowledgement */
    uint64_t reply_number;          /* frames sent on in_fd */
    size_t reply_bytes, reply_sent; /* of the reply under way */
    uint8_t reply[DDP_TCP_HEAD_BYTES];
};

struct ddp_tcp_endpoint {
    struct ddp_transport base;
    struct ddp_env *env;
    struct ddp_tcp_peer *peers; /* [member_count] */
    struct ddp_blocks blocks;
    uint64_t nonce;
    uint64_t message_bytes_max, silence_ns;
    uint64_t looked_ns;  /* when the sockets were last asked */
    uint32_t slot_count; /* a power of two */
    uint32_t idle_calls;
    uint32_t looks;  /* of dead_peer */
    uint64_t unsent; /* messages that were posted and not written */
    uint32_t revoking_count;
    int32_t dead_peer;
    int epoll_fd;
    bool is_leaving; /* losses are no news any more */
};

extern const struct ddp_transport_ops ddp_tcp_ops;
void ddp_tcp_endpoint_destroy(struct ddp_tcp_endpoint *endpoint);

/* --- tcp_link.c ------------------------------------------------------------------------------- */

/* Take over two connections that stand. Errors: E_SYSTEM. */
DDP_MUST_USE ddp_status ddp_tcp_link_open(struct ddp_tcp_endpoint *endpoint, uint32_t member,
                                          struct ddp_err *err);
/* See what has happened on all connections: take replies, send what replies are owed. Touches no
 * message of the caller's. */
void ddp_tcp_link_look(struct ddp_tcp_endpoint *endpoint);
/* Try all calls again that would have blocked. */
void ddp_tcp_link_retry(struct ddp_tcp_endpoint *endpoint);
/* Send on what was posted to a peer. */
void ddp_tcp_link_write(struct ddp_tcp_endpoint *endpoint, uint32_t to);
/* Receive until a message of the peer is complete. OK: peer->messages has it. PENDING, E_PEER_DIED,
 * E_IO (what came is damaged), E_NOMEM. */
ddp_status ddp_tcp_link_read(struct ddp_tcp_endpoint *endpoint, uint32_t from);
/* Send what is owed to a peer in reply. */
void ddp_tcp_link_reply(struct ddp_tcp_endpoint *endpoint, uint32_t to);
/* Whether all that was said to this peer has arrived at its system; with messages: these, too. */
bool ddp_tcp_link_is_flushed(const struct ddp_tcp_endpoint *endpoint, uint32_t to,
                             bool with_messages);

#endif
