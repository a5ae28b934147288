/* Binomial-tree all-reduce: reduced to rank 0 and sent back, in ceil(log2 n) rounds each way.
 * Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
 * 2005, section 4.3 (reduce) and 4.2 (broadcast).
 *
 * In round k, ranks whose lowest bit is 2^k give to the rank without that bit:
 *     parent(r) = r - lowest bit of r = r & (r - 1)
 * The rank whose lowest bit is 2^k is the root of ranks r ... r + 2^k - 1. */
#include "ddpcore/schedule/tree.h"

static uint32_t parent_of(const struct ddp_schedule_params *params, uint32_t rank)
{
    (void)params;
    return rank == 0 ? 0 : rank & (rank - 1);
}

void ddp_emit_binomial_tree(struct ddp_schedule *schedule)
{
    static ddp_tree_parent_fn *const parents[] = {parent_of};

    ddp_tree_emit(schedule, parents, 1);
}
