/* Drivers: run all ranks of a plan and bring back the trace. `sim`: fibers in one thread under a
 * seeded scheduler and a virtual clock; the same seed gives the same bytes. `proc`: one process a
 * rank, a monitor process beside them. Neither leaves anything behind, whatever happens. */
#ifndef HARNESS_LAUNCH_LAUNCH_H
#define HARNESS_LAUNCH_LAUNCH_H

#include "harness/plan/program.h"
#include "harness/rank/rank.h"
#include "harness/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_launch_config {
    const struct harness_plan *plan;
    const struct harness_program *program;
    struct harness_rank_options rank; /* run_dir must exist */
    uint64_t seed;                    /* of the simulator's scheduler and network */
    const char *self_path;            /* proc: executable to start ranks from ("/proc/self/exe") */
    const char *plan_path;            /* proc: the plan, printed, for the ranks to read */
    uint64_t linger_ns; /* after a provable verdict, how long survivors get to end by themselves
                         * before they are ended; 0 = default (proc 2 s real, sim 10 s virtual) */
};

struct harness_driver_ops {
    const char *name;
    /* Run to the end and fill trace (initialised by the callee). Errors are the harness's own
     * (outcome ERROR); whatever ranks do ends up in the trace. */
    ddp_status (*run)(struct ddp_mem *mem, const struct harness_launch_config *config,
                      struct harness_trace *out, struct ddp_err *err);
};
const struct harness_driver_ops *harness_driver_sim(void);
const struct harness_driver_ops *harness_driver_proc(void);

/* Entry of a rank process of the proc driver: `ddprove rank`, with its descriptors and identity in
 * the environment; returns the process's exit code. */
int harness_launch_rank_main(void);

#ifdef __cplusplus
}
#endif
#endif
