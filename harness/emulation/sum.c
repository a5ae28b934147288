/* Purpose: sums over ranks, in the order that is known of them.
 * Idea: a measured tree comes first, because it was observed; else the dumped schedule is run. */
#include <stdio.h>

#include "harness/emulation/describing.h"

bool harness_emulation_is_scaled_before(const struct harness_emulation *e)
{
    const struct harness_job *job = &e->input->plan->job;

    return job->hook != HARNESS_HOOK_NONE || job->gradient_scale == HARNESS_GRADIENT_SCALE_PRE;
}

/* The dumped schedules of such a sum; NULL: there are none. */
static struct harness_schedule_set *find_set(const struct harness_emulation *e,
                                             enum ddp_dtype dtype, size_t elem_count)
{
    const char *algorithm = harness_plan_algorithm(e->input->plan);
    struct harness_schedule_set *set = harness_schedules_find(
        &e->schedules, e->world, DDP_COLL_ALL_REDUCE, algorithm, elem_count, dtype, 0);

    if (set == NULL) {
        set = harness_schedules_find(&e->first_schedules, e->world, DDP_COLL_ALL_REDUCE, algorithm,
                                     elem_count, dtype, 0);
    }
    return set;
}

static bool is_complete(const struct harness_emulation *e, const struct harness_schedule_set *set)
{
    return set != NULL && set->is_ordered && set->size == e->world;
}

ddp_status harness_emulation_sum(const struct harness_emulation *e, enum ddp_dtype dtype,
                                 size_t elem_count, void *const *input, void *const *output,
                                 char *why, size_t why_bytes)
{
    const struct harness_tree_map *tree = harness_trees_find(&e->trees, elem_count, dtype, false);
    struct harness_schedule_set *set = find_set(e, dtype, elem_count);

    if (tree != NULL && harness_tree_is_known(tree, why, why_bytes)) {
        return harness_tree_run(tree, input, output);
    }
    if (is_complete(e, set)) {
        const ddp_status status = harness_schedule_set_run(set, input, output);

        /* Ranks send and take other lengths: the schedule oracle says so. */
        if (status != DDP_E_INVALID) {
            return status;
        }
        if (why != NULL) {
            (void)snprintf(why, why_bytes, "the schedules of it that were left do not fit");
        }
        return DDP_E_NOT_FOUND;
    }
    if (tree == NULL && why != NULL) {
        (void)snprintf(why, why_bytes, "no complete schedule of it was left");
    }
    return DDP_E_NOT_FOUND;
}

/* --- one element ------------------------------------------------------------------------------ */

ddp_status harness_sum_order_open(const struct harness_emulation *e, enum ddp_dtype dtype,
                                  size_t elem_count, struct harness_sum_order *out)
{
    const struct harness_tree_map *tree = harness_trees_find(&e->trees, elem_count, dtype, false);
    const struct harness_schedule_set *set = find_set(e, dtype, elem_count);
    ddp_status status;

    *out = (struct harness_sum_order){.tree = NULL};
    if (tree != NULL && harness_tree_is_known(tree, NULL, 0)) {
        out->tree = tree;
        return DDP_OK;
    }
    if (!is_complete(e, set)) {
        return DDP_OK;
    }
    out->set = set;
    status = harness_schedule_sums_make(set, e->mem, &out->sums);
    if (status == DDP_E_INVALID) { /* as above: it has no order */
        harness_sum_order_close(out);
        return DDP_OK;
    }
    return status;
}

void harness_sum_order_close(struct harness_sum_order *order)
{
    if (order->set != NULL) {
        harness_schedule_sums_fini(&order->sums, order->set);
    }
    *order = (struct harness_sum_order){.tree = NULL};
}

ddp_status harness_sum_order_apply(const struct harness_sum_order *order, uint32_t rank,
                                   size_t elem, void *const *input, size_t value_count,
                                   void *output)
{
    if (order->tree != NULL) {
        return harness_tree_apply(order->tree, elem, input, value_count, output);
    }
    return order->set == NULL
               ? DDP_E_NOT_FOUND
               : harness_schedule_sums_apply(&order->sums, rank, elem, input, value_count, output);
}

/* --- in the middle of a step ------------------------------------------------------------------ */

struct sum_context {
    const struct harness_emulation *e;
    struct harness_tensor tensor;
};

static ddp_status sum_all(const struct harness_exchange *const *all, uint32_t task_count)
{
    const struct sum_context *first = all[0]->context;
    struct ddp_mem *mem = first->e->mem;
    void **input = ddp_mem_array(mem, 2 * (size_t)task_count, sizeof(*input));
    ddp_status status;

    if (input == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t r = 0; r < task_count; r++) {
        input[r] = ((const struct sum_context *)all[r]->context)->tensor.data;
        input[task_count + r] = all[r]->output;
    }
    status = harness_emulation_sum(first->e, first->tensor.dtype, first->tensor.elem_count, input,
                                   input + task_count, NULL, 0);
    ddp_mem_free(mem, input);
    return status;
}

ddp_status harness_emulation_exchange_sum(const struct harness_emulation *e,
                                          struct harness_task *task, const char *name, uint64_t tag,
                                          const struct harness_tensor *input, void *output)
{
    const struct sum_context context = {e, *input};
    const struct harness_exchange exchange = {.name = name,
                                              .tag = tag,
                                              .input = input->data,
                                              .input_bytes = input->size_bytes,
                                              .output = output,
                                              .context = &context,
                                              .carry_out = sum_all};

    return harness_task_exchange(task, &exchange);
}
