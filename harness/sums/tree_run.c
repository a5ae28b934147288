/* Purpose: sums in a measured tree, with the judge's own rounding.
 * Idea: values are held in fp64, where a sum of two is rounded again to fp32 or to the type; the
 * double rounding changes nothing (53 >= 2*24 + 2, 24 >= 2*11 + 2, 2*8 + 2 bits). A node of three
 * operands or more is the exact sum, rounded once. */
#include <math.h>
#include <string.h>

#include "harness/sums/arith.h"
#include "harness/sums/tree.h"

enum { BLOCK = 256 };

typedef double column[BLOCK]; /* a value of each element of a block */

static double load(enum ddp_dtype dtype, const void *data, size_t i)
{
    DDP_ASSERT(dtype == DDP_DTYPE_F32 || dtype == DDP_DTYPE_F16 || dtype == DDP_DTYPE_BF16);
    if (dtype == DDP_DTYPE_F32) {
        return (double)((const float *)data)[i];
    }
    return dtype == DDP_DTYPE_F16 ? (double)harness_arith_f16_decode(((const uint16_t *)data)[i])
                                  : (double)harness_arith_bf16_decode(((const uint16_t *)data)[i]);
}

static void store(enum ddp_dtype dtype, void *data, size_t i, double value)
{
    if (dtype == DDP_DTYPE_F32) {
        ((float *)data)[i] = (float)value;
    } else {
        ((uint16_t *)data)[i] = dtype == DDP_DTYPE_F16 ? harness_arith_f16_encode((float)value)
                                                       : harness_arith_bf16_encode((float)value);
    }
}

/* Round to what a node of this kind leaves. */
static double round_to(enum ddp_dtype dtype, enum harness_tree_node kind, double value)
{
    DDP_ASSERT(kind == HARNESS_TREE_ROUNDED || kind == HARNESS_TREE_WIDE);
    if (dtype == DDP_DTYPE_F32) {
        return kind == HARNESS_TREE_WIDE ? value : (double)(float)value;
    }
    if (kind == HARNESS_TREE_WIDE) {
        return (double)(float)value;
    }
    return dtype == DDP_DTYPE_F16
               ? (double)harness_arith_f16_decode(harness_arith_f16_encode((float)value))
               : (double)harness_arith_bf16_decode(harness_arith_bf16_encode((float)value));
}

/* --- three operands and more ------------------------------------------------------------------ */

/* Parts whose exact sum is the exact sum of all values so far, growing in magnitude, each too small
 * to reach into the next (Shewchuk, "Adaptive precision floating-point arithmetic", 1997). */
static uint32_t add_part(double *parts, uint32_t count, double value)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        double larger = fabs(value) < fabs(parts[i]) ? parts[i] : value;
        double smaller = fabs(value) < fabs(parts[i]) ? value : parts[i];
        double rest;

        value = larger + smaller;
        rest = smaller - (value - larger);
        if (fabs(rest) > 0.0) {
            parts[kept++] = rest;
        }
    }
    parts[kept++] = value;
    DDP_ASSERT(kept <= count + 1);
    return kept;
}

/* The exact sum, with its last bit odd if anything was cut off: rounding it again to a shorter type
 * is then rounding the exact sum. */
static double exact_sum(const double *values, uint32_t count)
{
    double parts[HARNESS_TREE_MEMBERS_MAX + 1];
    uint32_t part_count = 0;
    double top;
    double rest = 0.0;
    uint64_t bits;

    for (uint32_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) {
            double sum = 0.0;

            for (uint32_t k = 0; k < count; k++) {
                sum += values[k];
            }
            return sum; /* infinite or NaN in any order */
        }
        part_count = add_part(parts, part_count, values[i]);
    }
    DDP_ASSERT(part_count > 0 && part_count <= count);
    top = parts[part_count - 1];
    for (uint32_t i = part_count - 1; i > 0 && !(fabs(rest) > 0.0); i--) {
        rest = parts[i - 1];
    }
    memcpy(&bits, &top, sizeof(bits));
    if (fabs(rest) > 0.0 && (bits & 1u) == 0) {
        bits = (rest > 0.0) == (top > 0.0) ? bits + 1 : bits - 1;
        memcpy(&top, &bits, sizeof(top));
    }
    return top;
}

/* Towards the exact value's neighbour with an odd last bit, as above but of fp32. */
static double round_odd_f32(double value)
{
    float rounded = (float)value;
    double rest = value - (double)rounded;
    uint32_t bits;

    memcpy(&bits, &rounded, sizeof(bits));
    if (isfinite(rounded) && fabs(rest) > 0.0 && (bits & 1u) == 0) {
        bits = (rest > 0.0) == (value > 0.0) ? bits + 1 : bits - 1;
        memcpy(&rounded, &bits, sizeof(rounded));
    }
    return (double)rounded;
}

/* --- machine ---------------------------------------------------------------------------------- */

/* operands: the node's, the first receives the sum. */
static void add_columns(enum ddp_dtype dtype, const struct harness_tree_op *op, column *operands,
                        size_t count)
{
    DDP_ASSERT(op->count >= 2 && op->count <= HARNESS_TREE_MEMBERS_MAX && count <= BLOCK);
    for (size_t i = 0; i < count; i++) {
        double values[HARNESS_TREE_MEMBERS_MAX];
        double sum = operands[0][i] + operands[1][i];

        if (op->count > 2) {
            for (uint32_t k = 0; k < op->count; k++) {
                values[k] = operands[k][i];
            }
            sum = exact_sum(values, op->count);
            sum = dtype == DDP_DTYPE_F32 ? sum : round_odd_f32(sum);
        } else if (dtype != DDP_DTYPE_F32) {
            sum = (double)(float)sum; /* a wide operand was added in fp32 */
        }
        operands[0][i] = round_to(dtype, (enum harness_tree_node)op->kind, sum);
    }
}

static void run_block(const struct harness_tree_map *map, const struct harness_tree_range *range,
                      size_t first, size_t count, void *const *input, column *stack)
{
    uint32_t depth = 0;

    for (uint32_t i = 0; i < range->op_count; i++) {
        const struct harness_tree_op *op = &map->ops[range->op_first + i];

        if (op->kind == HARNESS_TREE_LEAF) {
            DDP_ASSERT(depth < map->member_count && op->count < map->member_count);
            for (size_t k = 0; k < count; k++) {
                stack[depth][k] = load(map->dtype, input[op->count], first + k);
            }
            depth++;
        } else {
            DDP_ASSERT(depth >= op->count);
            depth -= op->count;
            add_columns(map->dtype, op, &stack[depth], count);
            depth++;
        }
    }
    DDP_ASSERT(depth == 1);
}

/* Elements [first, end) of the inputs, added in the trees of a range. */
static void run_range(const struct harness_tree_map *map, const struct harness_tree_range *range,
                      size_t first, size_t end, void *const *input, void *output, column *stack)
{
    for (; first < end; first += BLOCK) {
        size_t count = end - first < BLOCK ? end - first : BLOCK;

        run_block(map, range, first, count, input, stack);
        for (size_t k = 0; k < count; k++) {
            store(map->dtype, output, first + k, stack[0][k]);
        }
    }
}

ddp_status harness_tree_run(const struct harness_tree_map *map, void *const *input,
                            void *const *output)
{
    size_t size_bytes = map->elem_count * ddp_dtype_size_bytes(map->dtype);
    column *stack;

    if (!harness_tree_is_known(map, NULL, 0)) {
        return DDP_E_STATE;
    }
    stack = ddp_mem_array(map->mem, map->member_count, sizeof(*stack));
    if (stack == NULL) {
        return DDP_E_NOMEM;
    }
    for (size_t r = 0; r < map->range_count; r++) {
        const struct harness_tree_range *range = &map->ranges[r];

        run_range(map, range, range->first, range->first + range->elem_count, input, output[0],
                  stack);
    }
    ddp_mem_free(map->mem, stack);
    for (uint32_t r = 1; r < map->member_count; r++) {
        memcpy(output[r], output[0], size_bytes);
    }
    return DDP_OK;
}

ddp_status harness_tree_apply(const struct harness_tree_map *map, size_t elem, void *const *input,
                              size_t value_count, void *output)
{
    column *stack;

    if (!harness_tree_is_known(map, NULL, 0)) {
        return DDP_E_STATE;
    }
    stack = ddp_mem_array(map->mem, map->member_count, sizeof(*stack));
    if (stack == NULL) {
        return DDP_E_NOMEM;
    }
    run_range(map, harness_tree_range_at(map, elem), 0, value_count, input, output, stack);
    ddp_mem_free(map->mem, stack);
    return DDP_OK;
}
