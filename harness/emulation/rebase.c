/* Purpose: gradients and buckets of the present step, compared with what was recorded.
 * Idea: what differs is noted and replaced by the recorded tensor, so that the next stage is judged
 * from there. A tensor that is not at hand is wanted, and what depends on it is unknown: it is
 * compared with nothing, but may become known again by its own recorded hash. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/emulation/internal.h"

const void *harness_rebase_find(struct harness_emulation *e, const struct harness_layout *layout,
                                size_t index, uint64_t hash)
{
    const struct harness_layout_item *item = &layout->items[index];
    const void *found = harness_kept_find(e->input->kept, hash, item->size_bytes, item->salt);

    DDP_ASSERT(hash != 0);
    if (found == NULL) {
        harness_hashes_add(&e->wanted, hash);
        e->unknown_from = e->unknown_from < 0 ? (int64_t)e->steps_done : e->unknown_from;
    }
    return found;
}

static const struct harness_deviation nowhere = {.bucket = -1, .param = -1, .slot = -1};

/* --- gradients -------------------------------------------------------------------------------- */

static ddp_status rebase_gradient(struct harness_emulation *e, uint32_t rank, size_t p,
                                  bool is_excused)
{
    size_t cell = rank * e->params.count + p;
    struct harness_tensor tensor = harness_layout_at(&e->grads, e->now.grad, rank, p);
    struct harness_deviation deviation = nowhere;
    const void *found;

    deviation.got = e->recorded.grad[cell];
    deviation.expected =
        e->now.has_grad[cell] ? harness_layout_hash(&e->grads, e->now.grad, rank, p) : 0;
    if (deviation.got == 0 || deviation.got == deviation.expected) {
        return DDP_OK;
    }
    deviation.rank = rank;
    deviation.param = (int32_t)p;
    deviation.bucket = (int32_t)e->bucket_of[p];
    found = harness_rebase_find(e, &e->grads, p, deviation.got);
    e->is_grad_known[cell] = found != NULL;
    if (found != NULL) {
        DDP_TRY(harness_describe_param(e, p, &tensor, found, &deviation.what));
        memcpy(tensor.data, found, tensor.size_bytes);
        e->now.has_grad[cell] = true;
    }
    if (!is_excused && !deviation.what.is_same) {
        harness_compare_note(e, &deviation);
    }
    return DDP_OK;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint64_t word)
{
    uint32_t bits = (uint32_t)word;
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* How many batches the rank has for a step: under join its data may end in the middle of one. */
static size_t pass_count(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    const size_t micro_batches = e->input->job->micro_batches;
    size_t count = 0;

    while (count < micro_batches &&
           harness_emulation_has_batch(e, rank, (uint64_t)step * micro_batches + count)) {
        count++;
    }
    return count;
}

/* Each micro-batch's loss is an event. Of a step that was cut short they are not known. */
static void compare_loss(struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    const size_t micro_batches = e->input->job->micro_batches;
    struct harness_deviation deviation = nowhere;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_LOSS, step, &count);
    float expected = 0.0f;
    float got = 0.0f;
    bool is_alike = true;

    for (size_t i = 0; count == pass_count(e, rank, step) && i < count && is_alike; i++) {
        expected = e->now.micro_loss[rank * micro_batches + i];
        got = float_of(list[i]->entry.arg[0]);
        is_alike = bits_of(got) == bits_of(expected) || (isnan(got) && isnan(expected));
    }
    if (is_alike) {
        return;
    }
    deviation.rank = rank;
    deviation.is_loss = true;
    deviation.expected = bits_of(expected);
    deviation.got = bits_of(got);
    deviation.what.verdict = isfinite(expected) && !isfinite(got) ? HARNESS_VERDICT_VALUE_NONFINITE
                                                                  : HARNESS_VERDICT_VALUE_CORRUPTED;
    deviation.what.residual.bit = -1;
    harness_compare_note(e, &deviation);
}

ddp_status harness_rebase_gradients(struct harness_emulation *e, uint32_t step)
{
    memset(e->is_grad_known, true, e->world * e->params.count);
    for (uint32_t r = 0; e->is_judging && r < e->world; r++) {
        bool is_excused =
            !e->are_statistics_known || harness_emulation_took(e, r, step) == HARNESS_TOOK_UNKNOWN;

        if (e->now.rows[r] == 0) {
            /* No gradient comes of a step in which its data ended, but losses of its passes do. */
            if (e->input->plan->job.join.is_set && !is_excused &&
                harness_emulation_took(e, r, step) == HARNESS_TOOK_OWN) {
                compare_loss(e, r, step);
            }
            continue;
        }
        for (size_t p = 0; p < e->params.count; p++) {
            DDP_TRY(rebase_gradient(e, r, p, is_excused));
        }
        if (!is_excused) {
            compare_loss(e, r, step);
        }
    }
    harness_compare_close(e, HARNESS_STAGE_GRADIENT, step);
    return DDP_OK;
}

/* --- what goes into a sum --------------------------------------------------------------------- */

static bool is_input_known(const struct harness_emulation *e, uint32_t rank, size_t b)
{
    const struct harness_bucket *bucket = &e->assigned[b];

    for (uint32_t i = 0; i < bucket->param_count; i++) {
        if (!e->is_grad_known[rank * e->params.count + bucket->params[i]]) {
            return false;
        }
    }
    return true;
}

static struct harness_deviation at_bucket(const struct harness_emulation *e, uint32_t rank,
                                          size_t b)
{
    struct harness_deviation deviation = nowhere;

    deviation.rank = rank;
    deviation.bucket = (int32_t)b;
    deviation.seq = e->recorded.seq[rank * e->buckets.count + b];
    return deviation;
}

static ddp_status rebase_input(struct harness_emulation *e, uint32_t rank, size_t b)
{
    size_t cell = rank * e->buckets.count + b;
    struct harness_tensor tensor = harness_layout_at(&e->buckets, e->now.bucket_in, rank, b);
    struct harness_deviation deviation = at_bucket(e, rank, b);
    bool is_known = is_input_known(e, rank, b);
    const void *found;

    e->is_in_known[cell] = is_known;
    deviation.got = e->now.is_local ? 0 : e->recorded.in[cell];
    if (deviation.got == 0) {
        return DDP_OK;
    }
    deviation.expected = harness_layout_hash(&e->buckets, e->now.bucket_in, rank, b);
    if (is_known && deviation.got == deviation.expected) {
        return DDP_OK;
    }
    found = harness_rebase_find(e, &e->buckets, b, deviation.got);
    e->is_in_known[cell] = found != NULL;
    if (found != NULL && is_known) {
        DDP_TRY(harness_describe_input(e, rank, b, found, &deviation.what));
    }
    if (found != NULL) {
        memcpy(tensor.data, found, tensor.size_bytes);
    }
    if (is_known && !deviation.what.is_same) {
        harness_compare_note(e, &deviation);
    }
    return DDP_OK;
}

ddp_status harness_rebase_inputs(struct harness_emulation *e, uint32_t step)
{
    memset(e->is_in_known, true, e->world * e->buckets.count);
    for (uint32_t r = 0; e->is_judging && r < e->world; r++) {
        for (size_t b = 0; b < e->buckets.count; b++) {
            DDP_TRY(rebase_input(e, r, b));
        }
    }
    harness_compare_close(e, HARNESS_STAGE_INPUT, step);
    return DDP_OK;
}

/* --- what comes out --------------------------------------------------------------------------- */

static bool is_sum_known(const struct harness_emulation *e, size_t b)
{
    for (uint32_t r = 0; r < e->world; r++) {
        if (!e->is_in_known[r * e->buckets.count + b]) {
            return false;
        }
    }
    return true;
}

static ddp_status replace_output(struct harness_emulation *e, uint32_t rank, size_t b,
                                 uint64_t hash, const void *found)
{
    struct harness_tensor tensor = harness_layout_at(&e->buckets, e->now.bucket_out, rank, b);
    size_t cell = rank * e->buckets.count + b;

    /* A second collective worked on the bucket, which is no error of the first; the program oracle
     * knows it. */
    if (e->recorded.left[cell] != hash) {
        found = harness_rebase_find(e, &e->buckets, b, e->recorded.left[cell]);
    }
    e->is_out_known[cell] = found != NULL;
    if (found != NULL) {
        memcpy(tensor.data, found, tensor.size_bytes);
    }
    return DDP_OK;
}

static ddp_status rebase_output(struct harness_emulation *e, uint32_t rank, size_t b, bool is_known,
                                uint64_t expected)
{
    size_t cell = rank * e->buckets.count + b;
    struct harness_deviation deviation = at_bucket(e, rank, b);
    const void *found = NULL;

    e->is_out_known[cell] = is_known;
    deviation.got = e->recorded.out[cell];
    deviation.expected = expected;
    if (deviation.got == 0 ||
        (is_known && deviation.got == expected && e->recorded.left[cell] == expected)) {
        return DDP_OK;
    }
    if (!is_known || deviation.got != expected) {
        found = harness_rebase_find(e, &e->buckets, b, deviation.got);
    }
    if (is_known && deviation.got != expected) {
        if (found != NULL) {
            DDP_TRY(harness_describe_output(e, rank, b, found, &deviation.what));
        }
        if (!deviation.what.is_same) {
            harness_compare_note(e, &deviation);
        }
    }
    return replace_output(e, rank, b, deviation.got, found);
}

/* The hash of a rank's expected output; that of the rank before where it is the same. */
static uint64_t hash_output(const struct harness_emulation *e, uint32_t rank, size_t b,
                            uint64_t previous)
{
    struct harness_tensor own = harness_layout_at(&e->buckets, e->now.bucket_out, rank, b);
    struct harness_tensor first = harness_layout_at(&e->buckets, e->now.expected_out, 0, b);

    return rank > 0 && memcmp(own.data, first.data, own.size_bytes) == 0
               ? previous
               : harness_layout_hash(&e->buckets, e->now.bucket_out, rank, b);
}

ddp_status harness_rebase_outputs(struct harness_emulation *e, uint32_t step)
{
    if (e->now.is_lossy) {
        return DDP_OK; /* that was done round by round */
    }
    memset(e->is_out_known, true, e->world * e->buckets.count);
    if (e->is_judging) {
        memcpy(e->now.expected_out, e->now.bucket_out, e->buckets.size_bytes);
    }
    if (e->now.is_local) { /* what a rank posts all the same is a finding of the program oracle */
        memcpy(e->is_out_known, e->is_in_known, e->world * e->buckets.count);
        return DDP_OK;
    }
    for (size_t b = 0; e->is_judging && b < e->buckets.count; b++) {
        bool is_known = is_sum_known(e, b);
        uint64_t first = harness_layout_hash(&e->buckets, e->now.expected_out, 0, b);

        for (uint32_t r = 0; r < e->world; r++) {
            DDP_TRY(rebase_output(e, r, b, is_known, hash_output(e, r, b, first)));
        }
    }
    harness_compare_close(e, HARNESS_STAGE_OUTPUT, step);
    return DDP_OK;
}
