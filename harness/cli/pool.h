/* Runs cells in worker processes, a few at a time, so that a cell that takes the harness down is an
 * ERROR of that cell and of nothing else. */
#ifndef HARNESS_CLI_POOL_H
#define HARNESS_CLI_POOL_H

#include <jansson.h>

#include "harness/cell/cell.h"
#include "harness/cli/cli.h"

struct cli_task {
    const struct harness_plan *plan;
    struct harness_cell_config config; /* run_dir is owned by the task */
    char *run_dir;
    json_t *verdict; /* set once done, or before if there is nothing to run; owned by the task */
    bool is_printed; /* its scenario's line was */
    pid_t pid;
    uint64_t started_ns;
};

/* Called as tasks end, in the order in which they end. */
typedef void(cli_task_done_fn)(void *context, struct cli_task *task);

/* Run all tasks, `jobs` at a time. Returns 0, or the signal (SIGINT, SIGTERM, SIGHUP) that
 * interrupted it; workers and their ranks are gone by then. */
int cli_pool_run(struct cli_task *tasks, size_t task_count, unsigned jobs, cli_task_done_fn *done,
                 void *context);

#endif
