/* The shm transport's table. Small messages travel inside a slot; larger ones from the own heap are
 * lent where they lie; anything else is copied into the heap first, or into a file of its own where
 * the heap has no room (shm_apart.c). Construction is shm_attach.c. */
#include "ddpcore/transport/shm.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ddpcore/transport/shm_apart.h"
#include "ddpcore/transport/shm_endpoint.h"

#define LOOK_INTERVAL_NS DDP_NS_PER_MS
#define IDLE_CALLS_MASK  7u

static struct ddp_shm_endpoint *endpoint_of(struct ddp_transport *transport)
{
    return (struct ddp_shm_endpoint *)transport;
}

static void ring(struct ddp_shm_endpoint *endpoint, uint32_t peer)
{
    struct ddp_shm_member *member = &endpoint->segment.members[peer];

    ddp_doorbell_ring(&member->doorbell, &member->sleep);
}

static void ring_all(struct ddp_shm_endpoint *endpoint)
{
    for (uint32_t to = 0; to < endpoint->base.member_count; to++) {
        ring(endpoint, to);
    }
}

static bool has_departed(const struct ddp_shm_endpoint *endpoint, uint32_t peer)
{
    return __atomic_load_n(&endpoint->segment.members[peer].is_departed, __ATOMIC_ACQUIRE) != 0;
}

/* Ask the operating system which processes have ended, at most once an interval. A member that
 * departed before its process ended does not count as dead. */
static void look_at_peers(struct ddp_shm_endpoint *endpoint)
{
    uint64_t now_ns = ddp_clock_now_ns(endpoint->env->clock);

    if (now_ns - endpoint->looked_ns < LOOK_INTERVAL_NS) {
        return;
    }
    endpoint->looked_ns = now_ns;
    (void)poll(endpoint->pidfds, endpoint->base.member_count, 0);
    for (uint32_t peer = 0; peer < endpoint->base.member_count; peer++) {
        struct pollfd *watched = &endpoint->pidfds[peer];

        if (watched->revents == 0) { /* as of a descriptor that is closed */
            continue;
        }
        DDP_ASSERT(peer != endpoint->base.member && !endpoint->peers[peer].is_dead);
        (void)close(watched->fd);
        *watched = (struct pollfd){.fd = -1};
        if (!has_departed(endpoint, peer)) {
            endpoint->peers[peer].is_dead = true;
            if (endpoint->dead_peer < 0 || (int32_t)peer < endpoint->dead_peer) {
                endpoint->dead_peer = (int32_t)peer;
            }
        }
    }
}

/* The call returns PENDING. Only every few of them look for deaths: reading the clock costs as much
 * as the rest of the call. */
static ddp_status pending(struct ddp_shm_endpoint *endpoint)
{
    if ((++endpoint->idle_calls & IDLE_CALLS_MASK) == 0) {
        look_at_peers(endpoint);
    }
    return DDP_PENDING;
}

static void drop_apart(struct ddp_shm_peer *peer, uint64_t index)
{
    if (peer->apart[index] >= 0) {
        (void)close(peer->apart[index]);
        peer->apart[index] = -1;
        peer->apart_count--;
    }
}

/* Give back the copies of acknowledged messages. */
static void reclaim(struct ddp_shm_endpoint *endpoint, struct ddp_shm_peer *peer)
{
    while (peer->reclaimed < peer->sender.sent &&
           ddp_shm_sender_is_taken(&peer->sender, peer->reclaimed)) {
        void **staging = &peer->staging[peer->reclaimed & peer->sender.slot_mask];

        ddp_shm_heap_free(&endpoint->heap, *staging);
        *staging = NULL;
        drop_apart(peer, peer->reclaimed & peer->sender.slot_mask);
        peer->reclaimed++;
    }
    DDP_ASSERT(peer->sender.sent - peer->reclaimed <= peer->sender.slot_mask + UINT64_C(1));
}

static void *shm_alloc(struct ddp_transport *transport, size_t size_bytes)
{
    return ddp_shm_heap_alloc(&endpoint_of(transport)->heap, size_bytes);
}

static void shm_free(struct ddp_transport *transport, void *data)
{
    ddp_shm_heap_free(&endpoint_of(transport)->heap, data);
}

static bool has_staged(const struct ddp_shm_peer *peer)
{
    for (uint64_t ticket = peer->reclaimed; ticket < peer->sender.sent; ticket++) {
        if (peer->staging[ticket & peer->sender.slot_mask] != NULL) {
            return true;
        }
    }
    return false;
}

/* Copy a message from foreign memory into the heap. PENDING while earlier copies fill it; E_NOMEM:
 * it will not have the room. */
static ddp_status stage(struct ddp_shm_endpoint *endpoint, const struct ddp_message *message,
                        void **out)
{
    bool is_any_under_way = false;

    DDP_ASSERT(!ddp_shm_heap_owns(&endpoint->heap, message->data)); /* it would be lent */
    *out = ddp_shm_heap_alloc(&endpoint->heap, message->size_bytes);
    for (uint32_t i = 0; i < endpoint->base.member_count && *out == NULL; i++) {
        reclaim(endpoint, &endpoint->peers[i]);
        is_any_under_way |= has_staged(&endpoint->peers[i]);
        *out = ddp_shm_heap_alloc(&endpoint->heap, message->size_bytes);
    }
    if (*out == NULL) {
        return is_any_under_way && message->size_bytes < endpoint->heap.size_bytes ? DDP_PENDING
                                                                                   : DDP_E_NOMEM;
    }
    memcpy(*out, message->data, message->size_bytes);
    return DDP_OK;
}

/* A message that does not lie in a slot: where it lies. */
static ddp_status place_message(struct ddp_shm_endpoint *endpoint, struct ddp_shm_peer *peer,
                                const struct ddp_message *message, struct ddp_shm_slot *slot)
{
    const uint32_t index = (uint32_t)(peer->sender.sent & peer->sender.slot_mask);
    const void *place = message->data;
    ddp_status status = DDP_OK;

    peer->is_copied[index] = !ddp_shm_heap_owns(&endpoint->heap, place);
    if (peer->is_copied[index]) {
        status = stage(endpoint, message, &peer->staging[index]);
        place = peer->staging[index];
    }
    if (status == DDP_E_NOMEM) {
        /* Its file goes with this process, so it is done with only when it was acknowledged. */
        DDP_TRY(ddp_shm_apart_put(message, slot, &peer->apart[index]));
        peer->is_copied[index] = false;
        peer->apart_count++;
        return DDP_OK;
    }
    DDP_TRY(status);
    slot->offset = (uint64_t)((const uint8_t *)place - endpoint->segment.base);
    DDP_ASSERT(slot->offset < endpoint->segment.size_bytes);
    return DDP_OK;
}

static ddp_status shm_send_post(struct ddp_transport *transport, uint32_t to,
                                const struct ddp_message *message, uint64_t *out_ticket)
{
    struct ddp_shm_endpoint *endpoint = endpoint_of(transport);
    struct ddp_shm_peer *peer = &endpoint->peers[to];
    struct ddp_shm_slot *slot = ddp_shm_sender_slot(&peer->sender);
    uint32_t index = (uint32_t)(peer->sender.sent & peer->sender.slot_mask);

    DDP_ASSERT(to < transport->member_count && message->size_bytes > 0);
    if (__atomic_load_n(&endpoint->segment.header->revoked_count, __ATOMIC_ACQUIRE) != 0) {
        return DDP_E_REVOKED;
    }
    if (slot == NULL) {
        return peer->is_dead || has_departed(endpoint, to) ? DDP_E_PEER_DIED : pending(endpoint);
    }
    reclaim(endpoint, peer);
    DDP_ASSERT(peer->staging[index] == NULL && peer->apart[index] < 0);
    if (message->size_bytes <= DDP_SHM_INLINE_BYTES) {
        peer->is_copied[index] = true;
        memcpy(slot->data, message->data, message->size_bytes);
    } else {
        DDP_TRY(place_message(endpoint, peer, message, slot));
    }
    slot->size_bytes = message->size_bytes;
    slot->seq = message->seq;
    slot->signature = message->signature;
    slot->number = message->number;
    ddp_shm_sender_publish(&peer->sender, slot, out_ticket);
    ring(endpoint, to);
    return DDP_OK;
}

static ddp_status shm_send_poll(struct ddp_transport *transport, uint32_t to, uint64_t ticket)
{
    struct ddp_shm_endpoint *endpoint = endpoint_of(transport);
    struct ddp_shm_peer *peer = &endpoint->peers[to];

    DDP_ASSERT(ticket < peer->sender.sent);
    /* One that is older than the slots in use is taken, whatever a later message's slot says. */
    if (peer->is_copied[ticket & peer->sender.slot_mask] ||
        ddp_shm_sender_is_taken(&peer->sender, ticket)) {
        if (peer->apart_count > 0) {
            reclaim(endpoint, peer);
        }
        return DDP_OK;
    }
    if (!peer->is_dead && !has_departed(endpoint, to)) {
        return pending(endpoint);
    }
    return ddp_shm_sender_is_taken(&peer->sender, ticket) ? DDP_OK : DDP_E_PEER_DIED;
}

static ddp_status shm_recv_peek(struct ddp_transport *transport, uint32_t from,
                                struct ddp_message *out)
{
    struct ddp_shm_endpoint *endpoint = endpoint_of(transport);
    struct ddp_shm_peer *peer = &endpoint->peers[from];
    const struct ddp_shm_slot *slot = ddp_shm_receiver_slot(&peer->receiver);

    DDP_ASSERT(from < transport->member_count);
    if (slot == NULL) {
        if (!peer->is_dead && !has_departed(endpoint, from)) {
            return pending(endpoint);
        }
        /* It can send no more; look once again for what it sent before its end was noticed. */
        slot = ddp_shm_receiver_slot(&peer->receiver);
        if (slot == NULL) {
            return DDP_E_PEER_DIED;
        }
    }
    out->size_bytes = slot->size_bytes;
    out->seq = slot->seq;
    out->signature = slot->signature;
    out->number = slot->number;
    out->data = slot->data;
    if (slot->size_bytes > DDP_SHM_INLINE_BYTES && slot->offset == DDP_SHM_APART) {
        if (peer->mapped == NULL) {
            DDP_TRY(ddp_shm_apart_map(slot, &peer->mapped));
            peer->mapped_bytes = slot->size_bytes;
        }
        out->data = peer->mapped;
    } else if (slot->size_bytes > DDP_SHM_INLINE_BYTES) {
        /* offset <= bytes - size, written so that neither side can overflow */
        if (slot->size_bytes > endpoint->segment.size_bytes ||
            slot->offset > endpoint->segment.size_bytes - slot->size_bytes) {
            return DDP_E_CORRUPT;
        }
        out->data = endpoint->segment.base + slot->offset;
    }
    return DDP_OK;
}

static void unmap(struct ddp_shm_peer *peer)
{
    if (peer->mapped != NULL) {
        (void)munmap(peer->mapped, peer->mapped_bytes);
        peer->mapped = NULL;
    }
}

static void shm_recv_ack(struct ddp_transport *transport, uint32_t from)
{
    struct ddp_shm_endpoint *endpoint = endpoint_of(transport);

    DDP_ASSERT(ddp_shm_receiver_slot(&endpoint->peers[from].receiver) != NULL);
    unmap(&endpoint->peers[from]);
    if (ddp_shm_receiver_take(&endpoint->peers[from].receiver)) {
        ring(endpoint, from);
    }
}

static void shm_revoke(struct ddp_transport *transport, const struct ddp_revocation *revocation)
{
    struct ddp_shm_endpoint *endpoint = endpoint_of(transport);
    struct ddp_shm_member *own = endpoint->own;

    DDP_ASSERT(revocation->status != DDP_OK && revocation->status != DDP_PENDING);
    if (own->is_revoking != 0) {
        return;
    }
    own->revocation_rank = revocation->rank;
    own->revocation_status = revocation->status;
    own->revocation_step = revocation->step;
    own->revocation_detail = revocation->detail;
    __atomic_store_n(&own->is_revoking, 1u, __ATOMIC_RELEASE);
    (void)__atomic_add_fetch(&endpoint->segment.header->revoked_count, 1u, __ATOMIC_SEQ_CST);
    ring_all(endpoint);
}

static bool shm_is_revoked(struct ddp_transport *transport, struct ddp_revocation *out)
{
    struct ddp_shm_endpoint *endpoint = endpoint_of(transport);
    bool is_found = false;

    if (__atomic_load_n(&endpoint->segment.header->revoked_count, __ATOMIC_ACQUIRE) == 0) {
        return false;
    }
    for (uint32_t i = 0; i < endpoint->base.member_count; i++) {
        const struct ddp_shm_member *member = &endpoint->segment.members[i];

        if (__atomic_load_n(&member->is_revoking, __ATOMIC_ACQUIRE) == 0) {
            continue;
        }
        if (!is_found || member->revocation_step < out->step) {
            out->rank = member->revocation_rank;
            out->status = (ddp_status)member->revocation_status;
            out->step = member->revocation_step;
            out->detail = member->revocation_detail;
            is_found = true;
        }
    }
    return is_found;
}

static int32_t shm_dead_peer(struct ddp_transport *transport)
{
    struct ddp_shm_endpoint *endpoint = endpoint_of(transport);

    look_at_peers(endpoint);
    DDP_ASSERT(endpoint->dead_peer < (int32_t)transport->member_count);
    return endpoint->dead_peer;
}

static void shm_hint(struct ddp_transport *transport, struct ddp_idle_hint *hint)
{
    struct ddp_shm_endpoint *endpoint = endpoint_of(transport);

    hint->doorbell = &endpoint->own->doorbell;
    hint->doorbell_sleep = &endpoint->own->sleep;
    hint->doorbell_seen = __atomic_load_n(&endpoint->own->doorbell, __ATOMIC_ACQUIRE);
}

static void close_peer(struct ddp_shm_endpoint *endpoint, struct ddp_shm_peer *peer)
{
    struct ddp_mem *mem = endpoint->env->mem;

    for (uint32_t i = 0; peer->apart != NULL && i < endpoint->segment.slot_count; i++) {
        drop_apart(peer, i);
    }
    unmap(peer);
    ddp_mem_free(mem, peer->staging);
    ddp_mem_free(mem, peer->is_copied);
    ddp_mem_free(mem, peer->apart);
}

void ddp_shm_endpoint_destroy(struct ddp_shm_endpoint *endpoint)
{
    struct ddp_mem *mem = endpoint->env->mem;

    if (endpoint->has_attached) {
        /* What was lent stays readable: the segment lives as long as any member maps it. */
        __atomic_store_n(&endpoint->own->is_departed, 1u, __ATOMIC_SEQ_CST);
        ring_all(endpoint);
    }
    for (uint32_t i = 0; i < endpoint->base.member_count; i++) {
        if (endpoint->pidfds != NULL && endpoint->pidfds[i].fd >= 0) {
            (void)close(endpoint->pidfds[i].fd);
        }
        if (endpoint->peers != NULL) {
            close_peer(endpoint, &endpoint->peers[i]);
        }
    }
    if (endpoint->segment.base != NULL) {
        (void)munmap(endpoint->segment.base, endpoint->segment.size_bytes);
    }
    ddp_mem_free(mem, endpoint->pidfds);
    ddp_mem_free(mem, endpoint->peers);
    ddp_mem_free(mem, endpoint);
}

static void shm_destroy(struct ddp_transport *transport)
{
    ddp_shm_endpoint_destroy(endpoint_of(transport));
}

const struct ddp_transport_ops ddp_shm_ops = {
    .name = "shm",
    .alloc = shm_alloc,
    .free = shm_free,
    .send_post = shm_send_post,
    .send_poll = shm_send_poll,
    .recv_peek = shm_recv_peek,
    .recv_ack = shm_recv_ack,
    .revoke = shm_revoke,
    .is_revoked = shm_is_revoked,
    .dead_peer = shm_dead_peer,
    .hint = shm_hint,
    .destroy = shm_destroy,
};
