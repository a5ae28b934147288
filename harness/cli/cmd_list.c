/* list: the tables. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/schedule/algorithm.h"
#include "ddpcore/seam/fault_point.h"
#include "harness/cli/cli.h"
#include "harness/launch/card.h"
#include "harness/plan/key.h"
#include "harness/verdict/verdict.h"
#include "reference/data.h"
#include "reference/model.h"

/* Scenario files of the folder named after the word, else of ./scenarios. */
static bool collect_listed(const struct cli_options *options, struct cli_files *out)
{
    static char default_dir[] = "scenarios";
    char *fallback[] = {default_dir};
    struct ddp_err err = {{0}};
    bool has_dir = options->path_count > 1;

    if (cli_files_collect(has_dir ? options->paths + 1 : fallback,
                          has_dir ? options->path_count - 1 : 1, out, &err) != DDP_OK) {
        cli_files_fini(out);
        (void)cli_usage_error("%s", err.text);
        return false;
    }
    return true;
}

static int list_points(const struct cli_options *options)
{
    static const char *const payloads[] = {"-", "data", "args"};

    (void)options;
    for (unsigned i = 0; i < DDP_FAULT_POINT_COUNT; i++) {
        enum ddp_fault_point point = (enum ddp_fault_point)i;

        (void)printf("%-24s %-5s %s\n", ddp_fault_point_name(point),
                     payloads[ddp_fault_point_payload(point)], ddp_fault_point_description(point));
    }
    return 0;
}

/* Variants of a list, with the keys that each takes beside its own. */
static void print_variants(const char *heading, enum harness_names list)
{
    size_t count;
    const struct harness_variant *variants = harness_variants(list, &count);

    (void)printf("%s:\n", heading);
    for (size_t i = 0; i < count; i++) {
        const char *keys = variants[i].keys;

        (void)printf("  %-14s %s%s%s%s\n", variants[i].name, variants[i].meaning,
                     keys[0] == '\0' ? "" : " (takes ", keys, keys[0] == '\0' ? "" : ")");
    }
}

static int list_actions(const struct cli_options *options)
{
    (void)options;
    print_variants("do", HARNESS_NAMES_ACTIONS);
    print_variants("\ndo.corrupt", HARNESS_NAMES_CORRUPTS);
    print_variants("\nrestore.edit", HARNESS_NAMES_EDITS);
    return 0;
}

/* Scenarios that cover a row of the catalog, among the files. */
static unsigned count_covering(const struct harness_scenario *scenarios, size_t count,
                               const char *row)
{
    unsigned found = 0;

    for (size_t i = 0; i < count; i++) {
        const struct harness_plan *plan = scenarios[i].plan_count > 0 ? scenarios[i].plans : NULL;

        for (uint32_t k = 0; plan != NULL && k < plan->covers.count; k++) {
            found += strcmp(plan->covers.items[k], row) == 0 ? 1 : 0;
        }
    }
    return found;
}

/* The catalog, and how many scenarios of the folder (default: ./scenarios) cover each row. */
static int list_faults(const struct cli_options *options)
{
    struct harness_scenario *scenarios;
    const struct harness_fault_row *rows;
    struct cli_files files;
    unsigned covered = 0;
    size_t count;

    if (!collect_listed(options, &files)) {
        return CLI_EXIT_USAGE;
    }
    scenarios = calloc(files.count + 1, sizeof *scenarios);
    for (size_t i = 0; scenarios != NULL && i < files.count; i++) {
        if (!cli_scenario_load(files.path[i], options, &scenarios[i])) {
            memset(&scenarios[i], 0, sizeof scenarios[i]);
        }
    }
    rows = harness_fault_rows(&count);
    for (size_t i = 0; scenarios != NULL && i < count; i++) {
        unsigned found = count_covering(scenarios, files.count, rows[i].id);

        covered += found > 0 ? 1 : 0;
        (void)printf("%-4s %3u  %s\n", rows[i].id, found, rows[i].fault);
    }
    (void)printf("%u of %zu rows have a scenario\n", covered, count);
    for (size_t i = 0; scenarios != NULL && i < files.count; i++) {
        harness_scenario_fini(&scenarios[i]);
    }
    free(scenarios);
    cli_files_fini(&files);
    return 0;
}

static int list_verdicts(const struct cli_options *options)
{
    (void)options;
    for (unsigned i = 0; i < HARNESS_VERDICT_COUNT; i++) {
        enum harness_verdict verdict = (enum harness_verdict)i;

        (void)printf("%-24s %s\n", harness_verdict_name(verdict), harness_verdict_meaning(verdict));
    }
    return 0;
}

static int list_oracles(const struct cli_options *options)
{
    (void)options;
    for (unsigned i = HARNESS_ORACLE_NONE + 1; i < HARNESS_ORACLE_COUNT; i++) {
        enum harness_oracle_id oracle = (enum harness_oracle_id)i;

        if (harness_oracle_is_checker(oracle)) {
            (void)printf("%-14s %s\n", harness_oracle_name(oracle), harness_oracle_proves(oracle));
        }
    }
    return 0;
}

/* A resource specification for CTest: one slot a card that can be used. Without any, so many of the
 * card that is not there that every test is started, and skipped with the reason: CTest would call
 * a test "not run" otherwise. */
static int list_resources(const struct cli_options *options)
{
    struct ddp_err err = {{0}};
    struct harness_cards cards;

    (void)options;
    if (harness_cards_probe(&cards, &err) != DDP_OK) {
        return cli_usage_error("%s", err.text);
    }
    (void)printf("{\"version\": {\"major\": 1, \"minor\": 0}, \"local\": [{\"gpus\": [");
    for (uint32_t i = 0; cards.is_usable && i < cards.info.card_count; i++) {
        (void)printf("%s{\"id\": \"%u\", \"slots\": 1}", i == 0 ? "" : ", ", i);
    }
    if (!cards.is_usable) {
        (void)printf("{\"id\": \"" HARNESS_CARD_ABSENT "\", \"slots\": %d}", HARNESS_JOB_RANKS_MAX);
    }
    (void)printf("]}]}\n");
    return 0;
}

static int list_collectives(const struct cli_options *options)
{
    size_t count;
    const struct ddp_algorithm *table = ddp_algorithm_table(&count);

    (void)options;
    for (size_t i = 0; i < count; i++) {
        (void)printf("%-14s %-24s %s%s\n", ddp_coll_kind_name(table[i].kind), table[i].name,
                     table[i].meaning,
                     table[i].kind < DDP_COLL_POSTED_KIND_COUNT ? "" : " (posted by job.posts)");
    }
    for (unsigned i = 0; i < HARNESS_ENGINE_COUNT; i++) {
        const struct harness_engine_traits *engine = harness_engine_traits((enum harness_engine)i);

        if (engine->name != NULL) {
            (void)printf("%-14s %-24s %s\n", "all kinds", engine->name, engine->meaning);
        }
    }
    (void)printf("%-14s %-24s %s\n", "all_reduce", "nccl/<algorithm>",
                 harness_engine_traits(HARNESS_ENGINE_NCCL_SCHEDULE)->meaning);
    return 0;
}

static int list_names(const char *const *names)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        (void)printf("%s\n", names[i]);
    }
    return 0;
}

static int list_models(const struct cli_options *options)
{
    (void)options;
    return list_names(ref_model_names());
}

static int list_data(const struct cli_options *options)
{
    (void)options;
    return list_names(ref_data_names());
}

static int list_text(void (*print)(struct ddp_text *out))
{
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    print(&text);
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
    return 0;
}

static int list_keys(const struct cli_options *options)
{
    (void)options;
    return list_text(harness_scenario_keys);
}

static int list_schema(const struct cli_options *options)
{
    (void)options;
    return list_text(harness_scenario_schema);
}

static int list_scenarios(const struct cli_options *options)
{
    struct cli_files files;

    if (!collect_listed(options, &files)) {
        return CLI_EXIT_USAGE;
    }
    for (size_t i = 0; i < files.count; i++) {
        struct harness_scenario scenario;

        if (cli_scenario_load(files.path[i], options, &scenario)) {
            const struct harness_plan *plan = &scenario.plans[0];

            (void)printf("%-44s %3zu cells  %s\n", plan->id, scenario.plan_count, plan->purpose);
            harness_scenario_fini(&scenario);
        }
    }
    cli_files_fini(&files);
    return 0;
}

/* Cards that the most demanding cell of a scenario needs. */
static uint32_t count_cards(const struct harness_scenario *scenario)
{
    uint32_t most = 0;

    for (size_t i = 0; i < scenario->plan_count; i++) {
        uint32_t cards = harness_cards_needed(&scenario->plans[i]);

        most = cards > most ? cards : most;
    }
    return most;
}

/* What a build system has to know of a scenario file, as ddprove_write_tests.cmake reads it. */
static json_t *describe_test(const char *path, const struct harness_scenario *scenario)
{
    const struct harness_plan *plan = &scenario->plans[0];
    json_t *drivers = json_array();
    char *file = realpath(path, NULL);
    json_t *test;

    for (unsigned d = 0; d < HARNESS_DRIVER_COUNT; d++) {
        if (harness_plan_runs_on(plan, (enum harness_driver)d)) {
            (void)json_array_append_new(drivers,
                                        json_string(harness_driver_name((enum harness_driver)d)));
        }
    }
    test = json_pack("{s:s, s:s, s:o, s:I, s:I}", "id", plan->id, "file",
                     file != NULL ? file : path, "drivers", drivers, "cells",
                     (json_int_t)scenario->plan_count, "cards", (json_int_t)count_cards(scenario));
    free(file);
    return test;
}

/* Every file's test, as JSON. A file that is not right is an error, so that none is forgotten. */
static int list_tests(const struct cli_options *options)
{
    json_t *tests = json_array();
    struct cli_files files;
    json_t *list;
    int code = 0;

    if (!collect_listed(options, &files)) {
        json_decref(tests);
        return CLI_EXIT_USAGE;
    }
    for (size_t i = 0; i < files.count; i++) {
        struct harness_scenario scenario;

        if (!cli_scenario_load(files.path[i], options, &scenario)) {
            code = CLI_EXIT_USAGE;
            continue;
        }
        (void)json_array_append_new(tests, describe_test(files.path[i], &scenario));
        harness_scenario_fini(&scenario);
    }
    cli_files_fini(&files);
    list = json_pack("{s:s, s:o}", "schema", "ddprove.tests/1", "tests", tests);
    if (code == 0) {
        (void)json_dumpf(list, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        (void)printf("\n");
    }
    json_decref(list);
    return code;
}

int cli_list(const struct cli_options *options)
{
    static const struct {
        const char *name;
        int (*list)(const struct cli_options *options);
    } lists[] = {
        {"scenarios", list_scenarios},
        {"faults", list_faults},
        {"actions", list_actions},
        {"points", list_points},
        {"models", list_models},
        {"data", list_data},
        {"collectives", list_collectives},
        {"oracles", list_oracles},
        {"verdicts", list_verdicts},
        {"keys", list_keys},
        {"schema", list_schema},
        {"resources", list_resources},
        {"tests", list_tests},
    };

    enum { COUNT = sizeof lists / sizeof lists[0] };
    const char *names[COUNT];
    const char *nearest;

    for (size_t i = 0; i < COUNT; i++) {
        names[i] = lists[i].name;
        if (options->path_count == 0 || strcmp(options->paths[0], lists[i].name) != 0) {
            continue;
        }
        if (options->path_count > 1 && lists[i].list != list_scenarios &&
            lists[i].list != list_faults && lists[i].list != list_tests) {
            return cli_usage_error("list %s: takes nothing more, but \"%s\" follows", lists[i].name,
                                   options->paths[1]);
        }
        return lists[i].list(options);
    }
    nearest = options->path_count > 0 ? ddp_text_nearest(options->paths[0], names, COUNT) : NULL;
    if (nearest != NULL) {
        return cli_usage_error("list: unknown list \"%s\"; did you mean %s", options->paths[0],
                               nearest);
    }
    return cli_usage_error("list: name one of scenarios, faults, actions, points, models, data, "
                           "collectives, oracles, verdicts, keys, schema, resources, tests");
}
