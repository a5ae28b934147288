/* Fibers: stacks of their own inside one thread, switched by hand. */
#ifndef HARNESS_TASK_FIBER_H
#define HARNESS_TASK_FIBER_H

#include <stdbool.h>
#include <stddef.h>

#include "ddpcore/base/status.h"

struct harness_fiber;

/* A fiber that will run entry(context) when first resumed. stack_bytes is rounded up to pages; a
 * guard page below the stack turns an overflow into a fault. */
DDP_MUST_USE ddp_status harness_fiber_create(size_t stack_bytes, void (*entry)(void *context),
                                             void *context, struct harness_fiber **out);
/* Run the fiber until it yields or its entry returns. Not from inside a fiber. */
void harness_fiber_resume(struct harness_fiber *fiber);
/* Back to whoever resumed this fiber. Only from inside it. */
void harness_fiber_yield(struct harness_fiber *fiber);
/* The entry has returned. */
bool harness_fiber_is_done(const struct harness_fiber *fiber);
/* Release the stack, wherever the fiber stopped: its frames are dropped, not unwound. */
void harness_fiber_destroy(struct harness_fiber *fiber);

#endif
