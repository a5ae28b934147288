/* Waiting calls of rank programs: ddp_wait over the transport's table. */
#include "tests/unit/transport/transport_ranks.h"

struct call {
    struct rank_context *context;
    uint32_t peer;
    uint64_t ticket;
    struct ddp_message message;
    bool (*condition)(struct rank_context *context);
};

static void call_hint(void *self, struct ddp_idle_hint *hint)
{
    const struct call *call = self;

    call->context->transport->ops->hint(call->context->transport, hint);
}

static ddp_status recv_poll(void *self)
{
    struct call *call = self;

    return call->context->transport->ops->recv_peek(call->context->transport, call->peer,
                                                    &call->message);
}

static ddp_status send_poll(void *self)
{
    struct call *call = self;

    return call->context->transport->ops->send_post(call->context->transport, call->peer,
                                                    &call->message, &call->ticket);
}

static ddp_status sent_poll(void *self)
{
    struct call *call = self;

    return call->context->transport->ops->send_poll(call->context->transport, call->peer,
                                                    call->ticket);
}

static ddp_status condition_poll(void *self)
{
    struct call *call = self;

    return call->condition(call->context) ? DDP_OK : DDP_PENDING;
}

static ddp_status wait_call(struct call *call, ddp_status (*poll)(void *self))
{
    struct ddp_env *env = call->context->env;
    const struct ddp_pollable pollable = {poll, call_hint, call};

    return ddp_wait(env->idle, env->clock, &pollable,
                    ddp_clock_deadline_ns(env->clock, RANKS_WAIT_NS));
}

ddp_status rank_recv(struct rank_context *context, uint32_t from, struct ddp_message *out)
{
    struct call call = {.context = context, .peer = from};
    ddp_status status = wait_call(&call, recv_poll);

    *out = call.message;
    return status;
}

ddp_status rank_send(struct rank_context *context, uint32_t to, const void *data, size_t size_bytes,
                     uint64_t *out_ticket)
{
    struct call call = {.context = context, .peer = to, .message = {data, size_bytes, 1, 2, 3}};
    ddp_status status = wait_call(&call, send_poll);

    *out_ticket = call.ticket;
    return status;
}

ddp_status rank_sent(struct rank_context *context, uint32_t to, uint64_t ticket)
{
    struct call call = {.context = context, .peer = to, .ticket = ticket};

    return wait_call(&call, sent_poll);
}

ddp_status rank_until(struct rank_context *context, bool (*condition)(struct rank_context *context))
{
    struct call call = {.context = context, .condition = condition};

    return wait_call(&call, condition_poll);
}
