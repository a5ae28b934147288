/* The cells that `run` is to run: which, on which driver, under which seed, and in which folder. */
#ifndef HARNESS_CLI_CELLS_H
#define HARNESS_CLI_CELLS_H

#include "harness/cli/pool.h"
#include "harness/launch/card.h"

struct cli_cells {
    const struct cli_options *options;
    const char *out_dir;
    struct cli_files files;
    struct harness_scenario *scenarios; /* [files.count] */
    char **refusals;                    /* [files.count]: why none of its cells is run, or NULL */
    struct cli_task *tasks;             /* in order of files, cells, drivers, seeds */
    size_t task_count, task_capacity;
    size_t left_out_count;      /* by --cells covering */
    struct harness_cards cards; /* once is_probed */
    bool is_probed;
    bool is_mpirun_asked;
    char mpirun_reason[256]; /* of guests that mpirun starts */
    bool is_launcher_asked;
    char launcher_reason[256]; /* once it is: why there is no launcher, or "" */
};

/* Load the scenarios that the options name. Returns 0, or an exit code; its error was printed. */
int cli_cells_load(struct cli_cells *cells, const struct cli_options *options);
/* Make the tasks, with run folders in out_dir. The same results as above. */
int cli_cells_plan(struct cli_cells *cells, const char *out_dir);
/* cover.c, for cli_cells_plan (--cells covering). Drops tasks, so that of those that can be run
 * here there remain on each driver: one at least of each scenario, each value of each of its axes,
 * each pair of collective and ranks of its family (the id up to the first dot). Tasks that are
 * skipped remain. The choice depends on the scenarios alone, and on what can be run. Errors:
 * E_NOMEM. */
DDP_MUST_USE ddp_status cli_cells_cover(struct cli_cells *cells);
/* Also after a load that failed. */
void cli_cells_fini(struct cli_cells *cells);

#endif
