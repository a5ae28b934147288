/* Purpose: emulate and judge every step that any rank began.
 * Idea: values are only ever those of the present step; of earlier ones a few hashes are kept. */
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
    expected->has_grad = harness_emulation_alloc(e, per_rank * e->params.count, 1);
    expected->is_active = harness_emulation_alloc(e, per_rank, 1);
    expected->param_hash = harness_emulation_alloc(e, per_param, sizeof(uint64_t));
    e->took = harness_emulation_alloc(e, per_rank, 1);
    expected->found = harness_emulation_alloc(e, steps * (e->world + 1), 1);
    expected->buffer_hash = harness_emulation_alloc(e, steps * e->buffers.count, sizeof(uint64_t));
    expected->buffer_owner = harness_emulation_alloc(e, steps, sizeof(uint32_t));
    expected->passed_hash =
        harness_emulation_alloc(e, per_rank * e->buffers.count, sizeof(uint64_t));
    expected->evaluated = harness_emulation_alloc(e, per_rank, sizeof(double));
    expected->is_evaluated = harness_emulation_alloc(e, per_rank, 1);
    expected->joined_hash = harness_emulation_alloc(e, e->buffers.count, sizeof(uint64_t));
    return e->is_out_of_memory ? DDP_E_NOMEM : DDP_OK;
}

static void keep_gradients(struct harness_emulation *e, size_t k)
{
    for (uint32_t r = 0; r < e->world; r++) {
        e->expected.is_active[k * e->world + r] = e->now.rows[r] > 0;
    }
    for (size_t i = 0; i < e->world * e->params.count; i++) {
        e->expected.has_grad[k * e->world * e->params.count + i] = e->now.has_grad[i];
    }
}

static void keep_buffers(struct harness_emulation *e, size_t k)
{
    for (uint32_t r = 0; r < e->world; r++) {
        const bool is_known =
            e->now.rows[r] > 0 && e->now.is_buffer_known[r] && e->are_statistics_known;

        for (size_t b = 0; is_known && b < e->buffers.count; b++) {
            e->expected.passed_hash[(k * e->world + r) * e->buffers.count + b] =
                harness_layout_hash(&e->buffers, e->now.buffer, r, b);
        }
    }
}

/* Micro-batches that the rank with the most of them takes. */
static uint64_t count_passes(const struct harness_emulation *e)
{
    uint64_t most = 0;

    for (uint32_t r = 0; r < e->world; r++) {
        most = e->taken[r] > most ? e->taken[r] : most;
    }
    return most;
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
        keep_buffers(e, k);
        keep_joined(e, step);
    }
    if (predicted >= HARNESS_PREDICTED_UPDATE) {
        memcpy(&e->expected.param_hash[k * e->params.count], e->camps[0]->hash,
               e->params.count * sizeof(uint64_t));
    }
}

static void keep_snapshot(struct harness_emulation *e)
{
    struct harness_snapshot *snapshot = &e->snapshot;

    if (snapshot->is_wanted && !snapshot->is_taken && snapshot->steps_done == e->steps_done) {
        harness_state_copy(e, &snapshot->state, &harness_emulation_camp(e, 0)->state);
        memcpy(snapshot->buffer, e->buffer, e->buffers.size_bytes);
        snapshot->passes = e->steps_done;
        harness_powersgd_snapshot(e);
        snapshot->is_taken = true;
    }
}

static void *copy_block(struct harness_emulation *e, const void *from, size_t size_bytes)
{
    void *block = ddp_mem_array(e->input->mem, size_bytes + 1, 1);

    if (block == NULL) {
        e->is_out_of_memory = true;
    } else if (size_bytes > 0) {
        memcpy(block, from, size_bytes);
    }
    return block;
}

/* What the emulated group leaves to those that go on without the lost ranks. */
static void keep_handover(struct harness_emulation *e)
{
    struct harness_handover *leave = e->input->leave;
    const struct harness_state *state;

    if (leave == NULL || leave->is_taken || leave->steps_done != e->steps_done) {
        return;
    }
    state = &harness_emulation_camp(e, leave->rank)->state;
    leave->param = copy_block(e, state->param, e->params.size_bytes);
    for (uint32_t s = 0; s < e->slot_count; s++) {
        leave->slot[s] = copy_block(e, state->slot[s], e->params.size_bytes);
    }
    leave->taken = copy_block(e, state->taken, e->params.count * sizeof(*state->taken));
    leave->buffer = copy_block(e, (const char *)e->buffer + leave->rank * e->buffers.size_bytes,
                               e->buffers.size_bytes);
    leave->is_clean = harness_emulation_is_clean(e);
    leave->is_taken = !e->is_out_of_memory;
}

static bool is_hashed(const struct harness_emulation *e)
{
    size_t count = 0;

    for (uint32_t r = 0; r < e->world && count == 0; r++) {
        (void)harness_index_list(&e->index, r, DDP_EVENT_PARAM_UPDATED, &count);
    }
    return count > 0;
}

ddp_status harness_emulation_run(struct harness_emulation *e, struct ddp_err *err)
{
    enum harness_predicted predicted = HARNESS_PREDICTED_UPDATE;
    uint32_t end = observed_end(e);

    e->end_step = end > e->start_step ? end : e->start_step;
    if (e->end_step > e->start_step + e->input->job->steps && e->input->job->steps > 0) {
        e->end_step = e->start_step + e->input->job->steps; /* a recorded step number is too high */
    }
    DDP_TRY(allocate_expected(e));
    DDP_TRY(harness_emulation_compare_batches(e));
    keep_snapshot(e);
    keep_handover(e);
    e->is_hashed = is_hashed(e);
    for (uint32_t step = e->steps_done; step < e->end_step; step++) {
        ddp_status status;

        if (step == e->start_step && (step > 0 || e->input->start != NULL)) {
            harness_emulation_share_buffers(e); /* what it starts from was rank 0's */
        }

        e->is_judging = step >= e->start_step;
        if (step == e->start_step) {
            harness_rebase_begin(e);
        }
        status = harness_emulation_step(e, step, &predicted, err);
        if (status != DDP_OK) {
            return ddp_err_wrap(err, status, "the reference could not compute step %u", step);
        }
        if (step >= e->start_step) {
            keep_step(e, step, predicted);
        }
        if (predicted != HARNESS_PREDICTED_UPDATE || e->is_lost) {
            break; /* nothing is known of what follows */
        }
        keep_snapshot(e);
        keep_handover(e);
    }
    return e->is_out_of_memory ? DDP_E_NOMEM : DDP_OK;
}
