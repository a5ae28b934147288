/* The table of built-in algorithms. The first row of a kind is its default. */
#include "ddpcore/collective/algorithm.h"

#include <string.h>

#include "ddpcore/collective/emit.h"

static const struct ddp_algorithm table[] = {
    {"ring", DDP_COLL_ALL_REDUCE,
     "reduce-scatter, then all-gather, around a ring: least data moved, 2(n-1) rounds",
     ddp_emit_ring},
    {"recursive_doubling", DDP_COLL_ALL_REDUCE,
     "partners at distance 1, 2, 4, ... exchange everything: fewest rounds, for small counts",
     ddp_emit_recursive_doubling},
    {"binomial_broadcast", DDP_COLL_BROADCAST, "a binomial tree from the root: log2(n) rounds",
     ddp_emit_binomial_broadcast},
    {"ring_all_gather", DDP_COLL_ALL_GATHER, "every block goes once around the ring",
     ddp_emit_ring_all_gather},
    {"dissemination_barrier", DDP_COLL_BARRIER, "signals at distance 1, 2, 4, ...: log2(n) rounds",
     ddp_emit_dissemination_barrier},
};

const struct ddp_algorithm *ddp_algorithm_table(size_t *out_count)
{
    *out_count = sizeof(table) / sizeof(table[0]);
    return table;
}

const struct ddp_algorithm *ddp_algorithm_find(enum ddp_coll_kind kind, const char *name)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (table[i].kind == kind && (name == NULL || strcmp(table[i].name, name) == 0)) {
            return &table[i];
        }
    }
    return NULL;
}
