/* The monitor's sampler on the memory of a job in the proc driver. The monitor process has one; the
 * launcher opens its own if the monitor fails. Internal to the proc driver. */
#ifndef HARNESS_PROC_SAMPLER_H
#define HARNESS_PROC_SAMPLER_H

#include "harness/launch/ending.h"
#include "harness/launch/lag.h"
#include "harness/monitor/sampler.h"
#include "harness/proc/shared.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of a rank that does not show life: is its process at its end? */
struct harness_proc_ending {
    uint64_t read_ns;  /* when the kernel was last asked; 0: not yet */
    uint64_t since_ns; /* since then it says so; 0: it does not */
    int status;        /* as wait() will say it */
    bool is_given_up;  /* it has not ended for HARNESS_ENDING_MAX_NS */
};

struct harness_proc_sampler {
    struct harness_sampler base;
    struct harness_proc_head *head;
    struct harness_lag *lags;            /* [world_size] */
    struct harness_proc_ending *endings; /* [world_size] */
};

/* sampler must not move afterwards. Errors: E_NOMEM; then there is nothing to release. */
DDP_MUST_USE ddp_status harness_proc_sampler_init(struct harness_proc_sampler *sampler,
                                                  struct ddp_mem *mem,
                                                  const struct harness_plan *plan,
                                                  const struct harness_program *program,
                                                  const struct harness_tables *tables,
                                                  struct harness_proc_head *head);
void harness_proc_sampler_fini(struct harness_proc_sampler *sampler);

#ifdef __cplusplus
}
#endif
#endif
