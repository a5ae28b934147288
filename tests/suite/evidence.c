/* A record that was damaged is never judged PASS. A few small runs are recorded; then, one damage
 * at a time, they are judged again: text      every kind of line deleted, doubled, swapped with the
 * next, altered in trace.txt: the seals must notice recorder  the same done to events before they
 * are numbered and sealed, as a recorder would that forgets, repeats or errs: an oracle or the
 * table of evidence must notice files     plan, program, schedules and checkpoints deleted, added
 * or altered Damages that change nothing that is judged are listed in `harmless`, with the reason.
 *
 * Usage: evidence SCENARIOS OUT [-v] */
#include "tests/suite/evidence.h"

#include <stdio.h>
#include <string.h>

#include "harness/cell/stage.h"
#include "harness/scenario/scenario.h"

/* What is recorded: the first cell of each. */
static const struct {
    const char *scenario, *set; /* set: NULL, or one override */
} runs[] = {
    {"equivalence/micro_batches.yaml", NULL}, {"checkpoint/with_buffers.yaml", NULL},
    {"unused/alternating.yaml", NULL},        {"uneven/join_buffers.yaml", NULL},
    {"crash/sigkill_in_forward.yaml", NULL},  {"value/lost.yaml", NULL},
    {"mismatch/skipped.yaml", NULL},
};

struct files {
    struct sweep *sweep;
    const char *first; /* of the folder */
    size_t count;
};

/* The trace as if the run had left the files that are there now. */
static void reseal_files(struct sweep *sweep)
{
    struct harness_cell cell;
    struct harness_trace trace;
    struct ddp_err err = {{0}};

    memset(&cell, 0, sizeof cell);
    cell.mem = sweep->mem;
    cell.run_dir = sweep->run_dir;
    evidence_parse(sweep, &trace);
    if (harness_stage_find_files(&cell, trace.files, &err) != DDP_OK) {
        evidence_die(sweep->name, err.text);
    }
    evidence_reseal(sweep, &trace);
    harness_trace_fini(&trace);
}

/* One file gone, or with a byte altered; is_sealed: the seals speak of what was there. */
static void try_file(struct sweep *sweep, const char *name, bool is_gone, bool is_sealed)
{
    size_t size;
    char *was = evidence_read(sweep, name, &size);
    char what[256];

    if (is_gone) {
        (void)remove(evidence_path(sweep, name));
    } else {
        was[size / 2] ^= 1;
        evidence_write(sweep, name, was, size);
        was[size / 2] ^= 1;
    }
    if (!is_sealed) {
        reseal_files(sweep);
    }
    (void)snprintf(what, sizeof what, "%s %s%s", name, is_gone ? "deleted" : "altered",
                   is_sealed ? "" : ", sealed so");
    evidence_expect(sweep, what, is_sealed);
    evidence_write(sweep, name, was, size);
    evidence_write(sweep, "trace.txt", sweep->text, strlen(sweep->text));
    ddp_mem_free(sweep->mem, was);
}

static void sweep_schedules(struct sweep *sweep)
{
    char command[2 * PATH_BYTES];
    char name[PATH_BYTES];
    FILE *list;

    (void)snprintf(command, sizeof command, "ls '%s/schedules'", sweep->run_dir);
    list = popen(command, "r");
    if (list == NULL) {
        evidence_die(sweep->name, "its schedules cannot be listed");
    }
    while (fgets(name, sizeof name, list) != NULL) {
        char path[PATH_BYTES + 16];

        name[strcspn(name, "\n")] = '\0';
        (void)snprintf(path, sizeof path, "schedules/%s", name);
        try_file(sweep, path, true, true);
        try_file(sweep, path, false, true);
        try_file(sweep, path, true, false);
    }
    (void)pclose(list);
}

static void sweep_files(struct sweep *sweep)
{
    static const char *const names[] = {"plan.yaml", "program.txt", "checkpoint.safetensors"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        FILE *file = fopen(evidence_path(sweep, names[i]), "r");

        if (file == NULL) {
            continue;
        }
        (void)fclose(file);
        if (i > 0) {
            try_file(sweep, names[i], true, true);
        }
        /* A plan that is none any more is an error of usage. */
        try_file(sweep, names[i], false, i > 0);
    }
    try_file(sweep, "program.txt", false, false);
    sweep_schedules(sweep);
}

static void record(struct sweep *sweep, const char *scenarios, const char *scenario,
                   const char *set)
{
    struct harness_cell_config config = {.driver = HARNESS_DRIVER_SIM, .run_dir = sweep->run_dir};
    struct harness_scenario parsed;
    struct ddp_err err = {{0}};
    char path[PATH_BYTES];
    json_t *verdict = NULL;
    void *text = NULL;
    size_t size;

    (void)snprintf(path, sizeof path, "%s/%s", scenarios, scenario);
    if (ddp_files_system()->ops->read_all(ddp_files_system(), path, sweep->mem, &text, &size,
                                          &err) != DDP_OK ||
        harness_scenario_parse(text, size, path, &set, set != NULL ? 1 : 0, &parsed, &err) !=
            DDP_OK ||
        harness_cell_run(&parsed.plans[0], &config, &verdict, &err) != DDP_OK) {
        evidence_die(scenario, err.text);
    }
    json_decref(verdict);
    harness_scenario_fini(&parsed);
}

static void sweep_run(struct sweep *sweep, const char *scenarios, size_t number)
{
    char reason[1024];
    size_t size;

    sweep->name = runs[number].scenario;
    (void)snprintf(sweep->run_dir, sizeof sweep->run_dir, "%s/%zu", sweep->out, number);
    (void)!ddp_files_remove_tree(sweep->run_dir, NULL);
    record(sweep, scenarios, runs[number].scenario, runs[number].set);
    sweep->text = evidence_read(sweep, "trace.txt", &size);
    if (strcmp(evidence_judge(sweep, reason, sizeof reason), "PASS") != 0) {
        evidence_die(sweep->name, reason);
    }
    evidence_sweep_text(sweep);
    evidence_sweep_events(sweep);
    evidence_sweep_ends(sweep);
    sweep_files(sweep);
    if (strcmp(evidence_judge(sweep, reason, sizeof reason), "PASS") != 0) {
        evidence_die(sweep->name, "it was not put back as it was");
    }
}

int main(int argc, char **argv)
{
    struct sweep sweep = {.random = 1};

    if (argc < 3) {
        evidence_die("usage", "evidence SCENARIOS OUT [-v]");
    }
    sweep.out = argv[2];
    sweep.is_verbose = argc > 3;
    for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        if (ddp_mem_pool_create(&sweep.pool) != DDP_OK) {
            evidence_die(runs[i].scenario, "out of memory");
        }
        sweep.mem = ddp_mem_pool_mem(sweep.pool);
        sweep_run(&sweep, argv[1], i);
        ddp_mem_pool_destroy(sweep.pool);
    }
    (void)printf("%zu damages, %zu not noticed\n", sweep.tried, sweep.failed);
    return sweep.failed > 0 ? 1 : 0;
}
