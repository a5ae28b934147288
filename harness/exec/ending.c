/* Ranks that are killed, or exit, and that the kernel has not ended yet: it may take seconds. They
 * do not run, and others may wait for them. */
#include "harness/exec/job.h"

/* That ranks do not go on. */
static bool is_hang(const struct harness_finding *finding)
{
    return harness_verdict_family(finding->verdict) == HARNESS_FAMILY_HANG ||
           (finding->verdict == HARNESS_VERDICT_LAUNCH_MISSING_RANK &&
            finding->mode == HARNESS_MODE_BUDGET);
}

void harness_exec_hold_hangs(struct exec_job *job, struct harness_findings *inout)
{
    size_t kept = 0;
    bool has_hang = false;
    bool is_held;

    for (size_t i = 0; i < inout->count; i++) {
        has_hang = has_hang || is_hang(&inout->items[i]);
    }
    if (!has_hang) {
        return;
    }
    is_held = harness_exec_look_for_endings(job, job->watch->now_ns);
    for (size_t i = 0; i < inout->count; i++) {
        if (!is_held || !is_hang(&inout->items[i])) {
            inout->items[kept++] = inout->items[i];
        }
    }
    inout->count = kept;
}
