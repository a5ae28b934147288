/* What follows from a plan alone. */
#include "harness/plan/plan.h"

#include <string.h>

#include "harness/plan/names.h"

enum harness_run harness_plan_run_of(const struct harness_fault *fault)
{
    return fault->point == DDP_FAULT_POINT_CHECKPOINT_LOAD ? HARNESS_RUN_RESTORE : fault->at.run;
}

void harness_plan_injected(const struct harness_plan *plan, enum harness_run run,
                           struct harness_rank_set *out)
{
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        if (plan->faults[i].action.kind != HARNESS_ACTION_NONE &&
            harness_plan_run_of(&plan->faults[i]) == run) {
            harness_rank_set_add(out, plan->faults[i].at.rank);
        }
    }
}

const char *harness_driver_name(enum harness_driver driver)
{
    DDP_ASSERT((unsigned)driver < HARNESS_DRIVER_COUNT);
    return harness_names_of(HARNESS_NAMES_DRIVERS, (int)driver);
}

ddp_status harness_driver_parse(const char *name, enum harness_driver *out)
{
    for (unsigned i = 0; i < HARNESS_DRIVER_COUNT; i++) {
        if (strcmp(name, harness_driver_name((enum harness_driver)i)) == 0) {
            *out = (enum harness_driver)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

const char *harness_guest_adapter_name(enum harness_guest_adapter adapter)
{
    DDP_ASSERT((unsigned)adapter < HARNESS_GUEST_ADAPTER_COUNT);
    return harness_names_of(HARNESS_NAMES_GUEST_ADAPTERS, (int)adapter);
}

ddp_status harness_guest_adapter_parse(const char *name, enum harness_guest_adapter *out)
{
    for (unsigned i = 0; i < HARNESS_GUEST_ADAPTER_COUNT; i++) {
        if (strcmp(name, harness_guest_adapter_name((enum harness_guest_adapter)i)) == 0) {
            *out = (enum harness_guest_adapter)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

const char *harness_guest_launcher_name(enum harness_guest_launcher launcher)
{
    DDP_ASSERT((unsigned)launcher < HARNESS_GUEST_LAUNCHER_COUNT);
    return harness_names_of(HARNESS_NAMES_GUEST_LAUNCHERS, (int)launcher);
}

ddp_status harness_guest_launcher_parse(const char *name, enum harness_guest_launcher *out)
{
    for (unsigned i = 0; i < HARNESS_GUEST_LAUNCHER_COUNT; i++) {
        if (strcmp(name, harness_guest_launcher_name((enum harness_guest_launcher)i)) == 0) {
            *out = (enum harness_guest_launcher)i;
            return DDP_OK;
        }
    }
    return DDP_E_NOT_FOUND;
}

const char *harness_action_name(enum harness_action_kind kind)
{
    DDP_ASSERT((unsigned)kind < HARNESS_ACTION_KIND_COUNT);
    return harness_names_of(HARNESS_NAMES_ACTIONS, (int)kind);
}

enum harness_action_place harness_action_place(enum harness_action_kind kind)
{
    static const enum harness_action_place places[HARNESS_ACTION_KIND_COUNT] = {
#define ACTION(id, takes, where, ...)       HARNESS_PLACE_##where,
#define ACTION_PLAIN(id, takes, where, ...) HARNESS_PLACE_##where,
#include "harness/plan/key.def"
    };

    DDP_ASSERT((unsigned)kind < HARNESS_ACTION_KIND_COUNT);
    return places[kind];
}

bool harness_plan_is_guest(const struct harness_plan *plan)
{
    return plan->job.guest.is_set;
}

bool harness_plan_is_cuda(const struct harness_plan *plan)
{
    return plan->job.device == HARNESS_DEVICE_CUDA;
}

bool harness_plan_strikes_process(const struct harness_plan *plan)
{
    bool strikes = false;

    for (uint32_t i = 0; i < plan->fault_count; i++) {
        strikes = strikes || (plan->faults[i].action.kind == HARNESS_ACTION_IO &&
                              harness_io_is_of_process(plan->faults[i].action.io.call));
    }
    return strikes;
}

bool harness_plan_runs_on(const struct harness_plan *plan, enum harness_driver driver)
{
    bool is_real = harness_plan_is_guest(plan) || harness_plan_is_cuda(plan) ||
                   harness_plan_is_opaque(plan) || harness_plan_strikes_process(plan) ||
                   plan->job.store == HARNESS_STORE_RANK_0;

    return plan->is_driver[driver] && (driver != HARNESS_DRIVER_SIM || !is_real);
}

bool harness_plan_is_for_other_ranks(const struct harness_plan *plan)
{
    for (size_t i = 0; i < plan->for_ranks.count; i++) {
        if (plan->for_ranks.items[i] == plan->job.ranks) {
            return false;
        }
    }
    return plan->for_ranks.count > 0;
}

bool harness_plan_is_mpi(const struct harness_plan *plan)
{
    return plan->job.collective.engine == HARNESS_ENGINE_MPI;
}

bool harness_plan_may_use_mpi(const struct harness_plan *plan)
{
    return harness_plan_is_mpi(plan) || plan->job.collective.engine == HARNESS_ENGINE_OPAQUE;
}

bool harness_plan_is_opaque(const struct harness_plan *plan)
{
    return harness_engine_is_opaque(plan->job.collective.engine);
}

const char *harness_plan_algorithm(const struct harness_plan *plan)
{
    struct harness_collective schedule = {.engine = HARNESS_ENGINE_SCHEDULE,
                                          .algorithm = plan->job.collective.algorithm};

    return schedule.algorithm == DDP_ALGORITHM_NONE ? NULL : harness_collective_name(schedule);
}
