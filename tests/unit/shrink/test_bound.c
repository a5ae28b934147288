/* Whatever six faults do to a job of eight ranks and thirty steps, what is left of it is one fault,
 * three ranks and two steps at most. */
#include <stdio.h>
#include <string.h>

#include "harness/grammar/grammar.h"
#include "harness/scenario/scenario.h"
#include "harness/shrink/shrink.h"
#include "tests/ct.h"

#define NARROW "mlp, widths: [64, 24, 10]"

enum { RUNS_MAX = 60, DRAWN = 8 };

/* Of six faults the fourth matters; if it ends the job, the last two never fire. */
static void print_plan(const char *model, const char *fault, struct ddp_text *out)
{
    ddp_text_init(out, ddp_mem_system());
    ddp_text_add(
        out,
        "# Six faults.\n"
        "id: shrinking.six\n"
        "job: {ranks: 8, steps: 30, model: %s, data: digits, batch_per_rank: 4, "
        "micro_batches: 2, bucket_cap_kb: 1, find_unused_parameters: true, "
        "checkpoint_every: 5, optimizer: {kind: adamw, lr: 0.01}, seed: 3}\n"
        "faults:\n"
        "  - {at: {rank: 1, step: 2}, point: step/begin, do: {delay: 20}}\n"
        "  - {at: {rank: 6, step: 9}, point: loss, do: {stop: 30}}\n"
        "  - {at: {rank: 3, step: 12, bucket: 1}, point: collective/pre, do: {none: true}}\n"
        "  - %s\n"
        "  - {at: {rank: 0, step: 26}, point: optimizer/pre, do: {delay: 10}}\n"
        "  - {at: {rank: 7, step: 28, micro: 1}, point: data/next, do: {none: true}}\n"
        "expect: {verdict: NONE}\n",
        model, fault);
}

/* Shrink; what is left is within the bound, and says what it is. */
static void shrink(const struct ddp_text *plan, struct ddp_text *out,
                   struct harness_shrink_result *result)
{
    const struct harness_shrink_config config = {
        .self_path = "", .work_dir = "ddprove_shrink_none", .runs_max = RUNS_MAX};
    struct harness_scenario scenario;
    struct ddp_err err = {""};

    ddp_text_init(out, ddp_mem_system());
    if (harness_shrink(ddp_text_str(plan), plan->size_bytes, "plan.yaml", &config, "regress", out,
                       result, &err) != DDP_OK) {
        CT_FAIL("%s: %s", ddp_text_str(plan), err.text);
        return;
    }
    if (result->faults != 1 || result->ranks > 3 || result->steps > 2 || result->runs > RUNS_MAX) {
        CT_FAIL("%s: %u faults, %u ranks, %u steps after %u runs", ddp_text_str(plan),
                result->faults, result->ranks, result->steps, result->runs);
    }
    CT_REQUIRE_OK(harness_scenario_parse(ddp_text_str(out), out->size_bytes, "x.yaml", NULL, 0,
                                         &scenario, &err));
    CT_CHECK(scenario.plans[0].expect.verdict == result->signature.verdict);
    harness_scenario_fini(&scenario);
}

CT_TEST(shrink_bound, one_of_six_matters)
{
    static const struct {
        const char *model, *fault;
        enum harness_verdict verdict;
    } rows[] = {
        {"branchy", "{at: {rank: 7, step: 22}, point: optimizer/pre, do: {skip: true}}",
         HARNESS_VERDICT_VALUE_DIVERGED},
        {"branchy", "{at: {rank: 7, step: 22}, point: bucket/launch, do: {corrupt: half}}",
         HARNESS_VERDICT_VALUE_SCALED},
        {NARROW, "{at: {rank: 7, step: 22}, point: bucket/launch, do: {corrupt: half}}",
         HARNESS_VERDICT_VALUE_SCALED},
        {NARROW,
         "{at: {rank: 5, step: 21}, point: collective/post, do: {corrupt: flip, elem: 4, bit: 20}}",
         HARNESS_VERDICT_VALUE_CORRUPTED},
        {"branchy", "{at: {rank: 4, step: 25}, point: bucket/launch, do: {corrupt: zero}}",
         HARNESS_VERDICT_VALUE_LOST},
        {"branchy", "{at: {rank: 4, step: 15}, point: collective/wait, do: {hang: true}}",
         HARNESS_VERDICT_HANG_HOST},
        {"branchy",
         "{at: {rank: 2, step: 14, bucket: 0}, point: collective/pre, do: {arg: count, "
         "value: 7}}",
         HARNESS_VERDICT_MISMATCH_COUNT},
        {NARROW, "{at: {rank: 5, step: 17}, point: backward/grad_ready, do: {kill: SIGKILL}}",
         HARNESS_VERDICT_CRASH_SIGNALED},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct harness_shrink_result result;
        struct ddp_text plan, out;

        print_plan(rows[i].model, rows[i].fault, &plan);
        shrink(&plan, &out, &result);
        if (result.signature.verdict != rows[i].verdict || result.signature.death_signal != 0) {
            CT_FAIL("%s: %s", rows[i].fault, harness_verdict_name(result.signature.verdict));
        }
        ddp_text_fini(&out);
        ddp_text_fini(&plan);
    }
}

/* As campaigns draw them; those in which nothing is to be found are passed over. */
CT_TEST(shrink_bound, drawn)
{
    struct harness_grammar_options options;
    uint32_t shrunk = 0;

    harness_grammar_init(&options, "x");
    options.fault_min = options.fault_max = 6;
    options.ranks = 8;
    options.steps = 30;
    for (uint64_t i = 0; shrunk < DRAWN; i++) {
        struct harness_scenario scenario;
        struct ddp_text plan;
        struct ddp_err err = {""};

        ddp_text_init(&plan, ddp_mem_system());
        CT_REQUIRE(i < 40);
        CT_REQUIRE_OK(harness_grammar_draw(&options, 11, i, &plan, &err));
        CT_REQUIRE_OK(harness_scenario_parse(ddp_text_str(&plan), plan.size_bytes, "x.yaml", NULL,
                                             0, &scenario, &err));
        CT_CHECK_EQ_U64(scenario.plans[0].job.ranks, 8);
        CT_CHECK_EQ_U64(scenario.plans[0].job.steps, 30);
        if (scenario.plans[0].fault_count == 6 &&
            scenario.plans[0].expect.verdict != HARNESS_VERDICT_NONE) {
            struct harness_shrink_result result;
            struct ddp_text out;

            shrink(&plan, &out, &result);
            ddp_text_fini(&out);
            shrunk++;
        }
        harness_scenario_fini(&scenario);
        ddp_text_fini(&plan);
    }
}
