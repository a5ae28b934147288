/* The hook of a rank, and the bridge to libfiu.
 *
 * libfiu's external callback gets no user data and runs under libfiu's lock, so it only hands back
 * a decision that the hook made before: the number of the fault that fires. The action follows
 * after fiu_fail has returned. A point that libfiu was never told of therefore fires nothing. */
#define FIU_ENABLE 1
#include "harness/inject/inject.h"

#include <fiu-control.h>
#include <fiu.h>
#include <string.h>

#include "harness/inject/action.h"
#include "harness/inject/rules.h"

struct harness_injector {
    struct ddp_fault_hook hook; /* first: the hook's pointer is the injector's */
    struct ddp_env *env;
    const struct harness_plan *plan;
    const struct harness_victim *victim;
    uint64_t *hits; /* [fault_count] matches so far */
    struct harness_scratch *scratch;
};

/* Fault number + 1 that libfiu is being asked about; 0 = none. The callback has no other way to
 * learn it. */
static _Thread_local int pending_decision;

static int decide(const char *name, int *failnum, void **failinfo, unsigned int *flags)
{
    (void)name;
    (void)failinfo;
    (void)flags;
    *failnum = pending_decision;
    return pending_decision != 0;
}

static bool is_confirmed(enum ddp_fault_point point, uint32_t fault)
{
    int answer;

    pending_decision = (int)fault + 1;
    answer = fiu_fail(ddp_fault_point_name(point));
    pending_decision = 0;
    return answer == (int)fault + 1;
}

/* Faults of one point act in the plan's order; the first that asks for more than GO is answered,
 * after the others have had their effect too. */
static enum ddp_fault_action fire(struct ddp_fault_hook *hook, enum ddp_fault_point point,
                                  struct ddp_fault_context *context)
{
    struct harness_injector *injector = (struct harness_injector *)hook;
    struct ddp_recorder *recorder = injector->env->recorder;
    const struct harness_place place = {recorder->step, recorder->micro, recorder->phase};
    const struct harness_actor actor = {injector->env, injector->victim, &injector->scratch};
    enum ddp_fault_action result = DDP_FAULT_GO;

    ddp_recorder_point(recorder, (uint32_t)point);
    for (uint32_t i = 0; i < injector->plan->fault_count; i++) {
        const struct harness_fault *fault = &injector->plan->faults[i];
        enum ddp_fault_action answer;

        if (fault->point != point || fault->at.rank != injector->env->rank ||
            !harness_trigger_matches(&fault->at, &place, context)) {
            continue;
        }
        injector->hits[i]++;
        if (!harness_trigger_is_hit(&fault->at, injector->hits[i]) || !is_confirmed(point, i)) {
            continue;
        }
        ddp_recorder_event(recorder, DDP_EVENT_FAULT_FIRED, i, (uint64_t)point, injector->hits[i],
                           0, 0);
        answer = harness_action_take(&actor, i, &fault->action, context);
        result = result == DDP_FAULT_GO ? answer : result;
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
    injector->hook.fire = fire;
    injector->env = env;
    injector->plan = plan;
    injector->victim = victim;
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        if (plan->faults[i].at.rank == env->rank) {
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
    mem = injector->env->mem;
    harness_scratch_free(injector->scratch, mem);
    ddp_mem_free(mem, injector->hits);
    ddp_mem_free(mem, injector);
}

struct ddp_fault_hook *harness_injector_hook(struct harness_injector *injector)
{
    return &injector->hook;
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
    return DDP_OK;
}

void harness_inject_close(void)
{
    for (int point = 0; point < DDP_FAULT_POINT_COUNT; point++) {
        if ((open_points >> point & 1u) != 0) {
            (void)fiu_disable(ddp_fault_point_name((enum ddp_fault_point)point));
        }
    }
    open_points = 0;
}
