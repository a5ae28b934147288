/* Shrinking: what is left is small, fails in the same way, and is a scenario. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/scenario/scenario.h"
#include "harness/shrink/shrink.h"
#include "tests/ct.h"

#define JOB                                                                                       \
    "job: {ranks: 8, steps: 30, model: mlp, widths: [64, 24, 16, 10], data: digits, "             \
    "batch_per_rank: 4, micro_batches: 2, bucket_cap_kb: 1, optimizer: {kind: adamw, lr: 1e-3}, " \
    "find_unused_parameters: true, checkpoint_every: 7, semantics: pytorch, "                     \
    "gradient_scale: post, collective: recursive_doubling, seed: 77}\n"

static const char six_faults[] =
    "# Five of six faults are harmless, and one loses a contribution.\n"
    "id: shrinking.six_faults\n" JOB "faults:\n"
    "  - {at: {rank: 1, step: 2}, point: step/begin, do: {delay: 20}}\n"
    "  - {at: {rank: 6, step: 9, layer: 1}, point: forward/layer, do: {stop: 30}}\n"
    "  - {at: {rank: 3, step: 12, bucket: 1}, point: collective/pre, do: {none: true}}\n"
    "  - {at: {rank: 5, step: 17, bucket: 0}, point: bucket/launch, do: {corrupt: zero}}\n"
    "  - {at: {rank: 0, step: 20}, point: optimizer/pre, do: {delay: 10}}\n"
    "  - {at: {rank: 7, step: 28, micro: 1}, point: data/next, do: {none: true}}\n"
    "expect: {verdict: NONE}\n";

static ddp_status shrink(const char *text, struct ddp_text *out,
                         struct harness_shrink_result *result, struct ddp_err *err)
{
    const struct harness_shrink_config config = {
        .self_path = "", .work_dir = "ddprove_shrink_none", .runs_max = 60};

    ddp_text_init(out, ddp_mem_system());
    return harness_shrink(text, strlen(text), "plan.yaml", &config, "regress", out, result, err);
}

CT_TEST(shrink, six_faults_of_eight_ranks)
{
    struct harness_shrink_result result;
    struct harness_scenario scenario;
    struct ddp_err err = {""};
    struct ddp_text text;

    if (shrink(six_faults, &text, &result, &err) != DDP_OK) {
        CT_FAIL("%s", err.text);
        return;
    }
    CT_CHECK(result.signature.verdict == HARNESS_VERDICT_VALUE_LOST);
    CT_CHECK(result.faults == 1);
    CT_CHECK(result.ranks <= 3 && result.steps <= 2 && result.runs <= 60);
    CT_CHECK_STR(result.name, "value_lost_at_bucket_launch");
    CT_CHECK(strstr(ddp_text_str(&text), "# reproduce: ddprove run ") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "Shrunk from shrinking.six_faults") != NULL);
    CT_REQUIRE_OK(harness_scenario_parse(ddp_text_str(&text), text.size_bytes, "x.yaml", NULL, 0,
                                         &scenario, &err));
    CT_CHECK_STR(scenario.plans[0].id, "regress.value_lost_at_bucket_launch");
    CT_CHECK(scenario.plans[0].expect.verdict == HARNESS_VERDICT_VALUE_LOST);
    CT_CHECK_EQ_I64(scenario.plans[0].expect.step, scenario.plans[0].faults[0].at.step);
    harness_scenario_fini(&scenario);
    ddp_text_fini(&text);
}

/* Two ranks die alike: both deaths are what is kept, so both faults are. */
CT_TEST(shrink, what_is_kept_needs_both)
{
    static const char plan[] = "# Two of three faults kill.\n"
                               "id: shrinking.two_deaths\n" JOB "faults:\n"
                               "  - {at: {rank: 2}, point: launch/spawn, do: {kill: SIGKILL}}\n"
                               "  - {at: {rank: 1}, point: launch/spawn, do: {none: true}}\n"
                               "  - {at: {rank: 6}, point: launch/spawn, do: {kill: SIGKILL}}\n"
                               "expect: {verdict: CRASH.SIGNALED}\n";
    struct harness_shrink_result result;
    struct ddp_err err = {""};
    struct ddp_text text;

    CT_CHECK_OK(shrink(plan, &text, &result, &err));
    CT_CHECK(result.signature.verdict == HARNESS_VERDICT_CRASH_SIGNALED);
    CT_CHECK(!result.signature.is_one);
    CT_CHECK_EQ_U64(result.faults, 2);
    CT_CHECK(result.ranks <= 3 && result.steps == 1);
    ddp_text_fini(&text);
}

/* Everything that the plan expects is found; that the other fault never fires is what is wrong. */
CT_TEST(shrink, a_fault_that_never_fires)
{
    static const char plan[] =
        "# The second fault comes too late.\n"
        "id: shrinking.too_late\n" JOB "faults:\n"
        "  - {at: {rank: 2, step: 4}, point: step/begin, do: {kill: SIGKILL}}\n"
        "  - {at: {rank: 2, step: 5}, point: step/begin, do: {none: true}}\n"
        "expect: {verdict: CRASH.SIGNALED, culprit: [2]}\n";
    struct harness_shrink_result result;
    struct ddp_err err = {""};
    struct ddp_text text;

    CT_CHECK_OK(shrink(plan, &text, &result, &err));
    CT_CHECK(result.signature.outcome == HARNESS_OUTCOME_INCONCLUSIVE);
    CT_CHECK(result.signature.verdict == HARNESS_VERDICT_CRASH_SIGNALED);
    CT_CHECK_EQ_U64(result.faults, 2);
    CT_CHECK(result.ranks <= 3 && result.steps <= 2);
    CT_CHECK(strstr(ddp_text_str(&text), "a fault that never fires") != NULL);
    CT_CHECK(strstr(ddp_text_str(&text), "verdict: CRASH.SIGNALED") != NULL);
    ddp_text_fini(&text);
}

/* A plan that finds nothing has nothing to keep. */
CT_TEST(shrink, nothing_found)
{
    static const char plan[] = "# Nothing is wrong.\n"
                               "id: shrinking.nothing\n"
                               "job: {ranks: 2, steps: 1, model: exact_linear, data: dyadic, "
                               "batch_per_rank: 2}\n"
                               "expect: {verdict: NONE}\n";
    struct harness_shrink_result result;
    struct ddp_err err = {""};
    struct ddp_text text;

    CT_CHECK_STATUS(shrink(plan, &text, &result, &err), DDP_E_INVALID);
    CT_CHECK(strstr(err.text, "nothing to keep") != NULL);
    ddp_text_fini(&text);
}
