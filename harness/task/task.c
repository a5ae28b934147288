/* Purpose: run the tasks of a group in turn, and carry out the exchanges at which all of them wait.
 * Idea: a stack runs one task after another; a task that waits keeps its stack, and the next task
 * takes a fresh one. Order never depends on anything but the tasks' numbers. */
#include "harness/task/task.h"

#include <stdbool.h>
#include <string.h>

#include "harness/task/fiber.h"

/* As large as a main thread's: a pass calls libraries that may load code on a device. Only touched
 * pages cost memory. */
#define STACK_BYTES ((size_t)8 * 1024 * 1024)

struct stack {
    struct stack *next; /* among the free ones, or among all */
    struct stack *next_free;
    struct harness_fiber *fiber;
    struct harness_task *task; /* runs or waits on it; NULL: free */
};

struct harness_task_stacks {
    struct ddp_mem *mem;
    struct stack *all, *free;
    size_t count;
};

struct run;

struct harness_task {
    struct run *run;
    uint32_t index;
    struct stack *stack;                     /* NULL: not begun, or ended */
    const struct harness_exchange *exchange; /* waits at it; NULL: does not wait */
    ddp_status result;                       /* of the exchange */
};

/* A group while it runs. */
struct run {
    const struct harness_task_group *group;
    struct harness_task *tasks;
    uint32_t waiting_count;
    ddp_status status; /* the first error */
};

static void fail(struct run *run, ddp_status status)
{
    if (run->status == DDP_OK) {
        run->status = status;
    }
}

/* --- stacks ----------------------------------------------------------------------------------- */

/* Runs task after task, for ever; between two of them it yields. */
static void stack_main(void *context)
{
    struct stack *stack = context;

    for (;;) {
        struct harness_task *task = stack->task;
        struct run *run;

        DDP_ASSERT(task != NULL); /* a stack is entered with a task only */
        run = task->run;
        fail(run, run->group->run(run->group->context, task->index, task));
        stack->task = NULL;
        harness_fiber_yield(stack->fiber);
    }
}

static ddp_status take_stack(struct harness_task_stacks *stacks, struct stack **out)
{
    struct stack *stack = stacks->free;
    ddp_status status;

    if (stack != NULL) {
        stacks->free = stack->next_free;
        *out = stack;
        return DDP_OK;
    }
    stack = ddp_mem_array(stacks->mem, 1, sizeof(*stack));
    if (stack == NULL) {
        return DDP_E_NOMEM;
    }
    status = harness_fiber_create(STACK_BYTES, stack_main, stack, &stack->fiber);
    if (status != DDP_OK) {
        ddp_mem_free(stacks->mem, stack);
        return status;
    }
    stack->next = stacks->all;
    stacks->all = stack;
    stacks->count++;
    *out = stack;
    return DDP_OK;
}

ddp_status harness_task_stacks_create(struct ddp_mem *mem, struct harness_task_stacks **out)
{
    *out = ddp_mem_array(mem, 1, sizeof(**out));
    if (*out == NULL) {
        return DDP_E_NOMEM;
    }
    (*out)->mem = mem;
    return DDP_OK;
}

void harness_task_stacks_destroy(struct harness_task_stacks *stacks)
{
    if (stacks == NULL) {
        return;
    }
    while (stacks->all != NULL) {
        struct stack *stack = stacks->all;

        DDP_ASSERT(stack->task == NULL);
        stacks->all = stack->next;
        harness_fiber_destroy(stack->fiber);
        ddp_mem_free(stacks->mem, stack);
    }
    ddp_mem_free(stacks->mem, stacks);
}

size_t harness_task_stacks_count(const struct harness_task_stacks *stacks)
{
    return stacks->count;
}

/* --- a group ---------------------------------------------------------------------------------- */

/* Let a task run until it waits or ends. */
static void resume(struct run *run, struct harness_task *task, struct harness_task_stacks *stacks)
{
    struct stack *stack = task->stack;

    if (task->exchange != NULL) {
        task->exchange = NULL;
        run->waiting_count--;
    }
    harness_fiber_resume(stack->fiber);
    if (task->exchange != NULL) {
        run->waiting_count++;
        return;
    }
    DDP_ASSERT(stack->task == NULL);
    task->stack = NULL;
    stack->next_free = stacks->free;
    stacks->free = stack;
}

static void begin_all(struct run *run, struct harness_task_stacks *stacks)
{
    for (uint32_t i = 0; run->status == DDP_OK && i < run->group->task_count; i++) {
        struct harness_task *task = &run->tasks[i];

        task->run = run;
        task->index = i;
        fail(run, take_stack(stacks, &task->stack));
        if (task->stack != NULL) {
            task->stack->task = task;
            resume(run, task, stacks);
        }
    }
}

static bool is_same(const struct harness_exchange *a, const struct harness_exchange *b)
{
    return strcmp(a->name, b->name) == 0 && a->tag == b->tag && a->input_bytes == b->input_bytes &&
           a->carry_out == b->carry_out;
}

static ddp_status refuse(const struct harness_task *first, const struct harness_task *task,
                         struct ddp_err *err)
{
    const struct harness_exchange *a = first->exchange;
    const struct harness_exchange *b = task->exchange;

    if (b == NULL) {
        return ddp_err_set(err, DDP_E_MISMATCH,
                           "task %u waits at exchange %s %llu, and task %u has ended", first->index,
                           a->name, (unsigned long long)a->tag, task->index);
    }
    return ddp_err_set(err, DDP_E_MISMATCH,
                       "task %u waits at exchange %s %llu (%zu bytes), task %u at %s %llu (%zu "
                       "bytes)",
                       first->index, a->name, (unsigned long long)a->tag, a->input_bytes,
                       task->index, b->name, (unsigned long long)b->tag, b->input_bytes);
}

/* All tasks have begun; some wait. */
static ddp_status carry_out(const struct run *run, const struct harness_exchange **all,
                            struct ddp_err *err)
{
    uint32_t task_count = run->group->task_count;
    const struct harness_task *first = run->tasks;

    while (first->exchange == NULL) {
        first++;
    }
    for (uint32_t i = 0; i < task_count; i++) {
        const struct harness_task *task = &run->tasks[i];

        if (task->exchange == NULL || !is_same(first->exchange, task->exchange)) {
            return refuse(first, task, err);
        }
        all[i] = task->exchange;
    }
    return first->exchange->carry_out(all, task_count);
}

static void resume_waiting(struct run *run, struct harness_task_stacks *stacks)
{
    for (uint32_t i = 0; i < run->group->task_count; i++) {
        struct harness_task *task = &run->tasks[i];

        if (task->exchange != NULL) {
            task->result = run->status;
            resume(run, task, stacks);
        }
    }
}

ddp_status harness_task_group_run(const struct harness_task_group *group,
                                  struct harness_task_stacks *stacks, struct ddp_err *err)
{
    struct run run = {.group = group};
    const struct harness_exchange **all =
        ddp_mem_array(stacks->mem, group->task_count, sizeof(*all));

    run.tasks = ddp_mem_array(stacks->mem, group->task_count, sizeof(*run.tasks));
    if (all == NULL || run.tasks == NULL) {
        fail(&run, DDP_E_NOMEM);
    } else {
        begin_all(&run, stacks);
    }
    while (run.waiting_count > 0) {
        if (run.status == DDP_OK) {
            fail(&run, carry_out(&run, all, err));
        }
        resume_waiting(&run, stacks);
    }
    ddp_mem_free(stacks->mem, run.tasks);
    ddp_mem_free(stacks->mem, all);
    return run.status;
}

ddp_status harness_task_exchange(struct harness_task *task, const struct harness_exchange *exchange)
{
    DDP_ASSERT(task->stack != NULL && task->exchange == NULL);
    if (task->run->status != DDP_OK) {
        return task->run->status; /* the group ends: nobody waits any more */
    }
    task->exchange = exchange;
    harness_fiber_yield(task->stack->fiber);
    return task->result;
}

/* --- gather ----------------------------------------------------------------------------------- */

static ddp_status gather_all(const struct harness_exchange *const *all, uint32_t task_count)
{
    for (uint32_t i = 0; i < task_count; i++) {
        for (uint32_t k = 0; k < task_count; k++) {
            memcpy((char *)all[i]->output + k * all[k]->input_bytes, all[k]->input,
                   all[k]->input_bytes);
        }
    }
    return DDP_OK;
}

ddp_status harness_task_gather(struct harness_task *task, const char *name, uint64_t tag,
                               const void *input, size_t input_bytes, void *output)
{
    const struct harness_exchange exchange = {.name = name,
                                              .tag = tag,
                                              .input = input,
                                              .input_bytes = input_bytes,
                                              .output = output,
                                              .carry_out = gather_all};

    return harness_task_exchange(task, &exchange);
}
