/* How often a fault has fired, without the times at which leaving something out altered nothing.
 *
 * A gradient that a pass without sync does not report is reported by the one that syncs, if every
 * parameter is used there: only the finished record shows that. */
#include <string.h>

#include "harness/cell/stage.h"

/* The fired fault left out that a gradient was ready, in a pass that reduces nothing. */
static bool is_ready_left_out(const struct harness_cell *cell, const struct harness_fault *fault,
                              const struct harness_trace_event *fired)
{
    return fault->action.kind == HARNESS_ACTION_SKIP &&
           fault->point == DDP_FAULT_POINT_GRAD_READY &&
           (uint64_t)fired->entry.micro + 1 < cell->plan.job.micro_batches;
}

/* Whether a later pass of the step reported all gradients. */
static bool is_made_up_for(const struct harness_cell *cell, const struct harness_trace_event *fired)
{
    const struct harness_trace_event *event;
    size_t cursor = (size_t)(fired - cell->trace.events);
    size_t ready_count = 0;

    while ((event = harness_trace_next(&cell->trace, &cursor, fired->rank, DDP_EVENT_GRAD_READY)) !=
               NULL &&
           event->entry.step == fired->entry.step) {
        ready_count += event->entry.micro + 1 == (int64_t)cell->plan.job.micro_batches ? 1 : 0;
    }
    return ready_count >= cell->param_count;
}

uint32_t harness_stage_fired_count(const struct harness_cell *cell, uint32_t fault)
{
    const struct harness_trace_event *event;
    uint32_t count = 0;
    size_t cursor = 0;

    while ((event = harness_trace_next(&cell->trace, &cursor, -1, DDP_EVENT_FAULT_FIRED)) != NULL) {
        if (event->entry.arg[0] == fault &&
            !(is_ready_left_out(cell, &cell->plan.faults[fault], event) &&
              is_made_up_for(cell, event))) {
            count++;
        }
    }
    return count;
}
