/* Purpose: one step as it should be: local gradients (reference kernels), bucket inputs, the
 * dumped schedules' sums, averages, optimizer (own scalar arithmetic).
 * Idea: ranks are played in turn on one model; its parameters are set once a step. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/emulation/emulation.h"
#include "harness/emulation/state.h"
#include "harness/sums/arith.h"

static bool is_scaled_before(const struct harness_emulation *e)
{
    const char *scale = e->input->plan->job.gradient_scale;

    return scale == NULL || strcmp(scale, "post") != 0;
}

/* Buffers follow rank 0: it trains on its own, and the others take its. */
static ddp_status set_buffers(struct harness_emulation *e, const float *source)
{
    for (size_t b = 0; b < e->buffer_count; b++) {
        DDP_TRY(harness_emulation_copy(e, e->buffers[b].data, source, e->buffers[b].elem_count));
        source += e->buffers[b].elem_count;
    }
    return DDP_OK;
}

static ddp_status compute_gradients(struct harness_emulation *e, uint32_t step)
{
    size_t count = 0;
    struct ddp_param *params = ref_model_params(ref_trainer_model(e->trainer), &count);

    for (size_t p = 0; p < count; p++) {
        DDP_TRY(harness_emulation_copy(e, params[p].data, e->state.param + e->param_first[p],
                                       params[p].elem_count));
    }
    for (uint32_t r = 0; r < e->world; r++) {
        DDP_TRY(set_buffers(e, e->state.buffer));
        DDP_TRY(ref_trainer_local_gradient(e->trainer, r, step, &e->loss[r], &e->rows[r]));
        if (r == 0) {
            DDP_TRY(harness_emulation_take_buffers(e));
        }
        for (size_t p = 0; p < count; p++) {
            bool is_defined = e->rows[r] > 0 && params[p].is_grad_defined;

            e->is_grad_defined[r * e->param_count + p] = is_defined;
            if (is_defined) {
                DDP_TRY(harness_emulation_copy(e, e->grad + r * e->elem_total + e->param_first[p],
                                               params[p].grad, params[p].elem_count));
            } else {
                memset(e->grad + r * e->elem_total + e->param_first[p], 0,
                       params[p].elem_count * sizeof(float));
            }
        }
    }
    return DDP_OK;
}

static void find_used(struct harness_emulation *e)
{
    for (size_t p = 0; p < e->param_count; p++) {
        e->is_used[p] = false;
        for (uint32_t r = 0; r < e->world; r++) {
            e->is_used[p] = e->is_used[p] || e->is_grad_defined[r * e->param_count + p];
        }
    }
}

static uint32_t count_active(const struct harness_emulation *e)
{
    uint32_t active = 0;

    for (uint32_t r = 0; r < e->world; r++) {
        active += e->rows[r] > 0;
    }
    return active;
}

/* Whether DDP can go through this step at all. */
static bool is_reducible(const struct harness_emulation *e, uint32_t active)
{
    const struct harness_job *job = &e->input->plan->job;

    if (active < e->world && !job->is_join) {
        return false;
    }
    for (uint32_t r = 0; r < e->world && !job->find_unused_parameters; r++) {
        for (size_t p = 0; p < e->param_count; p++) {
            if (e->rows[r] > 0 && !e->is_grad_defined[r * e->param_count + p]) {
                return false;
            }
        }
    }
    return true;
}

static void fill_buckets(struct harness_emulation *e)
{
    const struct harness_program *program = e->input->program;
    bool is_scaled = is_scaled_before(e);
    float factor = 1.0f / (float)e->divisor;
    float *swap = e->bucket_in_before;

    e->is_before_set = e->is_bucket_set;
    e->is_bucket_set = true;
    e->bucket_in_before = e->bucket_in;
    e->bucket_in = swap;
    for (uint32_t r = 0; r < e->world; r++) {
        for (size_t b = 0; b < e->bucket_count; b++) {
            const struct harness_bucket *bucket = &program->buckets[b];
            float *target = e->bucket_in + r * e->bucket_total + e->bucket_first[b];

            for (uint32_t i = 0; i < bucket->param_count; i++) {
                uint32_t p = bucket->params[i];
                const float *source = e->grad + r * e->elem_total + e->param_first[p];
                float *slice = target + bucket->offsets[i];

                for (size_t k = 0; k < e->input->params[p].elem_count; k++) {
                    slice[k] = is_scaled ? source[k] * factor : source[k];
                }
            }
        }
    }
}

static bool is_equal_everywhere(const struct harness_emulation *e)
{
    for (uint32_t r = 1; r < e->world; r++) {
        if (memcmp(e->bucket_out, e->bucket_out + r * e->bucket_total,
                   e->bucket_total * sizeof(float)) != 0) {
            return false;
        }
    }
    return true;
}

ddp_status harness_emulation_sum(const struct harness_emulation *e, size_t elem_count,
                                 void *const *input, void *const *output, char *why,
                                 size_t why_bytes)
{
    const struct harness_tree_map *tree =
        harness_trees_find(&e->trees, elem_count, DDP_DTYPE_F32, false);
    struct harness_schedule_set *set = harness_schedules_find(
        &e->schedules, DDP_COLL_ALL_REDUCE, harness_plan_algorithm(e->input->plan), elem_count,
        DDP_DTYPE_F32, 0);

    if (tree != NULL && harness_tree_is_known(tree, why, why_bytes)) {
        return harness_tree_run(tree, input, output);
    }
    if (set != NULL && set->is_ordered && set->size == e->world) {
        return harness_schedule_set_run(set, DDP_REDOP_SUM, input, output);
    }
    if (tree == NULL && why != NULL) {
        (void)snprintf(why, why_bytes, "no complete schedule of it was left");
    }
    return DDP_E_NOT_FOUND;
}

/* E_NOT_FOUND: the order of a bucket's sum is not known. */
static ddp_status reduce_buckets(struct harness_emulation *e, uint32_t step)
{
    void **input = ddp_mem_array(e->mem, 2 * (size_t)e->world, sizeof(*input));
    void **output = input == NULL ? NULL : input + e->world;
    ddp_status status = input == NULL ? DDP_E_NOMEM : DDP_OK;

    for (size_t b = 0; status == DDP_OK && b < e->bucket_count; b++) {
        size_t elem_count = e->input->program->buckets[b].elem_count;

        for (uint32_t r = 0; r < e->world; r++) {
            input[r] = e->bucket_in + r * e->bucket_total + e->bucket_first[b];
            output[r] = e->bucket_out + r * e->bucket_total + e->bucket_first[b];
        }
        status = harness_emulation_sum(e, elem_count, input, output, e->missing_why,
                                       sizeof(e->missing_why));
        if (status == DDP_E_NOT_FOUND && e->world == 1) {
            memcpy(output[0], input[0], elem_count * sizeof(float)); /* a sum of one */
            status = DDP_OK;
        }
        if (status == DDP_E_NOT_FOUND) {
            e->missing_step = (int32_t)step;
            e->missing_bucket = (uint32_t)b;
        }
    }
    ddp_mem_free(e->mem, input);
    if (status == DDP_OK && e->split_step < 0 && !is_equal_everywhere(e)) {
        e->split_step = (int32_t)step;
    }
    return status;
}

static void take_averages(struct harness_emulation *e)
{
    const struct harness_program *program = e->input->program;
    bool is_scaled = is_scaled_before(e);
    float factor = 1.0f / (float)e->divisor;

    for (size_t b = 0; b < e->bucket_count; b++) {
        const struct harness_bucket *bucket = &program->buckets[b];

        for (uint32_t i = 0; i < bucket->param_count; i++) {
            uint32_t p = bucket->params[i];
            const float *source = e->bucket_out + e->bucket_first[b] + bucket->offsets[i];
            float *target = e->average + e->param_first[p];

            for (size_t k = 0; k < e->input->params[p].elem_count; k++) {
                target[k] = is_scaled ? source[k] : source[k] * factor;
            }
        }
    }
}

static void update_params(struct harness_emulation *e)
{
    for (size_t p = 0; p < e->param_count; p++) {
        size_t first = e->param_first[p];
        float *const slots[2] = {e->slot_count > 0 ? e->state.slot[0] + first : NULL,
                                 e->slot_count > 1 ? e->state.slot[1] + first : NULL};

        if (!e->is_used[p]) {
            continue; /* no gradient anywhere: the optimizer leaves it alone */
        }
        harness_arith_update(&e->input->job->optimizer, e->state.taken[p], e->state.param + first,
                             e->average + first, slots, e->input->params[p].elem_count);
        e->state.taken[p]++;
    }
}

ddp_status harness_emulation_step(struct harness_emulation *e, uint32_t step,
                                  enum harness_predicted *out_predicted)
{
    const struct harness_job *job = &e->input->plan->job;
    uint32_t active;
    ddp_status status;

    *out_predicted = HARNESS_PREDICTED_NOTHING;
    DDP_TRY(compute_gradients(e, step));
    find_used(e);
    active = count_active(e);
    if (active == 0) {
        return DDP_OK; /* all data was used up: there is no such step */
    }
    *out_predicted = HARNESS_PREDICTED_GRADIENT;
    e->divisor = job->is_join && !job->divide_by_initial_world_size ? active : e->world;
    if (!is_reducible(e, active)) {
        return DDP_OK;
    }
    fill_buckets(e);
    *out_predicted = HARNESS_PREDICTED_INPUT;
    status = reduce_buckets(e, step);
    if (status == DDP_E_NOT_FOUND) {
        return DDP_OK;
    }
    DDP_TRY(status);
    take_averages(e);
    DDP_TRY(harness_emulation_bound(e, step));
    update_params(e);
    e->state.steps_done = step + 1;
    *out_predicted = HARNESS_PREDICTED_UPDATE;
    return DDP_OK;
}
