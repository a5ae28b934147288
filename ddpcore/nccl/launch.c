/* One collective on the communication stream: wait for the producer, mark, NCCL's call (or a plan's
 * rounds), mark, done event.
 *
 * Buffers in the host's memory go to NCCL as they are: its documentation takes any pointer that the
 * card can reach, page-locked host memory included ("Data Pointers"), and argcheck.cc refuses only
 * what cudaPointerGetAttributes gives no device pointer for, and other cards' memory. */
#include "ddpcore/nccl/state.h"

static ddp_status mark(struct ddp_nccl_coll *coll, const struct ddp_nccl_job *job,
                       enum ddp_mark kind)
{
    struct ddp_progress *progress = coll->progress;
    uint64_t word;

    if (progress == NULL || !__atomic_load_n(&progress->is_mapped, __ATOMIC_RELAXED)) {
        return DDP_OK;
    }
    word = ddp_progress_next(progress, DDP_PROGRESS_COMM, kind, job->control.work->seq);
    return coll->queue.base.device->ops->store_word(coll->queue.base.device, coll->queue.stream,
                                                    &progress->stream[DDP_PROGRESS_COMM].reached,
                                                    word);
}

/* An all-gather in place may also be posted with input == output. */
static const void *input_of(const struct ddp_nccl_coll *coll, const struct ddp_coll_args *args)
{
    if (args->kind == DDP_COLL_ALL_GATHER && args->input == args->output) {
        return (const char *)args->output +
               coll->queue.base.member * args->elem_count * ddp_dtype_size_bytes(args->dtype);
    }
    if (args->kind == DDP_COLL_BROADCAST && coll->queue.base.member != args->root) {
        return args->output; /* not read */
    }
    return args->input;
}

static void note_access(const struct ddp_nccl_coll *coll, const void *data, size_t size_bytes,
                        bool is_write)
{
    coll->queue.base.device->hints->collective_access(coll->queue.base.device, coll->queue.stream,
                                                      data, size_bytes, is_write);
}

static void note_ranges(const struct ddp_nccl_coll *coll, const struct ddp_coll_args *args)
{
    size_t block_bytes = args->elem_count * ddp_dtype_size_bytes(args->dtype);
    size_t blocks = args->kind == DDP_COLL_ALL_GATHER ? coll->queue.base.member_count : 1;

    if (args->kind == DDP_COLL_BARRIER) {
        note_access(coll, coll->token, sizeof(float), false);
        note_access(coll, coll->token, sizeof(float), true);
        return;
    }
    if (args->kind != DDP_COLL_BROADCAST || coll->queue.base.member == args->root) {
        note_access(coll, input_of(coll, args), block_bytes, false);
    }
    note_access(coll, args->output, blocks * block_bytes, true);
}

static ddp_status start_call(struct ddp_nccl_coll *coll, const struct ddp_coll_args *args)
{
    const struct ddp_nccl_calls *calls = &coll->library->calls;
    struct ddp_nccl_comm_handle *handle = ddp_nccl_comm_begin(coll->comm);
    void *stream =
        coll->queue.base.device->ops->native_stream(coll->queue.base.device, coll->queue.stream);
    int dtype = ddp_nccl_dtype_of(args->dtype);
    const void *input = input_of(coll, args);

    DDP_ASSERT(args->root < coll->queue.base.member_count && !ddp_queue_is_empty(args));
    switch (args->kind) {
    case DDP_COLL_ALL_REDUCE:
        return ddp_nccl_comm_started(coll->comm,
                                     calls->all_reduce(input, args->output, args->elem_count, dtype,
                                                       ddp_nccl_redop_of(args->redop), handle,
                                                       stream),
                                     "ncclAllReduce");
    case DDP_COLL_BROADCAST:
        return ddp_nccl_comm_started(coll->comm,
                                     calls->broadcast(input, args->output, args->elem_count, dtype,
                                                      (int)args->root, handle, stream),
                                     "ncclBroadcast");
    case DDP_COLL_ALL_GATHER:
        return ddp_nccl_comm_started(
            coll->comm,
            calls->all_gather(input, args->output, args->elem_count, dtype, handle, stream),
            "ncclAllGather");
    default:
        /* A barrier is a sum of one float, also in a checked group: it is done when the streams of
         * all members have reached it. */
        return ddp_nccl_comm_started(coll->comm,
                                     calls->all_reduce(coll->token, coll->token, 1, DDP_NCCL_F32,
                                                       DDP_NCCL_SUM, handle, stream),
                                     "ncclAllReduce (barrier)");
    }
}

/* Kernels of earlier works may still use the old workspace: PENDING until those works are done. */
static ddp_status grow_workspace(struct ddp_nccl_coll *coll, const struct ddp_nccl_job *job)
{
    struct ddp_device *device = coll->queue.base.device;

    if (job->plan == NULL || job->plan->workspace_bytes <= coll->workspace_bytes) {
        return DDP_OK;
    }
    if (coll->queue.head != job->control.work) {
        return DDP_PENDING;
    }
    DDP_ASSERT(job->phase == DDP_NCCL_WAITING);
    device->ops->free(device, DDP_SPACE_DEVICE, coll->workspace);
    coll->workspace = NULL;
    coll->workspace_bytes = 0;
    DDP_TRY(
        device->ops->alloc(device, job->plan->workspace_bytes, DDP_SPACE_DEVICE, &coll->workspace));
    coll->workspace_bytes = job->plan->workspace_bytes;
    return DDP_OK;
}

static ddp_status begin(struct ddp_nccl_coll *coll, struct ddp_nccl_job *job)
{
    struct ddp_device *device = coll->queue.base.device;

    DDP_TRY(device->ops->stream_wait_event(device, coll->queue.stream, job->produced));
    note_ranges(coll, &job->control.work->args);
    ddp_progress_set_rounds(coll->progress, job->plan != NULL ? job->plan->round_count : 0);
    return mark(coll, job, DDP_MARK_COLL);
}

static ddp_status finish(struct ddp_nccl_coll *coll, struct ddp_nccl_job *job)
{
    struct ddp_device *device = coll->queue.base.device;

    DDP_ASSERT(job->phase == DDP_NCCL_STARTED);
    DDP_TRY(mark(coll, job, DDP_MARK_COLL_END));
    DDP_TRY(device->ops->event_record(device, job->done, coll->queue.stream));
    ddp_recorder_event(coll->queue.base.env->recorder, DDP_EVENT_COLL_QUEUED,
                       job->control.work->seq, 0, 0, 0, 0);
    job->phase = DDP_NCCL_RUNNING;
    return DDP_OK;
}

/* Launch rounds until one has messages: PENDING; OK when all are launched. */
static ddp_status launch_rounds(struct ddp_nccl_coll *coll, struct ddp_nccl_job *job)
{
    const struct ddp_nccl_run run = {.plan = job->plan,
                                     .input = job->control.work->args.input,
                                     .output = job->control.work->args.output,
                                     .workspace = coll->workspace,
                                     .redop = job->control.work->args.redop,
                                     .device = coll->queue.base.device,
                                     .stream = coll->queue.stream};

    DDP_ASSERT(job->plan->workspace_bytes <= coll->workspace_bytes);
    for (; job->round < job->plan->round_count; job->round++) {
        if (!job->is_after) {
            DDP_TRY(ddp_nccl_run_kernels(&run, job->round, false));
            job->is_after = true;
            if (ddp_nccl_run_has_messages(&run, job->round)) {
                DDP_TRY(ddp_nccl_run_messages(&run, job->round, coll->library, coll->comm));
                ddp_progress_set_rounds(coll->progress, job->plan->round_count - job->round - 1);
                return DDP_PENDING;
            }
        }
        DDP_TRY(ddp_nccl_run_kernels(&run, job->round, true));
        ddp_progress_set_rounds(coll->progress, job->plan->round_count - job->round - 1);
        job->is_after = false;
    }
    return finish(coll, job);
}

ddp_status ddp_nccl_launch(struct ddp_nccl_coll *coll, struct ddp_nccl_job *job)
{
    DDP_ASSERT(job->control.is_agreed && job->phase != DDP_NCCL_RUNNING);
    DDP_ASSERT(ddp_nccl_comm_state(coll->comm) == DDP_NCCL_COMM_READY);
    if (job->phase == DDP_NCCL_WAITING) {
        bool is_skipped;

        DDP_TRY(grow_workspace(coll, job));
        DDP_TRY(ddp_queue_pass_point(&coll->queue, DDP_FAULT_POINT_COLLECTIVE_LAUNCH,
                                     job->control.work, &is_skipped));
        job->phase = DDP_NCCL_STARTED;
        if (is_skipped) {
            return finish(coll, job);
        }
        DDP_TRY(begin(coll, job));
        if (job->plan == NULL) {
            DDP_TRY(start_call(coll, &job->control.work->args));
            return DDP_PENDING;
        }
    }
    return job->plan == NULL ? finish(coll, job) : launch_rounds(coll, job);
}
