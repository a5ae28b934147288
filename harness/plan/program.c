/* The operation stream of a right run, from the plan alone. It knows what the DDP core must post,
 * not how the core does it: a cursor (step, phase) walks through the job, and every collective is
 * emitted where the core posts it. */
#include "harness/plan/program.h"

#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/plan/bucket.h"
#include "harness/plan/program_emit.h"

/* Parameters and buffers travel in pieces of at most this size when replicas are made equal. */
#define SYNC_CHUNK_BYTES ((size_t)250 * 1024 * 1024)

/* Under strict, ranks exchange a hash of their model and options and two counts. Under pytorch they
 * exchange how many parameters they have, and then compare sizes and strides with rank 0's. */
static ddp_status emit_verify(struct harness_emitter *emitter)
{
    bool is_pytorch = emitter->job->semantics == HARNESS_SEMANTICS_PYTORCH;
    struct harness_op op =
        harness_emit_op(DDP_COLL_ALL_GATHER, DDP_DTYPE_U8, (is_pytorch ? 1 : 3) * sizeof(uint64_t));
    uint64_t dimension_count = 0;

    DDP_TRY(harness_emit(emitter, DDP_PHASE_INIT, DDP_ROLE_VERIFY, &op));
    if (!is_pytorch) {
        return DDP_OK;
    }
    for (size_t i = 0; i < emitter->program->param_count; i++) {
        dimension_count += emitter->program->params[i].ndim;
    }
    op = harness_emit_op(DDP_COLL_BROADCAST, DDP_DTYPE_I64, 2 * dimension_count);
    op.index = 1;
    return harness_emit(emitter, DDP_PHASE_INIT, DDP_ROLE_VERIFY, &op);
}

/* One chunk of a broadcast that makes replicas equal. */
static ddp_status emit_chunk(struct harness_emitter *emitter, enum ddp_phase phase,
                             enum ddp_coll_role role, uint32_t chunk, enum ddp_dtype dtype,
                             size_t elem_count)
{
    struct harness_op op = harness_emit_op(DDP_COLL_BROADCAST, dtype, elem_count);

    op.index = chunk;
    op.root = emitter->root;
    op.is_root_known = !emitter->job->join.is_set || emitter->step < 0;
    return harness_emit(emitter, phase, role, &op);
}

/* What is broadcast: the parameters, or the buffers. */
struct sync_list {
    const struct harness_tables *model;
    enum ddp_coll_role role;
};

static size_t list_count(const struct sync_list *list)
{
    return list->role == DDP_ROLE_PARAM_SYNC ? list->model->param_count : list->model->buffer_count;
}

static enum ddp_dtype list_dtype(const struct sync_list *list, size_t i)
{
    return list->role == DDP_ROLE_PARAM_SYNC ? list->model->params[i].dtype
                                             : list->model->buffers[i].dtype;
}

static size_t list_elem_count(const struct sync_list *list, size_t i)
{
    return list->role == DDP_ROLE_PARAM_SYNC ? list->model->params[i].elem_count
                                             : list->model->buffers[i].elem_count;
}

/* Tensors of one type travel whole: a chunk takes as many as fit, and at least one. */
static ddp_status emit_type(struct harness_emitter *emitter, enum ddp_phase phase,
                            const struct sync_list *list, enum ddp_dtype dtype, uint32_t *chunk)
{
    const size_t cap_elems = SYNC_CHUNK_BYTES / ddp_dtype_size_bytes(dtype);
    size_t elem_count = 0;
    size_t in_chunk = 0;

    for (size_t i = 0; i < list_count(list); i++) {
        size_t added = list_elem_count(list, i);

        if (list_dtype(list, i) != dtype) {
            continue;
        }
        if (in_chunk > 0 && elem_count + added > cap_elems) {
            DDP_TRY(emit_chunk(emitter, phase, list->role, (*chunk)++, dtype, elem_count));
            elem_count = 0;
            in_chunk = 0;
        }
        elem_count += added;
        in_chunk++;
    }
    return in_chunk == 0 ? DDP_OK
                         : emit_chunk(emitter, phase, list->role, (*chunk)++, dtype, elem_count);
}

/* Type by type. role: PARAM_SYNC or BUFFER_SYNC. */
static ddp_status emit_sync(struct harness_emitter *emitter, enum ddp_phase phase,
                            enum ddp_coll_role role)
{
    const struct sync_list list = {emitter->model, role};
    uint32_t chunk = 0;

    for (size_t dtype = 0; dtype < DDP_DTYPE_COUNT; dtype++) {
        DDP_TRY(emit_type(emitter, phase, &list, (enum ddp_dtype)dtype, &chunk));
    }
    return DDP_OK;
}

static ddp_status emit_init(struct harness_emitter *emitter)
{
    emitter->step = -1;
    DDP_TRY(emit_verify(emitter));
    DDP_TRY(emit_sync(emitter, DDP_PHASE_INIT, DDP_ROLE_PARAM_SYNC));
    return emit_sync(emitter, DDP_PHASE_INIT, DDP_ROLE_BUFFER_SYNC);
}

/* A flag of each rank, summed as one float: "I still have data", "this pass reduces". */
static ddp_status emit_flag(struct harness_emitter *emitter, enum ddp_coll_role role,
                            uint32_t index)
{
    struct harness_op op = harness_emit_op(DDP_COLL_ALL_REDUCE, DDP_DTYPE_F32, 1);

    op.index = index;
    return harness_emit(emitter, DDP_PHASE_JOIN, role, &op);
}

static ddp_status emit_barrier(struct harness_emitter *emitter, enum ddp_phase phase)
{
    struct harness_op op = harness_emit_op(DDP_COLL_BARRIER, DDP_DTYPE_U8, 0);

    return harness_emit(emitter, phase, DDP_ROLE_BARRIER, &op);
}

/* What all ranks' shares come to: a loss and a number of samples of each. */
static ddp_status emit_evaluation(struct harness_emitter *emitter, uint64_t steps_done)
{
    const struct harness_job *job = emitter->job;
    struct harness_op op = harness_emit_op(DDP_COLL_ALL_GATHER, DDP_DTYPE_F64, 2);

    return job->evaluate_every == 0 || steps_done % job->evaluate_every != 0 ||
                   job->evaluation != HARNESS_EVALUATION_SHARDED
               ? DDP_OK
               : harness_emit(emitter, DDP_PHASE_FORWARD, DDP_ROLE_EVALUATION, &op);
}

/* The ranks agree on the highest rank that offers to broadcast. */
static ddp_status emit_last(struct harness_emitter *emitter)
{
    struct harness_op op = harness_emit_op(DDP_COLL_ALL_REDUCE, DDP_DTYPE_I64, 1);

    op.redop = DDP_REDOP_MAX;
    return harness_emit(emitter, DDP_PHASE_JOIN, DDP_ROLE_JOIN_LAST, &op);
}

/* Rank 0 hands out the parameters in the order of their new buckets, with the number of buckets
 * behind them, and the sizes of the buckets. Under strict the ranks then compare a hash of what
 * they got. */
static ddp_status emit_rebuild(struct harness_emitter *emitter)
{
    struct harness_program *program = emitter->program;
    struct harness_op op =
        harness_emit_op(DDP_COLL_BROADCAST, DDP_DTYPE_I32, program->param_count + 1);

    if (!emitter->is_rebuild_due) {
        return DDP_OK;
    }
    emitter->is_rebuild_due = false;
    program->rebuilt_step = emitter->step;
    DDP_TRY(harness_emit(emitter, DDP_PHASE_BUFFER, DDP_ROLE_REBUILD, &op));
    op = harness_emit_op(DDP_COLL_BROADCAST, DDP_DTYPE_I32, program->rebuilt.count);
    op.index = 1;
    DDP_TRY(harness_emit(emitter, DDP_PHASE_BUFFER, DDP_ROLE_REBUILD, &op));
    if (emitter->job->semantics == HARNESS_SEMANTICS_PYTORCH) {
        return DDP_OK;
    }
    op = harness_emit_op(DDP_COLL_ALL_GATHER, DDP_DTYPE_U8, sizeof(uint64_t));
    op.index = 2;
    return harness_emit(emitter, DDP_PHASE_BUFFER, DDP_ROLE_REBUILD, &op);
}

/* Buffers come before a forward pass that syncs; in pytorch, and under join, before one that
 * follows a pass that synced. Under join the ranks first agree on who still has inputs. */
static ddp_status emit_buffer_pass(struct harness_emitter *emitter, bool is_synced)
{
    const struct harness_job *job = emitter->job;
    bool follows = job->join.is_set || job->semantics == HARNESS_SEMANTICS_PYTORCH;

    if (!job->broadcast_buffers || emitter->model->buffer_count == 0 ||
        !(follows ? emitter->is_buffer_due : is_synced)) {
        return DDP_OK;
    }
    if (job->join.is_set) {
        DDP_TRY(emit_last(emitter));
    }
    return emit_sync(emitter, DDP_PHASE_BUFFER, DDP_ROLE_BUFFER_SYNC);
}

/* One forward and backward pass. Under join every rank first says whether it still has data; with
 * throw_on_early_termination the ranks that have some are then told whether another ran out. */
static ddp_status emit_pass(struct harness_emitter *emitter, uint32_t micro)
{
    const struct harness_job *job = emitter->job;
    bool is_synced = micro + 1 == job->micro_batches;

    if (job->join.is_set) {
        DDP_TRY(emit_flag(emitter, DDP_ROLE_JOIN_PRESENT, 0));
        if (job->join.throw_on_early_termination) {
            DDP_TRY(emit_flag(emitter, DDP_ROLE_JOIN_PRESENT, 1));
        }
    }
    DDP_TRY(emit_rebuild(emitter));
    DDP_TRY(emit_buffer_pass(emitter, is_synced));
    emitter->is_buffer_due = is_synced;
    if (job->join.is_set) {
        DDP_TRY(emit_flag(emitter, DDP_ROLE_JOIN_SYNC_FLAG, 0));
    }
    DDP_TRY(harness_emit_statistics(emitter));
    return harness_emit_backward(emitter, is_synced);
}

/* Passes until the last (is_last) or the first rank has used up its data or its steps. */
static uint64_t count_passes(const struct harness_job *job, const uint64_t *batch_count,
                             bool is_last)
{
    uint64_t passes = (uint64_t)job->steps * job->micro_batches;
    uint64_t found = is_last ? 0 : passes;

    if (!job->join.is_set || batch_count == NULL) {
        return passes;
    }
    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        uint64_t own = batch_count[rank] < passes ? batch_count[rank] : passes;

        if (is_last ? own > found : own < found) {
            found = own;
        }
    }
    return found;
}

/* The highest rank that has data in a pass. */
static uint32_t last_active(const struct harness_job *job, const uint64_t *batch_count,
                            uint64_t pass)
{
    uint32_t rank = job->ranks;

    while (rank > 1 && batch_count[rank - 1] <= pass) {
        rank--;
    }
    return rank - 1;
}

/* Whether some rank's gradients are not finite; PyTorch's ranks decide each for itself. */
static ddp_status emit_found(struct harness_emitter *emitter)
{
    struct harness_op op = harness_emit_op(DDP_COLL_ALL_REDUCE, DDP_DTYPE_F32, 1);

    op.redop = DDP_REDOP_MAX;
    return emitter->job->optimizer.loss_scale > 0 &&
                   emitter->job->semantics == HARNESS_SEMANTICS_STRICT
               ? harness_emit(emitter, DDP_PHASE_OPTIMIZER, DDP_ROLE_FOUND_INF, &op)
               : DDP_OK;
}

/* Post-local SGD: the parameters, one by one, behind the update. */
static ddp_status emit_averages(struct harness_emitter *emitter)
{
    const bool is_due = harness_program_is_averaged(emitter->job, emitter->step);

    for (size_t p = 0; is_due && p < emitter->program->param_count; p++) {
        struct harness_op op =
            harness_emit_op(DDP_COLL_ALL_REDUCE, emitter->program->params[p].dtype,
                            emitter->program->params[p].elem_count);

        op.index = (uint32_t)p;
        DDP_TRY(harness_emit(emitter, DDP_PHASE_OPTIMIZER, DDP_ROLE_AVERAGE, &op));
    }
    return DDP_OK;
}

static ddp_status emit_steps(struct harness_emitter *emitter, uint64_t passes)
{
    const struct harness_job *job = emitter->job;

    /* A restored run goes on where its checkpoint ended. */
    for (uint64_t pass = (uint64_t)job->start_step * job->micro_batches; pass < passes; pass++) {
        uint32_t micro = (uint32_t)(pass % job->micro_batches);
        uint64_t steps_done = pass / job->micro_batches + 1;

        emitter->step = (int32_t)(pass / job->micro_batches);
        emitter->root =
            emitter->batch_count == NULL ? 0 : last_active(job, emitter->batch_count, pass);
        DDP_TRY(emit_pass(emitter, micro));
        if (micro + 1 == job->micro_batches) {
            DDP_TRY(harness_emit_posts(emitter));
            DDP_TRY(emit_found(emitter));
            DDP_TRY(emit_averages(emitter));
            DDP_TRY(harness_emit_drift(emitter, steps_done));
        }
        /* Under join nothing mirrors a barrier for the ranks whose data has ended. */
        if (micro + 1 == job->micro_batches && job->checkpoint_every != 0 && !job->join.is_set &&
            steps_done % job->checkpoint_every == 0) {
            DDP_TRY(harness_emit_hook_state(emitter, steps_done));
            DDP_TRY(emit_barrier(emitter, DDP_PHASE_CHECKPOINT));
        }
        if (micro + 1 == job->micro_batches) {
            DDP_TRY(emit_evaluation(emitter, steps_done));
        }
    }
    return DDP_OK;
}

/* The round in which no rank has data left; then the last rank to end broadcasts its parameters and
 * buffers. */
static ddp_status emit_join_end(struct harness_emitter *emitter)
{
    DDP_TRY(emit_flag(emitter, DDP_ROLE_JOIN_PRESENT, 0));
    DDP_TRY(emit_last(emitter));
    DDP_TRY(emit_sync(emitter, DDP_PHASE_JOIN, DDP_ROLE_PARAM_SYNC));
    return emit_sync(emitter, DDP_PHASE_JOIN, DDP_ROLE_BUFFER_SYNC);
}

static ddp_status emit_state_of(struct harness_emitter *emitter, enum ddp_dtype dtype,
                                uint64_t elem_count, uint32_t *inout_index)
{
    struct harness_op op = harness_emit_op(DDP_COLL_BROADCAST, dtype, elem_count);

    op.index = (*inout_index)++;
    op.root = emitter->job->source;
    return harness_emit(emitter, DDP_PHASE_RECOVERY, DDP_ROLE_STATE, &op);
}

static size_t slot_count(const struct harness_optimizer *optimizer)
{
    if (optimizer->kind == HARNESS_OPTIMIZER_ADAMW) {
        return 2;
    }
    return optimizer->momentum > 0.0 ? 1 : 0;
}

/* Survivors take all state from one of them: parameters, buffers, the optimizer's tensors, and how
 * many steps it has taken with each parameter. */
static ddp_status emit_state(struct harness_emitter *emitter)
{
    const struct harness_tables *model = emitter->model;
    uint32_t index = 0;

    for (size_t i = 0; i < model->param_count; i++) {
        DDP_TRY(
            emit_state_of(emitter, model->params[i].dtype, model->params[i].elem_count, &index));
    }
    for (size_t i = 0; i < model->buffer_count; i++) {
        DDP_TRY(
            emit_state_of(emitter, model->buffers[i].dtype, model->buffers[i].elem_count, &index));
    }
    for (size_t s = 0; s < slot_count(&emitter->job->optimizer); s++) {
        for (size_t i = 0; i < model->param_count; i++) {
            DDP_TRY(emit_state_of(emitter, DDP_DTYPE_F32, model->params[i].elem_count, &index));
        }
    }
    return emit_state_of(emitter, DDP_DTYPE_I64, model->param_count, &index);
}

static ddp_status emit_all(struct harness_emitter *emitter)
{
    const struct harness_job *job = emitter->job;
    const uint64_t *batch_count = emitter->batch_count;
    uint64_t passes = count_passes(job, batch_count, true);
    uint64_t first_end = count_passes(job, batch_count, false);

    DDP_TRY(job->is_continued ? emit_state(emitter) : DDP_OK);
    DDP_TRY(emit_init(emitter));
    if (job->join.is_set && job->join.throw_on_early_termination && first_end < passes) {
        /* The ranks post nothing after the round in which they notice it. */
        DDP_TRY(emit_steps(emitter, first_end));
        emitter->step = (int32_t)(first_end / job->micro_batches);
        DDP_TRY(emit_flag(emitter, DDP_ROLE_JOIN_PRESENT, 0));
        return emit_flag(emitter, DDP_ROLE_JOIN_PRESENT, 1);
    }
    DDP_TRY(emit_steps(emitter, passes));
    emitter->step = (int32_t)job->steps;
    if (job->join.is_set) {
        DDP_TRY(emit_join_end(emitter));
    }
    return emit_barrier(emitter, DDP_PHASE_TEARDOWN);
}

static uint64_t hash_buckets(uint64_t hash, const struct harness_buckets *buckets)
{
    for (size_t b = 0; b < buckets->count; b++) {
        for (uint32_t i = 0; i < buckets->items[b].param_count; i++) {
            hash = ddp_hash_combine(hash, buckets->items[b].params[i]);
        }
    }
    return hash;
}

/* As the core makes it of what it received. */
static uint64_t hash_list(const struct harness_buckets *buckets)
{
    uint64_t hash = ddp_hash_combine(ddp_hash_text("buckets"), buckets->count);

    hash = hash_buckets(hash, buckets);
    for (size_t b = 0; b < buckets->count; b++) {
        hash = ddp_hash_combine(hash, buckets->items[b].param_count);
    }
    return hash;
}

static uint64_t hash_program(const struct harness_program *program)
{
    uint64_t hash = ddp_hash_text("harness_program");

    for (size_t i = 0; i < program->op_count; i++) {
        const struct harness_op *op = &program->ops[i];
        struct ddp_event_op packed = {op->kind, op->redop, op->dtype,
                                      op->role, op->index, op->root};

        hash = ddp_hash_combine(hash, ddp_event_op_pack(&packed));
        hash = ddp_hash_combine(hash, op->elem_count);
        hash = op->group == 0 ? hash : ddp_hash_combine(hash, program->groups[op->group - 1].comm);
        hash = ddp_hash_combine(hash, (op->is_root_known ? 2u : 0u) | 1u);
    }
    hash = hash_buckets(hash, &program->first);
    return hash_buckets(hash, &program->rebuilt);
}

ddp_status harness_program_build(struct ddp_mem *mem, const struct harness_plan *plan,
                                 const struct harness_tables *model, const uint64_t *batch_count,
                                 struct harness_program *out)
{
    struct harness_emitter emitter = {out, &plan->job, model, batch_count, -1,
                                      0,   true,       false, false};
    ddp_status status;

    memset(out, 0, sizeof(*out));
    out->mem = mem;
    out->params = model->params;
    out->param_count = model->param_count;
    out->buffer_count = model->buffer_count;
    out->rebuilt_step = INT32_MAX;
    status = harness_bucket_assign_job(mem, &plan->job, model, &out->first, &out->rebuilt);
    out->rebuilt_hash = hash_list(&out->rebuilt);
    if (status == DDP_OK && model->announced != NULL && out->rebuilt.count > 0) {
        status = harness_bucket_replace(mem, model->announced, &out->rebuilt);
    }
    if (status == DDP_OK) {
        status = harness_emit_groups(out, &plan->job);
    }
    if (status == DDP_OK) {
        status = emit_all(&emitter);
    }
    if (status != DDP_OK) {
        harness_program_fini(out);
        return status;
    }
    out->hash = hash_program(out);
    return DDP_OK;
}

void harness_program_fini(struct harness_program *program)
{
    harness_bucket_free(program->mem, program->first.items, program->first.count);
    harness_bucket_free(program->mem, program->rebuilt.items, program->rebuilt.count);
    ddp_mem_free(program->mem, program->ops);
    ddp_mem_free(program->mem, program->groups);
    memset(program, 0, sizeof(*program));
}
