/* Collectives that a mover does in the place of schedules. */
#include "ddpcore/collective/executor.h"

/* Maps of used parameters, flags of join and statistics need operations and types that somebody
 * else's code may not have, and are no sums of gradients: schedules do them. */
bool ddp_executor_moves(const struct ddp_executor *executor, const struct ddp_coll_args *args)
{
    bool is_for_mover = args->role == DDP_ROLE_BUCKET || args->role == DDP_ROLE_PROBE ||
                        args->role == DDP_ROLE_USER;

    return executor->mover != NULL && args->kind == DDP_COLL_ALL_REDUCE && is_for_mover;
}

ddp_status ddp_coll_way_check(const struct ddp_coll_way *way)
{
    return ddp_queue_check_members(way->queue);
}

ddp_status ddp_executor_move(struct ddp_executor *executor, struct ddp_coll_work *head)
{
    struct ddp_coll_mover *mover = executor->mover;
    struct ddp_queue *queue = &executor->queue;
    ddp_status status;

    DDP_ASSERT(head == queue->head && ddp_executor_moves(executor, &head->args));
    if (ddp_queue_is_empty(&head->args)) {
        return DDP_OK;
    }
    if (executor->is_moving) {
        status = mover->ops->poll(mover, &executor->way);
    } else {
        executor->way = (struct ddp_coll_way){
            .transport = queue->transport,
            .counts = executor->counts,
            .work = head,
            .signature =
                executor->is_checked ? ddp_coll_signature(queue->base.comm, &head->args) : 0,
            .is_checked = executor->is_checked,
            .queue = queue,
            .err = &queue->err};
        executor->is_moving = true;
        status = mover->ops->start(mover, &executor->way);
    }
    if (status == DDP_E_MISMATCH && executor->is_checked) {
        ddp_queue_announce(queue, status, head->seq);
    }
    return status;
}

bool ddp_executor_may_be_death(struct ddp_queue *queue, ddp_status error,
                               ddp_status *out_unexplained)
{
    *out_unexplained = error;
    return ((const struct ddp_executor *)queue)->is_moving && error == DDP_E_IO;
}

/* A mover may wait for what rings no doorbell. */
bool ddp_executor_waits_for_message(const struct ddp_queue *queue, const struct ddp_coll_work *head)
{
    (void)head;
    return !((const struct ddp_executor *)queue)->is_moving;
}

void ddp_executor_stop(struct ddp_queue *queue, ddp_status status)
{
    const struct ddp_executor *executor = (const struct ddp_executor *)queue;

    DDP_ASSERT(queue->failed == status);
    if (executor->is_moving) {
        executor->mover->ops->stop(executor->mover);
    }
}
