/* What the scenario tests share. */
#ifndef TESTS_UNIT_SCENARIO_SCENARIO_TESTING_H
#define TESTS_UNIT_SCENARIO_SCENARIO_TESTING_H

#include <string.h>

#include "harness/scenario/scenario.h"
#include "tests/ct.h"

/* The smallest scenario there is; test cases append to it or override it. */
#define SCENARIO_SMALL                                           \
    "# Nothing goes wrong.\n"                                    \
    "id: control.small\n"                                        \
    "job: {ranks: 2, steps: 3, model: mlp, batch_per_rank: 8}\n" \
    "expect: {verdict: NONE}\n"

static inline ddp_status scenario_parse(const char *text, const char *const *sets, size_t set_count,
                                        struct harness_scenario *out, struct ddp_err *err)
{
    return harness_scenario_parse(text, strlen(text), "x.yaml", sets, set_count, out, err);
}

#endif
