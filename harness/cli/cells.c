/* Cells of a run: scenarios are loaded, and every cell becomes a task for each driver and seed that
 * it is to run with. A cell that cannot run here gets its SKIP at once. */
#include "harness/cli/cells.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ddpcore/base/hash.h"
#include "harness/exec/launcher.h"
#include "harness/launch/mover.h"
#include "harness/launch/mpi.h"
#include "harness/proc/proc.h"

static bool is_known_collective(const char *set)
{
    struct harness_collective ignored;
    const char *name = strchr(set, '=') + 1;
    const char *known;

    for (size_t i = 0; harness_collective_at(i, &ignored, &known); i++) {
        if (strcmp(name, known) == 0) {
            return true;
        }
    }
    return false;
}

/* A scenario that --collective does not fit, but which is right without: one of a folder is
 * skipped, for the folder was not made for this collective. One that the user has named is an
 * error. */
static bool is_skipped(struct cli_cells *cells, size_t file, const struct ddp_err *why)
{
    const struct cli_options *options = cells->options;
    char *others[CLI_SETS_MAX];
    struct ddp_err err = {{0}};
    size_t count = 0;

    if (!options->has_collective || !is_known_collective(options->sets[options->collective_set])) {
        return false;
    }
    for (int i = 0; i < options->path_count; i++) {
        if (strcmp(options->paths[i], cells->files.path[file]) == 0) {
            return false;
        }
    }
    for (size_t i = 0; i < options->set_count; i++) {
        if (i != options->collective_set) {
            others[count++] = options->sets[i];
        }
    }
    if (cli_scenario_read(cells->files.path[file], others, count, &cells->scenarios[file], &err) !=
        DDP_OK) {
        return false;
    }
    cells->refusals[file] = strdup(why->text);
    return cells->refusals[file] != NULL;
}

/* Prints the error of each file that is not right. */
static bool load_all(struct cli_cells *cells)
{
    const struct cli_options *options = cells->options;
    bool is_good = true;

    cells->scenarios = calloc(cells->files.count, sizeof *cells->scenarios);
    cells->refusals = calloc(cells->files.count, sizeof *cells->refusals);
    if (cells->scenarios == NULL || cells->refusals == NULL) {
        return false;
    }
    for (size_t i = 0; i < cells->files.count; i++) {
        struct ddp_err err = {{0}};

        if (cli_scenario_read(cells->files.path[i], options->sets, options->set_count,
                              &cells->scenarios[i], &err) != DDP_OK &&
            !is_skipped(cells, i, &err)) {
            (void)fprintf(stderr, "%s\n", err.text);
            is_good = false;
            /* An override that is wrong in itself is as wrong for all others. */
            if (strncmp(err.text, "--set ", 6) == 0) {
                break;
            }
        }
    }
    return is_good;
}

/* A folder's name for a cell: plain letters as they are, the others as '_'. What would be too long
 * for a file system is replaced by a hash. */
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

static char *make_run_dir(const struct cli_cells *cells, const struct harness_plan *plan,
                          enum harness_driver driver, uint64_t seed)
{
    struct ddp_text path;
    char *copy;

    ddp_text_init(&path, ddp_mem_system());
    ddp_text_add(&path, "%s/%s/", cells->out_dir, plan->id);
    if (plan->cell[0] != '\0') {
        add_slug(&path, plan->cell);
        ddp_text_add(&path, "/");
    }
    ddp_text_add(&path, "%s", harness_driver_name(driver));
    if (cells->options->seed_count > 1) {
        ddp_text_add(&path, ".seed%" PRIu64, seed);
    }
    copy = path.is_failed ? NULL : strdup(ddp_text_str(&path));
    ddp_text_fini(&path);
    return copy;
}

/* Why a cell is not run. */
enum refusal {
    REFUSAL_NONE,
    REFUSAL_BY_PLAN, /* it is not for this driver, or not for this collective */
    REFUSAL_NO_MPI,
    REFUSAL_NO_ADAPTER, /* or launcher, of a guest; MPI's are not there without MPI */
    REFUSAL_NO_CARD
};

/* Why mpirun cannot be run; "": it can. */
static const char *mpirun_reason(struct cli_cells *cells)
{
    struct ddp_err err = {{0}};
    char version[256];

    if (!cells->is_mpirun_asked && harness_launcher_describe(HARNESS_LAUNCHER_MPIRUN, version,
                                                             sizeof version, &err) != DDP_OK) {
        (void)snprintf(cells->mpirun_reason, sizeof cells->mpirun_reason, "%.255s", err.text);
    }
    cells->is_mpirun_asked = true;
    return cells->mpirun_reason;
}

/* The scripts of scenarios/guest/torch are started by a program that is made where PyTorch was
 * found. */
static bool is_without_torch(const struct harness_guest *guest, char *reason, size_t reason_size)
{
    static const char starter[] = "ddprove_torch";
    const char *self = harness_launch_self_path();
    const char *slash = strrchr(self, '/');
    char path[4096];

    if (strcmp(guest->command.items[0], starter) != 0) {
        return false;
    }
    (void)snprintf(path, sizeof path, "%.*s/%s", slash != NULL ? (int)(slash - self) : 1,
                   slash != NULL ? self : ".", starter);
    (void)snprintf(
        reason, reason_size,
        "PyTorch is not here: python3 -m venv V && V/bin/pip install torch==2.15.0, then "
        "cmake -DDDPROVE_TORCH_PYTHON=V/bin/python");
    return access(path, X_OK) != 0;
}

/* Whether the adapter or the launcher of a guest is not there. */
static enum refusal refuse_guest(struct cli_cells *cells, const struct harness_plan *plan,
                                 char *reason, size_t reason_size)
{
    const struct harness_guest *guest = &plan->job.guest;
    struct ddp_err err = {{0}};
    char path[4096];

    if (guest->adapter != HARNESS_GUEST_ADAPTER_NONE &&
        harness_exec_adapter_path(guest->adapter, harness_launch_self_path(), path, sizeof path,
                                  &err) != DDP_OK) {
        (void)snprintf(reason, reason_size, "%.500s", err.text);
        return guest->adapter == HARNESS_GUEST_ADAPTER_MPI ? REFUSAL_NO_MPI : REFUSAL_NO_ADAPTER;
    }
    if (guest->command.count > 0 && is_without_torch(guest, reason, reason_size)) {
        return REFUSAL_NO_ADAPTER;
    }
    if (guest->launcher == HARNESS_GUEST_LAUNCHER_MPIRUN && mpirun_reason(cells)[0] != '\0') {
        (void)snprintf(reason, reason_size, "%s", cells->mpirun_reason);
        return REFUSAL_NO_MPI;
    }
    if (!harness_exec_launch_is_there(guest->launcher)) {
        (void)snprintf(reason, reason_size, "%s is not installed",
                       harness_guest_launcher_name(guest->launcher));
        return REFUSAL_NO_ADAPTER;
    }
    return REFUSAL_NONE;
}

/* Whether a cell of a plan that runs on this driver lacks something of this machine. */
static enum refusal refuse_machine(struct cli_cells *cells, const struct harness_plan *plan,
                                   char *reason, size_t reason_size)
{
    struct ddp_err err = {{0}};

    if (harness_plan_is_guest(plan)) {
        return refuse_guest(cells, plan, reason, reason_size);
    }
    if (harness_mpi_check(plan, cells->options->launcher, &err) != DDP_OK) {
        (void)snprintf(reason, reason_size, "%.500s", err.text);
        return REFUSAL_NO_MPI;
    }
    if (harness_mover_check(plan, &err) != DDP_OK) {
        (void)snprintf(reason, reason_size, "%.500s", err.text);
        return REFUSAL_BY_PLAN;
    }
    if (!harness_plan_is_cuda(plan)) {
        return REFUSAL_NONE;
    }
    if (!cells->is_probed && harness_cards_probe(&cells->cards, &err) != DDP_OK) {
        (void)snprintf(cells->cards.reason, sizeof cells->cards.reason, "%.500s", err.text);
    }
    cells->is_probed = true;
    return harness_cards_refuse(&cells->cards, plan, reason, reason_size) ? REFUSAL_NO_CARD
                                                                          : REFUSAL_NONE;
}

/* Whether the launcher is not installed, and why. */
static bool is_launcher_missing(struct cli_cells *cells, char *reason, size_t reason_size)
{
    struct ddp_err err = {{0}};
    char version[256];

    if (!cells->is_launcher_asked && harness_launcher_describe(cells->options->launcher, version,
                                                               sizeof version, &err) != DDP_OK) {
        (void)snprintf(cells->launcher_reason, sizeof cells->launcher_reason, "%.255s", err.text);
    }
    cells->is_launcher_asked = true;
    (void)snprintf(reason, reason_size, "%s", cells->launcher_reason);
    return cells->launcher_reason[0] != '\0';
}

/* Why a plan does not run on a driver: what needs real processes, or what the scenario says. */
static const char *driver_reason(const struct harness_plan *plan)
{
    if (harness_plan_is_cuda(plan)) {
        return "GPUs have real processes only: --driver proc";
    }
    if (harness_plan_is_mpi(plan)) {
        return "MPI has real processes only: --driver proc";
    }
    if (harness_plan_is_opaque(plan)) {
        return "a plug-in that moves the data itself has real processes only: --driver proc";
    }
    if (harness_plan_is_guest(plan)) {
        return "a guest has real processes only: --driver proc";
    }
    if (harness_plan_strikes_process(plan)) {
        return "the call is one of real processes only: --driver proc";
    }
    if (plan->job.store == HARNESS_STORE_RANK_0) {
        return "rank 0 hosts the store among real processes only: --driver proc";
    }
    return "the scenario does not run on this driver";
}

static enum refusal refuse(struct cli_cells *cells, const struct harness_plan *plan,
                           enum harness_driver driver, char *reason, size_t reason_size)
{
    enum refusal refusal;

    if (harness_plan_is_for_other_ranks(plan)) {
        (void)snprintf(reason, reason_size,
                       "the scenario is not written for %u ranks; for_ranks has the world sizes",
                       plan->job.ranks);
        return REFUSAL_BY_PLAN;
    }
    if (plan->for_schedules && harness_plan_is_opaque(plan)) {
        (void)snprintf(reason, reason_size,
                       "it is written for sums by schedules (for_schedules), and %s has none",
                       harness_collective_name(plan->job.collective));
        return REFUSAL_BY_PLAN;
    }
    if (!harness_plan_runs_on(plan, driver)) {
        (void)snprintf(reason, reason_size, "%s", driver_reason(plan));
        return REFUSAL_BY_PLAN;
    }
    if (!harness_proc_can_strike(plan)) {
        (void)snprintf(reason, reason_size,
                       "libfiu's preload library (fiu-utils) is not there, or a sanitizer is");
        return REFUSAL_BY_PLAN;
    }
    refusal = refuse_machine(cells, plan, reason, reason_size);
    if (refusal == REFUSAL_NONE && is_launcher_missing(cells, reason, reason_size)) {
        refusal = REFUSAL_NO_MPI;
    }
    return refusal;
}

/* SKIP, unless the user has said that it must be there (--require). */
static json_t *refused_verdict(const struct cli_cells *cells, const struct cli_task *task,
                               enum refusal refusal, const char *reason)
{
    const struct cli_options *options = cells->options;
    bool is_required = (refusal == REFUSAL_NO_CARD && options->requires_cuda) ||
                       (refusal == REFUSAL_NO_MPI && options->requires_mpi);

    return harness_cell_unjudged(task->plan, &task->config,
                                 is_required ? HARNESS_OUTCOME_ERROR : HARNESS_OUTCOME_SKIP,
                                 reason);
}

/* why: why it is not to be run; NULL: nothing is known yet. */
static bool add_task(struct cli_cells *cells, const struct harness_plan *plan,
                     enum harness_driver driver, uint64_t seed, const char *why)
{
    struct cli_task *task;
    enum refusal refusal;
    char reason[600];

    if (cells->task_count == cells->task_capacity) {
        size_t capacity = cells->task_capacity == 0 ? 64 : 2 * cells->task_capacity;
        struct cli_task *grown = realloc(cells->tasks, capacity * sizeof *grown);

        if (grown == NULL) {
            return false;
        }
        cells->tasks = grown;
        cells->task_capacity = capacity;
    }
    task = &cells->tasks[cells->task_count++];
    memset(task, 0, sizeof *task);
    task->plan = plan;
    task->run_dir = make_run_dir(cells, plan, driver, seed);
    task->config.driver = driver;
    task->config.seed = seed;
    task->config.run_dir = task->run_dir;
    task->is_kept_failed = cells->options->is_kept_failed;
    task->config.self_path = harness_launch_self_path();
    task->config.is_time_enforced = cells->options->is_time_enforced;
    task->config.launcher = cells->options->launcher;
    if (why != NULL) {
        (void)snprintf(reason, sizeof reason, "%.599s", why);
    }
    refusal = why != NULL ? REFUSAL_BY_PLAN : refuse(cells, plan, driver, reason, sizeof reason);
    if (refusal != REFUSAL_NONE) {
        task->verdict = refused_verdict(cells, task, refusal, reason);
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
static int check_run_dirs(const struct cli_cells *cells)
{
    const struct cli_task **order;
    int code = 0;

    if (cells->task_count == 0) {
        return 0;
    }
    order = calloc(cells->task_count, sizeof *order);
    if (order == NULL) {
        return cli_usage_error("out of memory");
    }
    for (size_t i = 0; i < cells->task_count; i++) {
        order[i] = &cells->tasks[i];
    }
    qsort(order, cells->task_count, sizeof *order, compare_run_dirs);
    for (size_t i = 1; i < cells->task_count && code == 0; i++) {
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
static bool plan_driver(struct cli_cells *cells, const struct harness_plan *plan,
                        enum harness_driver driver, const char *why)
{
    bool is_seeded = driver == HARNESS_DRIVER_SIM && harness_plan_runs_on(plan, driver);
    uint64_t seeds = is_seeded ? cells->options->seed_count : 1;
    bool is_asked = cells->options->has_driver ? cells->options->driver == driver
                                               : harness_plan_runs_on(plan, driver);

    for (uint64_t s = 0; is_asked && s < seeds; s++) {
        if (!add_task(cells, plan, driver, cells->options->seed + s, why)) {
            return false;
        }
    }
    return true;
}

static bool plan_tasks(struct cli_cells *cells)
{
    for (size_t i = 0; i < cells->files.count; i++) {
        for (size_t k = 0; k < cells->scenarios[i].plan_count; k++) {
            for (unsigned d = 0; d < HARNESS_DRIVER_COUNT; d++) {
                if (!plan_driver(cells, &cells->scenarios[i].plans[k], (enum harness_driver)d,
                                 cells->refusals[i])) {
                    return false;
                }
            }
        }
    }
    return !cells->options->is_covering || cli_cells_cover(cells) == DDP_OK;
}

/* What stands behind "--" is the program of every scenario. Returns 0, or an exit code. */
static int take_command(struct cli_cells *cells)
{
    char **command = cells->options->command;
    size_t count = 0;

    while (command[count] != NULL) {
        json_t *text = json_string(command[count++]);

        json_decref(text);
        if (text == NULL) {
            return cli_usage_error("exec: word %zu behind \"--\" is not UTF-8, as the plan's text "
                                   "has to be: \"%.200s\"",
                                   count, command[count - 1]);
        }
    }
    for (size_t i = 0; i < cells->files.count; i++) {
        for (size_t k = 0; k < cells->scenarios[i].plan_count; k++) {
            struct harness_plan *plan = &cells->scenarios[i].plans[k];
            struct harness_texts *words = &plan->job.guest.command;

            if (!harness_plan_is_guest(plan)) {
                return cli_usage_error("exec: %s is not about a guest: it has no job.guest",
                                       cells->files.path[i]);
            }
            words->items =
                ddp_mem_array(ddp_mem_pool_mem(plan->pool), count, sizeof words->items[0]);
            words->count = words->items != NULL ? count : 0;
            for (size_t w = 0; w < words->count; w++) {
                words->items[w] = command[w];
            }
        }
    }
    return 0;
}

int cli_cells_load(struct cli_cells *cells, const struct cli_options *options)
{
    struct ddp_err err = {{0}};

    memset(cells, 0, sizeof *cells);
    cells->options = options;
    if (options->path_count == 0) {
        return cli_usage_error("run: name a scenario file or a folder of them");
    }
    if (cli_files_collect(options->paths, options->path_count, &cells->files, &err) != DDP_OK) {
        return cli_usage_error("%s", err.text);
    }
    if (!load_all(cells)) {
        return CLI_EXIT_USAGE;
    }
    return options->command != NULL ? take_command(cells) : 0;
}

int cli_cells_plan(struct cli_cells *cells, const char *out_dir)
{
    DDP_ASSERT(cells->scenarios != NULL && cells->task_count == 0);
    cells->out_dir = out_dir;
    return plan_tasks(cells) ? check_run_dirs(cells) : cli_usage_error("out of memory");
}

void cli_cells_fini(struct cli_cells *cells)
{
    for (size_t i = 0; i < cells->task_count; i++) {
        json_decref(cells->tasks[i].verdict);
        free(cells->tasks[i].run_dir);
    }
    for (size_t i = 0; cells->scenarios != NULL && i < cells->files.count; i++) {
        harness_scenario_fini(&cells->scenarios[i]);
    }
    for (size_t i = 0; cells->refusals != NULL && i < cells->files.count; i++) {
        free(cells->refusals[i]);
    }
    free(cells->refusals);
    free(cells->tasks);
    free(cells->scenarios);
    cli_files_fini(&cells->files);
}
