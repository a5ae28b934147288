/* plan, lint, check, explain, train. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/cell/cell.h"
#include "harness/cli/pool.h"
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

        if (harness_cell_check(options->paths[i], options->is_time_enforced, &verdict, &err) !=
            DDP_OK) {
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
    struct ddp_err err = {{0}};
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
    if (harness_cell_explain(options->paths[0], &text, &err) != DDP_OK) {
        ddp_text_add(&text, "    no record of the run: %s\n", err.text);
    }
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
    json_decref(verdict);
    return 0;
}

/* Nobody judges it, so one figure is all there is to say. Returns an exit code. */
static int report_pace(const struct harness_plan *plan, const json_t *verdict)
{
    double ms = json_number_value(json_object_get(verdict, "steps_ms"));

    if (harness_report_outcome(verdict) == HARNESS_OUTCOME_ERROR || ms <= 0) {
        (void)fprintf(stderr, "ddprove: train: the ranks did not finish\n");
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    (void)printf("%s: %u ranks, %u steps in %.1f ms: %.1f steps/s\n", plan->id, plan->job.ranks,
                 plan->job.steps, ms, (double)plan->job.steps * 1000.0 / ms);
    return 0;
}

static void train_done(void *context, struct cli_task *task)
{
    *(int *)context = report_pace(task->plan, task->verdict);
}

/* In a worker, as every cell: whatever ends it, we are there to take its folder away. */
static int train(const struct cli_options *options, const struct harness_plan *plan, char *run_dir)
{
    struct cli_task task;
    int code = harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    int signal_number;

    memset(&task, 0, sizeof task);
    task.plan = plan;
    task.run_dir = run_dir;
    task.config.driver = options->has_driver ? options->driver : HARNESS_DRIVER_PROC;
    task.config.seed = options->seed;
    task.config.self_path = cli_self_path();
    task.config.is_bare = true;
    task.config.launcher = options->launcher;
    task.config.run_dir = run_dir;
    signal_number = cli_pool_run(&task, 1, 1, train_done, &code);
    json_decref(task.verdict);
    return signal_number != 0 ? 128 + signal_number : code;
}

int cli_train(const struct cli_options *options)
{
    const char *temporary = getenv("TMPDIR");
    struct harness_scenario scenario;
    struct ddp_err err = {{0}};
    char dir[4096];
    int code;

    if (options->path_count != 1) {
        return cli_usage_error("train: name one scenario file");
    }
    if (options->is_fast && setenv("DDPROVE_FAST", "1", 1) != 0) {
        return cli_usage_error("train: setenv: %s", strerror(errno));
    }
    if (!cli_scenario_load(options->paths[0], options, &scenario)) {
        return CLI_EXIT_USAGE;
    }
    if (options->out_dir != NULL) {
        (void)snprintf(dir, sizeof dir, "%s", options->out_dir);
    } else {
        (void)snprintf(dir, sizeof dir, "%s/ddprove-train-XXXXXX",
                       temporary != NULL && temporary[0] != '\0' ? temporary : "/tmp");
        if (mkdtemp(dir) == NULL) {
            harness_scenario_fini(&scenario);
            return cli_usage_error("train: %s: %s; name a folder with --out", dir, strerror(errno));
        }
    }
    code = train(options, &scenario.plans[0], dir);
    if (options->out_dir == NULL && ddp_files_remove_tree(dir, &err) != DDP_OK) {
        (void)fprintf(stderr, "ddprove: train: %s\n", err.text);
    }
    harness_scenario_fini(&scenario);
    return code;
}
