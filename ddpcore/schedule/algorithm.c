/* The table of built-in algorithms. The first row of a kind is its default. */
#include "ddpcore/schedule/algorithm.h"

#include <stdio.h>
#include <string.h>

#include "ddpcore/schedule/emit.h"

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

ddp_status ddp_algorithm_require(enum ddp_coll_kind kind, const char *name,
                                 const struct ddp_algorithm **out, struct ddp_err *err)
{
    char known[256] = "";
    size_t used = 0;

    *out = ddp_algorithm_find(kind, name);
    if (*out != NULL) {
        return DDP_OK;
    }
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]) && used < sizeof(known); i++) {
        if (table[i].kind == kind) {
            int size = snprintf(known + used, sizeof(known) - used, "%s%s", used > 0 ? ", " : "",
                                table[i].name);
            used += size > 0 ? (size_t)size : 0;
        }
    }
    return ddp_err_set(err, DDP_E_NOT_FOUND, "there is no %s algorithm \"%s\" (known: %s)",
                       ddp_coll_kind_name(kind), name != NULL ? name : "", known);
}
