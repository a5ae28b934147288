/* All-reduce along trees of ranks: each rank adds what its children give to its own, gives the sum
 * to its parent, takes the result from it and hands it to its children. An algorithm says only who
 * is whose parent; that is also what the order of a sum follows from: a rank adds its children's
 * sums to its own data, the child with the lowest subtree first, of two equally high the one with
 * the lower rank. */
#ifndef DDPCORE_SCHEDULE_TREE_H
#define DDPCORE_SCHEDULE_TREE_H

#include "ddpcore/schedule/emit.h"

#define DDP_TREES_MAX 2u

/* The parent of a rank; the root is its own. Pure: every rank works out the same tree. */
typedef uint32_t ddp_tree_parent_fn(const struct ddp_schedule_params *params, uint32_t rank);

/* Emits an all-reduce of the whole count along tree_count trees (1 to DDP_TREES_MAX), each for one
 * part of the count; ddp_emit_split says which. With h the height of a rank's subtree and H the
 * greatest height of a root, it gives in round h and takes in round 2H - 1 - h: a parent is higher
 * than its children, so that it gives later than they and takes earlier. */
void ddp_tree_emit(struct ddp_schedule *schedule, ddp_tree_parent_fn *const *parents,
                   uint32_t tree_count);

#endif
