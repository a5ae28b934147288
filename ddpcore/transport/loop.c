/* The loop transport's table: one rank's endpoint in one group. Messages, acknowledgements, deaths
 * and revocations become visible to the other side when the virtual clock has reached their time.
 */
#include "ddpcore/transport/loop.h"

#include <string.h>

#include "ddpcore/transport/blocks.h"
#include "ddpcore/transport/loop_net.h"

struct endpoint {
    struct ddp_transport base;
    struct ddp_blocks blocks;
    struct ddp_env *env;
    struct ddp_loop_net *net;
    struct ddp_loop_group *group;
};

static struct endpoint *endpoint_of(struct ddp_transport *transport)
{
    return (struct endpoint *)transport;
}

static uint64_t latency_ns(const struct endpoint *endpoint)
{
    return endpoint->net->config.latency_ns;
}

static void wake_member(const struct endpoint *endpoint, uint32_t member, uint64_t at_ns)
{
    DDP_ASSERT(member < endpoint->base.member_count);
    ddp_loop_net_wake(endpoint->net, endpoint->group->member_rank[member], at_ns);
}

static void wake_all(const struct endpoint *endpoint, uint64_t at_ns)
{
    for (uint32_t i = 0; i < endpoint->base.member_count; i++) {
        wake_member(endpoint, i, at_ns);
    }
}

/* Dead or departed, and known to be: it can neither send nor acknowledge any more. */
static bool is_gone(const struct endpoint *endpoint, uint32_t member)
{
    const struct ddp_loop_member *who = &endpoint->group->members[member];

    DDP_ASSERT(member < endpoint->base.member_count);
    if (who->is_departed &&
        ddp_loop_net_now_ns(endpoint->net) >= who->departed_ns + latency_ns(endpoint)) {
        return true;
    }
    return ddp_loop_net_is_dead(endpoint->net, endpoint->group->member_rank[member]);
}

static bool sees_revocation(const struct endpoint *endpoint, uint32_t member)
{
    const struct ddp_loop_member *who = &endpoint->group->members[member];

    return who->is_revoking &&
           (member == endpoint->base.member ||
            ddp_loop_net_now_ns(endpoint->net) >= who->revoked_ns + latency_ns(endpoint));
}

/* A rank that knows of a failure no longer waits for acknowledgements: it may write to, or free,
 * memory that its peers have not read yet. */
static void recall_lent(const struct endpoint *endpoint)
{
    ddp_loop_group_detach(endpoint->group, endpoint->base.member);
}

static bool loop_is_revoked(struct ddp_transport *transport, struct ddp_revocation *out)
{
    struct endpoint *endpoint = endpoint_of(transport);
    bool is_found = false;

    DDP_ASSERT(endpoint->group->revoking_count <= endpoint->base.member_count);
    if (endpoint->group->revoking_count == 0) {
        return false;
    }
    for (uint32_t i = 0; i < endpoint->base.member_count; i++) {
        const struct ddp_revocation *other = &endpoint->group->members[i].revocation;

        if (sees_revocation(endpoint, i) &&
            (!is_found || other->step < out->step ||
             (other->step == out->step && other->rank < out->rank))) {
            *out = *other;
            is_found = true;
        }
    }
    if (is_found) {
        recall_lent(endpoint);
    }
    return is_found;
}

static void *loop_alloc(struct ddp_transport *transport, size_t size_bytes)
{
    struct endpoint *endpoint = endpoint_of(transport);

    return ddp_blocks_alloc(&endpoint->blocks, endpoint->env->mem, size_bytes);
}

static void loop_free(struct ddp_transport *transport, void *data)
{
    struct endpoint *endpoint = endpoint_of(transport);

    if (data != NULL) {
        recall_lent(endpoint);
        ddp_blocks_free(&endpoint->blocks, endpoint->env->mem, data);
    }
}

/* Count the acknowledgements that have arrived. */
static void reclaim(const struct endpoint *endpoint, struct ddp_loop_stream *stream)
{
    uint64_t now_ns = ddp_loop_net_now_ns(endpoint->net);

    while (stream->reclaimed < stream->taken &&
           stream->slot[stream->reclaimed % DDP_LOOP_SLOT_COUNT].ack_ns <= now_ns) {
        stream->reclaimed++;
    }
    DDP_ASSERT(stream->reclaimed <= stream->taken && stream->taken <= stream->sent);
    DDP_ASSERT(stream->sent - stream->reclaimed <= DDP_LOOP_SLOT_COUNT);
}

static uint64_t delivery_ns(const struct endpoint *endpoint, struct ddp_loop_stream *stream,
                            size_t size_bytes)
{
    const struct ddp_loop_config *config = &endpoint->net->config;
    uint64_t now_ns = ddp_loop_net_now_ns(endpoint->net);
    uint64_t at_ns;

    stream->link_free_ns = stream->link_free_ns > now_ns ? stream->link_free_ns : now_ns;
    if (config->bytes_per_us > 0) {
        /* size / rate in microseconds, in nanoseconds: size * 1000 / rate */
        stream->link_free_ns += (uint64_t)size_bytes * DDP_NS_PER_US / config->bytes_per_us;
    }
    at_ns = stream->link_free_ns + config->latency_ns +
            ddp_prng_at(&stream->jitter, stream->sent) % (config->latency_jitter_ns + 1);
    /* First in, first out: no message overtakes the one before it. */
    at_ns = at_ns > stream->last_deliver_ns ? at_ns : stream->last_deliver_ns;
    DDP_ASSERT(at_ns >= now_ns);
    stream->last_deliver_ns = at_ns;
    return at_ns;
}

static ddp_status loop_send_post(struct ddp_transport *transport, uint32_t to,
                                 const struct ddp_message *message, uint64_t *out_ticket)
{
    struct endpoint *endpoint = endpoint_of(transport);
    struct ddp_loop_stream *stream;
    struct ddp_loop_message *entry;
    struct ddp_revocation revocation;

    DDP_ASSERT(to < transport->member_count && to != transport->member);
    DDP_ASSERT(message->data != NULL && message->size_bytes > 0);
    if (loop_is_revoked(transport, &revocation)) {
        return DDP_E_REVOKED;
    }
    if (is_gone(endpoint, to)) {
        recall_lent(endpoint);
        return DDP_E_PEER_DIED;
    }
    stream = ddp_loop_group_stream(endpoint->net, endpoint->group, endpoint->base.member, to, true);
    if (stream == NULL) {
        return DDP_E_NOMEM;
    }
    reclaim(endpoint, stream);
    if (stream->sent - stream->reclaimed == DDP_LOOP_SLOT_COUNT) {
        return DDP_PENDING;
    }
    entry = &stream->slot[stream->sent % DDP_LOOP_SLOT_COUNT];
    DDP_ASSERT(entry->lent == NULL && entry->copy == NULL); /* acknowledged, if used */
    entry->copy = endpoint->net->config.mem->alloc(endpoint->net->config.mem, message->size_bytes);
    if (entry->copy == NULL) {
        return DDP_E_NOMEM;
    }
    memcpy(entry->copy, message->data, message->size_bytes);
    entry->message = *message;
    entry->message.data = entry->copy;
    entry->lent = message->data;
    entry->deliver_ns = delivery_ns(endpoint, stream, message->size_bytes);
    *out_ticket = stream->sent++;
    wake_member(endpoint, to, entry->deliver_ns);
    return DDP_OK;
}

static ddp_status loop_send_poll(struct ddp_transport *transport, uint32_t to, uint64_t ticket)
{
    struct endpoint *endpoint = endpoint_of(transport);
    struct ddp_loop_stream *stream =
        ddp_loop_group_stream(endpoint->net, endpoint->group, endpoint->base.member, to, false);

    DDP_ASSERT(stream != NULL && ticket < stream->sent);
    reclaim(endpoint, stream);
    if (ticket < stream->reclaimed) {
        return DDP_OK;
    }
    if (is_gone(endpoint, to) && ticket >= stream->taken) {
        recall_lent(endpoint);
        return DDP_E_PEER_DIED;
    }
    return DDP_PENDING;
}

static ddp_status loop_recv_peek(struct ddp_transport *transport, uint32_t from,
                                 struct ddp_message *out)
{
    struct endpoint *endpoint = endpoint_of(transport);
    struct ddp_loop_stream *stream =
        ddp_loop_group_stream(endpoint->net, endpoint->group, from, endpoint->base.member, false);
    struct ddp_loop_message *entry;

    DDP_ASSERT(from < transport->member_count && from != transport->member);
    if (stream == NULL || stream->taken == stream->sent) {
        if (is_gone(endpoint, from)) {
            recall_lent(endpoint);
            return DDP_E_PEER_DIED;
        }
        return DDP_PENDING;
    }
    entry = &stream->slot[stream->taken % DDP_LOOP_SLOT_COUNT];
    if (entry->deliver_ns > ddp_loop_net_now_ns(endpoint->net)) {
        return DDP_PENDING;
    }
    DDP_ASSERT(entry->copy != NULL);
    if (entry->lent != NULL && memcmp(entry->lent, entry->copy, entry->message.size_bytes) != 0) {
        memset(entry->copy, DDP_LOOP_POISON, entry->message.size_bytes);
    }
    *out = entry->message;
    return DDP_OK;
}

static void loop_recv_ack(struct ddp_transport *transport, uint32_t from)
{
    struct endpoint *endpoint = endpoint_of(transport);
    struct ddp_loop_stream *stream =
        ddp_loop_group_stream(endpoint->net, endpoint->group, from, endpoint->base.member, false);
    struct ddp_loop_message *entry;

    DDP_ASSERT(stream != NULL && stream->taken < stream->sent);
    entry = &stream->slot[stream->taken % DDP_LOOP_SLOT_COUNT];
    DDP_ASSERT(entry->deliver_ns <= ddp_loop_net_now_ns(endpoint->net)); /* it was seen */
    ddp_loop_net_poison(endpoint->net, entry->copy, entry->message.size_bytes);
    entry->copy = NULL;
    entry->lent = NULL;
    entry->ack_ns = ddp_loop_net_now_ns(endpoint->net) + latency_ns(endpoint);
    stream->taken++;
    if (!endpoint->group->members[from].is_departed) {
        wake_member(endpoint, from, entry->ack_ns);
    }
}

static void loop_revoke(struct ddp_transport *transport, const struct ddp_revocation *revocation)
{
    struct endpoint *endpoint = endpoint_of(transport);
    struct ddp_loop_member *own = &endpoint->group->members[endpoint->base.member];

    DDP_ASSERT(revocation->status != DDP_OK && revocation->status != DDP_PENDING);
    if (own->is_revoking) {
        return;
    }
    recall_lent(endpoint);
    own->is_revoking = true;
    own->revocation = *revocation;
    own->revoked_ns = ddp_loop_net_now_ns(endpoint->net);
    endpoint->group->revoking_count++;
    wake_all(endpoint, own->revoked_ns + latency_ns(endpoint));
}

static int32_t loop_dead_peer(struct ddp_transport *transport)
{
    struct endpoint *endpoint = endpoint_of(transport);

    if (endpoint->net->dead_count == 0) {
        return -1;
    }
    for (uint32_t i = 0; i < endpoint->base.member_count; i++) {
        /* A rank that left the group before it died owes it nothing. */
        if (!endpoint->group->members[i].is_departed &&
            ddp_loop_net_is_dead(endpoint->net, endpoint->group->member_rank[i])) {
            wake_member(endpoint, endpoint->base.member,
                        ddp_loop_net_now_ns(endpoint->net) + DDP_TRANSPORT_DEATH_GRACE_NS);
            return (int32_t)i;
        }
    }
    return -1;
}

/* The net wakes ranks itself; there is nothing to watch. */
static void loop_hint(struct ddp_transport *transport, struct ddp_idle_hint *hint)
{
    (void)transport;
    hint->doorbell = NULL;
    hint->fd = -1;
}

static void loop_destroy(struct ddp_transport *transport)
{
    struct endpoint *endpoint = endpoint_of(transport);
    struct ddp_loop_member *own = &endpoint->group->members[endpoint->base.member];

    DDP_ASSERT(own->is_joined && !own->is_departed);
    recall_lent(endpoint);
    own->is_departed = true;
    own->departed_ns = ddp_loop_net_now_ns(endpoint->net);
    wake_all(endpoint, own->departed_ns + latency_ns(endpoint));
    ddp_blocks_fini(&endpoint->blocks, endpoint->env->mem);
    ddp_mem_free(endpoint->env->mem, endpoint);
}

static const struct ddp_transport_ops loop_ops = {
    .name = "loop",
    .alloc = loop_alloc,
    .free = loop_free,
    .send_post = loop_send_post,
    .send_poll = loop_send_poll,
    .recv_peek = loop_recv_peek,
    .recv_ack = loop_recv_ack,
    .revoke = loop_revoke,
    .is_revoked = loop_is_revoked,
    .dead_peer = loop_dead_peer,
    .hint = loop_hint,
    .destroy = loop_destroy,
};

ddp_status ddp_loop_create(struct ddp_loop_net *net, struct ddp_env *env, const char *group_name,
                           uint32_t member, uint32_t member_count, const uint32_t *member_rank,
                           struct ddp_transport **out)
{
    struct ddp_loop_group *group;
    struct endpoint *endpoint;

    group = ddp_loop_net_group(net, group_name, member_count, member_rank);
    if (group == NULL) {
        return DDP_E_NOMEM;
    }
    if (group->member_count != member_count || member >= member_count ||
        group->members[member].is_joined) {
        return DDP_E_INVALID;
    }
    endpoint = ddp_mem_array(env->mem, 1, sizeof(*endpoint));
    if (endpoint == NULL) {
        return DDP_E_NOMEM;
    }
    DDP_ASSERT(group->member_rank[member] == env->rank);
    group->members[member].is_joined = true;
    endpoint->base.ops = &loop_ops;
    endpoint->base.member = member;
    endpoint->base.member_count = member_count;
    endpoint->env = env;
    endpoint->net = net;
    endpoint->group = group;
    *out = &endpoint->base;
    return DDP_OK;
}
