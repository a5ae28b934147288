/* How the files that work out the program add operations to it. Not for others. Calls go down this
 * list of files: program.c; program_emit.c, program_group.c. */
#ifndef HARNESS_PLAN_PROGRAM_EMIT_H
#define HARNESS_PLAN_PROGRAM_EMIT_H

#include "harness/plan/program.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_emitter {
    struct harness_program *program;
    const struct harness_job *job;
    const struct harness_tables *model;
    const uint64_t *batch_count; /* NULL: the job does not join */
    int32_t step;
    uint32_t root;       /* of broadcasts: the last rank that has data, under join */
    bool is_buffer_due;  /* the pass before was synchronised; true before the first */
    bool is_graph_noted; /* job.static_graph: a pass was synchronised */
    bool is_rebuild_due; /* the pass before was the first one that reduced */
};

/* op: the fields that depend on the role; the others are filled in here. */
DDP_MUST_USE ddp_status harness_emit(struct harness_emitter *emitter, enum ddp_phase phase,
                                     enum ddp_coll_role role, const struct harness_op *op);
struct harness_op harness_emit_op(enum ddp_coll_kind kind, enum ddp_dtype dtype,
                                  uint64_t elem_count);
/* What a forward pass exchanges of the statistics of BatchNorms (job.sync_batchnorm). */
DDP_MUST_USE ddp_status harness_emit_statistics(struct harness_emitter *emitter);
/* What a checkpoint behind so many steps holds of all ranks: PowerSGD's errors. */
DDP_MUST_USE ddp_status harness_emit_hook_state(struct harness_emitter *emitter,
                                                uint64_t steps_done);
/* The look at whether ranks hold the same parameters, if it is due: a hash of each. */
DDP_MUST_USE ddp_status harness_emit_drift(struct harness_emitter *emitter, uint64_t steps_done);
/* job.groups, before anything is emitted; and what job.posts adds behind a step's reductions. */
DDP_MUST_USE ddp_status harness_emit_groups(struct harness_program *program,
                                            const struct harness_job *job);
DDP_MUST_USE ddp_status harness_emit_posts(struct harness_emitter *emitter);
/* What a backward pass reduces. is_synced: buckets too. */
DDP_MUST_USE ddp_status harness_emit_backward(struct harness_emitter *emitter, bool is_synced);

#ifdef __cplusplus
}
#endif
#endif
