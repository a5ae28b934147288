/* train: one cell without checks, for timing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cell/cell.h"
#include "harness/cli/pool.h"
#include "harness/report/report.h"

/* Print the speed; nothing is judged. Returns an exit code. */
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

static bool train_done(void *context, struct cli_task *task)
{
    *(int *)context = report_pace(task->plan, task->verdict);
    return true;
}

/* In a worker process, as every cell: this process lives on and removes the folder. */
static int train(const struct cli_options *options, const struct harness_plan *plan, char *run_dir)
{
    static const struct cli_pool_events events = {train_done, NULL};
    struct ddp_err err = {{0}};
    struct cli_task task;
    int code = harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    int signal_number;

    memset(&task, 0, sizeof task);
    task.plan = plan;
    task.run_dir = run_dir;
    task.config.driver = options->has_driver ? options->driver : HARNESS_DRIVER_PROC;
    task.config.seed = options->seed;
    task.config.self_path = harness_launch_self_path();
    task.config.is_bare = true;
    task.config.launcher = options->launcher;
    task.config.run_dir = run_dir;
    if (cli_pool_clear(&task, 1, &err) != DDP_OK) {
        return cli_usage_error("train: %s; name another --out", err.text);
    }
    signal_number = cli_pool_run(&task, 1, 1, &events, &code);
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
