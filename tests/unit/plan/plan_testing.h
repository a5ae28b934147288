/* What the plan tests share: a job and a table of parameters, made by hand. */
#ifndef TESTS_UNIT_PLAN_PLAN_TESTING_H
#define TESTS_UNIT_PLAN_PLAN_TESTING_H

#include <string.h>

#include "harness/plan/program.h"
#include "tests/ct.h"

/* fc0: 64 -> 32, fc1: 32 -> 10. Registration order. */
enum { MLP_PARAM_COUNT = 4 };
static inline void make_mlp(struct ddp_param params[MLP_PARAM_COUNT])
{
    static const char *const names[] = {"fc0.weight", "fc0.bias", "fc1.weight", "fc1.bias"};
    static const size_t elem_counts[] = {64 * 32, 32, 32 * 10, 10};

    memset(params, 0, MLP_PARAM_COUNT * sizeof(*params));
    for (size_t i = 0; i < MLP_PARAM_COUNT; i++) {
        params[i].name = names[i];
        params[i].elem_count = elem_counts[i];
        params[i].ndim = i % 2 == 0 ? 2 : 1;
    }
}

/* The program of a model without buffers, in the system's memory. */
static inline ddp_status build_program(const struct harness_plan *plan, struct ddp_param *params,
                                       size_t param_count, struct harness_program *out)
{
    const struct harness_tables model = {params, param_count, NULL, 0, NULL, NULL, NULL, 0};

    return harness_program_build(ddp_mem_system(), plan, &model, NULL, out);
}

static inline struct harness_plan make_plan(uint32_t ranks, uint32_t steps, uint32_t micro_batches)
{
    struct harness_plan plan;

    memset(&plan, 0, sizeof(plan));
    plan.job.ranks = ranks;
    plan.job.steps = steps;
    plan.job.micro_batches = micro_batches;
    plan.job.broadcast_buffers = true;
    return plan;
}

#endif
