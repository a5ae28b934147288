/* In which trees elements are added: compared between ranks, elements and counts. Internal. */
#ifndef HARNESS_COLL_ORDER_H
#define HARNESS_COLL_ORDER_H

#include "harness/coll/coll.h"
#include "harness/sums/schedule_sums.h"

enum { HARNESS_COLL_TREE_BYTES = 220, HARNESS_COLL_ORDERS_MAX = 27 };

/* The order of the first element of a world, root and type, which all others are compared with. */
struct harness_coll_order {
    uint32_t world; /* 0: none yet */
    uint32_t root, rank;
    enum ddp_dtype dtype;
    uint64_t hash;
    size_t elem_count, elem;
    char tree[HARNESS_COLL_TREE_BYTES];
};
/* Zero at first. Cases must come world by world. */
struct harness_coll_orders {
    struct harness_coll_order first[HARNESS_COLL_ORDERS_MAX];
};

/* Where a rank adds an element of its output in another tree than rank 0; text is "" else. Of kinds
 * that give all ranks the same. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_coll_compare_ranks(const struct harness_schedule_sums *sums,
                                                   struct harness_step_place *place, char *text,
                                                   size_t size_bytes);
/* Where an element is added in another tree than the first one of its world, root and type. Ranks
 * on other nodes are another machine: only cases of one are compared. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_coll_compare_order(struct harness_coll_orders *orders,
                                                   const struct harness_coll_case *test,
                                                   const struct harness_schedule_sums *sums,
                                                   struct harness_step_place *place, char *text,
                                                   size_t size_bytes);

#endif
