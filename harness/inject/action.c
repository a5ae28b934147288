/* What each action does. A row ACTION of key.def needs its case here. */
#include "harness/inject/action.h"

#include <signal.h>

static enum ddp_fault_action answer_of(ddp_status status)
{
    return status == DDP_OK ? DDP_FAULT_GO : DDP_FAULT_FAIL;
}

static bool has_root(enum ddp_coll_kind kind)
{
    return kind == DDP_COLL_BROADCAST || kind == DDP_COLL_REDUCE;
}

/* Whatever an action can set of the arguments. Nobody reads the root of a collective that has none.
 */
static bool is_same_args(const struct ddp_coll_args *a, const struct ddp_coll_args *b)
{
    return a->kind == b->kind && a->redop == b->redop && a->dtype == b->dtype &&
           a->elem_count == b->elem_count && (a->root == b->root || !has_root(a->kind)) &&
           a->index == b->index;
}

static enum ddp_fault_action alter_arguments(const struct harness_actor *actor,
                                             const struct harness_action *action,
                                             const struct ddp_fault_context *context,
                                             bool *out_is_idle)
{
    const struct harness_edit_place place = {context->device, actor->env->world_size,
                                             actor->env->mem, actor->scratch};
    struct ddp_coll_args before;
    ddp_status status;

    *out_is_idle = context->args == NULL;
    if (context->args == NULL) {
        return DDP_FAULT_GO;
    }
    before = *context->args;
    status = harness_action_edit_args(action, context->args, &place);
    *out_is_idle = status == DDP_OK && is_same_args(&before, context->args);
    return answer_of(status);
}

/* Zeros that are made zero are as they were. */
static enum ddp_fault_action corrupt_data(const struct harness_actor *actor,
                                          const struct harness_action *action,
                                          const struct ddp_fault_context *context,
                                          bool *out_is_idle)
{
    return answer_of(harness_action_corrupt_at(action, context, actor->env, out_is_idle));
}

/* A real kernel in the stream of the point. The parser lets only such points through. */
static enum ddp_fault_action launch_kernel(const struct ddp_fault_context *context,
                                           enum ddp_device_fault kernel, uint64_t ms)
{
    struct ddp_device *device = context->device;

    return device == NULL ? DDP_FAULT_FAIL
                          : answer_of(device->ops->inject(device, context->stream, kernel, ms));
}

/* Nobody frees it; it can be reached, so that a sanitizer leaves the finding to the judge. */
static void *volatile leaked;

static ddp_status leak_file(struct ddp_files *files)
{
    int handle;

    return files->ops->create(files, "/dev/null", &handle, NULL);
}

enum ddp_fault_action harness_action_take(const struct harness_actor *actor, uint32_t fault,
                                          const struct harness_action *action,
                                          struct ddp_fault_context *context, bool *out_is_idle)
{
    const struct harness_victim *victim = actor->victim;

    *out_is_idle = false;
    switch (action->kind) {
    case HARNESS_ACTION_KILL:
        victim->kill(victim->context, action->signal);
        break;
    case HARNESS_ACTION_EXIT:
        victim->exit(victim->context, action->exit_code);
        break;
    case HARNESS_ACTION_ABORT:
        victim->kill(victim->context, SIGABRT);
        break;
    case HARNESS_ACTION_STOP:
        victim->stop(victim->context, action->stop_ms);
        break;
    case HARNESS_ACTION_DELAY:
        victim->delay(victim->context, action->delay_ms);
        break;
    case HARNESS_ACTION_HANG:
        victim->delay(victim->context, UINT64_MAX);
        break;
    case HARNESS_ACTION_SKIP:
        ddp_recorder_event(actor->env->recorder, DDP_EVENT_OP_SKIPPED, fault, 0, 0, 0, 0);
        return DDP_FAULT_SKIP;
    case HARNESS_ACTION_NO_MEMORY:
        harness_memory_arm(actor->memory, fault, actor->hit);
        break;
    case HARNESS_ACTION_ENV:
        actor->variables->fault[action->env] = fault + 1;
        break;
    case HARNESS_ACTION_LEAK_MEMORY:
        leaked = actor->env->mem->alloc(actor->env->mem, DDP_CACHE_LINE_BYTES);
        break;
    case HARNESS_ACTION_LEAK_FILE:
        return answer_of(leak_file(actor->env->files));
    case HARNESS_ACTION_DUP:
        return DDP_FAULT_DUP;
    case HARNESS_ACTION_OVERTAKEN:
        return DDP_FAULT_OVERTAKEN;
    case HARNESS_ACTION_FAIL:
        return DDP_FAULT_FAIL;
    case HARNESS_ACTION_CORRUPT:
        return corrupt_data(actor, action, context, out_is_idle);
    case HARNESS_ACTION_ARG:
        return alter_arguments(actor, action, context, out_is_idle);
    case HARNESS_ACTION_SPIN:
        return launch_kernel(context, DDP_DEVICE_FAULT_SPIN, action->spin_ms);
    case HARNESS_ACTION_TRAP:
        return launch_kernel(context, DDP_DEVICE_FAULT_TRAP, 0);
    case HARNESS_ACTION_IO:
        harness_io_arm(actor->io, fault, actor->hit);
        break;
    case HARNESS_ACTION_NONE:
    case HARNESS_ACTION_UNTIL: /* of guests */
    case HARNESS_ACTION_EDIT:  /* of guests alone */
    case HARNESS_ACTION_KIND_COUNT:
        break;
    }
    return DDP_FAULT_GO;
}
