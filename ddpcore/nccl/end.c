/* How a group over NCCL ends. */
#include "ddpcore/nccl/state.h"

/* Whether the communicator has ended; it has deadlines of its own. */
static ddp_status poll_gone(void *self)
{
    struct ddp_nccl_coll *coll = self;

    (void)ddp_nccl_comm_poll(coll->comm);
    if (ddp_nccl_comm_state(coll->comm) == DDP_NCCL_COMM_FINALIZING &&
        ddp_queue_check_members(&coll->queue) != DDP_PENDING) {
        ddp_nccl_comm_abort(coll->comm);
    }
    return ddp_nccl_coll_is_gone(coll) ? DDP_OK : DDP_PENDING;
}

/* Returns whether NCCL has freed everything, i.e. no thread hangs in it. */
static bool end_comm(struct ddp_nccl_coll *coll)
{
    struct ddp_env *env = coll->queue.base.env;
    const struct ddp_pollable pollable = {poll_gone, NULL, coll};
    ddp_status status;

    if (coll->comm == NULL) {
        return true;
    }
    if (coll->queue.failed == DDP_OK && coll->queue.head == NULL &&
        ddp_nccl_comm_poll(coll->comm) == DDP_OK &&
        ddp_nccl_comm_state(coll->comm) == DDP_NCCL_COMM_READY) {
        ddp_nccl_comm_finalize(coll->comm);
    } else {
        ddp_nccl_comm_abort(coll->comm);
    }
    status = ddp_wait(env->idle, env->clock, &pollable, DDP_DEADLINE_NEVER);
    DDP_ASSERT(status == DDP_OK);
    return ddp_nccl_comm_poll(coll->comm) == DDP_OK;
}

static void destroy_events(struct ddp_nccl_coll *coll)
{
    struct ddp_device *device = coll->queue.base.device;

    for (struct ddp_control_job *job = coll->control.jobs; job != NULL; job = job->next_owned) {
        struct ddp_nccl_job *own = (struct ddp_nccl_job *)job;

        if (own->produced != NULL) {
            device->ops->event_destroy(device, own->produced);
        }
        if (own->done != NULL) {
            device->ops->event_destroy(device, own->done);
        }
    }
}

void ddp_nccl_coll_destroy(struct ddp_queue *queue)
{
    struct ddp_nccl_coll *coll = (struct ddp_nccl_coll *)queue;
    struct ddp_device *device = queue->base.device;
    struct ddp_mem *mem = queue->base.env->mem;
    /* If NCCL hangs, its kernels may still use the stream, and to free memory waits for them. */
    bool has_let_go = end_comm(coll);

    DDP_ASSERT(ddp_nccl_coll_is_gone(coll));
    ddp_queue_fail(queue, DDP_E_STATE);
    DDP_ASSERT(queue->head == NULL && coll->agreeing == NULL && coll->launching == NULL);
    ddp_control_leave(&coll->control);
    if (has_let_go) {
        destroy_events(coll);
    }
    if (has_let_go && queue->stream != NULL) {
        device->ops->free(device, DDP_SPACE_DEVICE, coll->token);
        device->ops->free(device, DDP_SPACE_DEVICE, coll->workspace);
        device->ops->stream_destroy(device, queue->stream);
    }
    if (coll->comm != NULL) {
        ddp_nccl_comm_destroy(coll->comm);
    }
    ddp_cache_fini(&coll->plans);
    ddp_control_close(&coll->control);
    ddp_queue_fini(queue);
    ddp_mem_free(mem, coll);
}
