/* Sums that one rank makes of what all ranks send it, in the order of their ranks: every rank that
 * does so gets the same bits, whoever it is. */
#ifndef DDPCORE_SCHEDULE_FOLD_H
#define DDPCORE_SCHEDULE_FOLD_H

#include "ddpcore/schedule/emit.h"

/* sum = ((x0 + x1) + x2) + ..., with x the message of each rank to this one in this round, and
 * `own` in this rank's turn. own: the rank's data outside of `sum`, for rank 0 it may be `sum`
 * itself. before: the step that `sum` may be overwritten after, or DDP_STEP_NONE. Returns the last
 * step that writes it. */
uint32_t ddp_fold_emit(struct ddp_schedule *schedule, uint32_t round, struct ddp_range sum,
                       struct ddp_range own, uint32_t before);
/* The sum of one rank's data. For worlds of one. */
void ddp_fold_alone(struct ddp_schedule *schedule);

#endif
