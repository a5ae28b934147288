/* Purpose: emulate every step that any rank began and keep hashes of all that ranks record.
 * Idea: hashes of all steps are small; values are only ever those of the present step. */
#include <string.h>

#include "harness/emulation/internal.h"

/* One past the last step in which a rank recorded something that is judged. */
static uint32_t observed_end(const struct harness_emulation *e)
{
    static const enum ddp_event kinds[] = {DDP_EVENT_GRAD_READY, DDP_EVENT_PARAM_UPDATED,
                                           DDP_EVENT_GRAD_FINAL, DDP_EVENT_LOSS};
    uint32_t end = 0;
    size_t count = 0;

    for (uint32_t r = 0; r < e->world; r++) {
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            const struct harness_trace_event *const *list =
                harness_index_list(&e->index, r, kinds[k], &count);

            if (count > 0 && list[count - 1]->entry.step + 1 > end) {
                end = list[count - 1]->entry.step + 1;
            }
        }
    }
    return end;
}

static ddp_status allocate_expected(struct harness_emulation *e)
{
    struct harness_expected *expected = &e->expected;
    size_t steps = e->end_step - e->start_step;
    size_t per_rank = steps * e->world;
    size_t per_param = steps * e->params.count;

    expected->predicted = harness_emulation_alloc(e, steps, 1);
    expected->grad_hash = harness_emulation_alloc(e, per_rank * e->params.count, sizeof(uint64_t));
    expected->has_grad = harness_emulation_alloc(e, per_rank * e->params.count, 1);
    expected->loss_bits = harness_emulation_alloc(e, per_rank, sizeof(uint32_t));
    expected->is_active = harness_emulation_alloc(e, per_rank, 1);
    expected->in_hash = harness_emulation_alloc(e, per_rank * e->buckets.count, sizeof(uint64_t));
    expected->out_hash = harness_emulation_alloc(e, per_rank * e->buckets.count, sizeof(uint64_t));
    expected->is_updated = harness_emulation_alloc(e, per_param, 1);
    expected->average_hash = harness_emulation_alloc(e, per_param, sizeof(uint64_t));
    expected->param_hash = harness_emulation_alloc(e, per_param, sizeof(uint64_t));
    expected->slot_hash = harness_emulation_alloc(e, e->slot_count * per_param, sizeof(uint64_t));
    expected->joined_hash = harness_emulation_alloc(e, e->buffers.count, sizeof(uint64_t));
    return e->is_out_of_memory ? DDP_E_NOMEM : DDP_OK;
}

static void keep_gradients(struct harness_emulation *e, size_t k)
{
    for (uint32_t r = 0; r < e->world; r++) {
        size_t row = k * e->world + r;

        e->expected.is_active[row] = e->now.rows[r] > 0;
        memcpy(&e->expected.loss_bits[row], &e->now.loss[r], sizeof(uint32_t));
        for (size_t p = 0; p < e->params.count; p++) {
            if (e->now.has_grad[r * e->params.count + p]) {
                e->expected.has_grad[row * e->params.count + p] = 1;
                e->expected.grad_hash[row * e->params.count + p] =
                    harness_layout_hash(&e->params, e->now.grad, r, p);
            }
        }
    }
}

static void keep_buckets(struct harness_emulation *e, size_t k, bool is_output_known)
{
    for (uint32_t r = 0; r < e->world; r++) {
        size_t row = (k * e->world + r) * e->buckets.count;

        for (size_t b = 0; b < e->buckets.count; b++) {
            e->expected.in_hash[row + b] = harness_layout_hash(&e->buckets, e->now.bucket_in, r, b);
            if (!is_output_known) {
                continue;
            }
            /* Members of a right schedule end with the same bits: hash them once. */
            e->expected.out_hash[row + b] =
                r > 0 && e->split_step < 0
                    ? e->expected.out_hash[k * e->world * e->buckets.count + b]
                    : harness_layout_hash(&e->buckets, e->now.bucket_out, r, b);
        }
    }
}

static void keep_update(struct harness_emulation *e, size_t k)
{
    for (size_t p = 0; p < e->params.count; p++) {
        size_t cell = k * e->params.count + p;

        e->expected.is_updated[cell] = e->now.is_used[p];
        e->expected.average_hash[cell] = harness_layout_hash(&e->params, e->now.average, 0, p);
        e->expected.param_hash[cell] = harness_layout_hash(&e->params, e->state.param, 0, p);
        for (uint32_t s = 0; s < e->slot_count; s++) {
            e->expected.slot_hash[(k * e->slot_count + s) * e->params.count + p] =
                harness_layout_hash(&e->params, e->state.slot[s], 0, p);
        }
    }
}

/* Micro-batches that the rank with the most of them takes. */
static uint64_t count_passes(const struct harness_emulation *e)
{
    uint64_t planned = (uint64_t)e->input->plan->job.steps * e->input->job->micro_batches;
    uint64_t most = 0;

    for (uint32_t r = 0; r < e->world; r++) {
        uint64_t own = harness_emulation_batch_count(e, r);

        most = own > most ? own : most;
    }
    return most < planned ? most : planned;
}

/* After the last pass of all, the rank that took it hands out its buffers. Its data may end inside
 * the step. */
static void keep_joined(struct harness_emulation *e, uint32_t step)
{
    uint64_t passes = count_passes(e);
    uint64_t begin = (uint64_t)step * e->input->job->micro_batches;

    if (passes <= begin || passes > begin + e->input->job->micro_batches) {
        return;
    }
    e->expected.is_joined = true;
    for (size_t b = 0; b < e->buffers.count; b++) {
        e->expected.joined_hash[b] = harness_layout_hash(
            &e->buffers, e->now.buffer, (size_t)harness_emulation_last_active(e, passes - 1), b);
    }
}

static void keep_step(struct harness_emulation *e, uint32_t step, enum harness_predicted predicted)
{
    size_t k = step - e->start_step;

    e->expected.predicted[k] = (uint8_t)predicted;
    if (predicted >= HARNESS_PREDICTED_GRADIENT) {
        keep_gradients(e, k);
        keep_joined(e, step);
    }
    if (predicted >= HARNESS_PREDICTED_INPUT) {
        keep_buckets(e, k, predicted >= HARNESS_PREDICTED_UPDATE);
    }
    if (predicted >= HARNESS_PREDICTED_UPDATE) {
        keep_update(e, k);
    }
}

static void keep_snapshot(struct harness_emulation *e)
{
    struct harness_snapshot *snapshot = &e->snapshot;

    if (snapshot->is_wanted && !snapshot->is_taken &&
        snapshot->state.steps_done == e->state.steps_done) {
        harness_state_copy(e, &snapshot->state, &e->state);
        snapshot->is_taken = true;
    }
}

ddp_status harness_emulation_run(struct harness_emulation *e, struct ddp_err *err)
{
    enum harness_predicted predicted = HARNESS_PREDICTED_UPDATE;
    uint32_t end = observed_end(e);

    e->start_step = e->input->restored_step;
    e->end_step = end > e->start_step ? end : e->start_step;
    if (e->end_step > e->start_step + e->input->job->steps && e->input->job->steps > 0) {
        e->end_step = e->start_step + e->input->job->steps; /* a recorded step number is too high */
    }
    DDP_TRY(allocate_expected(e));
    DDP_TRY(harness_emulation_compare_batches(e, &e->batch));
    keep_snapshot(e);
    for (uint32_t step = e->state.steps_done; step < e->end_step; step++) {
        ddp_status status;

        if (step == e->start_step && step > 0) {
            harness_state_share_buffers(e, &e->state); /* the checkpoint held rank 0's */
        }
        status = harness_emulation_step(e, step, &predicted, err);

        if (status != DDP_OK) {
            return ddp_err_wrap(err, status, "the reference could not compute step %u", step);
        }
        if (step >= e->start_step) {
            keep_step(e, step, predicted);
        }
        if (predicted != HARNESS_PREDICTED_UPDATE) {
            break; /* nothing is known of what follows */
        }
        keep_snapshot(e);
    }
    return DDP_OK;
}
