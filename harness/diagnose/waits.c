/* Who waits for whom. In each group the first call that not all members have posted is what those
 * who have posted it wait in; whoever has not is waited for. A rank that is waited for and waits in
 * another group itself is a victim too: what remains are the roots, or a circle. */
#include "harness/diagnose/waits.h"

#include <string.h>

/* A message that is not done may be waited for, whether or not its peer is recorded. */
static void mark_messages(struct harness_diag_waits *waits, const struct harness_diag_group *group)
{
    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_member *member = &group->members[i];

        for (size_t k = 0; k < member->message_count; k++) {
            enum harness_diag_state state = member->messages[k].state;

            if (state == HARNESS_DIAG_PENDING || state == HARNESS_DIAG_STARTED) {
                waits->is_waiting[member->rank] = true;
            }
        }
    }
}

static void mark(struct harness_diag_waits *waits)
{
    struct harness_diag_evidence *evidence = waits->evidence;

    for (uint32_t rank = 0; rank < waits->world; rank++) {
        waits->is_waiting[rank] = harness_diag_has_note(evidence, rank, HARNESS_DIAG_NOTE_INSIDE);
    }
    for (size_t g = 0; g < evidence->group_count; g++) {
        const struct harness_diag_group *group = &evidence->groups[g];
        struct harness_diag_front *front = &waits->fronts[g];

        if (harness_diag_is_retold(evidence, g)) {
            continue;
        }
        *front = harness_diag_front(group);
        if (group->is_local) {
            continue;
        }
        mark_messages(waits, group);
        for (size_t i = 0; i < group->member_count; i++) {
            const struct harness_diag_member *member = &group->members[i];

            waits->is_waiting[member->rank] = waits->is_waiting[member->rank] ||
                                              front->stuck != 0 ||
                                              harness_diag_waits_here(group, front, member);
        }
    }
} /* One rank alone is ahead of all others, all of which stand at one place: it may as well have
   * posted one too many. What came before tells. */
static bool is_one_too_many(struct harness_diag_waits *waits, size_t g,
                            struct harness_diag_finding *out)
{
    struct harness_diag_evidence *evidence = waits->evidence;
    const struct harness_diag_group *group = &evidence->groups[g];
    const struct harness_diag_front *front = &waits->fronts[g];

    if (front->ahead != 1 || front->behind < 2 || front->absent > 0 || !group->is_complete) {
        return false;
    }
    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_member *member = &group->members[i];
        const struct harness_diag_call *call = harness_diag_call_at(member, front->seq);

        if (member->posted < front->seq && member->posted != front->seq - 1) {
            return false;
        }
        if (call != NULL &&
            harness_diag_is_expected(evidence, member, (size_t)(call - member->calls)) !=
                HARNESS_DIAG_UNEXPECTED) {
            return false;
        }
        if (call != NULL) {
            out->posted = *call;
            harness_rank_set_add(&out->culprits, member->rank);
        }
    }
    out->verdict = HARNESS_VERDICT_MISMATCH_EXTRA;
    out->sure = HARNESS_DIAG_LIKELY;
    harness_diag_finding_or(out, HARNESS_VERDICT_HANG_NOT_JOINED);
    out->why = "one rank alone is ahead, all others stand at one call, and nothing like it was "
               "posted there before; or else none of the others has come to it";
    return true;
}

/* Those who are ahead have posted what their past does not lead one to expect. */
static bool is_new_to_them(struct harness_diag_evidence *evidence,
                           const struct harness_diag_group *group, int64_t seq)
{
    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_member *member = &group->members[i];
        const struct harness_diag_call *call = harness_diag_call_at(member, seq);

        if (call != NULL &&
            harness_diag_is_expected(evidence, member, (size_t)(call - member->calls)) ==
                HARNESS_DIAG_UNEXPECTED) {
            return true;
        }
    }
    return false;
}

/* At least as many members lack the call as have it. If nothing tells that those who have it are
 * wrong, it is open who is.
 */
static void suspect_all(struct harness_diag_waits *waits, size_t g,
                        struct harness_diag_finding *found)
{
    struct harness_diag_finding extra =
        harness_diag_finding_make(waits->evidence, HARNESS_VERDICT_NONE);

    extra.group = g;
    extra.seq = found->seq;
    if (is_one_too_many(waits, g, &extra)) {
        *found = extra;
        return;
    }
    found->suspects = found->culprits;
    found->culprits = harness_rank_set_in(waits->evidence->mem);
    found->sure = HARNESS_DIAG_POSSIBLE;
    found->why = "either these have not come, or those ahead have posted one too many";
    harness_diag_say_odd(waits->evidence, &waits->evidence->groups[g], found);
}
/* The roots of this group: who is waited for here, and waits nowhere. is_alone: only if nobody else
 * is waited for here. */
static bool name_roots(struct harness_diag_waits *waits, size_t g, bool is_alone)
{
    const struct harness_diag_group *group = &waits->evidence->groups[g];
    struct harness_diag_finding found =
        harness_diag_finding_make(waits->evidence, HARNESS_VERDICT_HANG_NOT_JOINED);
    int64_t seq = waits->fronts[g].seq;
    size_t behind;

    if (seq == 0) {
        return false;
    }
    found.group = g;
    found.seq = seq;
    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_member *member = &group->members[i];

        if (!harness_diag_is_behind(group, member, seq) ||
            (!group->is_local && waits->is_waiting[member->rank])) {
            continue;
        }
        /* What is cut short may hide that it waits in another group. */
        harness_rank_set_add(member->is_short ? &found.suspects : &found.culprits, member->rank);
    }
    if (harness_rank_set_is_empty(&found.culprits) && is_alone &&
        !harness_rank_set_is_empty(&found.suspects)) {
        found.sure = HARNESS_DIAG_POSSIBLE;
        found.why = "it is behind, but its record is cut short: it may wait in another group";
        harness_diag_say_members(waits, g, &found);
        harness_diag_answer_add(waits->evidence, waits->answer, &found);
        return false; /* somebody else may be named */
    }
    behind = harness_rank_set_count(&found.culprits) + harness_rank_set_count(&found.suspects);
    found.suspects = harness_rank_set_in(waits->evidence->mem);
    if (harness_rank_set_is_empty(&found.culprits) ||
        is_alone != (harness_rank_set_count(&found.culprits) == waits->fronts[g].behind)) {
        return false;
    }
    harness_diag_choose_hang(waits, g, &found);
    if (behind >= waits->fronts[g].ahead &&
        (behind > waits->fronts[g].ahead || is_new_to_them(waits->evidence, group, seq))) {
        suspect_all(waits, g, &found);
    } else if (!harness_diag_is_told(waits->evidence, group, &waits->fronts[g])) {
        found.suspects = found.culprits;
        found.culprits = harness_rank_set_in(waits->evidence->mem);
        found.sure = HARNESS_DIAG_POSSIBLE;
        found.why = "nothing says that the others' call is not done: the records may have been "
                    "written at different times";
    }
    harness_diag_say_members(waits, g, &found);
    harness_diag_answer_add(waits->evidence, waits->answer, &found);
    return true;
}

static bool name_message_roots(struct harness_diag_waits *waits)
{
    struct harness_diag_evidence *evidence = waits->evidence;
    bool is_found = false;

    for (size_t g = 0; g < evidence->group_count; g++) {
        const struct harness_diag_group *group = &evidence->groups[g];

        for (size_t i = 0; i < group->member_count; i++) {
            uint32_t peer = 0;
            const struct harness_diag_call *call =
                harness_diag_open_message(group, &group->members[i], &peer);
            struct harness_diag_finding found;

            if (call == NULL || waits->is_waiting[peer]) {
                continue;
            }
            found = harness_diag_finding_make(evidence, HARNESS_VERDICT_HANG_NOT_JOINED);
            found.group = g;
            found.seq = call->seq;
            found.expected = *call;
            found.sure = HARNESS_DIAG_LIKELY;
            found.why = "its peer has not met this message, and waits nowhere itself";
            harness_rank_set_add(&found.culprits, peer);
            harness_rank_set_add(&found.victims, group->members[i].rank);
            harness_diag_finding_line(
                &found, harness_diag_keep_format(
                            evidence, "rank %u waits in %s %s rank %u%s%s [%s]",
                            group->members[i].rank, call->kind, call->is_send ? "to" : "from", peer,
                            call->site[0] != '\0' ? " at " : "", call->site,
                            harness_diag_place_text(evidence, call->place)));
            harness_diag_say_notes(evidence, peer, &found);
            harness_diag_answer_add(evidence, waits->answer, &found);
            is_found = true;
        }
    }
    return is_found;
}

/* Groups in which everybody has come, and yet the call is not done; and those whose other members
 * nobody wrote down. */
static void tell_unknown(struct harness_diag_waits *waits)
{
    struct harness_diag_evidence *evidence = waits->evidence;

    for (size_t g = 0; g < evidence->group_count; g++) {
        const struct harness_diag_group *group = &evidence->groups[g];
        const struct harness_diag_front *front = &waits->fronts[g];

        if (!front->is_pending || front->seq != 0 || front->absent > 0) {
            continue;
        }
        harness_diag_answer_unknown(
            waits->answer,
            harness_diag_keep_format(
                evidence,
                group->is_complete
                    ? "all members of %s have posted a call that is not done on any of them: "
                      "its root and reduction are not recorded, nor is the state of network and "
                      "devices"
                    : "who else is a member of %s is not recorded; whoever that is has not come",
                harness_diag_group_name(group)));
    }
}

static bool name_all(struct harness_diag_waits *waits)
{
    bool is_found = false;

    for (size_t g = 0; g < waits->evidence->group_count; g++) {
        is_found = name_roots(waits, g, true) || is_found;
    }
    for (size_t g = 0; g < waits->evidence->group_count; g++) {
        is_found = name_roots(waits, g, false) || is_found;
    }
    is_found = name_message_roots(waits) || is_found;
    for (size_t g = 0; !is_found && g < waits->evidence->group_count; g++) {
        is_found = harness_diag_name_silent(waits, g);
    }
    if (!is_found) {
        is_found = harness_diag_name_circle(waits) || harness_diag_name_by_stacks(waits);
    }
    for (size_t g = 0; !is_found && g < waits->evidence->group_count; g++) {
        is_found = harness_diag_name_not_launched(waits, g);
    }
    return is_found;
}

void harness_diag_waits(struct harness_diag_evidence *evidence, struct harness_diag_answer *answer)
{
    struct harness_diag_waits waits = {
        .evidence = evidence, .answer = answer, .world = evidence->world};
    struct ddp_mem *mem = evidence->mem;

    for (size_t g = 0; g < evidence->group_count; g++) {
        uint32_t count = harness_rank_set_count(&evidence->groups[g].ranks);

        if (count > 0 &&
            harness_rank_set_at(&evidence->groups[g].ranks, count - 1) >= waits.world) {
            waits.world = harness_rank_set_at(&evidence->groups[g].ranks, count - 1) + 1;
        }
    }
    if (!harness_rank_set_is_empty(&evidence->named)) {
        uint32_t last =
            harness_rank_set_at(&evidence->named, harness_rank_set_count(&evidence->named) - 1);

        waits.world = last >= waits.world ? last + 1 : waits.world;
    }
    waits.fronts = ddp_mem_array(mem, evidence->group_count, sizeof *waits.fronts);
    waits.is_waiting = ddp_mem_array(mem, waits.world, sizeof *waits.is_waiting);
    if (waits.fronts == NULL || waits.is_waiting == NULL) {
        evidence->is_failed = true;
        return;
    }
    mark(&waits);
    if (name_all(&waits) && harness_diag_is_silent_on_messages(&waits)) {
        harness_diag_answer_unknown(answer,
                                    "whether a rank waits for a message: Gloo does not record "
                                    "send and recv, so it would look as if it did nothing");
    }
    tell_unknown(&waits);
}
