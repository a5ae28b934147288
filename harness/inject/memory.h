/* A rank without memory: from a fault on, its allocations fail, for good.
 *
 * The table of memory here stands in front of the rank's own and asks libfiu, at its point for
 * malloc, whose external callback decides. Only what the rank allocates through its environment
 * counts: not the C library's or a third library's own memory. Private to inject. */
#ifndef HARNESS_INJECT_MEMORY_H
#define HARNESS_INJECT_MEMORY_H

#include "ddpcore/seam/env.h"
#include "harness/plan/plan.h"

struct harness_memory;
DDP_MUST_USE ddp_status harness_memory_create(struct ddp_env *env, const struct harness_plan *plan,
                                              struct harness_memory **out);
void harness_memory_destroy(struct harness_memory *memory);
/* The rank's memory. Its blocks are inner's, which is the environment's of _create. */
struct ddp_mem *harness_memory_mem(struct harness_memory *memory);
/* The plan's fault number `fault` was reached, at match number `hit` of its trigger: allocations
 * count from now on. The event fault.fired is recorded when the first of them fails. */
void harness_memory_arm(struct harness_memory *memory, uint32_t fault, uint64_t hit);

/* Enable libfiu's point, if the plan has such a fault. */
DDP_MUST_USE ddp_status harness_memory_open(const struct harness_plan *plan, struct ddp_err *err);
void harness_memory_close(void);

#endif
