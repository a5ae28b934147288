/* Cooperating tasks: the straight-line code of each rank of a group, in one thread. A task runs
 * until it ends or waits at an exchange for all the others; once every task waits at the same
 * exchange, it is carried out and all go on. A task that never waits leaves its stack to the next
 * one, so only tasks that wait need stacks of their own. */
#ifndef HARNESS_TASK_TASK_H
#define HARNESS_TASK_TASK_H

#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One task of the group that runs. */
struct harness_task;

/* What a task waits for. All tasks of a group must come to an exchange of equal name, tag,
 * input_bytes and carry_out; output and context are each task's own. */
struct harness_exchange {
    const char *name; /* for messages */
    uint64_t tag;     /* tells exchanges of one name apart: a layer, a parameter */
    const void *input;
    size_t input_bytes;
    void *output;
    const void *context; /* for carry_out */
    /* Fill the outputs of all tasks from their inputs; all[i] is task i's. */
    ddp_status (*carry_out)(const struct harness_exchange *const *all, uint32_t task_count);
};

/* Stacks that are kept from one group to the next. */
struct harness_task_stacks;
DDP_MUST_USE ddp_status harness_task_stacks_create(struct ddp_mem *mem,
                                                   struct harness_task_stacks **out);
void harness_task_stacks_destroy(struct harness_task_stacks *stacks);
/* Stacks that were made so far. */
size_t harness_task_stacks_count(const struct harness_task_stacks *stacks);

struct harness_task_group {
    uint32_t task_count;
    void *context;
    /* The code of task number `index`. */
    ddp_status (*run)(void *context, uint32_t index, struct harness_task *task);
};

/* Run all tasks to their ends; returns the first error of a task or of an exchange. When one fails,
 * the exchange at which others wait returns that error to them, so that they can release what they
 * hold; tasks that have not begun do not begin. Not from inside a task. Errors besides the tasks'
 * own: E_MISMATCH (tasks wait at different exchanges, or some ended while others wait; err says
 * which), E_NOMEM, E_SYSTEM. */
DDP_MUST_USE ddp_status harness_task_group_run(const struct harness_task_group *group,
                                               struct harness_task_stacks *stacks,
                                               struct ddp_err *err);

/* Wait for all tasks of the group and carry the exchange out. Only from the task itself. The
 * exchange and its buffers stay the caller's. */
DDP_MUST_USE ddp_status harness_task_exchange(struct harness_task *task,
                                              const struct harness_exchange *exchange);
/* Everybody's input, in the order of the tasks. output: [task_count][input_bytes]. */
DDP_MUST_USE ddp_status harness_task_gather(struct harness_task *task, const char *name,
                                            uint64_t tag, const void *input, size_t input_bytes,
                                            void *output);

#ifdef __cplusplus
}
#endif
#endif
