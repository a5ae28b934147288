/* What an algorithm costs in a world, and how wrong its sums may be. Internal. */
#ifndef HARNESS_COLL_MEASURE_H
#define HARNESS_COLL_MEASURE_H

#include "harness/coll/coll.h"

/* Of an algorithm that was found right. out->world 0: it cannot be asked this. Errors: E_NOMEM,
 * E_IO. */
DDP_MUST_USE ddp_status harness_coll_measure(struct harness_coll_source *source, uint32_t world,
                                             struct harness_coll_cost *out, struct ddp_err *err);

#endif
