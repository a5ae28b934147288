/* Purpose: one step as it should be: the ranks' passes, the sums in the order that is known of
 * them, averages, optimizer (own scalar arithmetic).
 * Idea: up to the bucket inputs each rank is a task; what follows is the same on all ranks and is
 * worked out once. */
#include <string.h>

#include "harness/emulation/internal.h"
#include "harness/sums/arith.h"

static uint32_t count_active(const struct harness_emulation *e, uint32_t step)
{
    uint32_t active = 0;

    for (uint32_t r = 0; r < e->world; r++) {
        active += harness_emulation_is_active(e, r, step);
    }
    return active;
}

/* The used map: each active rank counts where it has a gradient. In strict semantics an ended rank
 * sends zeros. In PyTorch it sends its map as the last reduction left it, so that a parameter that
 * no rank uses any more still looks used, and the optimizer updates it with a gradient of zero. A
 * run, and a restored one, begins with a map of zeros. */
static void find_used(struct harness_emulation *e, uint32_t step)
{
    bool is_stale = e->input->plan->job.semantics == HARNESS_SEMANTICS_PYTORCH &&
                    e->input->plan->job.find_unused_parameters && step > 0 && step != e->start_step;

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
static bool is_reducible(const struct harness_emulation *e, uint32_t active)
{
    const struct harness_job *job = &e->input->plan->job;

    if (active == 0 || (active < e->world && !job->join.is_set)) {
        return false;
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

static bool is_equal_everywhere(const struct harness_emulation *e)
{
    const char *first = e->now.bucket_out;

    for (uint32_t r = 1; r < e->world; r++) {
        if (memcmp(first, first + r * e->buckets.size_bytes, e->buckets.size_bytes) != 0) {
            return false;
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
    if (status == DDP_OK && e->split_step < 0 && !is_equal_everywhere(e)) {
        e->split_step = (int32_t)step;
    }
    return status;
}

static ddp_status take_averages(struct harness_emulation *e)
{
    bool is_scaled = harness_emulation_is_scaled_before(e);
    float factor = is_scaled ? 1.0f : 1.0f / (float)e->now.divisor;

    for (size_t b = 0; b < e->buckets.count; b++) {
        const struct harness_bucket *bucket = &e->input->program->buckets[b];
        struct harness_tensor source = harness_layout_at(&e->buckets, e->now.bucket_out, 0, b);

        for (uint32_t i = 0; i < bucket->param_count; i++) {
            struct harness_tensor target =
                harness_layout_at(&e->params, e->now.average, 0, bucket->params[i]);
            const char *slice =
                (const char *)source.data + bucket->offsets[i] * ddp_dtype_size_bytes(source.dtype);

            if (!is_scaled || source.dtype != target.dtype) {
                DDP_TRY(harness_arith_scale(target.data, target.dtype, slice, source.dtype,
                                            target.elem_count, factor));
            } else {
                memcpy(target.data, slice, target.size_bytes);
            }
        }
    }
    return DDP_OK;
}

static ddp_status update_params(struct harness_emulation *e)
{
    for (size_t p = 0; p < e->params.count; p++) {
        struct harness_tensor param = harness_layout_at(&e->params, e->state.param, 0, p);
        void *slots[2] = {NULL, NULL};

        if (!e->now.is_used[p]) {
            continue; /* no gradient anywhere: the optimizer leaves it alone */
        }
        for (uint32_t s = 0; s < e->slot_count; s++) {
            slots[s] = harness_layout_at(&e->params, e->state.slot[s], 0, p).data;
        }
        DDP_TRY(harness_arith_update(
            &e->input->job->optimizer, e->state.taken[p], param.dtype, param.data,
            harness_layout_at(&e->params, e->now.average, 0, p).data, slots, param.elem_count));
        e->state.taken[p]++;
    }
    return DDP_OK;
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
    e->now.divisor = job->join.is_set && !job->join.divide_by_initial_world_size && active > 0
                         ? active
                         : e->world;
    DDP_TRY(harness_emulation_run_ranks(e, step, err));
    find_used(e, step);
    *out_predicted = HARNESS_PREDICTED_GRADIENT;
    if (!is_reducible(e, active)) {
        return DDP_OK;
    }
    *out_predicted = HARNESS_PREDICTED_INPUT;
    status = reduce_buckets(e, step);
    if (status == DDP_E_NOT_FOUND) {
        return DDP_OK;
    }
    DDP_TRY(status);
    DDP_TRY(take_averages(e));
    DDP_TRY(harness_emulation_bound(e, step));
    DDP_TRY(update_params(e));
    memcpy(e->state.buffer, e->now.buffer, e->world * e->buffers.size_bytes);
    e->state.steps_done = step + 1;
    *out_predicted = HARNESS_PREDICTED_UPDATE;
    return DDP_OK;
}
