/* Top down: the members of a set are divided into the operands of its root. If the probe of some
 * pair loses the whole set, the members of such a pair lie in different operands. If no pair does,
 * the root adds three operands or more without rounding in between, and a pair loses only its own
 * two operands; then several divisions may fit: (a b (c d)) and ((a b) c d) lose the same. Every
 * pair is checked against the result, so a wrong guess gives no tree, never a wrong tree. */
#include "harness/rank/probe_tree.h"

#include <string.h>

struct builder {
    const uint8_t *loss;
    uint32_t member_count;
    struct harness_probe_tree *tree;
};

/* A set of members, cut into the operands of its root. */
struct partition {
    uint8_t members[HARNESS_PROBE_MEMBERS_MAX];
    uint8_t operand_of[HARNESS_PROBE_MEMBERS_MAX]; /* by place in members */
    uint32_t count, operand_count;
};

#define NO_OPERAND 255u

static uint32_t loss_of(const struct builder *builder, uint32_t a, uint32_t b)
{
    return builder->loss[a * builder->member_count + b];
}

/* The loss of the pair of members at two places. */
static uint32_t loss_at(const struct builder *builder, const struct partition *set, uint32_t a,
                        uint32_t b)
{
    return loss_of(builder, set->members[a], set->members[b]);
}

static uint32_t largest_loss(const struct builder *builder, const struct partition *set)
{
    uint32_t largest = 0;

    for (uint32_t a = 0; a < set->count; a++) {
        for (uint32_t b = a + 1; b < set->count; b++) {
            uint32_t loss = loss_at(builder, set, a, b);

            largest = loss > largest ? loss : largest;
        }
    }
    return largest;
}

/* The next operand: the member at `first` and all members that lose at most `limit` in a probe with
 * it. Returns its size; 0 if one of them belongs to another operand already. */
static uint32_t take_operand(const struct builder *builder, struct partition *set, uint32_t first,
                             uint32_t limit)
{
    uint32_t size = 0;

    for (uint32_t x = first; x < set->count; x++) {
        if (x != first && loss_at(builder, set, first, x) > limit) {
            continue;
        }
        if (set->operand_of[x] != NO_OPERAND) {
            return 0;
        }
        set->operand_of[x] = (uint8_t)set->operand_count;
        size++;
    }
    set->operand_count++;
    return size;
}

static uint32_t next_free(const struct partition *set)
{
    uint32_t x = 0;

    while (x < set->count && set->operand_of[x] != NO_OPERAND) {
        x++;
    }
    return x;
}

static void clear(struct partition *set)
{
    memset(set->operand_of, NO_OPERAND, sizeof set->operand_of);
    set->operand_count = 0;
}

/* Do all pairs of different operands lose what such a node makes them lose? */
static bool is_cut_right(const struct builder *builder, const struct partition *set, bool is_exact)
{
    uint32_t sizes[HARNESS_PROBE_MEMBERS_MAX] = {0};

    for (uint32_t x = 0; x < set->count; x++) {
        sizes[set->operand_of[x]]++;
    }
    for (uint32_t x = 0; x < set->count; x++) {
        for (uint32_t y = x + 1; y < set->count; y++) {
            uint32_t a = set->operand_of[x];
            uint32_t b = set->operand_of[y];

            if (a != b &&
                loss_at(builder, set, x, y) != (is_exact ? sizes[a] + sizes[b] : set->count)) {
                return false;
            }
        }
    }
    return true;
}

static bool split_rounded(const struct builder *builder, struct partition *set)
{
    clear(set);
    for (uint32_t x = 0; x < set->count; x = next_free(set)) {
        if (take_operand(builder, set, x, set->count - 1) == 0) {
            return false;
        }
    }
    return set->operand_count >= 2 && is_cut_right(builder, set, false);
}

/* Divide, given that the first operand has `size` members: the size of every other one is its loss
 * with the first, less `size`. */
static bool split_exact(const struct builder *builder, struct partition *set, uint32_t size)
{
    clear(set);
    if (take_operand(builder, set, 0, size) != size) {
        return false;
    }
    for (uint32_t x = next_free(set); x < set->count; x = next_free(set)) {
        uint32_t loss = loss_at(builder, set, 0, x);

        if (loss <= size || take_operand(builder, set, x, loss - size) != loss - size) {
            return false;
        }
    }
    return set->operand_count >= 3 && is_cut_right(builder, set, true);
}

static uint32_t build(struct builder *builder, struct partition *set, uint32_t *out_node);

/* The set is cut: build its operands, then the node. Returns the number of ways, at most 2. */
static uint32_t build_node(struct builder *builder, const struct partition *set,
                           enum harness_probe_node kind, uint32_t *out_node)
{
    struct harness_probe_tree *tree = builder->tree;
    uint8_t operands[HARNESS_PROBE_MEMBERS_MAX];
    uint32_t ways = 1;

    for (uint32_t k = 0; k < set->operand_count; k++) {
        struct partition operand = {.count = 0};
        uint32_t node = 0;
        uint32_t found;

        for (uint32_t x = 0; x < set->count; x++) {
            if (set->operand_of[x] == k) {
                operand.members[operand.count++] = set->members[x];
            }
        }
        found = build(builder, &operand, &node);
        if (found == 0) {
            return 0;
        }
        ways = found > ways ? found : ways;
        operands[k] = (uint8_t)node;
    }
    *out_node = tree->node_count++;
    tree->kind[*out_node] = (uint8_t)kind;
    tree->leaf[*out_node] = set->members[0];
    for (uint32_t k = 0; k < set->operand_count; k++) {
        tree->parent[operands[k]] = (uint8_t)*out_node;
    }
    return ways;
}

/* Every size that the first operand may have; the first that works is kept. */
static uint32_t build_exact(struct builder *builder, struct partition *set, uint32_t *out_node)
{
    const struct harness_probe_tree before = *builder->tree;
    struct harness_probe_tree kept = before;
    uint32_t ways = 0;

    for (uint32_t size = set->count - 1; size > 0 && ways < 2; size--) {
        uint32_t node = 0;
        uint32_t found;

        *builder->tree = before;
        found = split_exact(builder, set, size)
                    ? build_node(builder, set, HARNESS_PROBE_ROUNDED, &node)
                    : 0;
        if (found > 0 && ways == 0) {
            kept = *builder->tree;
            *out_node = node;
        }
        ways += found;
    }
    *builder->tree = kept;
    return ways;
}

static uint32_t build(struct builder *builder, struct partition *set, uint32_t *out_node)
{
    uint32_t largest = largest_loss(builder, set);

    if (set->count == 1) {
        *out_node = set->members[0];
        return 1;
    }
    if (largest < set->count) {
        return build_exact(builder, set, out_node);
    }
    if (largest > set->count || !split_rounded(builder, set)) {
        return 0;
    }
    /* With several operands, M absorbed units of others too: the sum was aligned and truncated in a
     * way that is not known. */
    return build_node(builder, set,
                      set->operand_count > 2 ? HARNESS_PROBE_OPAQUE : HARNESS_PROBE_ROUNDED,
                      out_node);
}

uint32_t harness_probe_tree_build(const uint8_t *loss, uint32_t member_count,
                                  struct harness_probe_tree *out)
{
    struct builder builder = {loss, member_count, out};
    struct partition all = {.count = member_count};
    uint32_t root = 0;
    uint32_t ways;

    memset(out, 0, sizeof *out);
    out->member_count = member_count;
    out->node_count = member_count;
    for (uint32_t i = 0; i < member_count; i++) {
        all.members[i] = (uint8_t)i;
        out->leaf[i] = (uint8_t)i;
    }
    ways = build(&builder, &all, &root);
    return ways > 2 ? 2 : ways;
}

/* --- use -------------------------------------------------------------------------------------- */

/* The operand of a node with the smallest leaf above `after` (-1: the first of all), or
 * node_count. */
static uint32_t next_operand(const struct harness_probe_tree *tree, uint32_t node, int32_t after)
{
    uint32_t best = tree->node_count;

    for (uint32_t x = 0; x < node; x++) {
        if (tree->parent[x] == node && (int32_t)tree->leaf[x] > after &&
            (best == tree->node_count || tree->leaf[x] < tree->leaf[best])) {
            best = x;
        }
    }
    return best;
}

void harness_probe_tree_triple(const struct harness_probe_tree *tree, uint32_t node,
                               uint32_t *out_a, uint32_t *out_b, uint32_t *out_c)
{
    uint32_t parent = tree->parent[node];
    uint32_t first = next_operand(tree, node, -1);
    uint32_t other = next_operand(tree, parent, -1);

    if (other == node) {
        other = next_operand(tree, parent, tree->leaf[node]);
    }
    *out_a = tree->leaf[first];
    *out_b = tree->leaf[next_operand(tree, node, tree->leaf[first])];
    *out_c = tree->leaf[other];
}

bool harness_probe_tree_is_equal(const struct harness_probe_tree *a,
                                 const struct harness_probe_tree *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static void print_node(const struct harness_probe_tree *tree, uint32_t node, struct ddp_text *out)
{
    static const char *const brackets[] = {"", "()", "[]", "{}"};
    const char *bracket = brackets[tree->kind[node]];

    if (node < tree->member_count) {
        ddp_text_add(out, "%u", node);
        return;
    }
    for (uint32_t x = next_operand(tree, node, -1); x < tree->node_count;
         x = next_operand(tree, node, tree->leaf[x])) {
        ddp_text_add(out, "%c", tree->leaf[x] == tree->leaf[node] ? bracket[0] : ' ');
        print_node(tree, x, out);
    }
    ddp_text_add(out, "%c", bracket[1]);
}

void harness_probe_tree_print(const struct harness_probe_tree *tree, struct ddp_text *out)
{
    print_node(tree, tree->node_count - 1, out);
}
