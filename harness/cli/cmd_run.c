/* ddprove run: every cell of every scenario, on every driver asked for. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ddpcore/base/hash.h"
#include "harness/cli/pool.h"
#include "harness/cli/screen.h"
#include "harness/launch/card.h"
#include "harness/launch/mpi.h"
#include "harness/report/report.h"

struct run {
    const struct cli_options *options;
    struct cli_files files;
    struct harness_scenario *scenarios; /* [files.count] */
    struct cli_task *tasks;
    size_t task_count, task_capacity;
    struct harness_report_counts counts;
    json_t *verdicts;
    struct cli_screen screen;
    struct harness_cards cards; /* once is_probed */
    bool is_probed;
    bool is_launcher_asked;
    char launcher_reason[256]; /* once it is: why there is none, or "" */
    char *out_dir;
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

/* A folder's name for a cell: safe letters as they are, the others as '_', and a hash in place of
 * what no file system takes. */
static void add_slug(struct ddp_text *out, const char *cell)
{
    enum { LETTERS_MAX = 160 };
    size_t size = strlen(cell);

    for (size_t i = 0; i < size && i < LETTERS_MAX; i++) {
        char c = cell[i];
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                        (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '=' || c == '-';

        ddp_text_add_bytes(out, is_plain ? &c : "_", 1);
    }
    if (size > LETTERS_MAX) {
        ddp_text_add(out, "-%016" PRIx64, ddp_hash_bytes(cell, size, 0));
    }
}

static char *make_run_dir(const struct run *run, const struct harness_plan *plan,
                          enum harness_driver driver, uint64_t seed)
{
    struct ddp_text path;
    char *copy;

    ddp_text_init(&path, ddp_mem_system());
    ddp_text_add(&path, "%s/%s/", run->out_dir, plan->id);
    if (plan->cell[0] != '\0') {
        add_slug(&path, plan->cell);
        ddp_text_add(&path, "/");
    }
    ddp_text_add(&path, "%s", harness_driver_name(driver));
    if (run->options->seed_count > 1) {
        ddp_text_add(&path, ".seed%" PRIu64, seed);
    }
    copy = path.is_failed ? NULL : strdup(ddp_text_str(&path));
    ddp_text_fini(&path);
    return copy;
}

/* Why a cell is skipped, or false. */
static bool is_refused(struct run *run, const struct harness_plan *plan, enum harness_driver driver,
                       char *reason, size_t reason_size)
{
    struct ddp_err err = {{0}};

    if (!harness_plan_runs_on(plan, driver)) {
        (void)snprintf(reason, reason_size, "%s",
                       harness_plan_is_cuda(plan)  ? "GPUs have real processes only: --driver proc"
                       : harness_plan_is_mpi(plan) ? "MPI has real processes only: --driver proc"
                                                   : "the scenario does not run on this driver");
        return true;
    }
    if (harness_mpi_check(plan, run->options->launcher, &err) != DDP_OK) {
        (void)snprintf(reason, reason_size, "%.500s", err.text);
        return true;
    }
    if (!harness_plan_is_cuda(plan)) {
        return false;
    }
    if (!run->is_probed && harness_cards_probe(&run->cards, &err) != DDP_OK) {
        (void)snprintf(run->cards.reason, sizeof run->cards.reason, "%.500s", err.text);
    }
    run->is_probed = true;
    return harness_cards_refuse(&run->cards, plan, reason, reason_size);
}

/* Who is to start the ranks is not here. */
static bool is_launcher_missing(struct run *run, char *reason, size_t reason_size)
{
    struct ddp_err err = {{0}};
    char version[256];

    if (!run->is_launcher_asked && harness_launcher_describe(run->options->launcher, version,
                                                             sizeof version, &err) != DDP_OK) {
        (void)snprintf(run->launcher_reason, sizeof run->launcher_reason, "%.255s", err.text);
    }
    run->is_launcher_asked = true;
    (void)snprintf(reason, reason_size, "%s", run->launcher_reason);
    return run->launcher_reason[0] != '\0';
}

static bool add_task(struct run *run, const struct harness_plan *plan, enum harness_driver driver,
                     uint64_t seed)
{
    struct cli_task *task;
    char reason[600];

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
    task->config.launcher = run->options->launcher;
    if (is_refused(run, plan, driver, reason, sizeof reason) ||
        is_launcher_missing(run, reason, sizeof reason)) {
        task->verdict = harness_cell_unjudged(plan, &task->config, HARNESS_OUTCOME_SKIP, reason);
    }
    return task->run_dir != NULL;
}

static int compare_run_dirs(const void *left, const void *right)
{
    const struct cli_task *a = *(const struct cli_task *const *)left;
    const struct cli_task *b = *(const struct cli_task *const *)right;

    return strcmp(a->run_dir, b->run_dir);
}

/* Two cells in one folder would overwrite each other. Returns 0, or an exit code. */
static int check_run_dirs(const struct run *run)
{
    const struct cli_task **order = calloc(run->task_count, sizeof *order);
    int code = 0;

    if (order == NULL) {
        return cli_usage_error("out of memory");
    }
    for (size_t i = 0; i < run->task_count; i++) {
        order[i] = &run->tasks[i];
    }
    qsort(order, run->task_count, sizeof *order, compare_run_dirs);
    for (size_t i = 1; i < run->task_count && code == 0; i++) {
        if (strcmp(order[i - 1]->run_dir, order[i]->run_dir) == 0) {
            code =
                cli_usage_error("%s and %s would both be recorded in %s; give one another id",
                                order[i - 1]->plan->file, order[i]->plan->file, order[i]->run_dir);
        }
    }
    free(order);
    return code;
}

/* The tasks of one cell on one driver: one for each seed that it is to run with. */
static bool plan_driver(struct run *run, const struct harness_plan *plan,
                        enum harness_driver driver)
{
    bool is_seeded = driver == HARNESS_DRIVER_SIM && harness_plan_runs_on(plan, driver);
    uint64_t seeds = is_seeded ? run->options->seed_count : 1;
    bool is_asked = run->options->has_driver ? run->options->driver == driver
                                             : harness_plan_runs_on(plan, driver);

    for (uint64_t s = 0; is_asked && s < seeds; s++) {
        if (!add_task(run, plan, driver, run->options->seed + s)) {
            return false;
        }
    }
    return true;
}

static bool plan_tasks(struct run *run)
{
    for (size_t i = 0; i < run->files.count; i++) {
        for (size_t k = 0; k < run->scenarios[i].plan_count; k++) {
            for (unsigned d = 0; d < HARNESS_DRIVER_COUNT; d++) {
                if (!plan_driver(run, &run->scenarios[i].plans[k], (enum harness_driver)d)) {
                    return false;
                }
            }
        }
    }
    return true;
}

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

    for (size_t i = 0; i < run->task_count; i++) {
        if (is_same_line(&run->tasks[i], task) &&
            (run->tasks[i].verdict == NULL || run->tasks[i].is_printed)) {
            return;
        }
    }
    for (size_t i = 0; i < run->task_count; i++) {
        struct cli_task *other = &run->tasks[i];
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

static void task_done(void *context, struct cli_task *task)
{
    struct run *run = context;

    harness_report_count(&run->counts, task->verdict);
    if (run->options->is_verbose) {
        cli_screen_verdict(&run->screen, task->verdict, 1);
    } else {
        print_scenario(run, task);
    }
    cli_screen_advance(&run->screen);
}

/* /dev/stdout, a pipe, a link: written, never replaced. */
static bool write_special(const char *path, const char *data, size_t size_bytes)
{
    FILE *file = fopen(path, "w");
    bool is_good = file != NULL && fwrite(data, 1, size_bytes, file) == size_bytes;

    is_good = file != NULL && fclose(file) == 0 && is_good;
    if (!is_good) {
        (void)fprintf(stderr, "ddprove: cannot write %s: %s\n", path, strerror(errno));
    }
    return is_good;
}

static bool write_text(const char *path, const char *data, size_t size_bytes)
{
    struct ddp_err err = {{0}};
    struct stat info;

    if (lstat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
        return write_special(path, data, size_bytes);
    }

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
        char *dumped = json_dumps(summary, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        struct ddp_text text;

        ddp_text_init(&text, ddp_mem_system());
        ddp_text_add(&text, "%s\n", dumped != NULL ? dumped : "");
        is_good = dumped != NULL && !text.is_failed &&
                  write_text(run->options->json, text.data, text.size_bytes);
        ddp_text_fini(&text);
        free(dumped);
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

/* Make the folder of the run. Returns 0, or an exit code. */
static int open_out_dir(struct run *run)
{
    struct ddp_err err = {{0}};
    struct timespec now = {0, 0};
    struct tm parts;
    char name[64];

    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)localtime_r(&now.tv_sec, &parts);
    (void)strftime(name, sizeof name, "runs/%Y%m%d-%H%M%S", &parts);
    run->out_dir = strdup(run->options->out_dir != NULL ? run->options->out_dir : name);
    if (run->out_dir == NULL) {
        return cli_usage_error("out of memory");
    }
    if (ddp_files_make_dirs(run->out_dir, &err) != DDP_OK || access(run->out_dir, W_OK) != 0) {
        return cli_usage_error("--out %s: %s; name a folder that can be written", run->out_dir,
                               err.text[0] != '\0' ? err.text : strerror(errno));
    }
    return 0;
}

/* A report that cannot be written is said before the run, not after it. Returns 0, or an exit code.
 */
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
        return 0; /* written as it is, if it can be */
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
    free(run->out_dir);
    free(run->scenarios);
    json_decref(run->verdicts);
    cli_files_fini(&run->files);
}

/* Everything that can be wrong before the first cell runs. Returns 0, or an exit code. */
static int open_run(struct run *run)
{
    int code;

    if (!load_all(run)) {
        return CLI_EXIT_USAGE;
    }
    code = check_report("--json", run->options->json);
    code = code == 0 ? check_report("--junit", run->options->junit) : code;
    code = code == 0 ? open_out_dir(run) : code;
    if (code != 0) {
        return code;
    }
    return plan_tasks(run) ? check_run_dirs(run) : cli_usage_error("out of memory");
}

static int run_all(struct run *run)
{
    struct ddp_text text;
    int signal_number;
    int code = open_run(run);

    if (code != 0) {
        return code;
    }
    cli_screen_init(&run->screen, run->task_count);
    signal_number =
        cli_pool_run(run->tasks, run->task_count, choose_jobs(run->options), task_done, run);
    if (signal_number != 0) {
        cli_screen_clear(&run->screen);
        (void)fprintf(stderr, "ddprove: interrupted by SIG%s; ranks and workers are gone\n",
                      sigabbrev_np(signal_number));
        return 128 + signal_number;
    }
    ddp_text_init(&text, ddp_mem_system());
    harness_report_summary(&run->counts, &text);
    (void)fputs(ddp_text_str(&text), stdout);
    (void)fflush(stdout);
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
    if (harness_cards_from_ctest(&err) != DDP_OK) {
        return cli_usage_error("%s", err.text);
    }
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
