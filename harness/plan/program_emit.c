/* Operations of the program one by one, and those of a pass's forward and backward. */
#include "harness/plan/program_emit.h"

#include <string.h>

#include "harness/plan/bucket.h"
#include "harness/plan/hook_round.h"

ddp_status harness_emit(struct harness_emitter *emitter, enum ddp_phase phase,
                        enum ddp_coll_role role, const struct harness_op *op)
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

struct harness_op harness_emit_op(enum ddp_coll_kind kind, enum ddp_dtype dtype,
                                  uint64_t elem_count)
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

/* Round `round` of a bucket, if its hook has one. */
static ddp_status emit_round(struct harness_emitter *emitter, const struct harness_buckets *buckets,
                             size_t bucket, size_t round)
{
    struct harness_hook_round rounds[HARNESS_HOOK_ROUNDS_MAX];
    const size_t count = harness_hook_rounds(emitter->job, emitter->program->params,
                                             &buckets->items[bucket], emitter->step, rounds);
    struct harness_op op;

    if (round >= count) {
        return DDP_OK;
    }
    op = harness_emit_op(rounds[round].kind, rounds[round].dtype, rounds[round].elem_count);
    op.index = (uint32_t)bucket;
    return harness_emit(emitter, round == 0 ? DDP_PHASE_BACKWARD : DDP_PHASE_REDUCE,
                        DDP_ROLE_BUCKET, &op);
}

static ddp_status emit_bucket(struct harness_emitter *emitter,
                              const struct harness_buckets *buckets, size_t bucket)
{
    return emit_round(emitter, buckets, bucket, 0);
}

/* Behind the pass: round 1 of all buckets, then round 2. */
static ddp_status emit_later_rounds(struct harness_emitter *emitter,
                                    const struct harness_buckets *buckets)
{
    for (size_t round = 1; round < HARNESS_HOOK_ROUNDS_MAX; round++) {
        for (size_t b = 0; b < buckets->count; b++) {
            DDP_TRY(emit_round(emitter, buckets, b, round));
        }
    }
    return DDP_OK;
}

static size_t batch_norm_count(const struct harness_emitter *emitter)
{
    return emitter->job->sync_batchnorm ? emitter->model->batch_norm_count : 0;
}

static size_t channels_of(const struct harness_emitter *emitter, size_t norm)
{
    return emitter->model->params[emitter->model->batch_norms[norm]].elem_count;
}

/* Mean and variance of each channel, and how many rows there are. */
ddp_status harness_emit_statistics(struct harness_emitter *emitter)
{
    for (size_t i = 0; i < batch_norm_count(emitter); i++) {
        struct harness_op op =
            harness_emit_op(DDP_COLL_ALL_GATHER, DDP_DTYPE_F32, 2 * channels_of(emitter, i) + 1);

        op.index = (uint32_t)i;
        DDP_TRY(harness_emit(emitter, DDP_PHASE_FORWARD, DDP_ROLE_BATCH_NORM, &op));
    }
    return DDP_OK;
}

/* Whether all of a bucket's parameters are from `first` on. */
static bool is_behind(const struct harness_bucket *bucket, uint32_t first)
{
    for (uint32_t i = 0; i < bucket->param_count; i++) {
        if (bucket->params[i] < first) {
            return false;
        }
    }
    return true;
}

/* The sums of each BatchNorm's gradient come between the buckets that are full before it and those
 * that wait for what lies in front of it. */
static ddp_status emit_gradient_sums(struct harness_emitter *emitter, bool is_synced,
                                     size_t *inout_bucket)
{
    const struct harness_buckets *buckets =
        harness_program_buckets(emitter->program, emitter->step);

    for (size_t i = batch_norm_count(emitter); i-- > 0;) {
        struct harness_op op =
            harness_emit_op(DDP_COLL_ALL_REDUCE, DDP_DTYPE_F32, 2 * channels_of(emitter, i));

        while (is_synced && *inout_bucket < buckets->count &&
               is_behind(&buckets->items[*inout_bucket], emitter->model->batch_norms[i])) {
            DDP_TRY(emit_bucket(emitter, buckets, (*inout_bucket)++));
        }
        op.index = (uint32_t)i;
        DDP_TRY(harness_emit(emitter, DDP_PHASE_BACKWARD, DDP_ROLE_BATCH_NORM, &op));
    }
    return DDP_OK;
}

/* How many ranks have a gradient of each parameter. */
static ddp_status emit_used_map(struct harness_emitter *emitter, enum ddp_phase phase)
{
    struct harness_op op =
        harness_emit_op(DDP_COLL_ALL_REDUCE, DDP_DTYPE_I32, emitter->program->param_count);

    return harness_emit(emitter, phase, DDP_ROLE_USED_MAP, &op);
}

/* While the graph is noted (job.static_graph), nothing is reduced before the pass is over: the used
 * map, then the buckets. */
ddp_status harness_emit_backward(struct harness_emitter *emitter, bool is_synced)
{
    struct harness_program *program = emitter->program;
    const struct harness_buckets *buckets = harness_program_buckets(program, emitter->step);
    const bool is_noting = is_synced && emitter->job->static_graph && !emitter->is_graph_noted;
    size_t b = 0;

    DDP_TRY(emit_gradient_sums(emitter, is_synced && !is_noting, &b));
    if (!is_synced) {
        return DDP_OK;
    }
    if (is_noting) {
        emitter->is_graph_noted = true;
        DDP_TRY(emit_used_map(emitter, DDP_PHASE_BACKWARD));
    }
    for (; b < buckets->count; b++) {
        DDP_TRY(emit_bucket(emitter, buckets, b));
    }
    emitter->is_rebuild_due =
        program->rebuilt_step == INT32_MAX && harness_bucket_is_rebuilt(emitter->job);
    if (emitter->job->find_unused_parameters && buckets->count > 0) {
        DDP_TRY(emit_used_map(emitter, DDP_PHASE_REDUCE));
    }
    return emit_later_rounds(emitter, buckets);
}

/* Number 0 of the hook's state is how often it ran; then come an error and a Q of each parameter.
 */
ddp_status harness_emit_hook_state(struct harness_emitter *emitter, uint64_t steps_done)
{
    const struct harness_program *program = emitter->program;

    for (size_t p = 0;
         harness_program_is_hook_gathered(emitter->job, steps_done) && p < program->param_count;
         p++) {
        struct harness_op op =
            harness_emit_op(DDP_COLL_ALL_GATHER, DDP_DTYPE_F32, program->params[p].elem_count);

        op.index = (uint32_t)(1 + 2 * p);
        DDP_TRY(harness_emit(emitter, DDP_PHASE_CHECKPOINT, DDP_ROLE_HOOK_STATE, &op));
    }
    return DDP_OK;
}

ddp_status harness_emit_drift(struct harness_emitter *emitter, uint64_t steps_done)
{
    const uint32_t every = emitter->job->drift_every;
    const struct harness_op op = harness_emit_op(DDP_COLL_ALL_GATHER, DDP_DTYPE_U8,
                                                 emitter->program->param_count * sizeof(uint64_t));

    return every == 0 || steps_done % every != 0
               ? DDP_OK
               : harness_emit(emitter, DDP_PHASE_OPTIMIZER, DDP_ROLE_DRIFT, &op);
}
