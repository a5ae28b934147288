/* The operation stream of a right run, from the plan alone. It knows what the DDP core must post,
 * not how the core does it: a cursor (step, phase) walks through the job, and every collective is
 * emitted where the core posts it. */
#include "harness/plan/program.h"

#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/plan/bucket.h"
#include "harness/plan/posted.h"

/* Parameters and buffers travel in pieces of at most this size when replicas are made equal. */
#define SYNC_CHUNK_BYTES ((size_t)250 * 1024 * 1024)

struct emitter {
    struct harness_program *program;
    const struct harness_job *job;
    size_t buffer_elem_count;
    const uint64_t *batch_count; /* NULL: the job does not join */
    int32_t step;
    uint32_t root;      /* of broadcasts: the last rank that has data, under join */
    bool is_buffer_due; /* the pass before was synchronised; true before the first */
};

/* op: the fields that depend on the role; the others are filled in here. */
static ddp_status emit(struct emitter *emitter, enum ddp_phase phase, enum ddp_coll_role role,
                       const struct harness_op *op)
{
    struct harness_program *program = emitter->program;
    struct harness_op *ops;

    ops = ddp_mem_grow(program->mem, program->ops, program->op_count, &program->op_capacity,
                       sizeof(*ops));
    if (ops == NULL) {
        return DDP_E_NOMEM;
    }
    program->ops = ops;
    program->ops[program->op_count] = *op;
    program->ops[program->op_count].seq = program->op_count + 1;
    program->ops[program->op_count].step = emitter->step;
    program->ops[program->op_count].phase = phase;
    program->ops[program->op_count].role = role;
    program->op_count++;
    return DDP_OK;
}

static struct harness_op make_op(enum ddp_coll_kind kind, enum ddp_dtype dtype, uint64_t elem_count)
{
    struct harness_op op;

    memset(&op, 0, sizeof(op));
    op.kind = kind;
    op.dtype = dtype;
    op.redop = DDP_REDOP_SUM;
    op.elem_count = elem_count;
    op.is_root_known = true;
    return op;
}

/* Under strict, ranks exchange a hash of their model and options and two counts. Under pytorch they
 * exchange how many parameters they have, and then compare sizes and strides with rank 0's. */
static ddp_status emit_verify(struct emitter *emitter)
{
    bool is_pytorch = emitter->job->semantics == HARNESS_SEMANTICS_PYTORCH;
    struct harness_op op =
        make_op(DDP_COLL_ALL_GATHER, DDP_DTYPE_U8, (is_pytorch ? 1 : 3) * sizeof(uint64_t));
    uint64_t dimension_count = 0;

    DDP_TRY(emit(emitter, DDP_PHASE_INIT, DDP_ROLE_VERIFY, &op));
    if (!is_pytorch) {
        return DDP_OK;
    }
    for (size_t i = 0; i < emitter->program->param_count; i++) {
        dimension_count += emitter->program->params[i].ndim;
    }
    op = make_op(DDP_COLL_BROADCAST, DDP_DTYPE_I64, 2 * dimension_count);
    op.index = 1;
    return emit(emitter, DDP_PHASE_INIT, DDP_ROLE_VERIFY, &op);
}

/* One chunk of a broadcast that makes replicas equal. */
static ddp_status emit_chunk(struct emitter *emitter, enum ddp_phase phase, enum ddp_coll_role role,
                             uint32_t chunk, enum ddp_dtype dtype, size_t elem_count)
{
    struct harness_op op = make_op(DDP_COLL_BROADCAST, dtype, elem_count);

    op.index = chunk;
    op.root = emitter->root;
    op.is_root_known = !emitter->job->join.is_set || emitter->step < 0;
    return emit(emitter, phase, role, &op);
}

/* Parameters of one type travel whole: a chunk takes as many as fit, and at least one. */
static ddp_status emit_params_of(struct emitter *emitter, enum ddp_phase phase,
                                 enum ddp_dtype dtype, uint32_t *chunk)
{
    const struct harness_program *program = emitter->program;
    size_t elem_count = 0;
    size_t in_chunk = 0;

    for (size_t i = 0; i < program->param_count; i++) {
        size_t added = program->params[i].elem_count;

        if (program->params[i].dtype != dtype) {
            continue;
        }
        if (in_chunk > 0 && elem_count + added > SYNC_CHUNK_BYTES / ddp_dtype_size_bytes(dtype)) {
            DDP_TRY(emit_chunk(emitter, phase, DDP_ROLE_PARAM_SYNC, (*chunk)++, dtype, elem_count));
            elem_count = 0;
            in_chunk = 0;
        }
        elem_count += added;
        in_chunk++;
    }
    return in_chunk == 0
               ? DDP_OK
               : emit_chunk(emitter, phase, DDP_ROLE_PARAM_SYNC, (*chunk)++, dtype, elem_count);
}

/* Type by type. */
static ddp_status emit_params(struct emitter *emitter, enum ddp_phase phase)
{
    uint32_t chunk = 0;

    for (size_t dtype = 0; dtype < DDP_DTYPE_COUNT; dtype++) {
        DDP_TRY(emit_params_of(emitter, phase, (enum ddp_dtype)dtype, &chunk));
    }
    return DDP_OK;
}

/* Only the total of the buffers is known here: models' buffers are f32 and fit one chunk. */
static ddp_status emit_buffers(struct emitter *emitter, enum ddp_phase phase)
{
    if (emitter->buffer_elem_count == 0) {
        return DDP_OK;
    }
    return emit_chunk(emitter, phase, DDP_ROLE_BUFFER_SYNC, 0, DDP_DTYPE_F32,
                      emitter->buffer_elem_count);
}

static ddp_status emit_init(struct emitter *emitter)
{
    emitter->step = -1;
    DDP_TRY(emit_verify(emitter));
    DDP_TRY(emit_params(emitter, DDP_PHASE_INIT));
    return emit_buffers(emitter, DDP_PHASE_INIT);
}

/* A flag of each rank, summed as one float: "I still have data", "this pass reduces". */
static ddp_status emit_flag(struct emitter *emitter, enum ddp_coll_role role, uint32_t index)
{
    struct harness_op op = make_op(DDP_COLL_ALL_REDUCE, DDP_DTYPE_F32, 1);

    op.index = index;
    return emit(emitter, DDP_PHASE_JOIN, role, &op);
}

static ddp_status emit_backward(struct emitter *emitter)
{
    const struct harness_program *program = emitter->program;

    for (size_t b = 0; b < program->bucket_count; b++) {
        struct harness_op op =
            make_op(DDP_COLL_ALL_REDUCE, program->buckets[b].dtype, program->buckets[b].elem_count);

        op.index = (uint32_t)b;
        DDP_TRY(emit(emitter, DDP_PHASE_BACKWARD, DDP_ROLE_BUCKET, &op));
    }
    if (emitter->job->find_unused_parameters && program->bucket_count > 0) {
        struct harness_op op = make_op(DDP_COLL_ALL_REDUCE, DDP_DTYPE_I32, program->param_count);

        return emit(emitter, DDP_PHASE_REDUCE, DDP_ROLE_USED_MAP, &op);
    }
    return DDP_OK;
}

static ddp_status emit_barrier(struct emitter *emitter, enum ddp_phase phase)
{
    struct harness_op op = make_op(DDP_COLL_BARRIER, DDP_DTYPE_U8, 0);

    return emit(emitter, phase, DDP_ROLE_BARRIER, &op);
}

/* The ranks agree on the highest rank that offers to broadcast. */
static ddp_status emit_last(struct emitter *emitter)
{
    struct harness_op op = make_op(DDP_COLL_ALL_REDUCE, DDP_DTYPE_I64, 1);

    op.redop = DDP_REDOP_MAX;
    return emit(emitter, DDP_PHASE_JOIN, DDP_ROLE_JOIN_LAST, &op);
}

/* Buffers come before a forward pass that syncs; in pytorch, and under join, before one that
 * follows a pass that synced. Under join the ranks first agree on who still has inputs. */
static ddp_status emit_buffer_pass(struct emitter *emitter, bool is_synced)
{
    const struct harness_job *job = emitter->job;
    bool follows = job->join.is_set || job->semantics == HARNESS_SEMANTICS_PYTORCH;

    if (!job->broadcast_buffers || emitter->buffer_elem_count == 0 ||
        !(follows ? emitter->is_buffer_due : is_synced)) {
        return DDP_OK;
    }
    if (job->join.is_set) {
        DDP_TRY(emit_last(emitter));
    }
    return emit_buffers(emitter, DDP_PHASE_BUFFER);
}

/* One forward and backward pass. Under join every rank first says whether it still has data; with
 * throw_on_early_termination the ranks that have some are then told whether another ran out. */
static ddp_status emit_pass(struct emitter *emitter, uint32_t micro)
{
    const struct harness_job *job = emitter->job;
    bool is_synced = micro + 1 == job->micro_batches;

    if (job->join.is_set) {
        DDP_TRY(emit_flag(emitter, DDP_ROLE_JOIN_PRESENT, 0));
        if (job->join.throw_on_early_termination) {
            DDP_TRY(emit_flag(emitter, DDP_ROLE_JOIN_PRESENT, 1));
        }
    }
    DDP_TRY(emit_buffer_pass(emitter, is_synced));
    emitter->is_buffer_due = is_synced;
    if (job->join.is_set) {
        DDP_TRY(emit_flag(emitter, DDP_ROLE_JOIN_SYNC_FLAG, 0));
    }
    return is_synced ? emit_backward(emitter) : DDP_OK;
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

/* job.posts, before the update. */
static ddp_status emit_posts(struct emitter *emitter)
{
    for (uint32_t i = 0; i < emitter->job->posts.count; i++) {
        struct harness_posted posted;
        struct harness_op op;

        DDP_TRY(harness_posted_parse(emitter->job->posts.items[i], &posted, NULL));
        op = make_op(posted.kind, posted.dtype, posted.elem_count);
        op.redop = posted.redop;
        op.root = posted.root;
        op.index = posted.is_monitored ? 0 : i; /* the group numbers none of its barriers */
        DDP_TRY(emit(emitter, DDP_PHASE_REDUCE,
                     posted.is_monitored ? DDP_ROLE_MONITORED : DDP_ROLE_USER, &op));
    }
    return DDP_OK;
}

static ddp_status emit_steps(struct emitter *emitter, uint64_t passes)
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
            DDP_TRY(emit_posts(emitter));
        }
        /* Under join nothing mirrors a barrier for the ranks whose data has ended. */
        if (micro + 1 == job->micro_batches && job->checkpoint_every != 0 && !job->join.is_set &&
            steps_done % job->checkpoint_every == 0) {
            DDP_TRY(emit_barrier(emitter, DDP_PHASE_CHECKPOINT));
        }
    }
    return DDP_OK;
}

/* The round in which no rank has data left; then the last rank to end broadcasts its parameters and
 * buffers. */
static ddp_status emit_join_end(struct emitter *emitter)
{
    DDP_TRY(emit_flag(emitter, DDP_ROLE_JOIN_PRESENT, 0));
    DDP_TRY(emit_last(emitter));
    DDP_TRY(emit_params(emitter, DDP_PHASE_JOIN));
    return emit_buffers(emitter, DDP_PHASE_JOIN);
}

static ddp_status emit_all(struct emitter *emitter)
{
    const struct harness_job *job = emitter->job;
    const uint64_t *batch_count = emitter->batch_count;
    uint64_t passes = count_passes(job, batch_count, true);
    uint64_t first_end = count_passes(job, batch_count, false);

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

static uint64_t hash_program(const struct harness_program *program)
{
    uint64_t hash = ddp_hash_text("harness_program");

    for (size_t i = 0; i < program->op_count; i++) {
        const struct harness_op *op = &program->ops[i];
        struct ddp_event_op packed = {op->kind, op->redop, op->dtype,
                                      op->role, op->index, op->root};

        hash = ddp_hash_combine(hash, ddp_event_op_pack(&packed));
        hash = ddp_hash_combine(hash, op->elem_count);
        hash = ddp_hash_combine(hash, (op->is_root_known ? 2u : 0u) | 1u);
    }
    for (size_t b = 0; b < program->bucket_count; b++) {
        for (uint32_t i = 0; i < program->buckets[b].param_count; i++) {
            hash = ddp_hash_combine(hash, program->buckets[b].params[i]);
        }
    }
    return hash;
}

ddp_status harness_program_build(struct ddp_mem *mem, const struct harness_plan *plan,
                                 const struct ddp_param *params, size_t param_count,
                                 size_t buffer_elem_count, const uint64_t *batch_count,
                                 struct harness_program *out)
{
    struct emitter emitter = {out, &plan->job, buffer_elem_count, batch_count, -1, 0, true};
    size_t first_cap_bytes;
    size_t cap_bytes;
    ddp_status status;

    memset(out, 0, sizeof(*out));
    out->mem = mem;
    out->params = params;
    out->param_count = param_count;
    harness_bucket_caps(&plan->job, &first_cap_bytes, &cap_bytes);
    status = harness_bucket_assign(mem, params, param_count, first_cap_bytes, cap_bytes,
                                   &out->buckets, &out->bucket_count);
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
    harness_bucket_free(program->mem, program->buckets, program->bucket_count);
    ddp_mem_free(program->mem, program->ops);
    memset(program, 0, sizeof(*program));
}

const struct harness_op *harness_program_at(const struct harness_program *program, uint64_t seq)
{
    return seq == 0 || seq > program->op_count ? NULL : &program->ops[seq - 1];
}
