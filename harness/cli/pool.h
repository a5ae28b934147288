/* Runs cells in worker processes, a few at a time, so that a cell that takes the harness down is an
 * ERROR of that cell and of nothing else. Simulated cells share a worker, up to 16 in turn. */
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
    bool is_kept_failed; /* the folder is wanted only if it fails */
    bool is_printed;     /* its scenario's line was */
    bool is_interrupted; /* its worker was ended by an interrupt: its verdict says nothing */
    bool was_begun;
};

struct cli_pool_events {
    /* Called as tasks end, in the order in which they end. False: start no other. */
    bool (*done)(void *context, struct cli_task *task);
    /* Called about once a second with the task that runs for longest, once that is some seconds.
     * NULL: nobody wants to know. */
    void (*slow)(void *context, const struct cli_task *task, uint64_t elapsed_ns);
};

struct cli_pool_config {
    unsigned jobs; /* workers at a time; at least 1 */
    /* The first `done` that says so ends the run: no worker is given more than one task. */
    bool is_one_by_one;
    const struct cli_pool_events *events;
    void *context; /* of the events */
};

/* Empty the tasks' folders of what earlier runs left there. Errors: those of harness_cell_clear. */
DDP_MUST_USE ddp_status cli_pool_clear(const struct cli_task *tasks, size_t task_count,
                                       struct ddp_err *err);
/* Run all tasks; their folders are clear. *out_interrupt is 0, or the signal (SIGINT, SIGTERM,
 * SIGHUP) that interrupted it; workers and their ranks are gone by then. Errors: DDP_E_NOMEM, and
 * no task was run. */
DDP_MUST_USE ddp_status cli_pool_run(struct cli_task *tasks, size_t task_count,
                                     const struct cli_pool_config *config, int *out_interrupt,
                                     struct ddp_err *err);

/* Removes the temporary file of a worker that was ended in the middle of an atomic write. */
void cli_task_tidy(const struct cli_task *task);

#endif
