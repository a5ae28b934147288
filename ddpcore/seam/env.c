/* The surroundings of a rank that is a real process. */
#include "ddpcore/seam/env.h"

#include <sched.h>

/* CPUs that this process may run on; 1 when that cannot be known. */
static uint32_t usable_cpu_count(void)
{
    cpu_set_t set;
    int count;

    if (sched_getaffinity(0, sizeof(set), &set) != 0) {
        return 1;
    }
    count = CPU_COUNT(&set);
    return count > 0 ? (uint32_t)count : 1;
}

void ddp_env_init_process(struct ddp_env *env, struct ddp_idle_process *idle, uint32_t rank,
                          uint32_t world_size)
{
    struct ddp_clock *clock = ddp_clock_monotonic();

    DDP_ASSERT(rank < world_size);
    ddp_idle_process_init(idle, clock, world_size <= usable_cpu_count());
    env->rank = rank;
    env->world_size = world_size;
    env->mem = ddp_mem_system();
    env->clock = clock;
    env->files = ddp_files_system();
    env->idle = &idle->base;
    env->recorder = NULL;
    env->faults = NULL;
}
