/* The tcp transport's table. Messages are sent from where they lie, and received into memory of the
 * endpoint's own, where the receiver finds them. */
#include "ddpcore/transport/tcp.h"

#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/transport/tcp_endpoint.h"

#define LOOK_INTERVAL_NS DDP_NS_PER_MS
#define IDLE_CALLS_MASK  7u
/* How long leaving may take until what was said has arrived; a peer's system answers without the
 * peer. */
#define FAREWELL_NS (200 * DDP_NS_PER_MS)

static struct ddp_tcp_endpoint *endpoint_of(struct ddp_transport *transport)
{
    return (struct ddp_tcp_endpoint *)transport;
}

/* Whoever waits for a message sends on what others wait for. Once the group has failed, what was
 * posted may have been given up, and its memory be gone: then only send_poll, which is of a message
 * that is still wanted, reads it. */
static void send_on(struct ddp_tcp_endpoint *endpoint)
{
    if (endpoint->unsent == 0 || endpoint->dead_peer >= 0) {
        return;
    }
    for (uint32_t to = 0; to < endpoint->base.member_count; to++) {
        if (to != endpoint->base.member) {
            ddp_tcp_link_write(endpoint, to);
        }
    }
}

/* The call returns PENDING. Not every one asks the system: that costs more than the rest of it. */
static void look_sometimes(struct ddp_tcp_endpoint *endpoint)
{
    if ((++endpoint->idle_calls & IDLE_CALLS_MASK) == 0) {
        ddp_tcp_link_look(endpoint);
    }
}

static void *tcp_alloc(struct ddp_transport *transport, size_t size_bytes)
{
    struct ddp_tcp_endpoint *endpoint = endpoint_of(transport);

    return ddp_blocks_alloc(&endpoint->blocks, endpoint->env->mem, size_bytes);
}

/* Messages that lie in this memory and were not sent whole never will be. */
static void recall(struct ddp_tcp_endpoint *endpoint, const void *data, size_t size_bytes)
{
    uintptr_t first = (uintptr_t)data;

    for (uint32_t to = 0; to < endpoint->base.member_count; to++) {
        struct ddp_tcp_peer *peer = &endpoint->peers[to];

        for (uint64_t i = peer->written; i < peer->posted; i++) {
            uintptr_t at = (uintptr_t)peer->slots[i & (endpoint->slot_count - 1)].data;

            peer->is_cut |= at >= first && at - first < size_bytes;
        }
    }
}

static void tcp_free(struct ddp_transport *transport, void *data)
{
    struct ddp_tcp_endpoint *endpoint = endpoint_of(transport);

    if (data != NULL) {
        recall(endpoint, data, ddp_blocks_size(data));
        ddp_blocks_free(&endpoint->blocks, endpoint->env->mem, data);
    }
}

static ddp_status tcp_send_post(struct ddp_transport *transport, uint32_t to,
                                const struct ddp_message *message, uint64_t *out_ticket)
{
    struct ddp_tcp_endpoint *endpoint = endpoint_of(transport);
    struct ddp_tcp_peer *peer = &endpoint->peers[to];
    struct ddp_tcp_slot *slot = &peer->slots[peer->posted & (endpoint->slot_count - 1)];
    struct ddp_tcp_frame frame = {.kind = DDP_TCP_DATA, .payload_bytes = message->size_bytes};

    DDP_ASSERT(to < transport->member_count && to != transport->member);
    DDP_ASSERT(message->data != NULL && message->size_bytes > 0);
    if (endpoint->revoking_count != 0) {
        return DDP_E_REVOKED;
    }
    if (peer->lost != DDP_LINK_STANDS || peer->is_cut) {
        return DDP_E_PEER_DIED;
    }
    if (message->size_bytes > endpoint->message_bytes_max) {
        return DDP_E_OVERFLOW;
    }
    if (peer->posted - peer->taken == endpoint->slot_count) {
        ddp_tcp_link_look(endpoint);
        if (peer->posted - peer->taken == endpoint->slot_count) {
            return DDP_PENDING;
        }
    }
    frame.word[0] = message->seq;
    frame.word[1] = message->signature;
    frame.word[2] = message->number;
    frame.payload_hash = ddp_tcp_payload_hash(message->data, message->size_bytes);
    ddp_tcp_frame_encode(&frame, peer->nonce, peer->out_number++, slot->head);
    slot->data = message->data;
    slot->size_bytes = message->size_bytes;
    slot->sent_bytes = 0;
    *out_ticket = peer->posted++;
    endpoint->unsent++;
    ddp_tcp_link_write(endpoint, to);
    return DDP_OK;
}

static bool is_sent(const struct ddp_tcp_endpoint *endpoint, const struct ddp_tcp_peer *peer,
                    uint64_t ticket)
{
    return ticket < peer->taken ||
           (ticket < peer->written &&
            peer->slots[ticket & (endpoint->slot_count - 1)].size_bytes <= DDP_TCP_SMALL_BYTES);
}

static ddp_status tcp_send_poll(struct ddp_transport *transport, uint32_t to, uint64_t ticket)
{
    struct ddp_tcp_endpoint *endpoint = endpoint_of(transport);
    struct ddp_tcp_peer *peer = &endpoint->peers[to];

    DDP_ASSERT(ticket < peer->posted);
    if (is_sent(endpoint, peer, ticket)) {
        return DDP_OK;
    }
    ddp_tcp_link_look(endpoint);
    ddp_tcp_link_write(endpoint, to);
    if (is_sent(endpoint, peer, ticket)) {
        return DDP_OK;
    }
    return peer->lost != DDP_LINK_STANDS || peer->is_cut ? DDP_E_PEER_DIED : DDP_PENDING;
}

static ddp_status tcp_recv_peek(struct ddp_transport *transport, uint32_t from,
                                struct ddp_message *out)
{
    struct ddp_tcp_endpoint *endpoint = endpoint_of(transport);
    struct ddp_tcp_peer *peer = &endpoint->peers[from];
    ddp_status status;

    DDP_ASSERT(from < transport->member_count && from != transport->member);
    status = ddp_tcp_link_read(endpoint, from);
    if (status == DDP_PENDING) {
        ddp_tcp_link_look(endpoint);
        send_on(endpoint);
        status = ddp_tcp_link_read(endpoint, from);
    }
    if (status == DDP_OK) {
        out->data = peer->messages.payload;
        out->size_bytes = (size_t)peer->messages.frame.payload_bytes;
        out->seq = peer->messages.frame.word[0];
        out->signature = peer->messages.frame.word[1];
        out->number = peer->messages.frame.word[2];
    }
    return status;
}

static void tcp_recv_ack(struct ddp_transport *transport, uint32_t from)
{
    struct ddp_tcp_endpoint *endpoint = endpoint_of(transport);
    struct ddp_tcp_peer *peer = &endpoint->peers[from];

    peer->is_wanted |= peer->messages.frame.payload_bytes > DDP_TCP_SMALL_BYTES;
    ddp_tcp_reader_drop(&peer->messages);
    peer->consumed++;
    ddp_tcp_link_reply(endpoint, from);
}

static void tcp_revoke(struct ddp_transport *transport, const struct ddp_revocation *revocation)
{
    struct ddp_tcp_endpoint *endpoint = endpoint_of(transport);
    struct ddp_tcp_peer *own = &endpoint->peers[transport->member];

    DDP_ASSERT(revocation->status != DDP_OK && revocation->status != DDP_PENDING);
    if (own->is_revoking) {
        return;
    }
    own->is_revoking = true;
    own->revocation = *revocation;
    endpoint->revoking_count++;
    for (uint32_t to = 0; to < transport->member_count; to++) {
        if (to != transport->member) {
            endpoint->peers[to].owes_revocation = true;
            ddp_tcp_link_reply(endpoint, to);
        }
    }
}

static bool tcp_is_revoked(struct ddp_transport *transport, struct ddp_revocation *out)
{
    struct ddp_tcp_endpoint *endpoint = endpoint_of(transport);
    bool is_found = false;

    look_sometimes(endpoint);
    if (endpoint->revoking_count == 0) {
        return false;
    }
    for (uint32_t i = 0; i < transport->member_count; i++) {
        const struct ddp_tcp_peer *member = &endpoint->peers[i];

        if (member->is_revoking &&
            (!is_found || member->revocation.step < out->step ||
             (member->revocation.step == out->step && member->revocation.rank < out->rank))) {
            *out = member->revocation;
            is_found = true;
        }
    }
    DDP_ASSERT(is_found);
    return true;
}

static int32_t tcp_dead_peer(struct ddp_transport *transport)
{
    struct ddp_tcp_endpoint *endpoint = endpoint_of(transport);
    uint64_t now_ns = ddp_clock_now_ns(endpoint->env->clock);

    if (now_ns - endpoint->looked_ns >= LOOK_INTERVAL_NS) {
        endpoint->looked_ns = now_ns;
        ddp_tcp_link_look(endpoint);
        if (++endpoint->looks % (1 + transport->member_count / 32) == 0) {
            ddp_tcp_link_retry(endpoint);
        }
    }
    DDP_ASSERT(endpoint->dead_peer < (int32_t)transport->member_count);
    return endpoint->dead_peer;
}

static void tcp_hint(struct ddp_transport *transport, struct ddp_idle_hint *hint)
{
    hint->doorbell = NULL;
    hint->doorbell_sleep = NULL;
    hint->fd = endpoint_of(transport)->epoll_fd;
    hint->fd_events = POLLIN;
}

/* What was posted and not sent whole is sent on if it lies in the endpoint's memory; the caller's
 * may be gone. */
static void cut_callers(struct ddp_tcp_endpoint *endpoint, struct ddp_tcp_peer *peer)
{
    for (uint64_t i = peer->written; i < peer->posted; i++) {
        const struct ddp_tcp_slot *slot = &peer->slots[i & (endpoint->slot_count - 1)];

        peer->is_cut |= !ddp_blocks_hold(&endpoint->blocks, slot->data);
    }
}

static ddp_status leaving_poll(void *self)
{
    struct ddp_tcp_endpoint *endpoint = self;
    bool is_whole = endpoint->dead_peer < 0 && endpoint->revoking_count == 0;

    ddp_tcp_link_look(endpoint);
    for (uint32_t to = 0; to < endpoint->base.member_count; to++) {
        if (to == endpoint->base.member) {
            continue;
        }
        ddp_tcp_link_write(endpoint, to);
        if (!ddp_tcp_link_is_flushed(endpoint, to, is_whole)) {
            return DDP_PENDING;
        }
    }
    return DDP_OK;
}

static void tcp_destroy(struct ddp_transport *transport)
{
    struct ddp_tcp_endpoint *endpoint = endpoint_of(transport);
    const struct ddp_pollable leaving = {leaving_poll, NULL, endpoint};
    struct ddp_env *env = endpoint->env;

    endpoint->is_leaving = true;
    for (uint32_t to = 0; to < transport->member_count; to++) {
        if (to != transport->member) {
            cut_callers(endpoint, &endpoint->peers[to]);
            endpoint->peers[to].owes_farewell = true;
            ddp_tcp_link_reply(endpoint, to);
        }
    }
    /* If it takes longer, the peers see the end of the connections instead. */
    (void)!ddp_wait(env->idle, env->clock, &leaving,
                    ddp_clock_deadline_ns(env->clock, FAREWELL_NS));
    ddp_tcp_endpoint_destroy(endpoint);
}

static void close_fd(int fd)
{
    if (fd >= 0) {
        (void)close(fd);
    }
}

void ddp_tcp_endpoint_destroy(struct ddp_tcp_endpoint *endpoint)
{
    struct ddp_mem *mem = endpoint->env->mem;

    for (uint32_t i = 0; endpoint->peers != NULL && i < endpoint->base.member_count; i++) {
        struct ddp_tcp_peer *peer = &endpoint->peers[i];

        close_fd(peer->out_fd);
        close_fd(peer->in_fd);
        ddp_tcp_reader_fini(&peer->replies);
        ddp_tcp_reader_fini(&peer->messages);
        ddp_mem_free(mem, peer->slots);
    }
    ddp_blocks_fini(&endpoint->blocks, mem);
    close_fd(endpoint->epoll_fd);
    ddp_mem_free(mem, endpoint->peers);
    ddp_mem_free(mem, endpoint);
}

enum ddp_link ddp_tcp_lost(const struct ddp_transport *transport, uint32_t member,
                           struct ddp_err *err)
{
    static const char *const meaning[] = {
#define X(id, meaning) meaning,
        DDP_LINK_TABLE(X)
#undef X
    };
    const struct ddp_tcp_endpoint *endpoint = (const struct ddp_tcp_endpoint *)transport;
    const struct ddp_tcp_peer *peer = &endpoint->peers[member];

    DDP_ASSERT(transport->ops == &ddp_tcp_ops && member < transport->member_count);
    if (peer->lost_errno == 0) {
        (void)ddp_err_set(err, DDP_OK, "member %" PRIu32 " %s", member, meaning[peer->lost]);
    } else {
        (void)ddp_err_set(err, DDP_OK, "member %" PRIu32 " %s: %s", member, meaning[peer->lost],
                          strerror(peer->lost_errno));
    }
    return peer->lost;
}

const struct ddp_transport_ops ddp_tcp_ops = {
    .name = "tcp",
    .alloc = tcp_alloc,
    .free = tcp_free,
    .send_post = tcp_send_post,
    .send_poll = tcp_send_poll,
    .recv_peek = tcp_recv_peek,
    .recv_ack = tcp_recv_ack,
    .revoke = tcp_revoke,
    .is_revoked = tcp_is_revoked,
    .dead_peer = tcp_dead_peer,
    .hint = tcp_hint,
    .destroy = tcp_destroy,
};
