/* plan, lint, check, explain, train. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cell/cell.h"
#include "harness/cli/cli.h"
#include "harness/report/report.h"

int cli_plan(const struct cli_options *options)
{
    struct harness_scenario scenario;
    struct ddp_text text;

    if (options->path_count != 1) {
        return cli_usage_error("plan: name one scenario file");
    }
    if (!cli_scenario_load(options->paths[0], options, &scenario)) {
        return CLI_EXIT_USAGE;
    }
    for (size_t i = 0; i < scenario.plan_count; i++) {
        ddp_text_init(&text, ddp_mem_system());
        harness_plan_print(&scenario.plans[i], &text);
        (void)printf("%s%s", i > 0 ? "---\n" : "", ddp_text_str(&text));
        ddp_text_fini(&text);
    }
    harness_scenario_fini(&scenario);
    return 0;
}

int cli_lint(const struct cli_options *options)
{
    struct ddp_err err = {{0}};
    struct cli_files files;
    size_t bad = 0;

    if (options->path_count == 0) {
        return cli_usage_error("lint: name a scenario file or a folder of them");
    }
    if (cli_files_collect(options->paths, options->path_count, &files, &err) != DDP_OK) {
        cli_files_fini(&files);
        return cli_usage_error("%s", err.text);
    }
    for (size_t i = 0; i < files.count; i++) {
        struct harness_scenario scenario;

        if (cli_scenario_load(files.path[i], options, &scenario)) {
            harness_scenario_fini(&scenario);
        } else {
            bad++;
        }
    }
    (void)printf("%zu scenario files, %zu bad\n", files.count, bad);
    cli_files_fini(&files);
    return bad > 0 ? CLI_EXIT_USAGE : 0;
}

int cli_check(const struct cli_options *options)
{
    struct harness_report_counts counts;

    memset(&counts, 0, sizeof counts);
    if (options->path_count == 0) {
        return cli_usage_error("check: name the folder of a run (it holds trace.txt)");
    }
    for (int i = 0; i < options->path_count; i++) {
        struct ddp_err err = {{0}};
        json_t *verdict = NULL;
        struct ddp_text text;

        if (harness_cell_check(options->paths[i], &verdict, &err) != DDP_OK) {
            return cli_usage_error("%s", err.text);
        }
        harness_report_count(&counts, verdict);
        ddp_text_init(&text, ddp_mem_system());
        harness_report_line(verdict, 1, false, &text);
        (void)fputs(ddp_text_str(&text), stdout);
        ddp_text_fini(&text);
        json_decref(verdict);
    }
    return harness_outcome_exit_code(harness_report_worst(&counts));
}

int cli_explain(const struct cli_options *options)
{
    char path[4096];
    json_error_t error;
    json_t *verdict;
    struct ddp_text text;

    if (options->path_count != 1) {
        return cli_usage_error("explain: name the folder of one run (it holds verdict.json)");
    }
    (void)snprintf(path, sizeof path, "%s/verdict.json", options->paths[0]);
    if (access(path, R_OK) != 0) {
        return cli_usage_error("explain: %s: %s; name the folder of one run", path,
                               strerror(errno));
    }
    verdict = json_load_file(path, 0, &error);
    if (verdict == NULL) {
        return cli_usage_error("%s:%d:%d: %s", path, error.line, error.column, error.text);
    }
    ddp_text_init(&text, ddp_mem_system());
    harness_report_explain(verdict, &text);
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
    json_decref(verdict);
    return 0;
}

int cli_train(const struct cli_options *options)
{
    struct harness_scenario scenario;
    struct harness_cell_config config;
    struct ddp_err err = {{0}};
    json_t *verdict = NULL;
    char dir[] = "/tmp/ddprove-train-XXXXXX";
    double ms;
    ddp_status status;

    if (options->path_count != 1) {
        return cli_usage_error("train: name one scenario file");
    }
    if (!cli_scenario_load(options->paths[0], options, &scenario)) {
        return CLI_EXIT_USAGE;
    }
    memset(&config, 0, sizeof config);
    config.driver = options->has_driver ? options->driver : HARNESS_DRIVER_PROC;
    config.seed = options->seed;
    config.self_path = cli_self_path();
    config.is_bare = true;
    config.run_dir = options->out_dir != NULL ? options->out_dir : mkdtemp(dir);
    if (config.run_dir == NULL) {
        harness_scenario_fini(&scenario);
        return cli_usage_error("train: no temporary folder can be made");
    }
    status = harness_cell_run(&scenario.plans[0], &config, &verdict, &err);
    ms = json_number_value(json_object_get(verdict, "steps_ms"));
    if (status == DDP_OK && ms > 0) {
        (void)printf("%s: %u ranks, %u steps in %.1f ms: %.1f steps/s\n", scenario.plans[0].id,
                     scenario.plans[0].job.ranks, scenario.plans[0].job.steps, ms,
                     (double)scenario.plans[0].job.steps * 1000.0 / ms);
    } else {
        (void)fprintf(stderr, "ddprove: train: %s\n",
                      err.text[0] != '\0' ? err.text : "the ranks did not finish");
    }
    if (options->out_dir == NULL && ddp_files_remove_tree(config.run_dir, &err) != DDP_OK) {
        (void)fprintf(stderr, "ddprove: train: %s\n", err.text);
    }
    json_decref(verdict);
    harness_scenario_fini(&scenario);
    return status == DDP_OK && ms > 0 ? 0 : harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
}
