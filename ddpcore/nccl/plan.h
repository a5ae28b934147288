/* A schedule made ready for NCCL: its steps sorted into rounds. A round is kernels, then one group
 * of ncclSend and ncclRecv, then kernels; rounds follow each other on one stream. Internal. */
#ifndef DDPCORE_NCCL_PLAN_H
#define DDPCORE_NCCL_PLAN_H

#include "ddpcore/collective/cache.h"
#include "ddpcore/nccl/comm.h"

/* Positions in ddp_nccl_plan.order. */
struct ddp_nccl_round {
    uint32_t before; /* kernels that the messages wait for */
    uint32_t wire;   /* sends and receives */
    uint32_t after;  /* kernels that wait for the messages, and the reductions of recv_reduce */
    uint32_t end;
};

struct ddp_nccl_plan {
    struct ddp_cached cached;

    struct ddp_schedule schedule;
    struct ddp_nccl_round *rounds;
    uint32_t round_count;
    uint32_t *order;        /* step indices; a recv_reduce stands in wire and in after */
    size_t *offset_bytes;   /* of each scratch buffer, then of each step's landing place, in
                             * the workspace */
    size_t workspace_bytes; /* device memory that a run needs; 0 = none */
};

/* Emit and sort. Errors: E_UNSUPPORTED (a message depends on another one of its round, or the two
 * ends of a message disagree on its round; err names the step), E_NOMEM. */
DDP_MUST_USE ddp_status ddp_nccl_plan_create(struct ddp_mem *mem,
                                             const struct ddp_algorithm *algorithm,
                                             const struct ddp_schedule_params *params,
                                             struct ddp_nccl_plan **out, struct ddp_err *err);
void ddp_nccl_plan_destroy(struct ddp_mem *mem, struct ddp_nccl_plan *plan);
/* For a cache of plans. Errors: as ddp_nccl_plan_create. */
extern const struct ddp_cache_ops ddp_nccl_plan_cache_ops;

/* Element type of a range of this schedule. */
enum ddp_dtype ddp_nccl_range_dtype(const struct ddp_schedule *schedule,
                                    const struct ddp_range *range);

/* One run of a plan. */
struct ddp_nccl_run {
    const struct ddp_nccl_plan *plan;
    const void *input;
    void *output, *workspace;
    enum ddp_redop redop;
    struct ddp_device *device;
    struct ddp_stream *stream;
};
/* Enqueue a round's kernels: those before its messages, or those after. */
DDP_MUST_USE ddp_status ddp_nccl_run_kernels(const struct ddp_nccl_run *run, uint32_t round,
                                             bool is_after);
bool ddp_nccl_run_has_messages(const struct ddp_nccl_run *run, uint32_t round);
/* Enqueue a round's messages as one group on a communicator that is READY. Errors: as
 * ddp_nccl_comm_started. */
DDP_MUST_USE ddp_status ddp_nccl_run_messages(const struct ddp_nccl_run *run, uint32_t round,
                                              const struct ddp_nccl_library *library,
                                              struct ddp_nccl_comm *comm);

#endif
