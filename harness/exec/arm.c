/* A plan's faults as the guest library reads them. */
#include <signal.h>
#include <string.h>

#include "harness/exec/exec.h"
#include "harness/guest/ability.h"

static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void arm_corruption(const struct harness_action *action, struct guest_fault *out)
{
    out->elem = action->elem;
    out->stays = action->stays;
    switch (action->corrupt) {
    case HARNESS_CORRUPT_ZERO:
        out->action = GUEST_ACTION_ZERO;
        break;
    case HARNESS_CORRUPT_DOUBLE:
    case HARNESS_CORRUPT_HALF:
    case HARNESS_CORRUPT_SCALE:
        out->action = GUEST_ACTION_SCALE;
        out->value = bits_of(action->corrupt == HARNESS_CORRUPT_DOUBLE ? 2.0
                             : action->corrupt == HARNESS_CORRUPT_HALF ? 0.5
                                                                       : action->value);
        break;
    case HARNESS_CORRUPT_SHIFT:
        out->action = GUEST_ACTION_SHIFT;
        out->value = (uint64_t)action->value; /* not below 0: harness/scenario/check_guest.c */
        break;
    case HARNESS_CORRUPT_NAN:
        out->action = GUEST_ACTION_NAN_VALUE;
        break;
    case HARNESS_CORRUPT_FLIP:
        out->action = GUEST_ACTION_FLIP;
        out->value = action->bit;
        break;
    default:
        DDP_ASSERT(action->corrupt == HARNESS_CORRUPT_SET);
        out->action = action->ago > 0 ? GUEST_ACTION_STALE : GUEST_ACTION_SET;
        out->value = bits_of(action->value);
        break;
    }
}

static void arm_argument(const struct harness_action *action, struct guest_fault *out)
{
    out->value = action->arg_value;
    if (action->arg == HARNESS_ARG_REDOP) {
        out->action = GUEST_ACTION_REDOP;
        out->value = guest_ability_redop(ddp_redop_name((enum ddp_redop)action->arg_value));
    } else if (action->arg == HARNESS_ARG_DTYPE) {
        out->action = GUEST_ACTION_DTYPE;
        out->value = guest_ability_dtype(ddp_dtype_name((enum ddp_dtype)action->arg_value));
    } else {
        DDP_ASSERT(action->arg == HARNESS_ARG_COUNT || action->arg == HARNESS_ARG_ROOT);
        out->action = action->arg == HARNESS_ARG_COUNT ? GUEST_ACTION_ELEMS : GUEST_ACTION_ROOT;
    }
}

static void arm_action(const struct harness_action *action, struct guest_fault *out)
{
    static const enum guest_action plain[HARNESS_ACTION_KIND_COUNT] = {
        [HARNESS_ACTION_KILL] = GUEST_ACTION_KILL,   [HARNESS_ACTION_EXIT] = GUEST_ACTION_EXIT,
        [HARNESS_ACTION_ABORT] = GUEST_ACTION_ABORT, [HARNESS_ACTION_STOP] = GUEST_ACTION_STOP,
        [HARNESS_ACTION_HANG] = GUEST_ACTION_HANG,   [HARNESS_ACTION_DELAY] = GUEST_ACTION_DELAY,
        [HARNESS_ACTION_SKIP] = GUEST_ACTION_SKIP,   [HARNESS_ACTION_DUP] = GUEST_ACTION_TWICE,
        [HARNESS_ACTION_UNTIL] = GUEST_ACTION_UNTIL,
    };

    out->action = plain[action->kind];
    switch (action->kind) {
    case HARNESS_ACTION_KILL:
        out->value = (uint64_t)action->signal;
        break;
    case HARNESS_ACTION_EXIT:
        out->value = (uint64_t)action->exit_code;
        break;
    case HARNESS_ACTION_STOP:
        out->value = action->stop_ms * 1000000u;
        break;
    case HARNESS_ACTION_DELAY:
        out->value = action->delay_ms * 1000000u;
        break;
    case HARNESS_ACTION_UNTIL:
        out->value = action->until_fault;
        break;
    case HARNESS_ACTION_SKIP:
        out->action = action->later > 0 ? GUEST_ACTION_LATER : GUEST_ACTION_SKIP;
        break;
    case HARNESS_ACTION_CORRUPT:
        arm_corruption(action, out);
        break;
    case HARNESS_ACTION_ARG:
        arm_argument(action, out);
        break;
    case HARNESS_ACTION_EDIT:
        out->action = GUEST_ACTION_EDIT;
        out->value = action->key_edit == HARNESS_KEY_EDIT_ADD_PREFIX ? DDPROVE_GUEST_ADD_PREFIX
                                                                     : DDPROVE_GUEST_STRIP_PREFIX;
        break;
    default:
        break;
    }
}

/* 0 is any; an index that is not stated is -1. */
static uint64_t one_more(int64_t index)
{
    return (uint64_t)(index + 1);
}

static void arm(const struct harness_fault *fault, struct guest_fault *out)
{
    const struct harness_trigger *at = &fault->at;
    const int place = guest_ability_place(ddp_fault_point_name(fault->point));

    *out = (struct guest_fault){.rank = (uint64_t)at->rank + 1,
                                .step = one_more(at->step),
                                .phase = one_more(at->phase),
                                .kind = (uint64_t)at->kind,
                                .seq = at->seq > 0 ? (uint64_t)at->seq : 0,
                                .bucket = one_more(at->bucket),
                                .elem_count = at->elem_count > 0 ? at->elem_count + 1 : 0,
                                .hit = at->hit,
                                .times = at->times != 0 ? at->times : UINT64_MAX};
    out->point = fault->point == DDP_FAULT_POINT_STEP_BEGIN        ? GUEST_POINT_STEP
                 : fault->point == DDP_FAULT_POINT_COLLECTIVE_PRE  ? GUEST_POINT_POST
                 : fault->point == DDP_FAULT_POINT_COLLECTIVE_POST ? GUEST_POINT_DONE
                 : place >= 0 ? GUEST_POINT_PLACE + (uint64_t)place
                              : GUEST_POINT_COUNT; /* ours */
    out->tensor = at->tensor != NULL ? guest_name_hash(at->tensor) : 0;
    if (at->comm != NULL) {
        (void)strncpy((char *)out->comm, at->comm, sizeof out->comm - 1);
    }
    arm_action(&fault->action, out);
}

void harness_exec_arm(const struct harness_plan *plan, struct guest_arena *arena)
{
    _Static_assert((int)HARNESS_GUEST_FAULTS_MAX == (int)GUEST_FAULTS_MAX, "the arena's room");
    DDP_ASSERT(plan->fault_count <= GUEST_FAULTS_MAX); /* harness/scenario/check_guest.c */
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        arm(&plan->faults[i], &arena->faults[i]);
    }
    arena->fault_count = plan->fault_count;
}
