/* MPI under the work queue. Works agree on the control channel (if checked), then go to MPI one
 * after the other. Once MPI has failed, nothing calls it any more. */
#include <string.h>

#include "ddpcore/mpi/state.h"

static struct ddp_mpi_job *job_of(const struct ddp_coll_work *work)
{
    return (struct ddp_mpi_job *)work->engine;
}

static ddp_status mpi_check(const struct ddp_queue *queue, const struct ddp_coll_args *args)
{
    bool is_half = args->dtype == DDP_DTYPE_F16 || args->dtype == DDP_DTYPE_BF16;

    (void)queue;
    if (args->kind >= DDP_COLL_POSTED_KIND_COUNT) {
        return DDP_E_UNSUPPORTED;
    }
    return (args->kind == DDP_COLL_ALL_REDUCE && is_half) || args->elem_count > INT32_MAX
               ? DDP_E_UNSUPPORTED
               : DDP_OK;
}

static ddp_status mpi_prepare(struct ddp_queue *queue, struct ddp_coll_work *work)
{
    struct ddp_mpi_coll *coll = (struct ddp_mpi_coll *)queue;
    struct ddp_control_job *job;
    ddp_status status;

    DDP_TRY(ddp_control_take(&coll->control, work, &job));
    job_of(work)->is_running = false;
    status = ddp_control_post(&coll->control, job);
    if (status != DDP_OK) {
        ddp_control_give_back(&coll->control, job);
    }
    return status;
}

static void mpi_release(struct ddp_queue *queue, struct ddp_coll_work *work)
{
    ddp_control_give_back(&((struct ddp_mpi_coll *)queue)->control, ddp_control_job_of(work));
}

static struct ddp_mpi_call call_of(const struct ddp_mpi_coll *coll,
                                   const struct ddp_coll_args *args)
{
    static const enum ddp_mpi_kind kinds[DDP_COLL_KIND_COUNT] = {
        [DDP_COLL_ALL_REDUCE] = DDP_MPI_ALL_REDUCE,
        [DDP_COLL_BROADCAST] = DDP_MPI_BROADCAST,
        [DDP_COLL_ALL_GATHER] = DDP_MPI_ALL_GATHER,
        [DDP_COLL_BARRIER] = DDP_MPI_BARRIER};
    static const enum ddp_mpi_type types[DDP_DTYPE_COUNT] = {
        [DDP_DTYPE_F32] = DDP_MPI_F32,     [DDP_DTYPE_F16] = DDP_MPI_BITS16,
        [DDP_DTYPE_BF16] = DDP_MPI_BITS16, [DDP_DTYPE_F64] = DDP_MPI_F64,
        [DDP_DTYPE_I32] = DDP_MPI_I32,     [DDP_DTYPE_I64] = DDP_MPI_I64,
        [DDP_DTYPE_U8] = DDP_MPI_U8};
    static const enum ddp_mpi_op ops[DDP_REDOP_COUNT] = {[DDP_REDOP_SUM] = DDP_MPI_SUM,
                                                         [DDP_REDOP_MAX] = DDP_MPI_MAX,
                                                         [DDP_REDOP_MIN] = DDP_MPI_MIN,
                                                         [DDP_REDOP_PROD] = DDP_MPI_PROD};
    const struct ddp_mpi_call call = {
        .kind = kinds[args->kind],
        .type = types[args->dtype],
        .op = ops[args->redop],
        .root = (int)args->root,
        .elem_count = (int)args->elem_count,
        .input = ddp_queue_is_in_place(args, coll->queue.base.member) ? NULL : args->input,
        .output = args->output};

    return call;
}

/* MPI returned an error: it is not called any more. */
static ddp_status lose(struct ddp_mpi_coll *coll, int result, const char *what)
{
    DDP_ASSERT(!coll->is_lost);
    coll->is_lost = true;
    return ddp_mpi_err(coll->library, result, what, &coll->queue.err);
}

/* PENDING: it was started. OK: there is nothing to do. */
static ddp_status start(struct ddp_mpi_coll *coll, struct ddp_coll_work *work)
{
    const struct ddp_coll_args *args = &work->args;
    const struct ddp_mpi_call call = call_of(coll, args);
    bool is_skipped;
    int result;

    DDP_ASSERT(job_of(work)->control.is_agreed && !job_of(work)->is_running);
    if (ddp_queue_is_empty(args)) {
        return DDP_OK;
    }
    DDP_TRY(
        ddp_queue_pass_point(&coll->queue, DDP_FAULT_POINT_COLLECTIVE_LAUNCH, work, &is_skipped));
    if (is_skipped) {
        return DDP_OK;
    }
    if (args->kind == DDP_COLL_BROADCAST && args->root == coll->queue.base.member &&
        call.input != NULL) {
        memcpy(args->output, args->input, args->elem_count * ddp_dtype_size_bytes(args->dtype));
    }
    ddp_recorder_wait_peer(coll->queue.base.env->recorder, -1); /* MPI does not say which */
    result = coll->module->start(&coll->comm, &call, &job_of(work)->request);
    if (result != 0) {
        return lose(coll, result, "MPI's start of a collective");
    }
    job_of(work)->is_running = true;
    return DDP_PENDING;
}

/* Other members may still need this one for earlier works, and MPI works only while it is called.
 */
static ddp_status progress(struct ddp_mpi_coll *coll)
{
    int result;

    DDP_ASSERT(!coll->is_lost);
    result = coll->module->progress(&coll->comm);
    return result == 0 ? DDP_PENDING : lose(coll, result, "MPI_Iprobe");
}

static ddp_status mpi_run_head(struct ddp_queue *queue, struct ddp_coll_work *head)
{
    struct ddp_mpi_coll *coll = (struct ddp_mpi_coll *)queue;
    struct ddp_mpi_job *job = job_of(head);
    ddp_status status;
    bool is_done;
    int result;

    DDP_ASSERT(head == queue->head);
    if (coll->is_lost) {
        return DDP_E_SYSTEM;
    }
    if (ddp_mpi_library_life(coll->library) != DDP_MPI_READY) {
        return DDP_E_STATE;
    }
    status = ddp_control_poll(&coll->control, &job->control);
    if (status != DDP_OK) {
        return status == DDP_PENDING ? progress(coll) : status;
    }
    if (!job->is_running) {
        status = start(coll, head);
        if (status != DDP_PENDING) {
            return status;
        }
    }
    result = coll->module->test(&job->request, &is_done);
    if (result != 0) {
        return lose(coll, result, "MPI_Test");
    }
    return is_done ? DDP_OK : DDP_PENDING;
}

/* MPI does not say what its errors mean. */
static bool mpi_may_be_death(struct ddp_queue *queue, ddp_status error, ddp_status *out_unexplained)
{
    *out_unexplained = error;
    return error == DDP_E_SYSTEM && ((const struct ddp_mpi_coll *)queue)->is_lost;
}

/* Only calls to MPI write to the works' buffers, and it is not called any more. */
static void mpi_stop(struct ddp_queue *queue, ddp_status status)
{
    DDP_ASSERT(queue->failed == status);
    ddp_mpi_library_give_up(((struct ddp_mpi_coll *)queue)->library);
}

static void mpi_destroy(struct ddp_queue *queue)
{
    struct ddp_mpi_coll *coll = (struct ddp_mpi_coll *)queue;
    struct ddp_mem *mem = queue->base.env->mem;

    if (queue->head != NULL) {
        ddp_queue_fail(queue, DDP_E_STATE);
    }
    ddp_control_close(&coll->control);
    ddp_queue_fini(queue);
    ddp_mem_free(mem, coll);
}

const struct ddp_engine ddp_mpi_engine = {
    .starts_at_post = true,
    .announces_errors = true,
    .check = mpi_check,
    .prepare = mpi_prepare,
    .release = mpi_release,
    .run_head = mpi_run_head,
    .may_be_death = mpi_may_be_death,
    .waits_for_message = ddp_control_waits_for_message,
    .stop = mpi_stop,
    .destroy = mpi_destroy,
};
