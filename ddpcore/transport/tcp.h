/* TCP transport: real processes, on one host or on several.
 *
 * Each member listens at an address of its own and publishes it, with a number drawn at random (its
 * nonce), in the store. Each ordered pair of members has a connection of its own: messages go one
 * way, acknowledgements and what is said of the group (a revocation, a farewell) come back the
 * other way, so that an acknowledgement never stands behind a message that nobody takes.
 *
 * What comes in is believed only as far as it is checked. Whoever connects must name the listener's
 * nonce, and is answered with its own; anybody else is dropped. Every frame carries a hash of its
 * header, which depends on the nonce and on the frame's number, and one of its payload: a damaged,
 * lost or repeated one is E_IO. Frames are neither encrypted nor signed: who can read the
 * network can forge them.
 *
 * Deaths. A process that dies ends its connections without a farewell: its peers know at once,
 * after they have taken what had left it. A host that vanishes, or a cut link, ends nothing: a peer
 * whose system has answered nothing for `silence_ns` counts as dead; one that is stopped, or busy,
 * does not, since its system still answers. A connection that is reset counts as the peer's death,
 * too, and is closed, so that the other side learns of it and no connection stays half open.
 * ddp_tcp_lost tells these apart. What a dead member had posted, but its system had not taken, is
 * lost with it. */
#ifndef DDPCORE_TRANSPORT_TCP_H
#define DDPCORE_TRANSPORT_TCP_H

#include "ddpcore/seam/env.h"
#include "ddpcore/seam/link.h"
#include "ddpcore/store/store.h"
#include "ddpcore/transport/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_TCP_MEMBERS_MAX   512u
#define DDP_TCP_SILENCE_MAX_S 120

struct ddp_tcp_config {
    const char *group_name; /* key prefix in the store; unique per group */
    uint32_t member, member_count;
    const uint32_t *member_rank; /* global rank of each member; NULL = identity */
    /* What this member listens at and publishes: a number (ddp_tcp_local_address), or a name that
     * means this host for every member. */
    const char *address;
    uint32_t slot_count;        /* messages in flight per ordered pair; 0 = 16 */
    uint64_t silence_ns;        /* whole seconds, at most DDP_TCP_SILENCE_MAX_S; 0 = 5 s */
    uint64_t message_bytes_max; /* longer ones are refused, also a peer's; 0 = 1 TiB */
};
/* Collective over the members: returns on each once its connections to and from all others stand.
 * Errors: E_TIMEOUT, E_PEER_DIED (store->dead_rank says who), E_IO (an address cannot be bound or
 * reached), E_MEMBER, E_NO_FD (two for each other member), E_NOMEM, E_SYSTEM. */
DDP_MUST_USE ddp_status ddp_tcp_create(struct ddp_env *env, struct ddp_store *store,
                                       const struct ddp_tcp_config *config, uint64_t deadline_ns,
                                       struct ddp_transport **out, struct ddp_err *err);

/* The address of this host that it would reach another one from; nothing is sent. address: char
 * [size_bytes]. Errors: E_IO. */
DDP_MUST_USE ddp_status ddp_tcp_local_address(const char *remote, uint16_t port, char *address,
                                              size_t size_bytes, struct ddp_err *err);

/* What became of a member, as far as known now; err, if not NULL: the same in words. transport:
 * made by ddp_tcp_create. */
enum ddp_link ddp_tcp_lost(const struct ddp_transport *transport, uint32_t member,
                           struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
