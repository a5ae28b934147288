/* See the header. */
#include "ddpcore/collective/control.h"

#include <string.h>

ddp_status ddp_control_open(struct ddp_control *control, struct ddp_queue *queue, bool is_checked,
                            size_t job_bytes, struct ddp_err *err)
{
    const struct ddp_coll_schedule_config config = {
        .comm = queue->base.comm, .is_agreement = true, .member_rank = queue->member_rank};
    ddp_status status;

    DDP_ASSERT(job_bytes >= sizeof(struct ddp_control_job));
    control->queue = queue;
    control->is_checked = is_checked;
    control->job_bytes = job_bytes;
    control->env = *queue->base.env;
    control->env.faults = NULL;
    status = ddp_device_cpu_create(control->env.mem, &control->host);
    if (status != DDP_OK) {
        (void)ddp_err_set(err, status, "no memory for a control channel");
    } else {
        status = ddp_coll_schedule_create(&control->env, queue->transport, control->host, &config,
                                          &control->channel, err);
    }
    if (status != DDP_OK) {
        ddp_coll_give_up(&control->env, queue->transport, status);
        queue->transport = NULL;
    }
    return status;
}

void ddp_control_leave(struct ddp_control *control)
{
    if (control->channel != NULL) {
        control->channel->ops->destroy(control->channel);
        control->channel = NULL;
        control->queue->transport = NULL; /* it was the channel's */
    }
}

void ddp_control_close(struct ddp_control *control)
{
    ddp_control_leave(control);
    while (control->jobs != NULL) {
        struct ddp_control_job *gone = control->jobs;

        DDP_ASSERT(gone->work == NULL);
        control->jobs = gone->next_owned;
        ddp_mem_free(control->env.mem, gone);
    }
    if (control->host != NULL) {
        control->host->ops->destroy(control->host);
        control->host = NULL;
    }
}

ddp_status ddp_control_take(struct ddp_control *control, struct ddp_coll_work *work,
                            struct ddp_control_job **out)
{
    struct ddp_control_job *job = control->free_jobs;

    DDP_ASSERT(control->queue->failed == DDP_OK);
    if (job != NULL) {
        control->free_jobs = job->next_free;
    } else {
        job = ddp_mem_array(control->env.mem, 1, control->job_bytes);
        if (job == NULL) {
            return DDP_E_NOMEM;
        }
        job->next_owned = control->jobs;
        control->jobs = job;
    }
    DDP_ASSERT(job->work == NULL);
    job->next_free = NULL;
    job->work = work;
    job->is_agreed = false;
    work->engine = job;
    *out = job;
    return DDP_OK;
}

void ddp_control_give_back(struct ddp_control *control, struct ddp_control_job *job)
{
    DDP_ASSERT(job->work != NULL && job->work->engine == job);
    job->work->engine = NULL;
    job->work = NULL;
    job->next_free = control->free_jobs;
    control->free_jobs = job;
}

ddp_status ddp_control_post(struct ddp_control *control, struct ddp_control_job *job)
{
    DDP_ASSERT(job->work != NULL && !job->is_agreed);
    DDP_ASSERT(job->agreement.engine == NULL); /* the channel does not hold it */
    if (!control->is_checked) {
        job->is_agreed = true;
        return DDP_OK;
    }
    memset(&job->agreement, 0, sizeof(job->agreement));
    job->agreement.args = job->work->args;
    job->agreement.seq = job->work->seq;
    return control->channel->ops->post(control->channel, &job->agreement);
}

ddp_status ddp_control_poll(struct ddp_control *control, struct ddp_control_job *job)
{
    DDP_ASSERT(job->work != NULL);
    if (job->is_agreed) {
        return DDP_OK;
    }
    DDP_TRY(control->channel->ops->poll(control->channel, &job->agreement));
    job->is_agreed = true;
    /* The library does not say which member it waits for. */
    ddp_recorder_wait_peer(control->env.recorder, -1);
    return DDP_OK;
}

bool ddp_control_has_left(struct ddp_control *control)
{
    struct ddp_transport *transport = control->queue->transport;
    const uint64_t now_ns = ddp_clock_now_ns(control->env.clock);

    if (control->has_left || transport == NULL || now_ns - control->looked_ns < DDP_NS_PER_MS) {
        return control->has_left;
    }
    control->looked_ns = now_ns;
    for (uint32_t m = 0; m < transport->member_count && !control->has_left; m++) {
        struct ddp_message message;

        control->has_left = m != transport->member &&
                            transport->ops->recv_peek(transport, m, &message) == DDP_E_PEER_DIED;
    }
    return control->has_left;
}

bool ddp_control_waits_for_message(const struct ddp_queue *queue, const struct ddp_coll_work *head)
{
    (void)queue;
    return !ddp_control_job_of(head)->is_agreed;
}
