/* Two levels: a binomial tree within each node, then one among the nodes' first ranks, so that each
 * node's sum leaves it once and the result enters it once. Nodes may be of any sizes, and a node's
 * ranks anywhere. Without nodes all ranks are on one, and this is a binomial tree.
 *
 * Within a node, ranks count from 0 in their order, and so do nodes in the order of their first
 * ranks; as in a binomial tree, number i > 0 gives to number i & (i - 1). */
#include "ddpcore/schedule/tree.h"

static uint32_t node_of(const struct ddp_schedule_params *params, uint32_t rank)
{
    return params->node_of_rank == NULL ? 0 : params->node_of_rank[rank];
}

/* The first rank of the node that `rank` is on. */
static uint32_t leader_of(const struct ddp_schedule_params *params, uint32_t rank)
{
    uint32_t leader = 0;

    while (node_of(params, leader) != node_of(params, rank)) {
        leader++;
    }
    DDP_ASSERT(leader <= rank);
    return leader;
}

/* Ranks before `rank` that are on its node; of a leader: leaders before it. */
static uint32_t number_of(const struct ddp_schedule_params *params, uint32_t rank, bool is_leader)
{
    uint32_t number = 0;

    for (uint32_t other = 0; other < rank; other++) {
        bool is_peer = is_leader ? leader_of(params, other) == other
                                 : node_of(params, other) == node_of(params, rank);

        number += is_peer ? 1 : 0;
    }
    return number;
}

static uint32_t parent_of(const struct ddp_schedule_params *params, uint32_t rank)
{
    if (params->node_of_rank == NULL) {
        return rank > 0 ? rank & (rank - 1) : 0; /* all are on one node: what follows, at once */
    }
    bool is_leader = leader_of(params, rank) == rank;
    uint32_t number = number_of(params, rank, is_leader);

    /* Back to the rank that has the parent's number among the same ranks. */
    for (uint32_t other = 0; number > 0 && other < rank; other++) {
        bool is_peer = is_leader ? leader_of(params, other) == other
                                 : node_of(params, other) == node_of(params, rank);

        if (is_peer && number_of(params, other, is_leader) == (number & (number - 1))) {
            return other;
        }
    }
    return rank; /* the first leader: the root */
}

void ddp_emit_hierarchical(struct ddp_schedule *schedule)
{
    static ddp_tree_parent_fn *const parents[] = {parent_of};

    ddp_tree_emit(schedule, parents, 1);
}
