/* A rank's surroundings: everything it takes from outside, in one struct, so that the same rank
 * program runs as a real process, as a fiber of the simulator, or inside somebody's trainer. */
#ifndef DDPCORE_SEAM_ENV_H
#define DDPCORE_SEAM_ENV_H

#include "ddpcore/base/clock.h"
#include "ddpcore/base/file.h"
#include "ddpcore/base/idle.h"
#include "ddpcore/base/mem.h"
#include "ddpcore/seam/fault_point.h"
#include "ddpcore/seam/recorder.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_env {
    uint32_t rank;
    uint32_t world_size;
    struct ddp_mem *mem;
    struct ddp_clock *clock;
    struct ddp_files *files;
    struct ddp_idle *idle;
    struct ddp_recorder *recorder; /* NULL: nothing is recorded */
    struct ddp_fault_hook *faults; /* NULL: no point can fire */
};

/* An environment for a real process: system heap, monotonic clock, real files, process idling, no
 * recorder, no faults. idle: caller's storage, borrowed as long as env is used. */
void ddp_env_init_process(struct ddp_env *env, struct ddp_idle_process *idle, uint32_t rank,
                          uint32_t world_size);

#ifdef __cplusplus
}
#endif
#endif
