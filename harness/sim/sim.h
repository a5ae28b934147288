/* The sim driver: all ranks as fibers of one thread under a seeded scheduler, a virtual clock, a
 * simulated network and files in memory. The same configuration gives the same bytes. */
#ifndef HARNESS_SIM_SIM_H
#define HARNESS_SIM_SIM_H

#include "harness/launch/launch.h"

#ifdef __cplusplus
extern "C" {
#endif

const struct harness_driver_ops *harness_sim_driver(void);

/* What a run cost and left behind, for tests and benchmarks. */
struct harness_sim_stats {
    uint64_t switch_count;
    size_t leaked_block_count; /* in the memory of ranks that ended by themselves */
};

/* As the driver's run. stats may be NULL. */
DDP_MUST_USE ddp_status harness_sim_run(struct ddp_mem *mem,
                                        const struct harness_launch_config *config,
                                        struct harness_trace *out, struct harness_sim_stats *stats,
                                        struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
