/* train: one cell without checks, for timing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/cell/cell.h"
#include "harness/cli/pace.h"
#include "harness/cli/pool.h"
#include "harness/report/report.h"

/* One job: what it took. */
struct run {
    const struct cli_options *options;
    const struct harness_plan *plan;
    double ms, reduce_share, wait_share;
    int code;
};

/* Nothing is judged. */
static bool train_done(void *context, struct cli_task *task)
{
    struct run *run = context;

    run->ms = json_number_value(json_object_get(task->verdict, "steps_ms"));
    run->reduce_share = json_number_value(json_object_get(task->verdict, "reduce_share"));
    run->wait_share = json_number_value(json_object_get(task->verdict, "wait_share"));
    run->code = 0;
    if (harness_report_outcome(task->verdict) == HARNESS_OUTCOME_ERROR || run->ms <= 0) {
        (void)fprintf(stderr, "ddprove: train: the ranks did not finish\n");
        run->code = harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    return true;
}

/* In a worker process, as every cell: this process lives on and removes the folder. */
static int train_ranks(struct run *run, char *run_dir)
{
    static const struct cli_pool_events events = {train_done, NULL};
    const struct cli_pool_config config = {.jobs = 1, .events = &events, .context = run};
    const struct cli_options *options = run->options;
    struct ddp_err err = {{0}};
    struct cli_task task;
    int signal_number = 0;

    run->code = harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    memset(&task, 0, sizeof task);
    task.plan = run->plan;
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
    if (cli_pool_run(&task, 1, &config, &signal_number, &err) != DDP_OK) {
        (void)fprintf(stderr, "ddprove: train: %s\n", err.text);
    }
    json_decref(task.verdict);
    return signal_number != 0 ? 128 + signal_number : run->code;
}

static bool is_of(const struct cli_options *options, const char *parallel)
{
    return options->parallel != NULL && strcmp(options->parallel, parallel) == 0;
}

static bool is_of_ranks(const struct cli_options *options)
{
    return !is_of(options, "dp") && !is_of(options, "single");
}

static int train_without_ranks(struct run *run)
{
    struct harness_pace pace;
    struct ddp_err err = {{0}};

    if (harness_cell_pace(run->plan, is_of(run->options, "single"), &pace, &err) != DDP_OK) {
        return cli_usage_error("train: --parallel %s: %s", run->options->parallel, err.text);
    }
    run->ms = (double)pace.ns / 1e6;
    for (uint32_t d = 0; d < pace.device_count; d++) {
        (void)printf("device %u: %.1f KiB of tensors\n", d, (double)pace.device_bytes[d] / 1024);
    }
    return 0;
}

static void report_pace(const struct run *run)
{
    const struct harness_job *job = &run->plan->job;

    if (is_of(run->options, "single")) {
        (void)printf("%s: 1 device, the batches of %u ranks, %u steps in %.1f ms: %.1f steps/s\n",
                     run->plan->id, job->ranks, job->steps, run->ms,
                     (double)job->steps * 1000.0 / run->ms);
        return;
    }
    (void)printf("%s: %u %s, %u steps in %.1f ms: %.1f steps/s\n", run->plan->id, job->ranks,
                 is_of(run->options, "dp") ? "devices of one process" : "ranks", job->steps,
                 run->ms, (double)job->steps * 1000.0 / run->ms);
}

/* *out: what was measured. Returns an exit code. */
static int train(const struct cli_options *options, const struct harness_plan *plan, char *run_dir,
                 struct cli_pace *out)
{
    struct run run = {.options = options, .plan = plan};
    const int code = is_of_ranks(options) ? train_ranks(&run, run_dir) : train_without_ranks(&run);

    *out = (struct cli_pace){.ranks = plan->job.ranks,
                             .step_ms = run.ms / plan->job.steps,
                             .reduce_share = run.reduce_share,
                             .wait_share = run.wait_share};
    for (uint32_t r = 0; r < plan->job.ranks; r++) {
        out->rows += (double)(plan->job.batch_per_rank[r] * plan->job.micro_batches);
    }
    if (code == 0) {
        report_pace(&run);
    }
    return code;
}

static int show_buckets(const struct harness_plan *plan)
{
    struct ddp_text text;
    struct ddp_err err = {{0}};
    ddp_status status;
    int code = 0;

    ddp_text_init(&text, ddp_mem_system());
    status = harness_cell_print_buckets(plan, &text, &err);
    if (status != DDP_OK || text.is_failed) {
        code = cli_usage_error("train: --show-buckets: %s",
                               err.text[0] != '\0' ? err.text : ddp_status_text(status));
    } else {
        (void)fputs(ddp_text_str(&text), stdout);
    }
    ddp_text_fini(&text);
    return code;
}

static int write_svg(const char *path, const struct cli_pace *paces, unsigned count,
                     const char *title)
{
    struct ddp_text text;
    int code;

    ddp_text_init(&text, ddp_mem_system());
    cli_pace_draw(paces, count, title, &text);
    code = cli_write_text("train: --svg", path, &text);
    ddp_text_fini(&text);
    return code;
}

/* The scenario with so many ranks. */
static int train_scaled(const struct cli_options *options, uint64_t ranks, char *run_dir,
                        struct cli_pace *out)
{
    struct cli_options scaled = *options;
    struct harness_scenario scenario;
    char set[64];
    int code;

    (void)snprintf(set, sizeof set, "job.ranks=%llu", (unsigned long long)ranks);
    if (scaled.set_count == CLI_SETS_MAX) {
        return cli_usage_error("--scaling: too many --set");
    }
    scaled.sets[scaled.set_count++] = set;
    if (!cli_scenario_load(options->paths[0], &scaled, &scenario)) {
        return CLI_EXIT_USAGE;
    }
    code = train(options, &scenario.plans[0], run_dir, out);
    harness_scenario_fini(&scenario);
    return code;
}

/* "1,2,4". Returns 0, or an exit code; its error was printed. */
static int read_worlds(const char *text, uint64_t *out, unsigned *out_count)
{
    int code = 0;

    *out_count = 0;
    for (const char *at = text; code == 0 && at != NULL;) {
        const char *comma = strchr(at, ',');
        const size_t length = comma != NULL ? (size_t)(comma - at) : strlen(at);
        char number[16] = "";

        if (*out_count == CLI_PACES_MAX) {
            return cli_usage_error("--scaling: at most %d numbers", CLI_PACES_MAX);
        }
        (void)snprintf(number, sizeof number, "%.*s", length < 15 ? (int)length : 15, at);
        code = cli_parse_number("--scaling", number, 1, HARNESS_JOB_RANKS_MAX, &out[*out_count]);
        (*out_count)++;
        at = comma != NULL ? comma + 1 : NULL;
    }
    return code;
}

static int train_all(const struct cli_options *options, char *run_dir)
{
    struct cli_pace paces[CLI_PACES_MAX];
    uint64_t worlds[CLI_PACES_MAX];
    struct ddp_text text;
    unsigned count = 0;
    int code = read_worlds(options->scaling, worlds, &count);

    for (unsigned i = 0; i < count && code == 0; i++) {
        code = train_scaled(options, worlds[i], run_dir, &paces[i]);
    }
    if (code != 0) {
        return code;
    }
    ddp_text_init(&text, ddp_mem_system());
    cli_pace_print_table(paces, count, &text);
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
    return options->svg != NULL ? write_svg(options->svg, paces, count, options->paths[0]) : 0;
}

int cli_train(const struct cli_options *options)
{
    const char *temporary = getenv("TMPDIR");
    struct harness_scenario scenario;
    struct ddp_err err = {{0}};
    struct cli_pace pace;
    char dir[4096];
    int code;

    if (options->path_count != 1) {
        return cli_usage_error("train: name one scenario file");
    }
    if (options->svg != NULL && options->scaling == NULL) {
        return cli_usage_error("train: --svg draws what --scaling measures");
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
    code = options->is_showing_buckets ? show_buckets(&scenario.plans[0]) : 0;
    if (code == 0) {
        code = options->scaling != NULL ? train_all(options, dir)
                                        : train(options, &scenario.plans[0], dir, &pace);
    }
    if (options->out_dir == NULL && ddp_files_remove_tree(dir, &err) != DDP_OK) {
        (void)fprintf(stderr, "ddprove: train: %s\n", err.text);
    }
    harness_scenario_fini(&scenario);
    return code;
}
