/* See the header. All but what comes in is the inner transport's. */
#include "harness/lab/gated.h"

#include <string.h>

static struct harness_lab_lane *lane_to(struct harness_lab_gated *gate, uint32_t peer)
{
    return &gate->lane[peer];
}

static void *gate_alloc(struct ddp_transport *transport, size_t size_bytes)
{
    struct ddp_transport *inner = ((struct harness_lab_gated *)transport)->inner;

    return inner->ops->alloc(inner, size_bytes);
}

static void gate_free(struct ddp_transport *transport, void *data)
{
    struct ddp_transport *inner = ((struct harness_lab_gated *)transport)->inner;

    inner->ops->free(inner, data);
}

static ddp_status gate_send_post(struct ddp_transport *transport, uint32_t peer,
                                 const struct ddp_message *message, uint64_t *out_ticket)
{
    struct ddp_transport *inner = ((struct harness_lab_gated *)transport)->inner;

    return inner->ops->send_post(inner, peer, message, out_ticket);
}

static ddp_status gate_send_poll(struct ddp_transport *transport, uint32_t peer, uint64_t ticket)
{
    struct ddp_transport *inner = ((struct harness_lab_gated *)transport)->inner;

    return inner->ops->send_poll(inner, peer, ticket);
}

static ddp_status gate_recv_peek(struct ddp_transport *transport, uint32_t peer,
                                 struct ddp_message *out)
{
    struct harness_lab_gated *gate = (struct harness_lab_gated *)transport;
    struct harness_lab_lane *lane = lane_to(gate, peer);
    ddp_status status = gate->inner->ops->recv_peek(gate->inner, peer, out);

    if (status == DDP_E_PEER_DIED && gate->is_deaf) {
        return DDP_PENDING;
    }
    if (status != DDP_OK) {
        return status;
    }
    if (lane->taken < lane->allowed && lane->spoiling == HARNESS_LAB_DROPPED) {
        gate->inner->ops->recv_ack(gate->inner, peer);
        lane->taken++;
        lane->spoiling = HARNESS_LAB_KEPT;
        return DDP_PENDING;
    }
    if (lane->taken == lane->allowed) {
        lane->is_waiting = true;
        return DDP_PENDING;
    }
    if (lane->spoiling == HARNESS_LAB_CUT && out->size_bytes > sizeof(float)) {
        out->size_bytes -= sizeof(float);
    }
    if (lane->spoiling == HARNESS_LAB_FLIPPED &&
        out->size_bytes <= (size_t)HARNESS_LAB_FLIPPED_BYTES) {
        memcpy(gate->flipped, out->data, out->size_bytes);
        gate->flipped[0] ^= 1;
        out->data = gate->flipped;
    }
    return DDP_OK;
}

/* What comes twice is acknowledged once. */
static void gate_recv_ack(struct ddp_transport *transport, uint32_t peer)
{
    struct harness_lab_gated *gate = (struct harness_lab_gated *)transport;
    struct harness_lab_lane *lane = lane_to(gate, peer);

    if (lane->spoiling == HARNESS_LAB_DOUBLED) {
        lane->spoiling = HARNESS_LAB_KEPT;
        return;
    }
    gate->inner->ops->recv_ack(gate->inner, peer);
    lane->taken++;
    lane->spoiling = HARNESS_LAB_KEPT;
}

static void gate_revoke(struct ddp_transport *transport, const struct ddp_revocation *revocation)
{
    struct ddp_transport *inner = ((struct harness_lab_gated *)transport)->inner;

    inner->ops->revoke(inner, revocation);
}

static bool gate_is_revoked(struct ddp_transport *transport, struct ddp_revocation *out)
{
    struct ddp_transport *inner = ((struct harness_lab_gated *)transport)->inner;

    return inner->ops->is_revoked(inner, out);
}

static int32_t gate_dead_peer(struct ddp_transport *transport)
{
    const struct harness_lab_gated *gate = (const struct harness_lab_gated *)transport;

    return gate->is_deaf ? -1 : gate->inner->ops->dead_peer(gate->inner);
}

static void gate_hint(struct ddp_transport *transport, struct ddp_idle_hint *hint)
{
    struct ddp_transport *inner = ((struct harness_lab_gated *)transport)->inner;

    inner->ops->hint(inner, hint);
}

static void gate_destroy(struct ddp_transport *transport)
{
    struct ddp_transport *inner = ((struct harness_lab_gated *)transport)->inner;

    inner->ops->destroy(inner);
}

static const struct ddp_transport_ops gate_ops = {.name = "gate",
                                                  .alloc = gate_alloc,
                                                  .free = gate_free,
                                                  .send_post = gate_send_post,
                                                  .send_poll = gate_send_poll,
                                                  .recv_peek = gate_recv_peek,
                                                  .recv_ack = gate_recv_ack,
                                                  .revoke = gate_revoke,
                                                  .is_revoked = gate_is_revoked,
                                                  .dead_peer = gate_dead_peer,
                                                  .hint = gate_hint,
                                                  .destroy = gate_destroy};

void harness_lab_gated_init(struct harness_lab_gated *gate, struct ddp_transport *inner,
                            struct harness_lab_lane *lane)
{
    gate->base = *inner;
    gate->base.ops = &gate_ops;
    gate->inner = inner;
    gate->lane = lane;
}
