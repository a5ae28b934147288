/* Double binary tree: two binary trees, each for half of the elements, so placed that no rank is
 * busy in both: a leaf of one is inside the other, and both directions of a link are used.
 * Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan",
 * Parallel Computing 35 (2009).
 *
 * The first tree is in order: with b the lowest bit of place p > 0, its children are p - b/2 and
 * p + b/2, so odd places are leaves. Upwards: p - b and p + b have a higher lowest bit, and the one
 * that has exactly 2b is the parent:
 *     parent(p) = (p without b) with 2b; where that is beyond the last place, p without b.
 * Place 0 is the root, above the largest power of two. The second tree has the ranks in other
 * places, those at even ones in odd ones: mirrored if there is an even number of them, else moved
 * by one. */
#include "ddpcore/schedule/tree.h"

/* Of place 0, which has no lowest bit: 0. */
static uint32_t parent_place(uint32_t size, uint32_t place)
{
    uint32_t bit = place & (~place + 1);
    uint32_t parent = (place ^ bit) | (bit << 1);

    return parent < size ? parent : place ^ bit;
}

static uint32_t first_parent(const struct ddp_schedule_params *params, uint32_t rank)
{
    return parent_place(params->size, rank);
}

static uint32_t second_parent(const struct ddp_schedule_params *params, uint32_t rank)
{
    uint32_t size = params->size;

    if (size % 2 == 0) {
        return size - 1 - parent_place(size, size - 1 - rank);
    }
    return (parent_place(size, (rank + size - 1) % size) + 1) % size;
}

void ddp_emit_double_binary_tree(struct ddp_schedule *schedule)
{
    static ddp_tree_parent_fn *const parents[] = {first_parent, second_parent};

    ddp_tree_emit(schedule, parents, 2);
}
