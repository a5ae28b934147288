/* Transports: point-to-point messages between the members of one group.
 *
 * Between each ordered pair of members runs one first-in first-out stream. A send *lends* its
 * range: the receiver reads it where it lies (shared memory, simulator) or from a copy (sockets),
 * and the sender may write it again only after the receiver acknowledged. Nothing here blocks:
 * calls return DDP_PENDING and are repeated. One thread per endpoint.
 *
 * Members are numbered 0..member_count-1 inside the group; `peer` below is a member number.
 * To add a transport: fill one static const table, pass tests/unit/transport/test_transport.c. */
#ifndef DDPCORE_TRANSPORT_TRANSPORT_H
#define DDPCORE_TRANSPORT_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/idle.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Once a death is known, a wait for living members goes on for this long: they may still pass on
 * what the dead member had sent. In virtual time, dead_peer wakes its caller when it ends. */
#define DDP_TRANSPORT_DEATH_GRACE_NS (UINT64_C(1000) * 1000)

struct ddp_message {
    const void *data;
    size_t size_bytes;  /* > 0 */
    uint64_t seq;       /* collective it belongs to */
    uint64_t signature; /* of the collective's arguments; 0 = not checked */
    uint64_t number;    /* of those that the sender has sent to this receiver, from 0 */
};

/* Messages so far between this member and another one, over the life of the group; of whoever uses
 * the transport. */
struct ddp_message_count {
    uint64_t sent, taken;
};

/* Why a group is unusable: written by one rank, read by all. */
struct ddp_revocation {
    uint32_t rank; /* global rank that revoked */
    ddp_status status;
    uint32_t step;
    uint64_t detail; /* by status: first parameter concerned, sequence number, dead rank, ... */
};

struct ddp_transport;

struct ddp_transport_ops {
    const char *name;

    /* Memory whose ranges can be lent in place. Zero-filled, 64-byte aligned. NULL when exhausted:
     * callers may send from any memory, it is then copied. */
    void *(*alloc)(struct ddp_transport *transport, size_t size_bytes);
    /* Give back what alloc returned; NULL is allowed. No message may lie in it. */
    void (*free)(struct ddp_transport *transport, void *data);

    /* Lend message->data to peer. *out_ticket identifies it for send_poll. PENDING: the stream is
     * full, nothing was taken, call again. Errors: E_PEER_DIED, E_REVOKED, E_NOMEM, E_NO_FD. */
    ddp_status (*send_post)(struct ddp_transport *transport, uint32_t peer,
                            const struct ddp_message *message, uint64_t *out_ticket);
    /* OK once the receiver acknowledged (the range is the sender's again), else PENDING or error.
     */
    ddp_status (*send_poll)(struct ddp_transport *transport, uint32_t peer, uint64_t ticket);
    /* The oldest message from peer: OK and *out (borrowed until recv_ack), PENDING if none yet.
     * A dead peer's messages sent before its death are still delivered; then E_PEER_DIED. So are a
     * departed member's (see destroy), which dead_peer does not name. */
    ddp_status (*recv_peek)(struct ddp_transport *transport, uint32_t peer,
                            struct ddp_message *out);
    /* Acknowledge and drop the oldest message from peer. */
    void (*recv_ack)(struct ddp_transport *transport, uint32_t peer);

    /* Make the group unusable for every member; the first revocation of each rank counts. */
    void (*revoke)(struct ddp_transport *transport, const struct ddp_revocation *revocation);
    /* True once any member revoked; *out = the revocation of the lowest step, then lowest rank,
     * among those visible now. Costs one load while nobody has. */
    bool (*is_revoked)(struct ddp_transport *transport, struct ddp_revocation *out);
    /* Lowest member known to have died, or -1. Looks at the operating system at most once a
     * millisecond. */
    int32_t (*dead_peer)(struct ddp_transport *transport);
    /* Fill the doorbell or descriptor that changes when one of the calls above may succeed. */
    void (*hint)(struct ddp_transport *transport, struct ddp_idle_hint *hint);
    /* Leave the group and release everything; peers see a departed member, not a dead one. */
    void (*destroy)(struct ddp_transport *transport);
};

/* Base of every transport. */
struct ddp_transport {
    const struct ddp_transport_ops *ops;
    uint32_t member;       /* this endpoint's member number */
    uint32_t member_count; /* group size */
};

#ifdef __cplusplus
}
#endif
#endif
