/* A cell whose job is somebody else's program: run it with the plan's faults armed, write down what
 * it showed, and judge that record. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/clock.h"
#include "harness/cell/stage.h"
#include "harness/exec/launcher.h"

enum { PATH_BYTES = PATH_MAX };

/* What the program is started with, beside its own words. */
struct start {
    struct harness_exec_launch launch;
    char adapter[PATH_BYTES], search_dir[PATH_BYTES], files[PATH_BYTES];
    /* The launcher's; where the program may leave files; and what tells PyTorch's adapter to keep
     * steps, where. */
    struct harness_exec_variable variables[HARNESS_EXEC_LAUNCH_VARIABLES + 3];
    size_t variable_count;
    char run_dir[PATH_BYTES], proof[PATH_BYTES];
    struct ddp_text steps;
};

/* MPI wants a path from the root. */
static ddp_status make_files(const struct harness_cell *cell, struct start *start,
                             struct ddp_err *err)
{
    const char *path = harness_stage_path(cell->mem, cell->run_dir, "mpi");

    if (path == NULL) {
        return DDP_E_NOMEM;
    }
    DDP_TRY(ddp_files_make_dirs(path, err));
    return realpath(path, start->files) != NULL
               ? DDP_OK
               : ddp_err_set(err, DDP_E_SYSTEM, "%s: %s", path, strerror(errno));
}

static ddp_status prepare(const struct harness_cell *cell, struct start *start, struct ddp_err *err)
{
    const struct harness_guest *guest = &cell->plan.job.guest;
    const char *slash = strrchr(cell->config.self_path, '/');

    start->files[0] = '\0';
    (void)snprintf(start->search_dir, sizeof start->search_dir, "%.*s",
                   slash != NULL ? (int)(slash - cell->config.self_path) : 1,
                   slash != NULL ? cell->config.self_path : ".");
    if (guest->launcher == HARNESS_GUEST_LAUNCHER_MPIRUN) {
        DDP_TRY(make_files(cell, start, err));
    }
    harness_exec_launch_prepare(guest->launcher, cell->plan.job.ranks, guest->command.items[0],
                                start->files[0] != '\0' ? start->files : NULL, &start->launch);
    return DDP_OK;
}

/* Where the learned program lies, for whoever runs the plan again from another place. */
static ddp_status find_against(struct harness_cell *cell, struct ddp_err *err)
{
    struct harness_guest *guest = &cell->plan.job.guest;
    const char *slash = cell->plan.file != NULL ? strrchr(cell->plan.file, '/') : NULL;
    struct ddp_text path;
    char folder[PATH_MAX];

    if (guest->against == NULL || guest->against[0] == '/') {
        return DDP_OK;
    }
    ddp_text_init(&path, cell->mem);
    if (slash != NULL) {
        ddp_text_add_bytes(&path, cell->plan.file, (size_t)(slash + 1 - cell->plan.file));
    }
    ddp_text_add(&path, "%s", guest->against);
    if (realpath(ddp_text_str(&path), folder) == NULL) {
        return ddp_err_set(err, DDP_E_NOT_FOUND, "job.guest.against: %s: %s", ddp_text_str(&path),
                           strerror(errno));
    }
    guest->against = ddp_mem_strdup(cell->mem, folder);
    return guest->against != NULL ? DDP_OK : DDP_E_NOMEM;
}

/* The steps whose data are kept, and where. folder: of PATH_MAX bytes. */
static ddp_status prepare_kept(const struct harness_cell *cell, char *folder,
                               struct harness_exec_config *config, struct ddp_err *err)
{
    const struct harness_sizes *steps = &cell->plan.job.guest.bitwise_steps;
    const char *kept = harness_stage_path(cell->mem, cell->run_dir, "kept");

    if (steps->count == 0) {
        return DDP_OK;
    }
    DDP_TRY(ddp_files_make_dirs(kept, err));
    if (realpath(kept, folder) == NULL) {
        return ddp_err_set(err, DDP_E_IO, "%s: %s", kept, strerror(errno));
    }
    config->keep_first = steps->items[0];
    config->keep_end = steps->items[steps->count - 1] + 1;
    config->keep_folder = folder;
    return DDP_OK;
}

/* The program's variables. */
static ddp_status prepare_variables(const struct harness_cell *cell, struct start *start,
                                    struct ddp_err *err)
{
    const struct harness_sizes *steps = &cell->plan.job.guest.prove;
    const char *path = harness_stage_path(cell->mem, cell->run_dir, HARNESS_STAGE_PROOF);

    start->variable_count = start->launch.variable_count;
    memcpy(start->variables, start->launch.variables, sizeof start->launch.variables);
    ddp_text_init(&start->steps, cell->mem);
    if (realpath(cell->run_dir, start->run_dir) == NULL) {
        return ddp_err_set(err, DDP_E_IO, "%s: %s", cell->run_dir, strerror(errno));
    }
    start->variables[start->variable_count++] =
        (struct harness_exec_variable){"DDPROVE_RUN_DIR", start->run_dir};
    if (steps->count == 0) {
        return DDP_OK;
    }
    if (path == NULL) {
        return DDP_E_NOMEM;
    }
    DDP_TRY(ddp_files_make_dirs(path, err));
    if (realpath(path, start->proof) == NULL) {
        return ddp_err_set(err, DDP_E_IO, "%s: %s", path, strerror(errno));
    }
    for (size_t i = 0; i < steps->count; i++) {
        ddp_text_add(&start->steps, "%s%zu", i > 0 ? "," : "", steps->items[i]);
    }
    start->variables[start->variable_count++] =
        (struct harness_exec_variable){"DDPROVE_PROVE", start->proof};
    start->variables[start->variable_count++] =
        (struct harness_exec_variable){"DDPROVE_PROVE_STEPS", ddp_text_str(&start->steps)};
    return DDP_OK;
}

static ddp_status run(struct harness_cell *cell, struct harness_exec_result *out,
                      struct ddp_err *err)
{
    const struct harness_plan *plan = &cell->plan;
    struct harness_exec_config config = {.mem = cell->mem,
                                         .plan = plan,
                                         .log_dir = cell->run_dir,
                                         .is_observed = true,
                                         .limits = harness_exec_limits(plan->job.timeout_ns),
                                         .world_size = plan->job.ranks};
    struct harness_learned learned;
    char folder[PATH_MAX];
    struct start start;

    DDP_TRY(prepare(cell, &start, err));
    DDP_TRY(prepare_variables(cell, &start, err));
    DDP_TRY(prepare_kept(cell, folder, &config, err));
    if (plan->job.guest.against != NULL) {
        DDP_TRY(harness_exec_read_learned(cell->mem, plan->job.guest.against, &learned, err));
        config.against = &learned;
    }
    config.command = harness_exec_launch_words(
        &start.launch, cell->mem, plan->job.guest.command.items, plan->job.guest.command.count);
    if (config.command == NULL) {
        return DDP_E_NOMEM;
    }
    config.ranks = plan->job.guest.launcher == HARNESS_GUEST_LAUNCHER_OWN ? plan->job.ranks : 0;
    DDP_TRY(harness_exec_load_adapter(&config, plan->job.guest.adapter, cell->config.self_path,
                                      start.adapter, sizeof start.adapter, err));
    config.search_dir = start.search_dir;
    config.variables = start.variables;
    config.variable_count = start.variable_count;
    DDP_TRY(harness_exec_run(&config, out, err));
    DDP_TRY(harness_stage_add_proof(cell, &out->record, err));
    return start.files[0] != '\0' ? ddp_files_remove_tree(start.files, err) : DDP_OK;
}

/* The record of the run as it lies in the run folder. */
static ddp_status write_record(struct harness_cell *cell, const struct harness_watch_record *record,
                               struct ddp_text *text, struct ddp_err *err)
{
    harness_watch_record_print(record, text);
    return harness_stage_write(&cell->config, cell->run_dir, "trace.txt", text, err);
}

/* A finding's parameters are names that ranks told. */
static ddp_status name_params(struct harness_cell *cell, const struct harness_watch_names *names,
                              struct harness_judge_facts *facts)
{
    struct ddp_param *params = ddp_mem_array(cell->mem, names->count + 1u, sizeof *params);

    if (params == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t i = 0; i < names->count; i++) {
        params[i].name = names->items[i];
    }
    cell->params = params;
    cell->param_count = names->count;
    facts->param_names = (const char *const *)names->items;
    facts->param_count = names->count;
    return DDP_OK;
}

/* What the record says, and what follows from it. */
static ddp_status judge(struct harness_cell *cell, struct harness_watch_record *record,
                        json_t **out)
{
    const struct harness_plan *plan = &cell->plan;
    struct harness_judge_facts facts;
    struct harness_judgement judgement;
    uint32_t *fired = ddp_mem_array(cell->mem, plan->fault_count + 1u, sizeof *fired);
    const char **unable = ddp_mem_array(cell->mem, plan->fault_count + 1u, sizeof *unable);

    if (fired == NULL || unable == NULL) {
        return DDP_E_NOMEM;
    }
    harness_watch_record_conclude(record, plan->job.ranks, plan->job.steps);
    harness_stage_ask_for_oracles(plan, &record->accounts, &record->findings);
    if (record->findings.count == 0) {
        harness_stage_ask_for_proof(plan, &record->accounts, &record->findings);
    }
    cell->findings = record->findings;
    cell->accounts = &record->accounts;
    for (uint32_t f = 0; f < plan->fault_count; f++) {
        for (uint32_t r = 0; r < record->watch.world_size; r++) {
            fired[f] += record->watch.ranks[r].fired[f];
        }
        unable[f] = harness_watch_record_unable(record, f);
    }
    memset(&facts, 0, sizeof facts);
    DDP_TRY(name_params(cell, &record->watch.names, &facts));
    facts.fired_count = fired;
    facts.unable = unable;
    facts.survivor_latency_ns = -1;
    facts.restored_from_step = -1;
    facts.is_time_enforced = cell->config.is_time_enforced;
    harness_judge(plan, &cell->findings, &facts, &judgement);
    *out = harness_stage_verdict(cell, &facts, &judgement);
    return *out != NULL ? DDP_OK : DDP_E_NOMEM;
}

ddp_status harness_stage_guest(struct harness_cell *cell, json_t **out, struct ddp_err *err)
{
    struct harness_exec_result result;
    struct harness_watch_record record;
    struct ddp_text text;

    if (cell->plan.job.guest.command.count == 0) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "the scenario names no program: set job.guest.command, or write it "
                           "behind \"--\": ddprove exec SCENARIO -- ./train");
    }
    DDP_TRY(find_against(cell, err));
    DDP_TRY(harness_stage_write_plan(cell, err));
    DDP_TRY(run(cell, &result, err));
    if (result.interrupt != 0) {
        return ddp_err_set(err, DDP_E_SYSTEM, "interrupted by signal %d", result.interrupt);
    }
    ddp_text_init(&text, cell->mem);
    DDP_TRY(write_record(cell, &result.record, &text, err));
    /* The verdict stands on what anybody can read again. */
    DDP_TRY(harness_watch_record_parse(cell->mem, text.data, text.size_bytes, &record, err));
    return judge(cell, &record, out);
}

ddp_status harness_stage_guest_recorded(struct harness_cell *cell, json_t **out,
                                        struct ddp_err *err)
{
    struct harness_watch_record record;
    void *text = NULL;
    size_t size_bytes = 0;
    ddp_status status;

    cell->config.driver = HARNESS_DRIVER_PROC;
    DDP_TRY(harness_stage_read(cell, cell->run_dir, "trace.txt", &text, &size_bytes, err));
    status = harness_watch_record_parse(cell->mem, text, size_bytes, &record, err);
    if (status != DDP_OK) {
        return ddp_err_wrap(err, status, "%s/trace.txt", cell->run_dir);
    }
    return judge(cell, &record, out);
}
