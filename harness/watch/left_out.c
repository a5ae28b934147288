/* Purpose: find calls that some members of a communicator have the result of, and others left out
 * though they went on. */
#include "harness/watch/analyse.h"

/* Members of the group have posted something else than others, there or in another communicator:
 * one may have taken what was sent for the one call for its part of another. */
static bool is_confused(const struct harness_watch *watch, const struct harness_watch_group *group)
{
    for (size_t g = 0; g < watch->group_count; g++) {
        const struct harness_watch_group *other = &watch->groups[g];

        for (uint32_t r = 0; other->differs_ns != 0 && r < watch->world_size; r++) {
            if (group->members[r].is_there && other->members[r].is_there) {
                return true;
            }
        }
    }
    return false;
}

/* Of a member that has not posted the call: that it has left it out is not known. It waits for one
 * that has the result, which may have left out that other call; or not all that it posted could be
 * read. */
static bool may_be_right(const struct harness_watch *watch, const struct harness_watch_group *group,
                         uint64_t seq, uint32_t rank)
{
    if (watch->ranks[rank].is_behind) {
        return true;
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there && group->members[r].posted >= seq &&
            harness_watch_needs(watch, rank, r, NULL)) {
            return true;
        }
    }
    return false;
}

/* Most members have not posted the call, and a few have a result of it: what these took for others'
 * parts was sent for another call, so that they have made one too many. */
static bool find_too_many(const struct harness_watch *watch, struct harness_watch_group *group,
                          uint64_t seq, struct harness_findings *out)
{
    const struct harness_watch_call *call = harness_watch_any_call(watch, group, seq);
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];
    uint32_t lacking = 0;

    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_MISMATCH_EXTRA, HARNESS_ORACLE_MONITOR,
                         HARNESS_MODE_PROVABLE);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there && group->members[r].posted >= seq) {
            harness_rank_set_add(&finding.culprits, r);
        }
        lacking += group->members[r].is_there && group->members[r].posted < seq;
    }
    if (lacking <= harness_rank_set_count(&finding.culprits)) {
        return false;
    }
    harness_watch_set_op(group, seq, call, &finding);
    harness_watch_say(&finding, "rank %s has a result of ",
                      harness_rank_set_text(&finding.culprits, ranks));
    harness_watch_say_call(watch, group, seq, call, &finding);
    harness_watch_say(&finding, ", which most members have not posted: it is one too many");
    harness_findings_add(out, &finding);
    group->is_wrong = true;
    return true;
}

void harness_watch_find_left_out(struct harness_watch *watch, struct harness_watch_group *group,
                                 struct harness_findings *out)
{
    const uint64_t seq = group->done_before;
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];
    uint64_t least = seq;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_member *member = &group->members[r];

        least = member->is_there && member->posted < least ? member->posted : least;
    }
    if (group->is_wrong || least >= seq || is_confused(watch, group)) {
        return;
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there && group->members[r].posted < seq &&
            may_be_right(watch, group, seq, r)) {
            return;
        }
    }
    if (find_too_many(watch, group, seq, out)) {
        return;
    }
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_MISMATCH_MISSING,
                         HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there && group->members[r].posted == least) {
            harness_rank_set_add(&finding.culprits, r);
        }
    }
    harness_watch_set_op(group, least + 1, harness_watch_any_call(watch, group, least + 1),
                         &finding);
    harness_watch_say(&finding, "rank %s has not posted ",
                      harness_rank_set_text(&finding.culprits, ranks));
    harness_watch_say_call(watch, group, least + 1, harness_watch_any_call(watch, group, least + 1),
                           &finding);
    harness_watch_say(&finding, ", of which others have the result");
    harness_findings_add(out, &finding);
    group->is_wrong = true;
}
