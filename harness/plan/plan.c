/* Names of a plan's enumerations, and what follows from a plan alone. */
#include "harness/plan/plan.h"

#include <signal.h>
#include <string.h>

void harness_plan_injected(const struct harness_plan *plan, struct harness_rank_set *out)
{
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        if (plan->faults[i].action.kind != HARNESS_ACTION_NONE) {
            harness_rank_set_add(out, plan->faults[i].at.rank);
        }
    }
}

const char *harness_driver_name(enum harness_driver driver)
{
    static const char *const names[HARNESS_DRIVER_COUNT] = {"sim", "proc"};

    DDP_ASSERT((unsigned)driver < HARNESS_DRIVER_COUNT);
    return names[driver];
}

const char *harness_action_name(enum harness_action_kind kind)
{
    static const char *const names[HARNESS_ACTION_KIND_COUNT] = {
#define X(id, name, meaning) name,
        HARNESS_ACTION_TABLE(X)
#undef X
    };

    DDP_ASSERT((unsigned)kind < HARNESS_ACTION_KIND_COUNT);
    return names[kind];
}

const char *harness_corrupt_name(enum harness_corrupt_kind kind)
{
    static const char *const names[HARNESS_CORRUPT_KIND_COUNT] = {
#define X(id, name, meaning) name,
        HARNESS_CORRUPT_TABLE(X)
#undef X
    };

    DDP_ASSERT((unsigned)kind < HARNESS_CORRUPT_KIND_COUNT);
    return names[kind];
}

const char *harness_arg_name(enum harness_arg_field field)
{
    static const char *const names[HARNESS_ARG_FIELD_COUNT] = {
#define X(id, name) name,
        HARNESS_ARG_TABLE(X)
#undef X
    };

    DDP_ASSERT((unsigned)field < HARNESS_ARG_FIELD_COUNT);
    return names[field];
}

const char *harness_edit_name(enum harness_edit_kind kind)
{
    static const char *const names[HARNESS_EDIT_KIND_COUNT] = {
#define X(id, name, meaning) name,
        HARNESS_EDIT_TABLE(X)
#undef X
    };

    DDP_ASSERT((unsigned)kind < HARNESS_EDIT_KIND_COUNT);
    return names[kind];
}

const char *harness_signal_name(int signal)
{
    switch (signal) {
#define X(id) \
    case id:  \
        return #id;
        HARNESS_SIGNAL_TABLE(X)
#undef X
    default:
        return NULL;
    }
}

bool harness_plan_is_cuda(const struct harness_plan *plan)
{
    return plan->job.device != NULL && strcmp(plan->job.device, "cuda") == 0;
}

bool harness_plan_runs_on(const struct harness_plan *plan, enum harness_driver driver)
{
    bool is_real = harness_plan_is_cuda(plan) || harness_plan_is_mpi(plan);

    return plan->is_driver[driver] && (driver != HARNESS_DRIVER_SIM || !is_real);
}

bool harness_plan_is_mpi(const struct harness_plan *plan)
{
    return plan->job.collective != NULL && strcmp(plan->job.collective, "mpi") == 0;
}

bool harness_plan_is_opaque(const struct harness_plan *plan)
{
    return harness_plan_is_mpi(plan) ||
           (plan->job.collective != NULL && strcmp(plan->job.collective, "nccl") == 0);
}

const char *harness_plan_nccl_algorithm(const struct harness_plan *plan)
{
    static const char prefix[] = "nccl/";
    const char *name = plan->job.collective;

    return name != NULL && strncmp(name, prefix, sizeof(prefix) - 1) == 0
               ? name + sizeof(prefix) - 1
               : NULL;
}

const char *harness_plan_algorithm(const struct harness_plan *plan)
{
    const char *over_nccl = harness_plan_nccl_algorithm(plan);

    return over_nccl != NULL ? over_nccl : plan->job.collective;
}
