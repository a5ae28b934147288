/* What all parts need. The first gap is kept: it names what to look at. */
#include <stdarg.h>
#include <stdio.h>

#include "harness/evidence/internal.h"

void harness_gap_set(struct harness_gap *gap, const char *format, ...)
{
    va_list args;

    if (gap->is_set) {
        return;
    }
    gap->is_set = true;
    va_start(args, format);
    (void)vsnprintf(gap->text, sizeof(gap->text), format, args);
    va_end(args);
}

bool harness_evidence_is_disturbed(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    const struct harness_plan *plan = e->input->plan;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_in_step(&e->index, rank, DDP_EVENT_FAULT_FIRED, step, &count);

    for (size_t i = 0; i < count; i++) {
        uint64_t fault = list[i]->entry.arg[0];

        if (fault >= plan->fault_count || plan->faults[fault].action.kind != HARNESS_ACTION_NONE) {
            return true;
        }
    }
    return false;
}
