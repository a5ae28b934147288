/* Averages of parameters, for trainers whose ranks step alone in between (post-local SGD; PyTorch's
 * PeriodicModelAverager). */
#ifndef DDPCORE_DDP_AVERAGE_H
#define DDPCORE_DDP_AVERAGE_H

#include "ddpcore/ddp/ddp.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether parameters are averaged behind step `step` (from 0): behind step warmup_steps, and then
 * every `period` steps. period > 0. */
bool ddp_average_due(uint64_t step, uint64_t warmup_steps, uint64_t period);
/* Divide each parameter by the world size, in its type, and sum over ranks: one all-reduce each
 * (role AVERAGE, index: the parameter). All ranks call it, outside of passes. Errors: E_STATE, and
 * the group's and device's. */
DDP_MUST_USE ddp_status ddp_average_params(struct ddp *ddp);

#ifdef __cplusplus
}
#endif
#endif
