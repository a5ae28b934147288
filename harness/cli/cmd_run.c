/* ddprove run: every cell of every scenario, on every driver asked for. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness/cli/pool.h"
#include "harness/report/report.h"

struct run {
    const struct cli_options *options;
    struct cli_files files;
    struct harness_scenario *scenarios; /* [files.count] */
    struct cli_task *tasks;
    size_t task_count, task_capacity;
    struct harness_report_counts counts;
    json_t *verdicts;
    size_t done_count;
    bool is_tty;
    char out_dir[2048];
};

static bool load_all(struct run *run)
{
    bool is_good = true;

    run->scenarios = calloc(run->files.count, sizeof *run->scenarios);
    if (run->scenarios == NULL) {
        return false;
    }
    for (size_t i = 0; i < run->files.count; i++) {
        is_good =
            cli_scenario_load(run->files.path[i], run->options, &run->scenarios[i]) && is_good;
    }
    return is_good;
}

/* Letters of a cell's name that are safe in a folder's. */
static void add_slug(char *out, size_t size, const char *text)
{
    size_t used = strlen(out);

    for (; *text != '\0' && used + 1 < size; text++) {
        bool is_plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                        (*text >= '0' && *text <= '9') || *text == '.' || *text == '_' ||
                        *text == '=' || *text == '-';
        out[used++] = is_plain ? *text : '_';
    }
    out[used] = '\0';
}

static char *make_run_dir(const struct run *run, const struct harness_plan *plan,
                          enum harness_driver driver, uint64_t seed)
{
    char path[4096];
    char tail[64];

    (void)snprintf(path, sizeof path, "%s/%s", run->out_dir, plan->id);
    if (plan->cell[0] != '\0') {
        add_slug(path, sizeof path - 64, "/");
        path[strlen(path) - 1] = '/';
        add_slug(path, sizeof path - 64, plan->cell);
    }
    (void)snprintf(tail, sizeof tail, "/%s", harness_driver_name(driver));
    (void)strcat(path, tail);
    if (run->options->seed_count > 1) {
        (void)snprintf(tail, sizeof tail, ".seed%" PRIu64, seed);
        (void)strcat(path, tail);
    }
    return strdup(path);
}

static bool add_task(struct run *run, const struct harness_plan *plan, enum harness_driver driver,
                     uint64_t seed)
{
    struct cli_task *task;

    if (run->task_count == run->task_capacity) {
        size_t capacity = run->task_capacity == 0 ? 64 : 2 * run->task_capacity;
        struct cli_task *grown = realloc(run->tasks, capacity * sizeof *grown);

        if (grown == NULL) {
            return false;
        }
        run->tasks = grown;
        run->task_capacity = capacity;
    }
    task = &run->tasks[run->task_count++];
    memset(task, 0, sizeof *task);
    task->plan = plan;
    task->run_dir = make_run_dir(run, plan, driver, seed);
    task->config.driver = driver;
    task->config.seed = seed;
    task->config.run_dir = task->run_dir;
    task->config.self_path = cli_self_path();
    task->config.is_time_enforced = run->options->is_time_enforced;
    return task->run_dir != NULL;
}

static bool plan_tasks(struct run *run)
{
    for (size_t i = 0; i < run->files.count; i++) {
        for (size_t k = 0; k < run->scenarios[i].plan_count; k++) {
            const struct harness_plan *plan = &run->scenarios[i].plans[k];

            for (unsigned d = 0; d < HARNESS_DRIVER_COUNT; d++) {
                bool is_sim = d == HARNESS_DRIVER_SIM;
                uint64_t seeds = is_sim ? run->options->seed_count : 1;

                if (!plan->is_driver[d] ||
                    (run->options->has_driver && run->options->driver != d)) {
                    continue;
                }
                for (uint64_t s = 0; s < seeds; s++) {
                    if (!add_task(run, plan, (enum harness_driver)d, run->options->seed + s)) {
                        return false;
                    }
                }
            }
        }
    }
    return true;
}

static void show_progress(const struct run *run)
{
    if (run->is_tty) {
        (void)fprintf(stderr, "\r%zu/%zu cells\033[K", run->done_count, run->task_count);
        if (run->done_count == run->task_count) {
            (void)fputs("\r\033[K", stderr);
        }
        (void)fflush(stderr);
    }
}

static void print_line(const json_t *verdict, unsigned cells, bool is_tty)
{
    struct ddp_text text;

    ddp_text_init(&text, ddp_mem_system());
    harness_report_line(verdict, cells, is_tty, &text);
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
}

static bool is_same_line(const struct cli_task *a, const struct cli_task *b)
{
    return a->plan->file == b->plan->file && a->config.driver == b->config.driver &&
           strcmp(a->plan->id, b->plan->id) == 0;
}

/* Print the line of a scenario once its last cell has ended: itself if all passed, else every cell
 * that did not. */
static void print_scenario(const struct run *run, const struct cli_task *task)
{
    unsigned cells = 0;
    unsigned bad = 0;

    for (size_t i = 0; i < run->task_count; i++) {
        if (is_same_line(&run->tasks[i], task) && run->tasks[i].verdict == NULL) {
            return;
        }
    }
    for (size_t i = 0; i < run->task_count; i++) {
        const struct cli_task *other = &run->tasks[i];

        if (!is_same_line(other, task)) {
            continue;
        }
        cells++;
        if (harness_report_outcome(other->verdict) != HARNESS_OUTCOME_PASS) {
            print_line(other->verdict, 1, run->is_tty);
            bad++;
        }
    }
    if (bad == 0) {
        print_line(task->verdict, cells, run->is_tty);
    }
    (void)fflush(stdout);
}

static void task_done(void *context, struct cli_task *task)
{
    struct run *run = context;

    run->done_count++;
    harness_report_count(&run->counts, task->verdict);
    show_progress(run);
    if (run->options->is_verbose) {
        print_line(task->verdict, 1, run->is_tty);
        (void)fflush(stdout);
    } else {
        print_scenario(run, task);
    }
}

static bool write_text(const char *path, const char *data, size_t size_bytes)
{
    struct ddp_err err = {{0}};

    if (ddp_files_write_atomic(ddp_files_system(), path, data, size_bytes, &err) != DDP_OK) {
        (void)fprintf(stderr, "ddprove: %s\n", err.text);
        return false;
    }
    return true;
}

static bool write_reports(struct run *run)
{
    bool is_good = true;

    run->verdicts = json_array();
    for (size_t i = 0; i < run->task_count; i++) {
        if (run->tasks[i].verdict != NULL) {
            (void)json_array_append(run->verdicts, run->tasks[i].verdict);
        }
    }
    if (run->options->json != NULL) {
        json_t *summary = harness_report_json(run->verdicts);
        char *text = json_dumps(summary, JSON_INDENT(2) | JSON_PRESERVE_ORDER);

        is_good = text != NULL && write_text(run->options->json, text, strlen(text));
        free(text);
        json_decref(summary);
    }
    if (run->options->junit != NULL) {
        struct ddp_text text;

        ddp_text_init(&text, ddp_mem_system());
        harness_report_junit(run->verdicts, &text);
        is_good = !text.is_failed && write_text(run->options->junit, text.data, text.size_bytes) &&
                  is_good;
        ddp_text_fini(&text);
    }
    return is_good;
}

static void choose_out_dir(struct run *run)
{
    time_t now = time(NULL);
    struct tm parts;

    if (run->options->out_dir != NULL) {
        (void)snprintf(run->out_dir, sizeof run->out_dir, "%s", run->options->out_dir);
        return;
    }
    (void)localtime_r(&now, &parts);
    (void)strftime(run->out_dir, sizeof run->out_dir, "runs/%Y%m%d-%H%M%S", &parts);
}

static unsigned choose_jobs(const struct cli_options *options)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (options->jobs > 0) {
        return options->jobs;
    }
    /* Real ranks share the cores already; cells beside each other would only disturb them. */
    return options->has_driver && options->driver == HARNESS_DRIVER_SIM && cores > 1
               ? (unsigned)cores
               : 1;
}

static void run_fini(struct run *run)
{
    for (size_t i = 0; i < run->task_count; i++) {
        json_decref(run->tasks[i].verdict);
        free(run->tasks[i].run_dir);
    }
    for (size_t i = 0; run->scenarios != NULL && i < run->files.count; i++) {
        harness_scenario_fini(&run->scenarios[i]);
    }
    free(run->tasks);
    free(run->scenarios);
    json_decref(run->verdicts);
    cli_files_fini(&run->files);
}

static int run_all(struct run *run)
{
    struct ddp_text text;
    int signal_number;

    if (!load_all(run)) {
        return CLI_EXIT_USAGE;
    }
    choose_out_dir(run);
    if (!plan_tasks(run)) {
        return cli_usage_error("out of memory");
    }
    if (run->task_count == 0) {
        return cli_usage_error("no cell to run: the scenarios exclude this driver");
    }
    signal_number =
        cli_pool_run(run->tasks, run->task_count, choose_jobs(run->options), task_done, run);
    if (signal_number != 0) {
        (void)fprintf(stderr, "\nddprove: interrupted; ranks and workers are gone\n");
        return 128 + signal_number;
    }
    ddp_text_init(&text, ddp_mem_system());
    harness_report_summary(&run->counts, &text);
    (void)fputs(ddp_text_str(&text), stdout);
    ddp_text_fini(&text);
    if (!write_reports(run)) {
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    return harness_outcome_exit_code(harness_report_worst(&run->counts));
}

int cli_run(const struct cli_options *options)
{
    struct ddp_err err = {{0}};
    struct run run;
    int code;

    memset(&run, 0, sizeof run);
    run.options = options;
    run.is_tty = isatty(STDOUT_FILENO) != 0;
    if (options->path_count == 0) {
        return cli_usage_error("run: name a scenario file or a folder of them");
    }
    if (cli_files_collect(options->paths, options->path_count, &run.files, &err) != DDP_OK) {
        cli_files_fini(&run.files);
        return cli_usage_error("%s", err.text);
    }
    code = run_all(&run);
    run_fini(&run);
    return code;
}
