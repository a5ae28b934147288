/* What each kind of step does. A step that returns PENDING is tried again later. */
#include "ddpcore/collective/executor.h"

static void *operand(const struct ddp_compiled *compiled,
                     const struct ddp_compiled_operand *operand)
{
    return (char *)compiled->buffer[operand->buffer] + operand->offset_bytes;
}

static ddp_status run_send(struct ddp_executor *executor, struct ddp_compiled *compiled,
                           uint32_t index)
{
    const struct ddp_compiled_step *step = &compiled->steps[index];
    struct ddp_compiled_state *state = &compiled->state[index];
    struct ddp_transport *transport = executor->queue.transport;

    if (!state->is_posted) {
        struct ddp_message message;

        message.data = operand(compiled, &step->src);
        message.size_bytes = step->src.size_bytes;
        message.seq = executor->queue.head->seq;
        message.signature = executor->signature;
        message.number = executor->counts[step->peer].sent;
        DDP_TRY(transport->ops->send_post(transport, step->peer, &message, &state->ticket));
        executor->counts[step->peer].sent++;
        if (executor->links != NULL) {
            ddp_links_send(executor->links, ddp_executor_link(executor, step->peer),
                           executor->counts[step->peer].sent);
        }
        state->is_posted = true;
        ddp_compiled_release_stream(compiled, index);
        ddp_recorder_message(executor->queue.base.env->recorder);
    }
    return transport->ops->send_poll(transport, step->peer, state->ticket);
}

/* Messages of this run that came from a peer before. */
static uint64_t taken_before(const struct ddp_compiled *compiled, uint32_t peer)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < compiled->step_count; i++) {
        const struct ddp_compiled_step *step = &compiled->steps[i];

        count += (step->kind == DDP_STEP_RECV || step->kind == DDP_STEP_RECV_REDUCE) &&
                 step->peer == peer && compiled->state[i].is_posted;
    }
    return count;
}

/* Whatever the semantics: no program asks for it. */
ddp_status ddp_executor_astray(struct ddp_executor *executor, uint32_t peer,
                               const struct ddp_message *message)
{
    ddp_recorder_event(executor->queue.base.env->recorder, DDP_EVENT_MESSAGE_ASTRAY,
                       executor->queue.head->seq, executor->queue.member_rank[peer],
                       message->number, executor->counts[peer].taken,
                       taken_before(executor->queue.head->engine, peer));
    ddp_queue_announce(&executor->queue, DDP_E_MESSAGE, executor->queue.head->seq);
    return DDP_E_MESSAGE;
}

/* Messages come in turn: if this one is of a later operation, its sender sent nothing more of this
 * one; if it is of an earlier one, this rank took less of that one than was sent to it. */
ddp_status ddp_executor_mismatch(struct ddp_executor *executor, uint32_t peer,
                                 const struct ddp_message *message)
{
    const uint64_t seq = executor->queue.head->seq;

    if (message->seq != seq) {
        ddp_recorder_event(executor->queue.base.env->recorder,
                           message->seq > seq ? DDP_EVENT_MESSAGE_AHEAD : DDP_EVENT_MESSAGE_BEHIND,
                           seq, executor->queue.member_rank[peer], message->seq, 0, 0);
    }
    if (executor->is_checked) {
        ddp_queue_announce(&executor->queue, DDP_E_MISMATCH, seq);
    }
    return DDP_E_MISMATCH;
}

static ddp_status run_recv(struct ddp_executor *executor, struct ddp_compiled *compiled,
                           uint32_t index)
{
    const struct ddp_compiled_step *step = &compiled->steps[index];
    struct ddp_transport *transport = executor->queue.transport;
    struct ddp_device *device = executor->queue.base.device;
    struct ddp_message message;
    void *target = operand(compiled, &step->dst);

    DDP_TRY(transport->ops->recv_peek(transport, step->peer, &message));
    if (message.number != executor->counts[step->peer].taken) {
        return ddp_executor_astray(executor, step->peer, &message);
    }
    if (message.size_bytes != step->dst.size_bytes ||
        (executor->is_checked &&
         (message.signature != executor->signature || message.seq != executor->queue.head->seq))) {
        return ddp_executor_mismatch(executor, step->peer, &message);
    }
    if (step->kind == DDP_STEP_RECV) {
        DDP_TRY(device->ops->copy(device, NULL, target, message.data, message.size_bytes));
    } else {
        DDP_TRY(device->ops->reduce(device, NULL, target, message.data, step->elem_count,
                                    step->dst.dtype, executor->queue.head->args.redop));
    }
    transport->ops->recv_ack(transport, step->peer);
    executor->counts[step->peer].taken++;
    compiled->state[index].is_posted = true;
    ddp_compiled_release_stream(compiled, index);
    ddp_recorder_message(executor->queue.base.env->recorder);
    return DDP_OK;
}

static ddp_status run_local(struct ddp_executor *executor, struct ddp_compiled *compiled,
                            uint32_t index)
{
    const struct ddp_compiled_step *step = &compiled->steps[index];
    struct ddp_device *device = executor->queue.base.device;
    void *target = operand(compiled, &step->dst);
    const void *source = operand(compiled, &step->src);

    switch (step->kind) {
    case DDP_STEP_REDUCE:
        return device->ops->reduce(device, NULL, target, source, step->elem_count, step->dst.dtype,
                                   executor->queue.head->args.redop);
    case DDP_STEP_COPY:
        return device->ops->copy(device, NULL, target, source, step->dst.size_bytes);
    case DDP_STEP_CONVERT:
        return device->ops->scale(device, NULL, target, step->dst.dtype, source, step->src.dtype,
                                  step->elem_count, 1.0);
    default:
        return DDP_E_INVALID;
    }
}

ddp_status ddp_executor_step(struct ddp_executor *executor, struct ddp_compiled *compiled,
                             uint32_t index)
{
    switch (compiled->steps[index].kind) {
    case DDP_STEP_SEND:
        return run_send(executor, compiled, index);
    case DDP_STEP_RECV:
    case DDP_STEP_RECV_REDUCE:
        return run_recv(executor, compiled, index);
    default:
        return run_local(executor, compiled, index);
    }
}
