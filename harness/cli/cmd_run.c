/* run: every cell of every scenario, on every driver asked for. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ddpcore/device/device.h"
#include "harness/cli/cells.h"
#include "harness/cli/screen.h"
#include "harness/report/report.h"

struct run {
    const struct cli_options *options;
    struct cli_cells cells;
    struct harness_report_counts counts;
    struct cli_screen screen;
    const char *out_dir; /* --out, or dated_dir */
    char dated_dir[64];
};

static bool is_same_line(const struct cli_task *a, const struct cli_task *b)
{
    return a->config.driver == b->config.driver && strcmp(a->plan->id, b->plan->id) == 0;
}

/* Print a scenario's line once its last cell has ended, after those of its cells that did not pass.
 * Skipped cells are one line: they have one reason, as far as a scenario's cells go. */
static void print_scenario(const struct run *run, const struct cli_task *task)
{
    const struct cli_task *together[2] = {NULL, NULL}; /* passed, skipped */
    unsigned cells[2] = {0, 0};

    for (size_t i = 0; i < run->cells.task_count; i++) {
        if (is_same_line(&run->cells.tasks[i], task) &&
            (run->cells.tasks[i].verdict == NULL || run->cells.tasks[i].is_printed)) {
            return;
        }
    }
    for (size_t i = 0; i < run->cells.task_count; i++) {
        struct cli_task *other = &run->cells.tasks[i];
        enum harness_outcome outcome;

        if (!is_same_line(other, task)) {
            continue;
        }
        other->is_printed = true;
        outcome = harness_report_outcome(other->verdict);
        if (outcome == HARNESS_OUTCOME_PASS || outcome == HARNESS_OUTCOME_SKIP) {
            together[outcome == HARNESS_OUTCOME_SKIP] = other;
            cells[outcome == HARNESS_OUTCOME_SKIP]++;
        } else {
            cli_screen_verdict(&run->screen, other->verdict, 1);
        }
    }
    for (int i = 0; i < 2; i++) {
        if (together[i] != NULL) {
            cli_screen_verdict(&run->screen, together[i]->verdict, cells[i]);
        }
    }
}

static bool is_good(const json_t *verdict)
{
    enum harness_outcome outcome = harness_report_outcome(verdict);

    return outcome == HARNESS_OUTCOME_PASS || outcome == HARNESS_OUTCOME_SKIP;
}

/* Whether the run goes on. */
static bool task_done(void *context, struct cli_task *task)
{
    struct run *run = context;

    harness_report_count(&run->counts, task->verdict);
    if (run->options->is_verbose) {
        cli_screen_verdict(&run->screen, task->verdict, 1);
    } else {
        print_scenario(run, task);
    }
    cli_screen_advance(&run->screen);
    return !run->options->is_fail_fast || is_good(task->verdict);
}

static void task_slow(void *context, const struct cli_task *task, uint64_t elapsed_ns)
{
    struct run *run = context;

    cli_screen_slow(&run->screen, task->plan->id, harness_driver_name(task->config.driver),
                    elapsed_ns);
}

static bool write_junit(const char *path, json_t *verdicts)
{
    struct ddp_text text;
    bool is_good;

    ddp_text_init(&text, ddp_mem_system());
    harness_report_junit(verdicts, &text);
    is_good = cli_write_text("--junit", path, &text) == 0;
    ddp_text_fini(&text);
    return is_good;
}

static bool write_reports(const struct run *run)
{
    json_t *verdicts = json_array();
    bool is_good = verdicts != NULL;

    for (size_t i = 0; i < run->cells.task_count; i++) {
        (void)json_array_append(verdicts, run->cells.tasks[i].verdict);
    }
    if (run->options->json != NULL) {
        is_good = cli_write_json("--json", run->options->json, harness_report_json(verdicts)) == 0;
    }
    if (run->options->junit != NULL) {
        is_good = write_junit(run->options->junit, verdicts) && is_good;
    }
    json_decref(verdicts);
    return is_good;
}

/* A folder of this run's own, also if another one began in the same second. False: errno says why
 * not. */
static bool make_dated_dir(struct run *run, const struct tm *parts)
{
    char day[32];
    int error = EEXIST;

    (void)strftime(day, sizeof day, "%Y%m%d-%H%M%S", parts);
    (void)snprintf(run->dated_dir, sizeof run->dated_dir, "%s", CLI_RUNS_DIR);
    if (mkdir(CLI_RUNS_DIR, 0777) != 0 && errno != EEXIST) {
        return false;
    }
    for (unsigned i = 1; error == EEXIST && i < 10000; i++) {
        if (i == 1) {
            (void)snprintf(run->dated_dir, sizeof run->dated_dir, CLI_RUNS_DIR "/%s", day);
        } else {
            (void)snprintf(run->dated_dir, sizeof run->dated_dir, CLI_RUNS_DIR "/%s.%04u", day, i);
        }
        error = mkdir(run->dated_dir, 0777) == 0 ? 0 : errno;
    }
    errno = error;
    run->out_dir = run->dated_dir;
    return error == 0;
}

/* Cells that a signal, or the first failure (signal_number 0), has kept from their end are skipped,
 * and the folders of those that had begun are tidied. Returns how many had ended. */
static size_t give_up_rest(struct run *run, int signal_number)
{
    size_t done = 0;
    char reason[128] = "not run: another cell had failed, and --fail-fast was given";

    if (signal_number != 0) {
        (void)snprintf(reason, sizeof reason, "interrupted by SIG%s before it had ended",
                       sigabbrev_np(signal_number));
    }
    for (size_t i = 0; i < run->cells.task_count; i++) {
        struct cli_task *task = &run->cells.tasks[i];

        if (task->verdict != NULL && !task->is_interrupted) {
            done++;
            continue;
        }
        if (task->was_begun) {
            cli_task_tidy(task);
        }
        json_decref(task->verdict);
        task->verdict =
            harness_cell_unjudged(task->plan, &task->config, HARNESS_OUTCOME_SKIP, reason);
        harness_report_count(&run->counts, task->verdict);
    }
    return done;
}

/* Make the folder of the run. Returns 0, or an exit code. */
static int open_out_dir(struct run *run)
{
    struct ddp_err err = {{0}};
    struct timespec now = {0, 0};
    struct tm parts;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)localtime_r(&now.tv_sec, &parts);
    run->out_dir = run->options->out_dir;
    if (run->out_dir == NULL && !make_dated_dir(run, &parts)) {
        return cli_usage_error("%s: %s; name a folder that can be written: --out DIR",
                               run->dated_dir, strerror(errno));
    }
    if (ddp_files_make_dirs(run->out_dir, &err) != DDP_OK || access(run->out_dir, W_OK) != 0) {
        return cli_usage_error("--out %s: %s; name a folder that can be written", run->out_dir,
                               err.text[0] != '\0' ? err.text : strerror(errno));
    }
    return 0;
}

/* A report that cannot be written is an error before the run, not after it. Returns 0, or an exit
 * code. */
static int check_report(const char *option, const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    size_t folder_size = slash != NULL ? (size_t)(slash - path) + 1 : 0;
    struct stat info;
    char *folder;
    int code = 0;

    if (path == NULL) {
        return 0;
    }
    if (path[folder_size] == '\0' || (stat(path, &info) == 0 && S_ISDIR(info.st_mode))) {
        return cli_usage_error("%s: \"%s\" is no file; name a file to write", option, path);
    }
    if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return 0; /* not a file: write_special says whether it can be written */
    }
    folder = folder_size == 0 ? strdup(".") : strndup(path, folder_size);
    if (folder == NULL || access(folder, W_OK) != 0) {
        code = cli_usage_error("%s %s: %s; name a file in a folder that can be written", option,
                               path, strerror(errno));
    }
    free(folder);
    return code;
}

static unsigned choose_jobs(const struct cli_options *options)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (options->jobs > 0) {
        return options->jobs;
    }
    return cores > 1 ? (unsigned)cores : 1;
}

/* All that can be wrong before the first cell runs. Returns 0, or an exit code. */
static int open_run(struct run *run)
{
    struct ddp_err err = {{0}};
    int code;

    if (harness_cards_from_ctest(&err) != DDP_OK) {
        return cli_usage_error("%s", err.text);
    }
    code = cli_cells_load(&run->cells, run->options);
    code = code == 0 ? check_report("--json", run->options->json) : code;
    code = code == 0 ? check_report("--junit", run->options->junit) : code;
    code = code == 0 ? open_out_dir(run) : code;
    code = code == 0 ? cli_cells_plan(&run->cells, run->out_dir) : code;
    if (code == 0 && cli_pool_clear(run->cells.tasks, run->cells.task_count, &err) != DDP_OK) {
        return cli_usage_error("%s; name another --out", err.text);
    }
    return code;
}

/* Returns the exit code. */
static int run_cells(struct run *run)
{
    struct ddp_text text;
    int signal_number = 0;
    size_t done;
    bool is_written;

    const struct cli_pool_events events = {task_done, task_slow};
    const struct cli_pool_config config = {.jobs = choose_jobs(run->options),
                                           .is_one_by_one = run->options->is_fail_fast,
                                           .events = &events,
                                           .context = run};
    struct ddp_err err = {{0}};

    /* Once for all workers, as it takes long; where that fails, each cell says why. */
    (void)!ddp_blas_open(NULL, &err);
    cli_screen_init(&run->screen, run->cells.task_count);
    run->screen.is_verbose = run->options->is_verbose;
    if (cli_pool_run(run->cells.tasks, run->cells.task_count, &config, &signal_number, &err) !=
        DDP_OK) {
        (void)fprintf(stderr, "ddprove: run: %s\n", err.text);
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    done = give_up_rest(run, signal_number);
    if (signal_number != 0) {
        cli_screen_clear(&run->screen);
        (void)fprintf(stderr,
                      "ddprove: interrupted by SIG%s; %zu of %zu cells done, ranks and workers are "
                      "gone\n",
                      sigabbrev_np(signal_number), done, run->cells.task_count);
    }
    ddp_text_init(&text, ddp_mem_system());
    if (run->cells.left_out_count > 0) {
        ddp_text_add(&text, "--cells covering: %zu cells, %zu more were left out\n",
                     run->cells.task_count, run->cells.left_out_count);
    }
    harness_report_summary(&run->counts, &text);
    (void)fputs(ddp_text_str(&text), stdout);
    (void)fflush(stdout);
    ddp_text_fini(&text);
    is_written = write_reports(run);
    if (signal_number != 0) {
        return 128 + signal_number;
    }
    if (!is_written) {
        return harness_outcome_exit_code(HARNESS_OUTCOME_ERROR);
    }
    return harness_outcome_exit_code(harness_report_worst(&run->counts));
}

int cli_run(const struct cli_options *options)
{
    struct run run;
    int code;

    memset(&run, 0, sizeof run);
    run.options = options;
    code = open_run(&run);
    code = code == 0 ? run_cells(&run) : code;
    cli_cells_fini(&run.cells);
    return code;
}
