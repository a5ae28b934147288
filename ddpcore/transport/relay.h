/* A transport in front of another one. What it does not do itself, these slots ask of the inner
 * one. To make one: embed a struct ddp_relay as first member, fill one static const table. */
#ifndef DDPCORE_TRANSPORT_RELAY_H
#define DDPCORE_TRANSPORT_RELAY_H

#include "ddpcore/transport/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_relay {
    struct ddp_transport base;
    struct ddp_transport *inner; /* destroyed with it */
};
void ddp_relay_init(struct ddp_relay *relay, const struct ddp_transport_ops *ops,
                    struct ddp_transport *inner);

/* Slots of struct ddp_transport_ops. destroy is the inner one's alone. */
void *ddp_relay_alloc(struct ddp_transport *transport, size_t size_bytes);
void ddp_relay_free(struct ddp_transport *transport, void *data);
ddp_status ddp_relay_send_post(struct ddp_transport *transport, uint32_t peer,
                               const struct ddp_message *message, uint64_t *out_ticket);
ddp_status ddp_relay_send_poll(struct ddp_transport *transport, uint32_t peer, uint64_t ticket);
void ddp_relay_revoke(struct ddp_transport *transport, const struct ddp_revocation *revocation);
bool ddp_relay_is_revoked(struct ddp_transport *transport, struct ddp_revocation *out);
int32_t ddp_relay_dead_peer(struct ddp_transport *transport);
void ddp_relay_hint(struct ddp_transport *transport, struct ddp_idle_hint *hint);
void ddp_relay_destroy(struct ddp_transport *transport);

#ifdef __cplusplus
}
#endif
#endif
