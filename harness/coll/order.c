/* Purpose: compare the trees in which elements are added.
 * Idea: within a set equal trees are the same node; between sets their hashes are equal. */
#include "harness/coll/order.h"

#include <stdio.h>

static ddp_status print_tree(const struct harness_schedule_sums *sums, uint32_t node, char *tree)
{
    struct ddp_text text;
    ddp_status status;

    ddp_text_init(&text, sums->mem);
    status = harness_schedule_sums_print(sums, node, &text);
    (void)snprintf(tree, HARNESS_COLL_TREE_BYTES, "%s", ddp_text_str(&text));
    ddp_text_fini(&text);
    return status;
}

ddp_status harness_coll_compare_ranks(const struct harness_schedule_sums *sums,
                                      struct harness_step_place *place, char *text,
                                      size_t size_bytes)
{
    size_t elem_count = harness_schedule_output(sums->set->member[0]).elem_count;
    const uint32_t *first_row = harness_schedule_sums_row(sums, 0);

    for (uint32_t r = 1; r < sums->size; r++) {
        const uint32_t *row = harness_schedule_sums_row(sums, r);

        for (size_t i = 0; i < elem_count; i++) {
            uint32_t first = first_row[i];
            uint32_t other = row[i];
            char first_tree[HARNESS_COLL_TREE_BYTES], other_tree[HARNESS_COLL_TREE_BYTES];

            if (first == other) {
                continue;
            }
            DDP_TRY(print_tree(sums, first, first_tree));
            DDP_TRY(print_tree(sums, other, other_tree));
            (void)snprintf(text, size_bytes, "element %zu: rank 0 adds %s, rank %u adds %s", i,
                           first_tree, r, other_tree);
            *place = (struct harness_step_place){r, -1, (int64_t)i};
            return DDP_OK;
        }
    }
    return DDP_OK;
}

/* The place of the case's world, root and type; what it holds may be of a smaller world. */
static struct harness_coll_order *first_of(struct harness_coll_orders *orders,
                                           const struct harness_coll_case *test)
{
    uint32_t at = 0;

    while (orders->first[at].world == test->world &&
           (orders->first[at].root != test->root || orders->first[at].dtype != test->dtype)) {
        at++;
        DDP_ASSERT(
            at <
            HARNESS_COLL_ORDERS_MAX); /* a world has so many roots that are asked, of three types */
    }
    return &orders->first[at];
}

/* text: how the element is added differently from the first one; "": it is not. */
static ddp_status compare_elem(struct harness_coll_order *first,
                               const struct harness_coll_case *test,
                               const struct harness_schedule_sums *sums, uint32_t rank, size_t elem,
                               uint32_t node, char *text, size_t size_bytes)
{
    char tree[HARNESS_COLL_TREE_BYTES];

    if (first->world != test->world) {
        *first = (struct harness_coll_order){.world = test->world,
                                             .root = test->root,
                                             .rank = rank,
                                             .dtype = test->dtype,
                                             .hash = sums->nodes[node].hash,
                                             .elem_count = test->elem_count,
                                             .elem = elem};
        return print_tree(sums, node, first->tree);
    }
    if (first->hash != sums->nodes[node].hash) {
        DDP_TRY(print_tree(sums, node, tree));
        (void)snprintf(text, size_bytes,
                       "element %zu of %zu on rank %u is added as %s, element %zu of %zu on rank "
                       "%u as %s",
                       elem, test->elem_count, rank, tree, first->elem, first->elem_count,
                       first->rank, first->tree);
    }
    return DDP_OK;
}

ddp_status harness_coll_compare_order(struct harness_coll_orders *orders,
                                      const struct harness_coll_case *test,
                                      const struct harness_schedule_sums *sums,
                                      struct harness_step_place *place, char *text,
                                      size_t size_bytes)
{
    struct harness_coll_order *first = first_of(orders, test);
    /* What all ranks get in the same order is looked at on one of them. */
    bool is_for_all = sums->set->any->kind == DDP_COLL_ALL_REDUCE;
    uint32_t rank_end = is_for_all ? 1 : sums->size;

    for (uint32_t r = 0; test->node_of_rank == NULL && text[0] == '\0' && r < rank_end; r++) {
        size_t elem_count = harness_schedule_output(sums->set->member[r]).elem_count;
        const uint32_t *row = harness_schedule_sums_row(sums, r);

        for (size_t i = 0; text[0] == '\0' && i < elem_count; i++) {
            if (i > 0 && row[i] == row[i - 1]) {
                continue; /* mostly */
            }
            DDP_TRY(compare_elem(first, test, sums, r, i, row[i], text, size_bytes));
            *place = (struct harness_step_place){r, -1, (int64_t)i};
        }
    }
    return DDP_OK;
}
