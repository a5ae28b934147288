/* See the header. The point message/recv is passed once for each message that has arrived, when the
 * rank first looks at it. */
#include "harness/inject/link.h"

#include <string.h>

/* Messages from one peer. */
struct stream {
    bool is_seen;            /* the oldest message has passed the point */
    bool is_held;            /* a message comes again, or late */
    bool is_late;            /* it comes now */
    bool is_failed;          /* no message is shown any more */
    struct ddp_message held; /* its data is ours */
};

struct link {
    struct ddp_relay relay;
    struct ddp_env *env;
    struct stream *streams; /* [peer] */
};

static struct link *link_of(struct ddp_transport *transport)
{
    return (struct link *)transport;
}

static void drop(struct link *link, uint32_t peer)
{
    struct ddp_transport *inner = link->relay.inner;

    inner->ops->recv_ack(inner, peer);
    link->streams[peer].is_seen = false;
}

/* Keep a copy that is shown once the message that is shown next was taken. */
static ddp_status hold(struct link *link, uint32_t peer, const struct ddp_message *message)
{
    struct stream *stream = &link->streams[peer];
    void *copy = link->env->mem->alloc(link->env->mem, message->size_bytes);

    if (copy == NULL) {
        return DDP_E_NOMEM;
    }
    memcpy(copy, message->data, message->size_bytes);
    stream->held = *message;
    stream->held.data = copy;
    stream->is_held = true;
    return DDP_OK;
}

/* *out_is_shown: the message is; else it is gone, for now or for ever. */
static ddp_status pass_point(struct link *link, uint32_t peer, const struct ddp_message *message,
                             bool *out_is_shown)
{
    struct ddp_fault_context context = DDP_FAULT_CONTEXT_NONE;
    struct stream *stream = &link->streams[peer];
    const enum ddp_wait_kind wait = ddp_recorder_wait_suspend(link->env->recorder);
    enum ddp_fault_action action;

    context.seq = message->seq;
    action = ddp_fault_point(link->env->faults, DDP_FAULT_POINT_MESSAGE_RECV, &context);
    ddp_recorder_wait_resume(link->env->recorder, wait);
    *out_is_shown = action != DDP_FAULT_SKIP;
    stream->is_seen = true;
    if (action == DDP_FAULT_FAIL) {
        stream->is_failed = true;
        return DDP_E_INJECTED;
    }
    if (!stream->is_held && (action == DDP_FAULT_DUP || action == DDP_FAULT_OVERTAKEN)) {
        DDP_TRY(hold(link, peer, message));
        *out_is_shown = action == DDP_FAULT_DUP;
    }
    if (!*out_is_shown) {
        drop(link, peer);
    }
    return DDP_OK;
}

static ddp_status link_recv_peek(struct ddp_transport *transport, uint32_t peer,
                                 struct ddp_message *out)
{
    struct link *link = link_of(transport);
    struct stream *stream = &link->streams[peer];
    struct ddp_transport *inner = link->relay.inner;
    ddp_status status = DDP_OK;
    bool is_shown = stream->is_late;

    /* A connection that has failed stays so, as a real one does: whoever only looked at it may pass
     * over the error. */
    if (stream->is_failed) {
        return DDP_E_INJECTED;
    }
    while (!is_shown && status == DDP_OK) {
        status = inner->ops->recv_peek(inner, peer, out);
        is_shown = status != DDP_OK || stream->is_seen;
        if (!is_shown) {
            status = pass_point(link, peer, out, &is_shown);
        }
    }
    /* After an error no other one comes any more. */
    stream->is_late = stream->is_late || (stream->is_held && status < DDP_OK);
    if (stream->is_late) {
        *out = stream->held;
        return DDP_OK;
    }
    return status;
}

static void link_recv_ack(struct ddp_transport *transport, uint32_t peer)
{
    struct link *link = link_of(transport);
    struct stream *stream = &link->streams[peer];

    if (stream->is_late) {
        ddp_mem_free(link->env->mem, (void *)(uintptr_t)stream->held.data);
        stream->is_held = false;
        stream->is_late = false;
    } else {
        drop(link, peer);
        stream->is_late = stream->is_held;
    }
}

static void link_destroy(struct ddp_transport *transport)
{
    struct link *link = link_of(transport);
    struct ddp_mem *mem = link->env->mem;

    for (uint32_t i = 0; i < transport->member_count; i++) {
        if (link->streams[i].is_held) {
            ddp_mem_free(mem, (void *)(uintptr_t)link->streams[i].held.data);
        }
    }
    ddp_relay_destroy(transport);
    ddp_mem_free(mem, link->streams);
    ddp_mem_free(mem, link);
}

static const struct ddp_transport_ops link_ops = {
    .name = "link",
    .alloc = ddp_relay_alloc,
    .free = ddp_relay_free,
    .send_post = ddp_relay_send_post,
    .send_poll = ddp_relay_send_poll,
    .recv_peek = link_recv_peek,
    .recv_ack = link_recv_ack,
    .revoke = ddp_relay_revoke,
    .is_revoked = ddp_relay_is_revoked,
    .dead_peer = ddp_relay_dead_peer,
    .hint = ddp_relay_hint,
    .destroy = link_destroy,
};

ddp_status harness_link_create(struct ddp_env *env, struct ddp_transport *inner,
                               struct ddp_transport **out)
{
    struct link *link = ddp_mem_array(env->mem, 1, sizeof *link);
    struct stream *streams = ddp_mem_array(env->mem, inner->member_count, sizeof *streams);

    if (link == NULL || streams == NULL) {
        ddp_mem_free(env->mem, link);
        ddp_mem_free(env->mem, streams);
        return DDP_E_NOMEM;
    }
    ddp_relay_init(&link->relay, &link_ops, inner);
    link->env = env;
    link->streams = streams;
    *out = &link->relay.base;
    return DDP_OK;
}
