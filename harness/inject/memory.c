/* See the header. The callback gets no user data and runs under libfiu's lock, so the rank that
 * asks leaves its place in `asked`. */
#define FIU_ENABLE 1
#include "harness/inject/memory.h"

#include <fiu-control.h>
#include <fiu.h>

static const char point[] = "libc/mm/malloc";

struct armed {
    bool is_armed, is_recorded;
    uint64_t hit;
    uint64_t allocations; /* since it was armed */
};

struct harness_memory {
    struct ddp_mem mem; /* first: the table's pointer is this one */
    struct ddp_mem *inner;
    struct ddp_recorder *recorder; /* probes hide the environment's */
    const struct harness_plan *plan;
    struct armed *armed; /* [plan->fault_count] */
    bool is_any_armed;
};

static _Thread_local struct harness_memory *asked; /* NULL: whoever allocates is no rank */

/* before: allocations since the fault was armed. */
static bool fails(const struct harness_action *action, uint64_t before)
{
    return before >= action->memory_after &&
           (action->memory_failures == 0 ||
            before - action->memory_after < action->memory_failures);
}

/* Counts an allocation for every armed fault. Whether it fails. */
static bool is_exhausted(struct harness_memory *memory)
{
    bool is_failing = false;

    for (uint32_t i = 0; i < memory->plan->fault_count; i++) {
        struct armed *armed = &memory->armed[i];
        const struct harness_action *action = &memory->plan->faults[i].action;

        if (armed->is_armed && fails(action, armed->allocations++)) {
            is_failing = true;
            if (!armed->is_recorded) {
                armed->is_recorded = true;
                ddp_recorder_event(memory->recorder, DDP_EVENT_FAULT_FIRED, i,
                                   (uint64_t)memory->plan->faults[i].point, armed->hit, 0, 0);
            }
        }
    }
    return is_failing;
}

static int decide(const char *at, int *failnum, void **failinfo, unsigned int *flags)
{
    (void)at;
    (void)failinfo;
    (void)flags;
    *failnum = asked != NULL && is_exhausted(asked);
    return *failnum;
}

static void *memory_alloc(struct ddp_mem *mem, size_t size_bytes)
{
    struct harness_memory *memory = (struct harness_memory *)mem;
    bool is_failing = false;

    if (memory->is_any_armed) {
        asked = memory;
        is_failing = fiu_fail(point) != 0;
        asked = NULL;
    }
    return is_failing ? NULL : memory->inner->alloc(memory->inner, size_bytes);
}

static void memory_free(struct ddp_mem *mem, void *data)
{
    struct ddp_mem *inner = ((struct harness_memory *)mem)->inner;

    inner->free(inner, data);
}

static bool is_ours(const struct harness_fault *fault)
{
    return fault->action.kind == HARNESS_ACTION_NO_MEMORY;
}

ddp_status harness_memory_create(struct ddp_env *env, const struct harness_plan *plan,
                                 struct harness_memory **out)
{
    struct harness_memory *memory = ddp_mem_array(env->mem, 1, sizeof *memory);

    if (memory == NULL) {
        return DDP_E_NOMEM;
    }
    memory->armed = ddp_mem_array(env->mem, plan->fault_count, sizeof memory->armed[0]);
    if (memory->armed == NULL) {
        ddp_mem_free(env->mem, memory);
        return DDP_E_NOMEM;
    }
    memory->mem = (struct ddp_mem){memory_alloc, memory_free};
    memory->inner = env->mem;
    memory->recorder = env->recorder;
    memory->plan = plan;
    *out = memory;
    return DDP_OK;
}

void harness_memory_destroy(struct harness_memory *memory)
{
    struct ddp_mem *inner;

    if (memory == NULL) {
        return;
    }
    inner = memory->inner;
    ddp_mem_free(inner, memory->armed);
    ddp_mem_free(inner, memory);
}

struct ddp_mem *harness_memory_mem(struct harness_memory *memory)
{
    return &memory->mem;
}

void harness_memory_arm(struct harness_memory *memory, uint32_t fault, uint64_t hit)
{
    struct armed *armed = &memory->armed[fault];

    DDP_ASSERT(fault < memory->plan->fault_count && is_ours(&memory->plan->faults[fault]));
    if (!armed->is_armed) {
        *armed = (struct armed){.is_armed = true, .hit = hit};
        memory->is_any_armed = true;
    }
}

static bool is_open;

ddp_status harness_memory_open(const struct harness_plan *plan, struct ddp_err *err)
{
    for (uint32_t i = 0; i < plan->fault_count && !is_open; i++) {
        if (!is_ours(&plan->faults[i])) {
            continue;
        }
        if (fiu_enable_external(point, 1, NULL, 0, decide) != 0) {
            return ddp_err_set(err, DDP_E_SYSTEM, "libfiu refused the point %s", point);
        }
        is_open = true;
    }
    return DDP_OK;
}

void harness_memory_close(void)
{
    if (is_open) {
        (void)fiu_disable(point);
        is_open = false;
    }
}
