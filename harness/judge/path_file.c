/* Paths from a step that a rank left out to what is in checkpoints, and to what was loaded. */
#include "harness/judge/value.h"

/* A rank that leaves out the rest of a step writes no checkpoint after it, and has what it had. */
bool harness_path_is_not_reached(const struct harness_paths *paths, const struct harness_finding *a,
                                 const struct harness_finding *b)
{
    const bool is_kept = b->verdict == HARNESS_VERDICT_CHECKPOINT_STATE &&
                         b->mode == HARNESS_MODE_BITWISE &&
                         (a->verdict == HARNESS_VERDICT_MISMATCH_MISSING ||
                          a->verdict == HARNESS_VERDICT_DATA_MISSING);

    (void)paths;
    DDP_ASSERT(a != b);
    return (is_kept || b->verdict == HARNESS_VERDICT_CHECKPOINT_STALE) && a->step >= 0 &&
           a->step == b->step && harness_path_is_of(b, a);
}

/* A rank that left a step out saves buffers, and a count, of one step fewer; under join all that go
 * on may have them from another rank. All else in the file is judged from what was recorded. */
bool harness_path_is_saved_so(const struct harness_paths *paths, const struct harness_finding *a,
                              const struct harness_finding *b)
{
    bool is_in_data = a->verdict == HARNESS_VERDICT_DATA_MISSING;
    bool is_missing = a->verdict == HARNESS_VERDICT_MISMATCH_MISSING || is_in_data;
    bool is_handed_on = is_in_data && paths->plan->job.join.is_set &&
                        paths->plan->job.broadcast_buffers && harness_path_is_ahead(paths, a, true);

    return is_missing && b->verdict == HARNESS_VERDICT_CHECKPOINT_CORRUPTED &&
           !harness_rank_set_is_empty(&b->culprits) && b->params.count == 0 &&
           (is_handed_on || harness_value_is_hook_behind(paths, a, b) ||
            harness_path_is_step_left_out(paths, a, b));
}
