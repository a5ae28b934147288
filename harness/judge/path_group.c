/* Paths in jobs with groups of some ranks (job.groups): circles of waits through several of them.
 */
#include "harness/judge/path.h"

bool harness_path_is_crossed(const struct harness_paths *paths, const struct harness_finding *a,
                             const struct harness_finding *b)
{
    const bool is_circle = b->verdict == HARNESS_VERDICT_HANG_CYCLE && harness_path_is_common(a, b);
    const bool is_passed_over =
        a->verdict == HARNESS_VERDICT_MISMATCH_ORDER ||
        (a->verdict == HARNESS_VERDICT_MISMATCH_MISSING && paths->plan->job.groups.count > 0);

    DDP_ASSERT(a != b);
    return is_passed_over && a->oracle == HARNESS_ORACLE_PROGRAM &&
           (is_circle || (b->verdict == HARNESS_VERDICT_HANG_NOT_JOINED &&
                          harness_rank_set_is_empty(&b->culprits)));
}

/* The rank posted that operation, and did not complete it. */
static bool is_in(const struct harness_paths *paths, uint32_t rank, uint64_t seq)
{
    const struct harness_trace_event *post = NULL;
    const struct harness_trace_event *done = NULL;

    if (rank < paths->index.world_size) {
        post = harness_index_with_seq(&paths->index, rank, DDP_EVENT_COLL_POST, seq);
        done = harness_index_with_seq(&paths->index, rank, DDP_EVENT_COLL_DONE, seq);
    }
    return post != NULL && (done == NULL || harness_index_status(done->entry.arg[3]) != DDP_OK);
}

bool harness_path_is_deserted(const struct harness_paths *paths, const struct harness_finding *a,
                              const struct harness_finding *b)
{
    bool is_inside = false;

    DDP_ASSERT(a != b);
    for (uint32_t i = 0; a->op.seq > 0 && i < harness_rank_set_count(&b->culprits); i++) {
        const uint32_t rank = harness_rank_set_at(&b->culprits, i);

        is_inside = is_inside ||
                    (!harness_rank_set_has(&a->culprits, rank) && is_in(paths, rank, a->op.seq));
    }
    return is_inside && b->verdict == HARNESS_VERDICT_HANG_CYCLE &&
           paths->plan->job.groups.count > 0 && harness_path_is_common(a, b);
}
