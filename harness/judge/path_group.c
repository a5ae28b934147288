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

/* The rank is in one of these groups. */
static bool is_in_any(const struct harness_program *program, uint32_t groups, uint32_t rank)
{
    for (uint32_t g = 0; g < program->group_count; g++) {
        if ((groups >> g & 1) != 0 &&
            harness_group_member(&program->groups[g], rank) < program->groups[g].rank_count) {
            return true;
        }
    }
    return false;
}

/* Which groups wait, as they are formed, for a rank that a blames, or for one that waits so in
 * another group: a bit each. */
static uint32_t held_groups(const struct harness_paths *paths, const struct harness_finding *a)
{
    const struct harness_program *program = paths->program;
    uint32_t held = 0;

    DDP_ASSERT(program->group_count <= HARNESS_GROUPS_MAX);
    for (uint32_t pass = 0; pass < program->group_count; pass++) {
        for (uint32_t g = 0; g < program->group_count; g++) {
            const struct harness_group *group = &program->groups[g];

            for (uint32_t i = 0; i < group->rank_count; i++) {
                if (harness_rank_set_has(&a->culprits, group->ranks[i]) ||
                    is_in_any(program, held, group->ranks[i])) {
                    held |= UINT32_C(1) << g;
                }
            }
        }
    }
    return held;
}

bool harness_path_is_unformed(const struct harness_paths *paths, const struct harness_finding *a,
                              const struct harness_finding *b)
{
    const uint32_t held = held_groups(paths, a);

    if (b->verdict != HARNESS_VERDICT_HANG_NOT_JOINED || b->oracle != HARNESS_ORACLE_USAGE ||
        b->phase > (int32_t)DDP_PHASE_INIT || !harness_path_is_common(a, b)) {
        return false;
    }
    for (uint32_t i = 0; i < harness_rank_set_count(&b->culprits); i++) {
        const uint32_t rank = harness_rank_set_at(&b->culprits, i);
        size_t post_count = 0;

        if (harness_rank_set_has(&a->culprits, rank)) {
            continue;
        }
        if (rank < paths->index.world_size) {
            (void)harness_index_list(&paths->index, rank, DDP_EVENT_COLL_POST, &post_count);
        }
        if (rank >= paths->index.world_size || post_count > 0 ||
            !is_in_any(paths->program, held, rank)) {
            return false;
        }
    }
    return true;
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
