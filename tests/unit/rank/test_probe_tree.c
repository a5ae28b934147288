/* Trees from losses: every tree is found again from what its probes lose, and what no tree loses is
 * refused. */
#include <string.h>

#include "ddpcore/base/prng.h"
#include "ddpcore/base/text.h"
#include "harness/rank/probe_tree.h"
#include "tests/ct.h"

#define N_MAX HARNESS_PROBE_MEMBERS_MAX

/* A tree of this test's own: a leaf, or a sum of operands. */
struct plant {
    uint32_t operands[N_MAX];
    uint32_t count; /* 0: a leaf */
    uint32_t least; /* the smallest leaf; a leaf's own number */
    bool is_opaque;
};
struct forest {
    struct plant plants[2 * N_MAX];
    uint32_t count, root, member_count;
};

/* A value while a probe runs: how many M it holds, with their signs, and units beside them. */
struct held {
    int32_t big;
    uint32_t units;
};

/* M absorbs units when a sum is rounded; in a sum of several that is cut off, at once. */
static struct held grow(const struct forest *forest, uint32_t at, uint32_t i, uint32_t j)
{
    const struct plant *plant = &forest->plants[at];
    struct held sum = {0, 0};
    bool has_big = false;

    if (plant->count == 0) {
        sum.big = plant->least == i ? 1 : plant->least == j ? -1 : 0;
        sum.units = sum.big == 0;
        return sum;
    }
    for (uint32_t k = 0; k < plant->count; k++) {
        struct held operand = grow(forest, plant->operands[k], i, j);

        has_big = has_big || operand.big != 0;
        sum.big += operand.big;
        sum.units += operand.units;
    }
    if (sum.big != 0 || (plant->is_opaque && has_big)) {
        sum.units = 0;
    }
    return sum;
}

static void lose(const struct forest *forest, uint8_t *loss)
{
    uint32_t n = forest->member_count;

    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = i + 1; j < n; j++) {
            loss[i * n + j] = (uint8_t)(n - grow(forest, forest->root, i, j).units);
            loss[j * n + i] = loss[i * n + j];
        }
    }
}

static void print_plant(const struct forest *forest, uint32_t at, struct ddp_text *out)
{
    const struct plant *plant = &forest->plants[at];

    if (plant->count == 0) {
        ddp_text_add(out, "%u", plant->least);
        return;
    }
    for (uint32_t k = 0; k < plant->count; k++) {
        ddp_text_add(out, "%s", k > 0 ? " " : plant->is_opaque ? "{" : "(");
        print_plant(forest, plant->operands[k], out);
    }
    ddp_text_add(out, "%s", plant->is_opaque ? "}" : ")");
}

/* Join random plants that have no parent yet until one is left. */
static void plant_random(struct forest *forest, uint32_t member_count, struct ddp_prng *prng)
{
    uint32_t free_plants[N_MAX];
    uint32_t free_count = member_count;

    forest->member_count = member_count;
    forest->count = member_count;
    for (uint32_t i = 0; i < member_count; i++) {
        forest->plants[i] = (struct plant){.least = i};
        free_plants[i] = i;
    }
    while (free_count > 1) {
        struct plant *sum = &forest->plants[forest->count];
        uint32_t order[N_MAX];
        uint32_t take = ddp_prng_below(prng, 3) > 0 ? 2 : 2 + (uint32_t)ddp_prng_below(prng, 4);

        take = take > free_count ? free_count : take;
        ddp_prng_permutation(prng, order, free_count);
        *sum = (struct plant){.count = take, .is_opaque = take > 2 && ddp_prng_below(prng, 2) == 0};
        /* The operands are the last ones of a shuffled list, in the order of their least leaves. */
        for (uint32_t k = 0; k < take; k++) {
            uint32_t other = order[k] < free_count - k ? order[k] : k % (free_count - k);
            uint32_t chosen = free_plants[other];
            uint32_t at = k;

            free_plants[other] = free_plants[free_count - k - 1];
            for (; at > 0 &&
                   forest->plants[sum->operands[at - 1]].least > forest->plants[chosen].least;
                 at--) {
                sum->operands[at] = sum->operands[at - 1];
            }
            sum->operands[at] = chosen;
        }
        sum->least = forest->plants[sum->operands[0]].least;
        free_count -= take;
        free_plants[free_count++] = forest->count++;
    }
    forest->root = forest->count - 1;
}

static bool has_exact_node(const struct forest *forest)
{
    for (uint32_t i = 0; i < forest->count; i++) {
        if (forest->plants[i].count > 2 && !forest->plants[i].is_opaque) {
            return true;
        }
    }
    return false;
}

/* Any tree, with nodes of any kind, up to the largest world, unless another one loses alike. */
CT_TEST(probe_tree, every_tree_is_found_again)
{
    struct ddp_prng prng = ddp_prng_make(4, "trees");
    static uint8_t loss[N_MAX * N_MAX];
    static struct forest forest;
    uint32_t found = 0;

    for (uint32_t round = 0; round < 400; round++) {
        uint32_t n = round < 380 ? 2 + round % 15 : 64 - round % 16;
        struct harness_probe_tree tree;
        struct ddp_text planted, built;
        uint32_t ways;

        plant_random(&forest, n, &prng);
        lose(&forest, loss);
        ways = harness_probe_tree_build(loss, n, &tree);
        CT_CHECK(ways == 1 || (ways == 2 && has_exact_node(&forest)));
        if (ways != 1) {
            continue;
        }
        ddp_text_init(&planted, ddp_mem_system());
        ddp_text_init(&built, ddp_mem_system());
        print_plant(&forest, forest.root, &planted);
        harness_probe_tree_print(&tree, &built);
        CT_CHECK_STR(ddp_text_str(&built), ddp_text_str(&planted));
        ddp_text_fini(&built);
        ddp_text_fini(&planted);
        found++;
    }
    CT_CHECK(found > 300);
}

/* The test's own form of a tree that was built. */
static void adopt(const struct harness_probe_tree *tree, struct forest *forest)
{
    memset(forest, 0, sizeof(*forest));
    forest->member_count = tree->member_count;
    forest->count = tree->node_count;
    forest->root = tree->node_count - 1;
    for (uint32_t node = 0; node < tree->node_count; node++) {
        struct plant *plant = &forest->plants[node];

        plant->least = tree->leaf[node];
        plant->is_opaque = tree->kind[node] == HARNESS_PROBE_OPAQUE;
        if (node != forest->root) {
            struct plant *parent = &forest->plants[tree->parent[node]];

            parent->operands[parent->count++] = node;
        }
    }
}

/* Number of all loss tables of n members that some tree explains, each checked; *out_several: of
 * those, by several. */
static uint32_t count_explained(uint32_t n, uint32_t *out_several)
{
    static struct forest forest;
    uint32_t pair_count = n * (n - 1) / 2;
    uint32_t explained = 0;
    uint32_t table_count = 1;

    *out_several = 0;
    for (uint32_t p = 0; p < pair_count; p++) {
        table_count *= n;
    }
    for (uint32_t table = 0; table < table_count; table++) {
        struct harness_probe_tree tree;
        uint8_t loss[16] = {0};
        uint8_t again[16] = {0};
        uint32_t rest = table;
        uint32_t ways;

        /* 1 .. n: also what no probe can lose. */
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = i + 1; j < n; j++, rest /= n) {
                loss[i * n + j] = (uint8_t)(1 + rest % n);
                loss[j * n + i] = loss[i * n + j];
            }
        }
        ways = harness_probe_tree_build(loss, n, &tree);
        if (ways == 0) {
            continue;
        }
        explained++;
        *out_several += ways == 2;
        adopt(&tree, &forest);
        lose(&forest, again);
        CT_CHECK_BYTES(again, loss, sizeof(loss));
    }
    return explained;
}

/* All tables of small worlds: exactly those of some tree are accepted. Trees of 3 members: 3 chains
 * and two kinds of one node. Of 4: 15 binary ones; 6 + 4 with one node of three, for each of its
 * kinds; two of one node. (a b (c d)) and ((a b) c d) lose alike: 3 of the 6 are one with another.
 */
CT_TEST(probe_tree, other_losses_are_refused)
{
    uint32_t several = 0;

    CT_CHECK_EQ_U64(count_explained(2, &several), 1);
    CT_CHECK_EQ_U64(several, 0);
    CT_CHECK_EQ_U64(count_explained(3, &several), 3 + 2);
    CT_CHECK_EQ_U64(several, 0);
    CT_CHECK_EQ_U64(count_explained(4, &several), 15 + 2 * (6 + 4) + 2 - 3);
    CT_CHECK_EQ_U64(several, 3);
}
