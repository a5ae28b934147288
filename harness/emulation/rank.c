/* Purpose: one rank's part of a step as straight-line code: its micro-batches, its local gradient;
 * and its input of the buckets.
 * Idea: ranks are tasks, so that this code may wait for the other ranks in the middle. */
#include <string.h>

#include "harness/emulation/batch_norm.h"
#include "harness/sums/arith.h"

static ddp_status keep_gradients(struct harness_emulation *e, const struct harness_trainer *trainer,
                                 uint32_t rank)
{
    size_t count = 0;
    struct ref_model *model = ref_trainer_model(trainer->trainer);
    const struct ddp_param *params = ref_model_params(model, &count);

    params = ref_model_rounded(model) != NULL ? ref_model_rounded(model) : params;
    for (size_t p = 0; p < count; p++) {
        struct harness_tensor target = harness_layout_at(&e->grads, e->now.grad, rank, p);
        bool has_grad = e->now.rows[rank] > 0 && params[p].is_grad_defined;

        e->now.has_grad[rank * e->params.count + p] = has_grad;
        if (has_grad) {
            DDP_TRY(harness_emulation_copy(e, target.data, params[p].grad, target.size_bytes));
        } else {
            memset(target.data, 0, target.size_bytes);
        }
    }
    return DDP_OK;
}

/* Whose buffers a rank has in a step: those of the rank that hands them out, or its own. Under join
 * that is the highest rank with data for the step's first pass, as only there buffers are due. (In
 * strict semantics without join they are due before the last pass; rank 0 has its own anyway.) */
static uint32_t owner_of_buffers(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    const struct harness_job *job = &e->input->plan->job;
    int64_t last = harness_emulation_last_active(e, (uint64_t)step * e->input->job->micro_batches);

    if (!job->broadcast_buffers) {
        return rank;
    }
    return job->join.is_set && last >= 0 ? (uint32_t)last : 0;
}

/* The gradient of the batches that a rank took instead of its own. */
static ddp_status other_gradient(struct harness_emulation *e, struct harness_trainer *trainer,
                                 uint32_t rank, uint32_t step)
{
    uint32_t micro_batches = e->input->job->micro_batches;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_DATA_SAMPLE, step, &count);
    struct ref_samples *given = ddp_mem_array(e->mem, micro_batches, sizeof(*given));
    uint32_t *samples = ddp_mem_array(e->mem, count, sizeof(*samples));
    ddp_status status = DDP_E_NOMEM;

    if (given != NULL && samples != NULL) {
        for (size_t i = 0; i < count; i++) {
            uint32_t micro = list[i]->entry.micro;

            samples[i] = (uint32_t)list[i]->entry.arg[0];
            if (micro < micro_batches) {
                given[micro].items = given[micro].rows == 0 ? &samples[i] : given[micro].items;
                given[micro].rows++;
            }
        }
        status = ref_trainer_gradient_of(trainer->trainer, rank, step, given, &e->now.loss[rank],
                                         &e->now.rows[rank]);
    }
    ddp_mem_free(e->mem, samples);
    ddp_mem_free(e->mem, given);
    return status;
}

/* The pass in which a rank hands out its buffers, or gets them. */
static uint32_t pass_of_buffers(const struct harness_emulation *e)
{
    const struct harness_job *job = &e->input->plan->job;
    bool is_first = job->join.is_set || job->semantics == HARNESS_SEMANTICS_PYTORCH;

    return is_first ? 0 : e->input->job->micro_batches - 1;
}

/* The passes of a rank in a step. */
struct passes {
    struct harness_emulation *e;
    const struct harness_trainer *trainer;
    uint32_t rank, step;
    bool is_owner; /* of the buffers: it hands them out */
    struct harness_batch_norm norm;
};

static ddp_status hand_out(const struct passes *passes)
{
    struct harness_emulation *e = passes->e;
    const size_t k = passes->step - e->start_step;

    DDP_TRY(harness_trainer_read_buffers(e, passes->trainer, e->now.handed));
    e->now.is_handed = true;
    if (!e->is_judging) {
        return DDP_OK;
    }
    e->expected.buffer_owner[k] = passes->rank;
    for (size_t b = 0; b < e->buffers.count; b++) {
        e->expected.buffer_hash[k * e->buffers.count + b] =
            harness_layout_hash(&e->buffers, e->now.handed, 0, b);
    }
    return DDP_OK;
}

/* Before the first pass every rank begins with what its owner had before the step. */
static ddp_status before_pass(void *context, uint32_t micro)
{
    struct passes *passes = context;
    struct harness_emulation *e = passes->e;

    passes->norm.micro = micro;
    if (!e->input->plan->job.broadcast_buffers || micro != pass_of_buffers(e)) {
        return DDP_OK;
    }
    if (passes->is_owner) {
        return hand_out(passes);
    }
    e->now.is_buffer_known[passes->rank] = micro == 0 || e->now.is_handed;
    return micro > 0 && e->now.is_handed
               ? harness_trainer_load_buffers(e, passes->trainer, e->now.handed, 0)
               : DDP_OK;
}

static ddp_status run_passes(struct harness_emulation *e, struct harness_trainer *trainer,
                             uint32_t rank, uint32_t step, struct harness_task *task)
{
    struct ref_model *model = ref_trainer_model(trainer->trainer);
    const size_t micro_batches = e->input->job->micro_batches;
    const uint32_t owner = owner_of_buffers(e, rank, step);
    struct passes passes = {
        .e = e, .trainer = trainer, .rank = rank, .step = step, .is_owner = rank == owner};
    ddp_status status;

    e->now.is_buffer_known[rank] = true;
    DDP_TRY(harness_trainer_load(e, trainer, rank, owner));
    harness_batch_norm_begin(&passes.norm, e, task, rank, step);
    ref_model_set_exchange(model,
                           e->input->plan->job.sync_batchnorm ? &passes.norm.exchange : NULL);
    ref_trainer_set_scale(trainer->trainer, e->scale[rank]);
    ref_trainer_watch(trainer->trainer, before_pass, &passes);
    if (harness_emulation_took(e, rank, step) == HARNESS_TOOK_OTHER) {
        status = other_gradient(e, trainer, rank, step);
    } else {
        status = ref_trainer_local_gradient(trainer->trainer, rank, step, &e->now.loss[rank],
                                            &e->now.rows[rank]);
    }
    ref_trainer_watch(trainer->trainer, NULL, NULL);
    ref_model_set_exchange(model, NULL);
    DDP_TRY(status);
    memcpy(&e->now.micro_loss[rank * micro_batches], ref_trainer_losses(trainer->trainer),
           micro_batches * sizeof(*e->now.micro_loss));
    if (!harness_emulation_is_active(e, rank, step)) {
        e->now.rows[rank] = 0;
    }
    DDP_TRY(keep_gradients(e, trainer, rank));
    return harness_trainer_read_buffers(e, trainer,
                                        (char *)e->now.buffer + rank * e->buffers.size_bytes);
}

static ddp_status fill_rank(struct harness_emulation *e, uint32_t rank)
{
    bool is_scaled = harness_emulation_is_scaled_before(e);
    float factor =
        is_scaled && !e->now.is_local && !e->now.is_lossy ? 1.0f / (float)e->now.divisor : 1.0f;

    for (size_t b = 0; b < e->buckets.count; b++) {
        const struct harness_bucket *bucket = &e->assigned[b];
        struct harness_tensor target = harness_layout_at(&e->buckets, e->now.bucket_in, rank, b);

        for (uint32_t i = 0; i < bucket->param_count; i++) {
            struct harness_tensor source =
                harness_layout_at(&e->grads, e->now.grad, rank, bucket->params[i]);
            char *slice =
                (char *)target.data + bucket->offsets[i] * ddp_dtype_size_bytes(target.dtype);

            if (source.dtype != target.dtype) {
                /* A hook rounds to its type, then divides in it. */
                DDP_TRY(harness_arith_scale(slice, target.dtype, source.data, source.dtype,
                                            source.elem_count, 1.0f));
                DDP_TRY(harness_arith_scale(slice, target.dtype, slice, target.dtype,
                                            source.elem_count, factor));
            } else if (is_scaled) {
                DDP_TRY(harness_arith_scale(slice, target.dtype, source.data, source.dtype,
                                            source.elem_count, factor));
            } else {
                memcpy(slice, source.data, source.size_bytes);
            }
        }
    }
    return DDP_OK;
}

ddp_status harness_emulation_fill_buckets(struct harness_emulation *e)
{
    for (uint32_t r = 0; r < e->world; r++) {
        DDP_TRY(fill_rank(e, r));
    }
    return DDP_OK;
}

struct rank_step {
    struct harness_emulation *e;
    uint32_t step;
    struct ddp_err *err;
};

/* The code of one rank. What waits for other ranks waits with `task`. */
static ddp_status run_rank(void *context, uint32_t rank, struct harness_task *task)
{
    const struct rank_step *run = context;
    struct harness_trainer *trainer = NULL;
    ddp_status status;

    DDP_TRY(harness_trainer_take(run->e, &trainer, run->err));
    status = run_passes(run->e, trainer, rank, run->step, task);
    harness_trainer_give(run->e, trainer);
    return status == DDP_OK
               ? DDP_OK
               : ddp_err_set(run->err, status, "rank %u: %s", rank, ddp_status_text(status));
}

ddp_status harness_emulation_run_ranks(struct harness_emulation *e, uint32_t step,
                                       struct ddp_err *err)
{
    struct rank_step run = {e, step, err};
    const struct harness_task_group group = {
        .task_count = e->world, .context = &run, .run = run_rank};

    e->are_statistics_known = true;
    e->now.is_handed = false;
    DDP_TRY(harness_task_group_run(&group, e->stacks, err));
    harness_compare_close(e, HARNESS_STAGE_STATISTIC, step);
    return DDP_OK;
}
