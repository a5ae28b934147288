/* When the steps of a set run, if messages take time and a rank sends and receives one at a time.
 * Internal. */
#ifndef HARNESS_COLL_TIMELINE_H
#define HARNESS_COLL_TIMELINE_H

#include "harness/sums/schedule_set.h"

/* A message of n elements takes alpha + n beta; adding n elements takes n gamma. */
struct harness_coll_model {
    double alpha, beta, gamma;
};

struct harness_coll_timeline {
    struct ddp_mem *mem;
    double *start, *end; /* [event of the set] */
    size_t *order;       /* [event] their numbers, the earliest first */
    double total;
};

/* Of the events that a set has: all, or those until it is stuck. _fini also after an error.
 * Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_coll_timeline_make(const struct harness_schedule_set *set,
                                                   const struct harness_coll_model *model,
                                                   struct ddp_mem *mem,
                                                   struct harness_coll_timeline *out);
void harness_coll_timeline_fini(struct harness_coll_timeline *timeline);

#endif
