/* The proc driver: one process a rank, the monitor's and the store's beside them, and the launcher.
 */
#ifndef HARNESS_PROC_PROC_H
#define HARNESS_PROC_PROC_H

#include "harness/launch/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

const struct harness_driver_ops *harness_proc_driver(void);
/* Whether the plan's faults of processes' calls can strike here: libfiu's preload library is there.
 */
bool harness_proc_can_strike(const struct harness_plan *plan);

/* Entry of a rank process: `ddprove rank`, with its descriptors and identity in the environment;
 * returns the process's exit code. Under mpirun it is first a guard, which starts the rank and
 * reports its end. */
int harness_proc_rank_main(void);

#ifdef __cplusplus
}
#endif
#endif
