/* See the header. All but what comes in is the inner transport's. */
#include "harness/lab/gated.h"

#include <string.h>

static struct harness_lab_lane *lane_to(struct harness_lab_gated *gate, uint32_t peer)
{
    return &gate->lane[peer];
}

static ddp_status gate_recv_peek(struct ddp_transport *transport, uint32_t peer,
                                 struct ddp_message *out)
{
    struct harness_lab_gated *gate = (struct harness_lab_gated *)transport;
    struct harness_lab_lane *lane = lane_to(gate, peer);
    ddp_status status = gate->relay.inner->ops->recv_peek(gate->relay.inner, peer, out);

    if (status == DDP_E_PEER_DIED && gate->is_deaf) {
        return DDP_PENDING;
    }
    if (status != DDP_OK) {
        return status;
    }
    if (lane->taken < lane->allowed && lane->spoiling == HARNESS_LAB_DROPPED) {
        gate->relay.inner->ops->recv_ack(gate->relay.inner, peer);
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
    gate->relay.inner->ops->recv_ack(gate->relay.inner, peer);
    lane->taken++;
    lane->spoiling = HARNESS_LAB_KEPT;
}

static int32_t gate_dead_peer(struct ddp_transport *transport)
{
    return ((const struct harness_lab_gated *)transport)->is_deaf ? -1
                                                                  : ddp_relay_dead_peer(transport);
}

static const struct ddp_transport_ops gate_ops = {.name = "gate",
                                                  .alloc = ddp_relay_alloc,
                                                  .free = ddp_relay_free,
                                                  .send_post = ddp_relay_send_post,
                                                  .send_poll = ddp_relay_send_poll,
                                                  .recv_peek = gate_recv_peek,
                                                  .recv_ack = gate_recv_ack,
                                                  .revoke = ddp_relay_revoke,
                                                  .is_revoked = ddp_relay_is_revoked,
                                                  .dead_peer = gate_dead_peer,
                                                  .hint = ddp_relay_hint,
                                                  .destroy = ddp_relay_destroy};

void harness_lab_gated_init(struct harness_lab_gated *gate, struct ddp_transport *inner,
                            struct harness_lab_lane *lane)
{
    ddp_relay_init(&gate->relay, &gate_ops, inner);
    gate->lane = lane;
}
