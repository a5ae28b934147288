/* Limits of this machine that would end a job of real processes, found before it starts: a rank
 * that gets no descriptor or no connection looks as one that hangs. */
#ifndef HARNESS_LAUNCH_LIMIT_H
#define HARNESS_LAUNCH_LIMIT_H

#include "ddpcore/base/status.h"
#include "harness/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Raise this process's limit of descriptors as far as the job needs and the system allows, and see
 * whether descriptors, address space and the loopback interface are enough for it. Errors:
 * E_SYSTEM, with what is missing and how to get it. */
DDP_MUST_USE ddp_status harness_limits_prepare(const struct harness_plan *plan,
                                               struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
