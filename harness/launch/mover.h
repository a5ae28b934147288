/* Plans whose all-reduces a plug-in does that moves the data itself: what it cannot do. */
#ifndef HARNESS_LAUNCH_MOVER_H
#define HARNESS_LAUNCH_MOVER_H

#include "harness/launch/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* OK for plans without such a plug-in; what is wrong with one, ranks say. Errors: E_UNSUPPORTED: a
 * fault is in a schedule, where there is none; or it says that it cannot do what buckets, or
 * faults, ask for. */
DDP_MUST_USE ddp_status harness_mover_check(const struct harness_plan *plan, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
