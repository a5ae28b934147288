/* What faults do: actions (action.c), corruptions of data (corrupt.c), altered arguments
 * (argument.c). Private to inject. */
#ifndef HARNESS_INJECT_ACTION_H
#define HARNESS_INJECT_ACTION_H

#include "ddpcore/collective/collective.h"
#include "harness/inject/inject.h"
#include "harness/inject/io.h"
#include "harness/inject/memory.h"

/* Change elem_count elements at data as the action says. NaN in an integer type is its largest
 * value; elem and bit wrap around; nothing to do for no elements. */
void harness_action_corrupt(const struct harness_action *action, void *data, size_t elem_count,
                            enum ddp_dtype dtype);

/* The same on what a fault point shows, whatever memory it lies in: data of a device is fetched,
 * changed and put back. *out_is_same: nothing was changed. Errors: those of ddp_transfer. */
DDP_MUST_USE ddp_status harness_action_corrupt_at(const struct harness_action *action,
                                                  const struct ddp_fault_context *context,
                                                  struct ddp_env *env, bool *out_is_same);

/* A block of host memory that altered arguments point into, when they need more room than was
 * posted; it follows this link. */
struct harness_scratch {
    struct harness_scratch *next;
};
/* Frees the whole list. */
void harness_scratch_free(struct harness_scratch *scratch, struct ddp_mem *mem);

/* Where arguments are altered. */
struct harness_edit_place {
    struct ddp_device *device; /* the collective's */
    uint32_t member_count;
    struct ddp_mem *mem;
    struct harness_scratch **scratch;
};
/* Set one field of args. Whatever it becomes, the operation stays inside memory that exists: if it
 * needs more bytes than the posted one, input and output move to a scratch block that starts with
 * the posted contents: host memory on *scratch, which must outlive the operation, or the device's.
 * Errors: E_NOMEM (args unchanged), E_DEVICE. */
DDP_MUST_USE ddp_status harness_action_edit_args(const struct harness_action *action,
                                                 struct ddp_coll_args *args,
                                                 const struct harness_edit_place *place);

/* The last fault that changed a variable, + 1; 0: none did. */
struct harness_variables {
    uint32_t fault[HARNESS_VARIABLE_COUNT];
};

/* Who is at the point, and what an action may use there. */
struct harness_actor {
    struct ddp_env *env;
    const struct harness_victim *victim;
    struct harness_scratch **scratch;
    struct harness_io *io;
    struct harness_memory *memory;
    struct harness_variables *variables;
    uint64_t hit;
};
/* Take the action of the plan's fault number `fault`; what the rank shall do at the point.
 * *out_is_idle: all is as before, since there was nothing to change, or it was so already. */
enum ddp_fault_action harness_action_take(const struct harness_actor *actor, uint32_t fault,
                                          const struct harness_action *action,
                                          struct ddp_fault_context *context, bool *out_is_idle);

#endif
