/* The grammar: the same number gives the same plan, every plan is one that the parser takes, and
 * every key that has a row is really drawn. */
#include <stdio.h>
#include <string.h>

#include "harness/grammar/grammar.h"
#include "harness/grammar/model.h"
#include "harness/scenario/scenario.h"
#include "tests/ct.h"

enum { CASES = 1500 };

static void draw(const struct harness_grammar_options *options, uint64_t number,
                 struct ddp_text *out)
{
    struct ddp_err err = {""};

    ddp_text_init(out, ddp_mem_system());
    if (harness_grammar_draw(options, 3, number, out, &err) != DDP_OK) {
        CT_FAIL("case %llu: %s", (unsigned long long)number, err.text);
    }
}

CT_TEST(grammar, number_decides)
{
    struct harness_grammar_options options;
    struct ddp_text first, again, other;

    harness_grammar_init(&options, "x");
    draw(&options, 7, &first);
    draw(&options, 8, &other);
    draw(&options, 7, &again);
    CT_CHECK_STR(ddp_text_str(&first), ddp_text_str(&again));
    CT_CHECK(strcmp(ddp_text_str(&first), ddp_text_str(&other)) != 0);
    ddp_text_fini(&first);
    ddp_text_fini(&again);
    ddp_text_fini(&other);
}

/* The text parses to a plan that prints as the text. */
CT_TEST(grammar, plans_resolve)
{
    struct harness_grammar_options options;

    harness_grammar_init(&options, "x");
    options.fault_min = 1;
    options.fault_max = 3;
    for (uint64_t i = 0; i < CASES; i++) {
        struct harness_scenario scenario;
        struct ddp_text text, printed;
        struct ddp_err err = {""};

        draw(&options, i, &text);
        if (harness_scenario_parse(ddp_text_str(&text), text.size_bytes, "plan.yaml", NULL, 0,
                                   &scenario, &err) != DDP_OK) {
            CT_FAIL("%s in\n%s", err.text, ddp_text_str(&text));
            return;
        }
        CT_REQUIRE(scenario.plan_count == 1);
        ddp_text_init(&printed, ddp_mem_system());
        harness_plan_print(&scenario.plans[0], &printed);
        if (strcmp(ddp_text_str(&printed), ddp_text_str(&text)) != 0) {
            CT_FAIL("drawn:\n%s\nand parsed:\n%s", ddp_text_str(&text), ddp_text_str(&printed));
            return;
        }
        ddp_text_fini(&printed);
        ddp_text_fini(&text);
        harness_scenario_fini(&scenario);
    }
}

/* With a row's odds at 0 and at 100 the plans differ somewhere: the row draws something. */
CT_TEST(grammar, rows_draw)
{
    struct harness_grammar_options options;

    for (unsigned row = 0; row < HARNESS_ROW_COUNT; row++) {
        bool is_different = false;

        if (!harness_grammar_is_drawn((enum harness_row)row)) {
            continue;
        }
        for (uint64_t i = 0; i < CASES && !is_different; i++) {
            struct ddp_text with, without;

            harness_grammar_init(&options, "x");
            if (options.odds[row] == 100) {
                is_different = true; /* plans need it; plans_resolve has seen it */
                continue;
            }
            /* It is for a fault that there is, and a run that goes on from a checkpoint. */
            if (row == HARNESS_ROW_AT_run) {
                options.fault_min = options.fault_max = 1;
                options.odds[HARNESS_ROW_JOB_checkpoint_every] = 100;
            }
            options.odds[row] = 100;
            draw(&options, i, &with);
            options.odds[row] = 0;
            draw(&options, i, &without);
            is_different = strcmp(ddp_text_str(&with), ddp_text_str(&without)) != 0;
            ddp_text_fini(&with);
            ddp_text_fini(&without);
        }
        if (!is_different) {
            CT_FAIL("%s draws nothing", harness_key((enum harness_row)row)->key);
        }
    }
}

/* Whether any of the plans with a fault contains a word. */
static bool is_somewhere(const char *word)
{
    struct harness_grammar_options options;
    bool is_found = false;

    harness_grammar_init(&options, "x");
    options.fault_min = options.fault_max = 1;
    for (uint64_t i = 0; i < 4 * CASES && !is_found; i++) {
        struct ddp_text text;
        const char *faults;

        draw(&options, i, &text);
        faults = strstr(ddp_text_str(&text), "\nfaults:");
        is_found = faults != NULL && strstr(faults, word) != NULL;
        ddp_text_fini(&text);
    }
    return is_found;
}

/* A fault that alters data, without the keys that say which, has no answer; one that kills has. */
CT_TEST(grammar, faults_without_a_place)
{
    static const struct {
        const char *fault;
        bool is_answered;
    } rows[] = {
        {"{at: {rank: 1, step: 1}, point: bucket/launch, do: {corrupt: half}}", false},
        {"{at: {rank: 1, step: 1}, point: bucket/launch, do: {corrupt: shift, value: 1}}", false},
        {"{at: {rank: 1, bucket: 0}, point: bucket/launch, do: {corrupt: half}}", false},
        {"{at: {rank: 1, step: 1, bucket: 0}, point: bucket/launch, do: {corrupt: half}}", true},
        {"{at: {rank: 1, step: 1}, point: collective/post, do: {corrupt: flip, elem: 0, bit: 9}}",
         false},
        {"{at: {rank: 1, step: 1}, point: collective/enqueue, do: {skip: true}}", false},
        {"{at: {rank: 1, step: 1}, point: collective/pre, do: {arg: index, value: 0}}", false},
        {"{at: {rank: 1, step: 1}, point: backward/grad_ready, do: {corrupt: nan}}", false},
        {"{at: {rank: 1}, point: optimizer/pre, do: {skip: true}}", false},
        {"{at: {rank: 1}, point: bucket/launch, do: {kill: SIGKILL}}", true},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct harness_scenario scenario;
        struct harness_model model;
        struct ddp_text text;
        struct ddp_err err = {""};

        ddp_text_init(&text, ddp_mem_system());
        ddp_text_add(&text,
                     "# x\nid: x.y\njob: {ranks: 3, steps: 3, model: mlp, data: digits, "
                     "batch_per_rank: 4}\nfaults: [%s]\nexpect: {verdict: NONE}\n",
                     rows[i].fault);
        CT_CHECK_OK(harness_scenario_parse(ddp_text_str(&text), text.size_bytes, "x.yaml", NULL, 0,
                                           &scenario, &err));
        if ((harness_model_of(&scenario.plans[0], ddp_mem_pool_mem(scenario.pool), &model, &err) ==
             DDP_OK) != rows[i].is_answered) {
            CT_FAIL("%s: %s", rows[i].fault, err.text);
        }
        harness_scenario_fini(&scenario);
        ddp_text_fini(&text);
    }
}

/* Every key of a fault that is drawn with it occurs, and every corruption and argument. */
CT_TEST(grammar, faults_have_all_keys)
{
    static const enum harness_row with[] = {
#define WITH(section, key, row) HARNESS_ROW_##section##_##key,
#include "harness/grammar/grammar.def"
    };
    char word[64];
    const char *name;

    for (size_t i = 0; i < sizeof with / sizeof with[0]; i++) {
        (void)snprintf(word, sizeof word, "%s:", harness_key(with[i])->key);
        if (!is_somewhere(word)) {
            CT_FAIL("no fault has %s", word);
        }
    }
    for (size_t i = 0; (name = harness_names_at(HARNESS_NAMES_CORRUPTS, i, NULL)) != NULL; i++) {
        (void)snprintf(word, sizeof word, "corrupt: %s", name);
        CT_CHECK(is_somewhere(word));
    }
    for (size_t i = 0; (name = harness_names_at(HARNESS_NAMES_ARGS, i, NULL)) != NULL; i++) {
        (void)snprintf(word, sizeof word, "arg: %s", name);
        CT_CHECK(strcmp(name, "root") == 0 || is_somewhere(word)); /* a reduction has no root */
    }
}
