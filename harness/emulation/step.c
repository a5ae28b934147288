/* Purpose: one step as it should be: the ranks' passes, the sums in the order that is known of
 * them, averages, optimizer (own scalar arithmetic).
 * Idea: each rank's passes are a task; what follows the sums is the same on all ranks whose models
 * are the same, and is worked out once for them. After each stage comes the comparison with what
 * was recorded. */
#include <string.h>

#include "harness/emulation/batch_norm.h"
#include "harness/emulation/lossy.h"
#include "harness/sums/arith.h"

static uint32_t count_active(const struct harness_emulation *e, uint32_t step)
{
    uint32_t active = 0;

    for (uint32_t r = 0; r < e->world; r++) {
        active += harness_emulation_is_active(e, r, step);
    }
    return active;
}

/* Whether a run notes its graph in this step (job.static_graph): its first one. */
static bool is_noting(const struct harness_emulation *e, uint32_t step)
{
    return step == e->start_step || step == 0;
}

/* The used map: each active rank counts where it has a gradient. In strict semantics an ended rank
 * sends zeros. In PyTorch it sends its map as the last reduction left it, so that a parameter that
 * no rank uses any more still looks used, and the optimizer updates it with a gradient of zero. A
 * run, and a restored one, begins with a map of zeros. */
static void find_used(struct harness_emulation *e, uint32_t step)
{
    bool is_stale =
        e->input->plan->job.semantics == HARNESS_SEMANTICS_PYTORCH && step != e->start_step;

    if (e->input->plan->job.static_graph && !is_noting(e, step)) {
        return; /* it is that of the first step */
    }

    for (size_t p = 0; p < e->params.count; p++) {
        uint32_t count = 0;

        for (uint32_t r = 0; r < e->world; r++) {
            if (e->now.rows[r] > 0) {
                count += e->now.has_grad[r * e->params.count + p];
            } else if (is_stale) {
                count += e->now.used_map[p];
            }
        }
        e->now.used_map[p] = count;
        e->now.is_used[p] = count != 0;
    }
}

/* Whether DDP can go through this step at all. */
static bool is_reducible(const struct harness_emulation *e, uint32_t step, uint32_t active)
{
    const struct harness_job *job = &e->input->plan->job;

    if (active == 0 || (active < e->world && !job->join.is_set)) {
        return false;
    }
    if (job->static_graph) {
        return is_noting(e, step) ||
               memcmp(e->graph, e->now.has_grad, e->world * e->params.count) == 0;
    }
    for (uint32_t r = 0; r < e->world && !job->find_unused_parameters; r++) {
        for (size_t p = 0; p < e->params.count; p++) {
            if (e->now.rows[r] > 0 && !e->now.has_grad[r * e->params.count + p]) {
                return false;
            }
        }
    }
    return true;
}

/* E_NOT_FOUND: the order of a bucket's sum is not known. */
static ddp_status reduce_buckets(struct harness_emulation *e, uint32_t step)
{
    void **input = ddp_mem_array(e->mem, 2 * (size_t)e->world, sizeof(*input));
    void **output = input == NULL ? NULL : input + e->world;
    ddp_status status = input == NULL ? DDP_E_NOMEM : DDP_OK;

    if (e->now.is_local) {
        memcpy(e->now.bucket_out, e->now.bucket_in, e->world * e->buckets.size_bytes);
        ddp_mem_free(e->mem, input);
        return status;
    }
    for (size_t b = 0; status == DDP_OK && b < e->buckets.count; b++) {
        const struct harness_layout_item *bucket = &e->buckets.items[b];

        for (uint32_t r = 0; r < e->world; r++) {
            input[r] = harness_layout_at(&e->buckets, e->now.bucket_in, r, b).data;
            output[r] = harness_layout_at(&e->buckets, e->now.bucket_out, r, b).data;
        }
        status = harness_emulation_sum(e, bucket->dtype, bucket->elem_count, input, output,
                                       e->unknown_sum.why, sizeof(e->unknown_sum.why));
        if (status == DDP_E_NOT_FOUND && e->world == 1) {
            memcpy(output[0], input[0], bucket->size_bytes); /* a sum of one */
            status = DDP_OK;
        }
        if (status == DDP_E_NOT_FOUND) {
            e->unknown_sum.is_set = true;
            e->unknown_sum.step = step;
            e->unknown_sum.bucket = (uint32_t)b;
        }
    }
    ddp_mem_free(e->mem, input);
    return status;
}

/* What came out of one of the rank's rounds in this step was found wrong. */
static bool is_output_found(const struct harness_emulation *e, uint32_t step, uint32_t rank)
{
    for (size_t i = 0; i < e->compare.count; i++) {
        const struct harness_difference *item = &e->compare.items[i];

        if (item->stage == HARNESS_STAGE_OUTPUT && item->step == step &&
            harness_rank_set_has(&item->ranks, rank)) {
            return true;
        }
    }
    return false;
}

/* What all should have: each rank's rounds went on from what it recorded. */
static const char *right_outputs(const struct harness_emulation *e, uint32_t step)
{
    uint32_t right = 0;

    while (right + 1 < e->world && is_output_found(e, step, right)) {
        right++;
    }
    right = is_output_found(e, step, right) ? 0 : right;
    return (const char *)e->now.bucket_out + right * e->buckets.size_bytes;
}

/* What hooks that send less than the gradients leave in the buckets, and which of it is known.
 * E_NOT_FOUND: as above. */
static ddp_status reduce_lossy(struct harness_emulation *e, uint32_t step)
{
    const bool is_thin = e->input->plan->job.hook == HARNESS_HOOK_POWERSGD;

    for (size_t b = 0; b < e->buckets.count; b++) {
        DDP_TRY(is_thin ? harness_powersgd_bucket(e, step, b)
                        : harness_quantize_bucket(e, step, b));
    }
    memcpy(e->now.expected_out, right_outputs(e, step), e->buckets.size_bytes);
    return DDP_OK;
}

/* From known sums to the models after the step. */
static ddp_status finish(struct harness_emulation *e, uint32_t step)
{
    DDP_TRY(harness_emulation_take_average(e, harness_emulation_camp(e, 0)));
    if (!e->now.is_local && !e->now.is_lossy) {
        DDP_TRY(harness_emulation_bound(e, step)); /* of the sums as they should be */
    }
    DDP_TRY(harness_rebase_outputs(e, step));
    DDP_TRY(harness_emulation_take_averages(e));
    DDP_TRY(harness_rebase_averages(e, step));
    DDP_TRY(harness_emulation_update(e, step));
    DDP_TRY(harness_local_average(e, step));
    DDP_TRY(harness_rebase_states(e, step));
    DDP_TRY(harness_powersgd_gather(e, step));
    if (e->is_judging) { /* by the hashes of what was recorded */
        harness_camps_rejoin(e);
    }
    memcpy(e->buffer, e->now.buffer, e->world * e->buffers.size_bytes);
    e->steps_done = step + 1;
    return e->is_out_of_memory ? DDP_E_NOMEM : DDP_OK;
}

ddp_status harness_emulation_step(struct harness_emulation *e, uint32_t step,
                                  enum harness_predicted *out_predicted, struct ddp_err *err)
{
    const struct harness_job *job = &e->input->plan->job;
    uint32_t active = count_active(e, step);
    ddp_status status;

    *out_predicted = HARNESS_PREDICTED_NOTHING;
    if (harness_emulation_last_active(e, (uint64_t)step * e->input->job->micro_batches) < 0) {
        return DDP_OK; /* all data was used up: there is no such step */
    }
    harness_emulation_use_bucketing(e, (int32_t)step);
    e->now.is_local = harness_emulation_is_local(e, step);
    e->now.is_lossy = harness_hook_is_lossy(job, step);
    e->now.divisor = job->join.is_set && !job->join.divide_by_initial_world_size && active > 0
                         ? active
                         : e->world;
    if (e->is_judging) {
        harness_recorded_read(e, step);
    }
    if (!harness_batch_norm_is_met(e, step)) {
        return DDP_OK; /* some rank waits for statistics that do not come */
    }
    status = harness_emulation_run_ranks(e, step, err);
    /* No schedule of a BatchNorm's sums was left, or a rank recorded fewer passes than the others
     * go through: the ranks did not come so far. */
    if ((status == DDP_E_NOT_FOUND || status == DDP_E_MISMATCH) && job->sync_batchnorm) {
        return DDP_OK;
    }
    DDP_TRY(status);
    DDP_TRY(harness_rebase_gradients(e, step));
    find_used(e, step);
    if (is_noting(e, step)) {
        memcpy(e->graph, e->now.has_grad, e->world * e->params.count);
    }
    DDP_TRY(harness_emulation_fill_buckets(e));
    *out_predicted = HARNESS_PREDICTED_GRADIENT;
    if (!is_reducible(e, step, active)) {
        return DDP_OK;
    }
    *out_predicted = HARNESS_PREDICTED_INPUT;
    if (e->now.is_lossy) {
        status = reduce_lossy(e, step);
    } else {
        DDP_TRY(harness_rebase_inputs(e, step));
        status = reduce_buckets(e, step);
    }
    if (status == DDP_E_NOT_FOUND) {
        return DDP_OK;
    }
    DDP_TRY(status);
    status = finish(e, step);
    if (status == DDP_E_NOT_FOUND && e->now.is_local) {
        return DDP_OK; /* no schedule of an average was left: the ranks did not come so far */
    }
    DDP_TRY(status);
    DDP_TRY(harness_emulation_evaluate(e, step, err));
    *out_predicted = HARNESS_PREDICTED_UPDATE;
    return DDP_OK;
}
