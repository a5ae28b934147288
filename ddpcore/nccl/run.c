/* One run of a plan: kernels on the device, messages through NCCL, all on one stream. */
#include "ddpcore/nccl/plan.h"

static void *address(const struct ddp_nccl_run *run, const struct ddp_range *range)
{
    enum ddp_dtype dtype = ddp_nccl_range_dtype(&run->plan->schedule, range);
    char *buffer = run->output;

    if (range->buffer == DDP_BUFFER_INPUT) {
        /* No step writes to the input. */
        buffer = (char *)(uintptr_t)run->input;
    } else if (range->buffer == DDP_BUFFER_SCRATCH) {
        DDP_ASSERT(range->scratch < run->plan->schedule.scratch_count);
        buffer = (char *)run->workspace + run->plan->offset_bytes[range->scratch];
    }
    return buffer + range->first * ddp_dtype_size_bytes(dtype);
}

static void *landing(const struct ddp_nccl_run *run, uint32_t step)
{
    const struct ddp_nccl_plan *plan = run->plan;

    DDP_ASSERT(plan->schedule.steps[step].kind == DDP_STEP_RECV_REDUCE);
    return (char *)run->workspace + plan->offset_bytes[plan->schedule.scratch_count + step];
}

static ddp_status run_kernel(const struct ddp_nccl_run *run, uint32_t index)
{
    const struct ddp_step *step = &run->plan->schedule.steps[index];
    const struct ddp_device_ops *ops = run->device->ops;
    enum ddp_dtype dtype = ddp_nccl_range_dtype(&run->plan->schedule, &step->dst);
    void *target = address(run, &step->dst);

    switch (step->kind) {
    case DDP_STEP_RECV_REDUCE:
        return ops->reduce(run->device, run->stream, target, landing(run, index),
                           step->dst.elem_count, dtype, run->redop);
    case DDP_STEP_REDUCE:
        return ops->reduce(run->device, run->stream, target, address(run, &step->src),
                           step->dst.elem_count, dtype, run->redop);
    case DDP_STEP_COPY:
        return ops->copy(run->device, run->stream, target, address(run, &step->src),
                         step->dst.elem_count * ddp_dtype_size_bytes(dtype));
    case DDP_STEP_CONVERT:
        return ops->scale(run->device, run->stream, target, dtype, address(run, &step->src),
                          ddp_nccl_range_dtype(&run->plan->schedule, &step->src),
                          step->dst.elem_count, 1.0);
    default:
        return DDP_E_INVALID;
    }
}

ddp_status ddp_nccl_run_kernels(const struct ddp_nccl_run *run, uint32_t round, bool is_after)
{
    const struct ddp_nccl_round *steps = &run->plan->rounds[round];
    uint32_t first = is_after ? steps->after : steps->before;
    uint32_t end = is_after ? steps->end : steps->wire;

    DDP_ASSERT(round < run->plan->round_count && first <= end);
    for (uint32_t i = first; i < end; i++) {
        DDP_TRY(run_kernel(run, run->plan->order[i]));
    }
    return DDP_OK;
}

bool ddp_nccl_run_has_messages(const struct ddp_nccl_run *run, uint32_t round)
{
    DDP_ASSERT(round < run->plan->round_count);
    return run->plan->rounds[round].wire < run->plan->rounds[round].after;
}

static int start_message(const struct ddp_nccl_run *run, uint32_t index,
                         const struct ddp_nccl_calls *calls, struct ddp_nccl_comm_handle *handle,
                         void *stream)
{
    const struct ddp_step *step = &run->plan->schedule.steps[index];

    DDP_ASSERT(step->peer < run->plan->schedule.params.size);
    if (step->kind == DDP_STEP_SEND) {
        return calls->send(
            address(run, &step->src), step->src.elem_count,
            ddp_nccl_dtype_of(ddp_nccl_range_dtype(&run->plan->schedule, &step->src)),
            (int)step->peer, handle, stream);
    }
    return calls->recv(step->kind == DDP_STEP_RECV ? address(run, &step->dst) : landing(run, index),
                       step->dst.elem_count,
                       ddp_nccl_dtype_of(ddp_nccl_range_dtype(&run->plan->schedule, &step->dst)),
                       (int)step->peer, handle, stream);
}

ddp_status ddp_nccl_run_messages(const struct ddp_nccl_run *run, uint32_t round,
                                 const struct ddp_nccl_library *library, struct ddp_nccl_comm *comm)
{
    const struct ddp_nccl_calls *calls = &library->calls;
    struct ddp_nccl_comm_handle *handle = ddp_nccl_comm_begin(comm);
    void *stream = run->device->ops->native_stream(run->device, run->stream);
    int result = calls->group_start();
    int ended;

    if (result != DDP_NCCL_SUCCESS) {
        return ddp_nccl_comm_started(comm, result, "ncclGroupStart");
    }
    for (uint32_t i = run->plan->rounds[round].wire; i < run->plan->rounds[round].after; i++) {
        int one = start_message(run, run->plan->order[i], calls, handle, stream);

        if (one != DDP_NCCL_SUCCESS && one != DDP_NCCL_IN_PROGRESS) {
            result = one;
            break;
        }
    }
    /* The group must be closed even after an error; its result repeats the first error. */
    ended = calls->group_end();
    return ddp_nccl_comm_started(comm, result != DDP_NCCL_SUCCESS ? result : ended,
                                 result != DDP_NCCL_SUCCESS ? "ncclSend or ncclRecv"
                                                            : "ncclGroupEnd");
}
