/* A built-in algorithm that crashes is wrong, and must not take the lab along. Internal to
 * harness/coll. */
#ifndef HARNESS_COLL_GUARDED_H
#define HARNESS_COLL_GUARDED_H

#include "ddpcore/schedule/algorithm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Have the algorithm emit into the schedule, which holds its status then. Errors: E_INVALID: it was
 * ended by a signal, or computed for longer than cpu_ms, and err says so; the schedule's memory is
 * not to be touched any more, and this process should do little else. One thread at a time. */
DDP_MUST_USE ddp_status harness_coll_guarded_emit(const struct ddp_algorithm *algorithm,
                                                  struct ddp_schedule *schedule, unsigned cpu_ms,
                                                  struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
