/* The hook of a rank, and the bridge to libfiu.
 *
 * libfiu is the switch: the points of a plan are enabled there, and its external callback decides
 * which fault of the plan fires. It gets no user data, so the hook leaves its question where the
 * callback finds it; it runs under libfiu's lock, so the action follows after fiu_fail has
 * returned. A point that is not enabled neither fires nor counts. */
#define FIU_ENABLE 1
#include "harness/inject/inject.h"

#include <fiu-control.h>
#include <fiu.h>
#include <string.h>
#include <unistd.h>

#include "harness/inject/action.h"
#include "harness/inject/io.h"
#include "harness/inject/link.h"
#include "harness/inject/memory.h"
#include "harness/inject/rules.h"
#include "harness/plan/names.h"

struct harness_injector {
    struct ddp_fault_hook hook; /* first: the hook's pointer is the injector's */
    struct ddp_env *env;
    struct ddp_mem *mem; /* the environment's, before ours took its place */
    const struct harness_plan *plan;
    uint32_t rank; /* as the plan has it: the environment's changes when survivors go on */
    const struct harness_victim *victim;
    uint64_t *hits; /* [fault_count] matches so far */
    struct harness_scratch *scratch;
    struct harness_io *io;
    struct harness_memory *memory;
    struct harness_variables variables;
};

/* Which of a rank's faults fires, as it passes a point. */
struct question {
    struct harness_injector *injector;
    enum ddp_fault_point point;
    struct harness_place place;
    const struct ddp_fault_context *context;
    uint32_t next; /* the faults before it have been asked about */
};
static _Thread_local struct question *asked; /* NULL: nobody asks */

/* The next fault that fires: its number + 1; 0: none. */
static int find_next(struct question *question)
{
    struct harness_injector *injector = question->injector;

    while (question->next < injector->plan->fault_count) {
        uint32_t i = question->next++;
        const struct harness_fault *fault = &injector->plan->faults[i];

        if (fault->at.run == HARNESS_RUN_FIRST && fault->point == question->point &&
            fault->at.rank == injector->rank &&
            harness_trigger_matches(&fault->at, &question->place, question->context) &&
            harness_trigger_is_hit(&fault->at, ++injector->hits[i])) {
            return (int)i + 1;
        }
    }
    return 0;
}

static int decide(const char *name, int *failnum, void **failinfo, unsigned int *flags)
{
    (void)name;
    (void)failinfo;
    (void)flags;
    *failnum = asked != NULL ? find_next(asked) : 0;
    return *failnum != 0;
}

static int ask(struct question *question)
{
    int answer;

    asked = question;
    answer = fiu_fail(ddp_fault_point_name(question->point));
    asked = NULL; /* an action may let another rank of this thread go on */
    return answer;
}

static void record_fired(const struct harness_injector *injector, uint32_t fault,
                         enum ddp_fault_point point)
{
    ddp_recorder_event(injector->env->recorder, DDP_EVENT_FAULT_FIRED, fault, (uint64_t)point,
                       injector->hits[fault], 0, 0);
}

/* One that leaves data or arguments as they are has not fired: nothing can follow from it. */
static bool is_change_of_data(const struct harness_action *action)
{
    return action->kind == HARNESS_ACTION_CORRUPT || action->kind == HARNESS_ACTION_ARG;
}

/* Faults of one point act in the plan's order; the first that asks for more than GO is answered,
 * after the others have had their effect too. */
static enum ddp_fault_action fire(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                  struct ddp_fault_context *context)
{
    struct harness_injector *injector = (struct harness_injector *)hook;
    struct ddp_recorder *recorder = injector->env->recorder;
    struct harness_actor actor = {injector->env,
                                  injector->victim,
                                  &injector->scratch,
                                  injector->io,
                                  injector->memory,
                                  &injector->variables,
                                  0};
    struct question question = {
        injector, point, {recorder->step, recorder->micro, recorder->phase}, context, 0};
    enum ddp_fault_action result = DDP_FAULT_GO;
    int answer;

    ddp_recorder_point(recorder, (uint32_t)point);
    while ((answer = ask(&question)) != 0) {
        uint32_t i = (uint32_t)answer - 1;
        const struct harness_action *taken = &injector->plan->faults[i].action;
        const bool is_change = is_change_of_data(taken);
        bool is_idle = false;
        enum ddp_fault_action action;

        if (taken->kind == HARNESS_ACTION_SKIP && context->is_skip_idle) {
            continue;
        }
        /* else once a call or an allocation fails; and most actions do not return */
        if (taken->kind != HARNESS_ACTION_IO && taken->kind != HARNESS_ACTION_NO_MEMORY &&
            !is_change) {
            record_fired(injector, i, point);
        }
        actor.hit = injector->hits[i];
        action = harness_action_take(&actor, i, taken, context, &is_idle);
        if (is_change && !is_idle) {
            record_fired(injector, i, point);
        }
        result = result == DDP_FAULT_GO ? action : result;
    }
    return result;
}

ddp_status harness_injector_create(struct ddp_env *env, const struct harness_plan *plan,
                                   const struct harness_victim *victim,
                                   struct harness_injector **out, struct ddp_err *err)
{
    struct harness_injector *injector;

    if (env->recorder == NULL) {
        return ddp_err_set(err, DDP_E_INVALID, "injection needs a recorder: it tells the step");
    }
    injector = ddp_mem_array(env->mem, 1, sizeof *injector);
    if (injector == NULL) {
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the injector");
    }
    injector->hits = ddp_mem_array(env->mem, plan->fault_count, sizeof injector->hits[0]);
    if (injector->hits == NULL) {
        ddp_mem_free(env->mem, injector);
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for %u fault counters", plan->fault_count);
    }
    if (harness_io_create(env, plan, &injector->io) != DDP_OK ||
        harness_memory_create(env, plan, &injector->memory) != DDP_OK) {
        harness_io_destroy(injector->io);
        ddp_mem_free(env->mem, injector->hits);
        ddp_mem_free(env->mem, injector);
        return ddp_err_set(err, DDP_E_NOMEM, "no memory for the state of %u faults",
                           plan->fault_count);
    }
    injector->hook.fire = fire;
    injector->env = env;
    injector->rank = env->rank;
    injector->mem = env->mem;
    injector->plan = plan;
    injector->victim = victim;
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        /* The plan of a restore run has its own faults as its first ones (cell/restore.c). */
        if (plan->faults[i].at.rank == env->rank && plan->faults[i].at.run == HARNESS_RUN_FIRST) {
            injector->hook.armed |= UINT64_C(1) << plan->faults[i].point;
        }
    }
    *out = injector;
    return DDP_OK;
}

void harness_injector_destroy(struct harness_injector *injector)
{
    struct ddp_mem *mem;

    if (injector == NULL) {
        return;
    }
    mem = injector->mem;
    harness_io_destroy(injector->io);
    harness_memory_destroy(injector->memory);
    harness_scratch_free(injector->scratch, mem);
    ddp_mem_free(mem, injector->hits);
    ddp_mem_free(mem, injector);
}

struct ddp_fault_hook *harness_injector_hook(struct harness_injector *injector)
{
    return &injector->hook;
}

struct ddp_files *harness_injector_files(struct harness_injector *injector, struct ddp_files *files)
{
    for (uint32_t i = 0; i < injector->plan->fault_count; i++) {
        const struct harness_fault *fault = &injector->plan->faults[i];

        if (fault->action.kind == HARNESS_ACTION_IO && fault->at.rank == injector->rank) {
            return harness_io_files(injector->io, files);
        }
    }
    return files;
}

struct ddp_mem *harness_injector_mem(struct harness_injector *injector)
{
    return harness_memory_mem(injector->memory);
}

ddp_status harness_injector_transport(struct harness_injector *injector,
                                      struct ddp_transport **transport)
{
    ddp_status status;

    if (injector == NULL ||
        !ddp_fault_point_is_armed(&injector->hook, DDP_FAULT_POINT_MESSAGE_RECV)) {
        return DDP_OK;
    }
    status = harness_link_create(injector->env, *transport, transport);
    if (status != DDP_OK) {
        (*transport)->ops->destroy(*transport);
    }
    return status;
}

const char *harness_injector_variable(const struct harness_injector *injector, const char *name,
                                      const char *value)
{
    for (int i = 0; injector != NULL && i < HARNESS_VARIABLE_COUNT; i++) {
        uint32_t fault = injector->variables.fault[i];

        if (fault > 0 && strcmp(name, harness_names_of(HARNESS_NAMES_VARIABLES, i)) == 0) {
            value = injector->plan->faults[fault - 1].action.env_value;
            return strcmp(value, "unset") != 0 ? value : NULL;
        }
    }
    return value;
}

const char *harness_inject_preload(const struct harness_plan *plan, uint32_t rank)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they want to be first */
    static const char *const paths[] = {"/usr/lib/fiu/fiu_posix_preload.so",
                                        "/usr/local/lib/fiu/fiu_posix_preload.so"};

    for (uint32_t i = 0; i < plan->fault_count; i++) {
        if (plan->faults[i].action.kind != HARNESS_ACTION_IO || plan->faults[i].at.rank != rank) {
            continue;
        }
        for (size_t k = 0; k < sizeof(paths) / sizeof(paths[0]); k++) {
            if (access(paths[k], R_OK) == 0) {
                return paths[k];
            }
        }
    }
#else
    (void)plan;
    (void)rank;
#endif
    return NULL;
}

/* Points that are registered now, so that closing disables exactly these. */
static uint64_t open_points;

ddp_status harness_inject_open(const struct harness_plan *plan, struct ddp_err *err)
{
    if (plan->fault_count == 0) {
        return DDP_OK;
    }
    if (fiu_init(0) < 0) {
        return ddp_err_set(err, DDP_E_SYSTEM, "libfiu could not be initialised");
    }
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        enum ddp_fault_point point = plan->faults[i].point;
        const char *name = ddp_fault_point_name(point);

        if ((open_points >> point & 1u) != 0) {
            continue;
        }
        if (fiu_enable_external(name, 1, NULL, 0, decide) != 0) {
            harness_inject_close();
            return ddp_err_set(err, DDP_E_SYSTEM, "libfiu refused the point %s", name);
        }
        open_points |= UINT64_C(1) << point;
    }
    DDP_TRY(harness_io_open(plan, err));
    return harness_memory_open(plan, err);
}

void harness_inject_close(void)
{
    for (int point = 0; point < DDP_FAULT_POINT_COUNT; point++) {
        if ((open_points >> point & 1u) != 0) {
            (void)fiu_disable(ddp_fault_point_name((enum ddp_fault_point)point));
        }
    }
    open_points = 0;
    harness_io_close();
    harness_memory_close();
}
