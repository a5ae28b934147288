/* What faults do to data and arguments. Private to inject. */
#ifndef HARNESS_INJECT_ACTION_H
#define HARNESS_INJECT_ACTION_H

#include "ddpcore/collective/collective.h"
#include "harness/plan/plan.h"

/* Change elem_count elements at data as the action says. NaN in an integer type is its largest
 * value; elem and bit wrap around; nothing to do for no elements. */
void harness_action_corrupt(const struct harness_action *action, void *data, size_t elem_count,
                            enum ddp_dtype dtype);

/* A block that altered arguments point into, when they need more room than was posted. */
struct harness_scratch {
    struct harness_scratch *next;
};

/* Set one field of args. Whatever it becomes, the operation stays inside memory that exists: if it
 * needs more bytes than the posted one, input and output move to a scratch block from mem that
 * starts with the posted contents, is put on *scratch, and must outlive the operation.
 * Errors: E_NOMEM (args unchanged). */
DDP_MUST_USE ddp_status harness_action_edit_args(const struct harness_action *action,
                                                 struct ddp_coll_args *args, uint32_t member_count,
                                                 struct ddp_mem *mem,
                                                 struct harness_scratch **scratch);

#endif
