/* Purpose: emulate every step that any rank began and keep hashes of all that ranks record.
 * Idea: hashes of all steps are small; values are only ever those of the present step. */
#include <string.h>

#include "ddpcore/base/hash.h"
#include "harness/emulation/emulation.h"
#include "harness/emulation/state.h"

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

static ddp_status allocate_hashes(struct harness_emulation *e)
{
    size_t steps = e->end_step - e->start_step;
    size_t per_rank = steps * e->world;

    e->predicted = ddp_mem_array(e->mem, steps, 1);
    e->grad_hash = ddp_mem_array(e->mem, per_rank * e->param_count, sizeof(uint64_t));
    e->has_grad = ddp_mem_array(e->mem, per_rank * e->param_count, 1);
    e->loss_bits = ddp_mem_array(e->mem, per_rank, sizeof(uint32_t));
    e->is_active = ddp_mem_array(e->mem, per_rank, 1);
    e->in_hash = ddp_mem_array(e->mem, per_rank * e->bucket_count, sizeof(uint64_t));
    e->out_hash = ddp_mem_array(e->mem, per_rank * e->bucket_count, sizeof(uint64_t));
    e->is_updated = ddp_mem_array(e->mem, steps * e->param_count, 1);
    e->average_hash = ddp_mem_array(e->mem, steps * e->param_count, sizeof(uint64_t));
    e->param_hash = ddp_mem_array(e->mem, steps * e->param_count, sizeof(uint64_t));
    e->slot_hash = ddp_mem_array(e->mem, steps * e->slot_count * e->param_count, sizeof(uint64_t));
    if (e->predicted == NULL || e->grad_hash == NULL || e->has_grad == NULL ||
        e->loss_bits == NULL || e->is_active == NULL || e->in_hash == NULL || e->out_hash == NULL ||
        e->is_updated == NULL || e->average_hash == NULL || e->param_hash == NULL ||
        e->slot_hash == NULL) {
        return DDP_E_NOMEM;
    }
    return DDP_OK;
}

static uint64_t hash_param(const struct harness_emulation *e, const float *block, size_t p)
{
    return ddp_hash_tensor(block + e->param_first[p],
                           e->input->params[p].elem_count * sizeof(float), e->param_salt[p], NULL);
}

static void keep_gradients(struct harness_emulation *e, size_t k)
{
    for (uint32_t r = 0; r < e->world; r++) {
        size_t row = k * e->world + r;

        e->is_active[row] = e->rows[r] > 0;
        memcpy(&e->loss_bits[row], &e->loss[r], sizeof(uint32_t));
        for (size_t p = 0; p < e->param_count; p++) {
            if (e->is_grad_defined[r * e->param_count + p]) {
                e->has_grad[row * e->param_count + p] = 1;
                e->grad_hash[row * e->param_count + p] =
                    hash_param(e, e->grad + r * e->elem_total, p);
            }
        }
    }
}

static uint64_t hash_bucket(const struct harness_emulation *e, const float *block, uint32_t rank,
                            size_t b)
{
    return ddp_hash_tensor(block + rank * e->bucket_total + e->bucket_first[b],
                           e->input->program->buckets[b].elem_count * sizeof(float),
                           e->bucket_salt[b], NULL);
}

static void keep_buckets(struct harness_emulation *e, size_t k, bool is_output_known)
{
    for (uint32_t r = 0; r < e->world; r++) {
        size_t row = (k * e->world + r) * e->bucket_count;

        for (size_t b = 0; b < e->bucket_count; b++) {
            e->in_hash[row + b] = hash_bucket(e, e->bucket_in, r, b);
            if (!is_output_known) {
                continue;
            }
            /* Members of a right schedule end with the same bits: hash them once. */
            e->out_hash[row + b] = r > 0 && e->split_step < 0
                                       ? e->out_hash[k * e->world * e->bucket_count + b]
                                       : hash_bucket(e, e->bucket_out, r, b);
        }
    }
}

static void keep_update(struct harness_emulation *e, size_t k)
{
    for (size_t p = 0; p < e->param_count; p++) {
        size_t cell = k * e->param_count + p;

        e->is_updated[cell] = e->is_used[p];
        e->param_hash[cell] = hash_param(e, e->state.param, p);
        e->average_hash[cell] = hash_param(e, e->average, p);
        for (uint32_t s = 0; s < e->slot_count; s++) {
            e->slot_hash[(k * e->slot_count + s) * e->param_count + p] =
                hash_param(e, e->state.slot[s], p);
        }
    }
}

static void keep_step(struct harness_emulation *e, uint32_t step, enum harness_predicted predicted)
{
    size_t k = step - e->start_step;

    e->predicted[k] = (uint8_t)predicted;
    if (predicted >= HARNESS_PREDICTED_GRADIENT) {
        keep_gradients(e, k);
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
    if (e->is_snapshot_wanted && !e->is_snapshot_taken &&
        e->snapshot.steps_done == e->state.steps_done) {
        harness_state_copy(e, &e->snapshot, &e->state);
        e->is_snapshot_taken = true;
    }
}

ddp_status harness_emulation_run(struct harness_emulation *e, struct ddp_err *err)
{
    enum harness_predicted predicted = HARNESS_PREDICTED_UPDATE;
    uint32_t end = observed_end(e);

    e->start_step = e->input->restored_step;
    e->end_step = end > e->start_step ? end : e->start_step;
    if (e->end_step > e->start_step + e->input->job->steps && e->input->job->steps > 0) {
        e->end_step = e->start_step + e->input->job->steps; /* a step number off its rails */
    }
    DDP_TRY(allocate_hashes(e));
    DDP_TRY(harness_emulation_compare_batches(e, &e->batch));
    keep_snapshot(e);
    for (uint32_t step = e->state.steps_done; step < e->end_step; step++) {
        ddp_status status = harness_emulation_step(e, step, &predicted);

        if (status != DDP_OK) {
            return ddp_err_set(err, status, "the reference could not compute step %u", step);
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
