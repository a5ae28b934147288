/* See the header. */
#include "ddpcore/transport/relay.h"

static struct ddp_transport *inner_of(struct ddp_transport *transport)
{
    return ((struct ddp_relay *)transport)->inner;
}

void ddp_relay_init(struct ddp_relay *relay, const struct ddp_transport_ops *ops,
                    struct ddp_transport *inner)
{
    relay->base = *inner;
    relay->base.ops = ops;
    relay->inner = inner;
}

void *ddp_relay_alloc(struct ddp_transport *transport, size_t size_bytes)
{
    struct ddp_transport *inner = inner_of(transport);

    return inner->ops->alloc(inner, size_bytes);
}

void ddp_relay_free(struct ddp_transport *transport, void *data)
{
    struct ddp_transport *inner = inner_of(transport);

    inner->ops->free(inner, data);
}

ddp_status ddp_relay_send_post(struct ddp_transport *transport, uint32_t peer,
                               const struct ddp_message *message, uint64_t *out_ticket)
{
    struct ddp_transport *inner = inner_of(transport);

    return inner->ops->send_post(inner, peer, message, out_ticket);
}

ddp_status ddp_relay_send_poll(struct ddp_transport *transport, uint32_t peer, uint64_t ticket)
{
    struct ddp_transport *inner = inner_of(transport);

    return inner->ops->send_poll(inner, peer, ticket);
}

void ddp_relay_revoke(struct ddp_transport *transport, const struct ddp_revocation *revocation)
{
    struct ddp_transport *inner = inner_of(transport);

    inner->ops->revoke(inner, revocation);
}

bool ddp_relay_is_revoked(struct ddp_transport *transport, struct ddp_revocation *out)
{
    struct ddp_transport *inner = inner_of(transport);

    return inner->ops->is_revoked(inner, out);
}

int32_t ddp_relay_dead_peer(struct ddp_transport *transport)
{
    struct ddp_transport *inner = inner_of(transport);

    return inner->ops->dead_peer(inner);
}

void ddp_relay_hint(struct ddp_transport *transport, struct ddp_idle_hint *hint)
{
    struct ddp_transport *inner = inner_of(transport);

    inner->ops->hint(inner, hint);
}

void ddp_relay_destroy(struct ddp_transport *transport)
{
    struct ddp_transport *inner = inner_of(transport);

    inner->ops->destroy(inner);
}
