/* Purpose: what the trees of a set make of values, and how wrong that may be.
 * Idea: operands have lower numbers than their sum, so one pass over the nodes that an element
 * needs works them out; elements in a row that have the same tree are worked out together. */
#include <math.h>
#include <string.h>

#include "harness/sums/arith.h"
#include "harness/sums/schedule_sums.h"

/* --- values ----------------------------------------------------------------------------------- */

struct evaluation {
    const struct harness_schedule_sums *sums;
    void *const *input;
    void **value;    /* [node], of those that are needed */
    bool *is_needed; /* [node] */
    size_t first;    /* in the inputs */
    size_t elem_count;
};

static void mark(const struct evaluation *run, uint32_t root)
{
    const struct harness_schedule_sums *sums = run->sums;

    memset(run->is_needed, 0, sums->node_count * sizeof(*run->is_needed));
    run->is_needed[root] = true;
    for (size_t i = root; i >= sums->size; i--) {
        const struct harness_sum_node *node = &sums->nodes[i];

        if (run->is_needed[i]) {
            DDP_ASSERT(node->left < i);
            run->is_needed[node->left] = true;
            if (node->right != HARNESS_SUM_NONE) {
                run->is_needed[node->right] = true;
            }
        }
    }
}

/* target = the value of a node, in another type if need be. */
static ddp_status read_value(const struct evaluation *run, void *target, enum ddp_dtype dtype,
                             uint32_t node)
{
    enum ddp_dtype from = run->sums->nodes[node].dtype;

    if (from == dtype) {
        memcpy(target, run->value[node], run->elem_count * ddp_dtype_size_bytes(dtype));
        return DDP_OK;
    }
    return harness_arith_scale(target, dtype, run->value[node], from, run->elem_count, 1.0f);
}

static ddp_status evaluate(const struct evaluation *run, uint32_t index, void *term)
{
    const struct harness_sum_node *node = &run->sums->nodes[index];
    size_t elem_bytes = ddp_dtype_size_bytes(node->dtype);

    if (index < run->sums->size) {
        memcpy(run->value[index], (const char *)run->input[index] + run->first * elem_bytes,
               run->elem_count * elem_bytes);
        return DDP_OK;
    }
    DDP_TRY(read_value(run, run->value[index], node->dtype, node->left));
    if (node->right == HARNESS_SUM_NONE) {
        return DDP_OK;
    }
    DDP_TRY(read_value(run, term, node->dtype, node->right));
    return harness_arith_add(run->value[index], term, run->elem_count, node->dtype);
}

/* Elements in a row that have the tree `root`. */
static ddp_status run_tree(struct evaluation *run, uint32_t root, void *output)
{
    struct ddp_mem *mem = run->sums->mem;
    void *term = ddp_mem_array(mem, run->elem_count, sizeof(double));
    ddp_status status = term != NULL ? DDP_OK : DDP_E_NOMEM;

    mark(run, root);
    for (uint32_t i = 0; status == DDP_OK && i <= root; i++) {
        if (run->is_needed[i]) {
            run->value[i] = ddp_mem_array(mem, run->elem_count, sizeof(double));
            status = run->value[i] != NULL ? evaluate(run, i, term) : DDP_E_NOMEM;
        }
    }
    if (status == DDP_OK) {
        memcpy(output, run->value[root],
               run->elem_count * ddp_dtype_size_bytes(run->sums->nodes[root].dtype));
    }
    for (uint32_t i = 0; i <= root; i++) {
        ddp_mem_free(mem, run->value[i]);
        run->value[i] = NULL;
    }
    ddp_mem_free(mem, term);
    return status;
}

static ddp_status open_evaluation(struct evaluation *run)
{
    const struct harness_schedule_sums *sums = run->sums;

    run->value = ddp_mem_array(sums->mem, sums->node_count, sizeof(*run->value));
    run->is_needed = ddp_mem_array(sums->mem, sums->node_count, sizeof(*run->is_needed));
    return run->value != NULL && run->is_needed != NULL ? DDP_OK : DDP_E_NOMEM;
}

static void close_evaluation(struct evaluation *run)
{
    ddp_mem_free(run->sums->mem, run->value);
    ddp_mem_free(run->sums->mem, run->is_needed);
}

/* The tree of an element of a rank's output; NONE: nobody wrote it, or in another type (it was not
 * proved). */
static uint32_t root_of(const struct harness_schedule_sums *sums, uint32_t rank, size_t elem)
{
    uint32_t root = harness_schedule_sums_at(sums, rank, elem);

    return root == HARNESS_SUM_NONE || sums->nodes[root].dtype != sums->set->member[rank]->dtype
               ? HARNESS_SUM_NONE
               : root;
}

ddp_status harness_schedule_sums_predict(const struct harness_schedule_sums *sums, uint32_t rank,
                                         void *const *input, void *output)
{
    const struct harness_schedule *member = sums->set->member[rank];
    struct harness_span span = harness_schedule_output(member);
    size_t own = member->kind == DDP_COLL_REDUCE_SCATTER ? rank * member->elem_count : 0;
    struct evaluation run = {.sums = sums, .input = input};
    ddp_status status = open_evaluation(&run);

    DDP_ASSERT(ddp_coll_kind_is_sum(member->kind));
    for (size_t first = 0; status == DDP_OK && first < span.elem_count;) {
        uint32_t root = root_of(sums, rank, first);
        size_t end = first + 1;

        if (root == HARNESS_SUM_NONE) {
            status = DDP_E_INVALID;
            break;
        }
        while (end < span.elem_count && harness_schedule_sums_at(sums, rank, end) == root) {
            end++;
        }
        run.first = own + first;
        run.elem_count = end - first;
        status = run_tree(&run, root, (char *)output + first * ddp_dtype_size_bytes(member->dtype));
        first = end;
    }
    close_evaluation(&run);
    return status;
}

ddp_status harness_schedule_sums_apply(const struct harness_schedule_sums *sums, uint32_t rank,
                                       size_t elem, void *const *input, size_t value_count,
                                       void *output)
{
    struct evaluation run = {.sums = sums, .input = input, .elem_count = value_count};
    uint32_t root = root_of(sums, rank, elem);
    ddp_status status;

    if (root == HARNESS_SUM_NONE) {
        return DDP_E_NOT_FOUND;
    }
    status = open_evaluation(&run);
    if (status == DDP_OK) {
        status = run_tree(&run, root, output);
    }
    close_evaluation(&run);
    return status;
}

/* --- error ------------------------------------------------------------------------------------ */

/* Half of the distance from 1 to the next number; integers are not rounded. */
static double unit_roundoff(enum ddp_dtype dtype)
{
    switch (dtype) {
    case DDP_DTYPE_F32:
        return ldexp(1, -24);
    case DDP_DTYPE_F16:
        return ldexp(1, -11);
    case DDP_DTYPE_BF16:
        return ldexp(1, -8);
    case DDP_DTYPE_F64:
        return ldexp(1, -53);
    default:
        return 0;
    }
}

/* log(1 + bound) of each node: a sum of as many log(1 + u) as it is rounded. */
static double *bounds_of(const struct harness_schedule_sums *sums)
{
    double *bound = ddp_mem_array(sums->mem, sums->node_count, sizeof(*bound));

    for (size_t i = sums->size; bound != NULL && i < sums->node_count; i++) {
        const struct harness_sum_node *node = &sums->nodes[i];
        double left = bound[node->left];
        double right = node->right != HARNESS_SUM_NONE ? bound[node->right] : 0;

        bound[i] = (left > right ? left : right) + log1p(unit_roundoff(node->dtype));
    }
    return bound;
}

ddp_status harness_schedule_sums_bound(const struct harness_schedule_sums *sums, double *out)
{
    double *bound = bounds_of(sums);
    double most = 0;

    for (uint32_t r = 0; bound != NULL && r < sums->size; r++) {
        size_t elem_count = harness_schedule_output(sums->set->member[r]).elem_count;

        for (size_t i = 0; i < elem_count; i++) {
            uint32_t node = harness_schedule_sums_at(sums, r, i);

            most = node != HARNESS_SUM_NONE && bound[node] > most ? bound[node] : most;
        }
    }
    *out = expm1(most);
    ddp_mem_free(sums->mem, bound);
    return bound != NULL ? DDP_OK : DDP_E_NOMEM;
}
