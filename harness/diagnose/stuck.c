/* Hangs in which no rank with a record is simply behind: who left none, circles, devices, and what
 * stacks alone tell. */
#include "harness/diagnose/waits.h"

/* The call that the silent ones lack: the front's, else the last one that anybody has posted. */
static int64_t call_lacked(const struct harness_diag_group *group,
                           const struct harness_diag_front *front)
{
    int64_t seq = front->seq;

    for (size_t i = 0; front->seq == 0 && i < group->member_count; i++) {
        seq = group->members[i].posted > seq ? group->members[i].posted : seq;
    }
    return seq;
}

/* Those who may lack call out->seq become suspects. Returns whether a stack shows one of them
 * outside of it. */
static bool suspect_silent(const struct harness_diag_waits *waits,
                           const struct harness_diag_group *group, struct harness_diag_finding *out)
{
    const struct harness_diag_evidence *evidence = waits->evidence;
    bool is_outside = false;

    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_member *member = &group->members[i];

        if ((!member->has_record || (member->posted < out->seq && member->is_open)) &&
            !waits->is_waiting[member->rank]) {
            harness_rank_set_add(&out->suspects, member->rank);
            is_outside = is_outside ||
                         harness_diag_has_note(evidence, member->rank, HARNESS_DIAG_NOTE_OUTSIDE) ||
                         harness_diag_has_note(evidence, member->rank, HARNESS_DIAG_NOTE_LOADING);
        }
    }
    return is_outside;
}

/* Nothing but their silence speaks against them: they may as well have ended. */
static void doubt_silent(struct harness_diag_evidence *evidence,
                         const struct harness_diag_group *group,
                         const struct harness_diag_front *front, struct harness_diag_finding *out)
{
    bool is_told_so = harness_diag_is_told(evidence, group, front);

    harness_diag_say_odd(evidence, group, out);
    harness_diag_finding_or(out, HARNESS_VERDICT_CRASH_SIGNALED);
    harness_diag_finding_or(out, HARNESS_VERDICT_CRASH_EXITED);
    harness_diag_finding_or(out, HARNESS_VERDICT_CRASH_FINISHED_EARLY);
    harness_diag_finding_or(out, HARNESS_VERDICT_MISMATCH_MISSING);
    out->sure = is_told_so && harness_rank_set_count(&out->suspects) == 1 ? HARNESS_DIAG_LIKELY
                                                                          : HARNESS_DIAG_POSSIBLE;
    out->why = is_told_so ? "every member with a record is in that call, it is not done, and "
                            "this one left no record"
                          : "all members with a record have posted the same calls; nothing "
                            "says that the last one is not done";
}

/* Ranks that are waited for and have left nothing. */
bool harness_diag_name_silent(struct harness_diag_waits *waits, size_t g)
{
    struct harness_diag_evidence *evidence = waits->evidence;
    const struct harness_diag_group *group = &evidence->groups[g];
    const struct harness_diag_front *front = &waits->fronts[g];
    struct harness_diag_finding found =
        harness_diag_finding_make(evidence, HARNESS_VERDICT_HANG_NOT_JOINED);
    bool is_outside;

    if (front->absent == 0 || front->present == 0 || group->is_local) {
        return false;
    }
    found.group = g;
    found.seq = call_lacked(group, front);
    is_outside = suspect_silent(waits, group, &found);
    if (harness_rank_set_is_empty(&found.suspects)) {
        return false;
    }
    if (is_outside) {
        found.culprits = found.suspects;
        found.suspects = harness_rank_set_in(evidence->mem);
        harness_diag_choose_hang(waits, g, &found);
        found.sure = HARNESS_DIAG_LIKELY;
        found.why = "every other member with a record is in that call, and its stack is elsewhere";
    } else {
        doubt_silent(evidence, group, front, &found);
    }
    waits->fronts[g].seq = found.seq;
    harness_diag_say_members(waits, g, &found);
    harness_diag_answer_add(evidence, waits->answer, &found);
    return true;
}

/* Everybody who is waited for waits itself. */
bool harness_diag_name_circle(struct harness_diag_waits *waits)
{
    struct harness_diag_evidence *evidence = waits->evidence;
    struct harness_diag_finding found =
        harness_diag_finding_make(evidence, HARNESS_VERDICT_HANG_CYCLE);

    found.sure = HARNESS_DIAG_LIKELY;
    found.why = "each rank that is waited for waits itself, in another group; in which order these "
                "calls belong is not recorded";
    for (size_t g = 0; g < evidence->group_count; g++) {
        const struct harness_diag_group *group = &evidence->groups[g];
        const struct harness_diag_front *front = &waits->fronts[g];

        for (size_t i = 0; front->seq != 0 && !group->is_local && i < group->member_count; i++) {
            const struct harness_diag_member *member = &group->members[i];

            if (harness_diag_is_behind(group, member, front->seq) &&
                waits->is_waiting[member->rank]) {
                harness_rank_set_add(&found.culprits, member->rank);
            } else if (front->behind > 0 && member->posted >= front->seq) {
                found.group = g;
                found.seq = front->seq;
                harness_diag_say_member(evidence, group, member, front->seq, &found);
            }
        }
    }
    if (harness_rank_set_count(&found.culprits) < 2) {
        return false;
    }
    harness_diag_answer_add(evidence, waits->answer, &found);
    return true;
}

/* All have posted the call and some devices have begun it: those that have not are held up by what
 * was launched before. */
bool harness_diag_name_not_launched(struct harness_diag_waits *waits, size_t g)
{
    struct harness_diag_evidence *evidence = waits->evidence;
    const struct harness_diag_group *group = &evidence->groups[g];
    struct harness_diag_finding found =
        harness_diag_finding_make(evidence, HARNESS_VERDICT_HANG_NOT_LAUNCHED);

    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_member *member = &group->members[i];
        const struct harness_diag_call *call = harness_diag_call_at(member, waits->fronts[g].stuck);

        if (call == NULL) {
            return false;
        }
        if (call->state == HARNESS_DIAG_PENDING) {
            harness_rank_set_add(&found.culprits, member->rank);
            found.expected = *call;
        } else if (call->state == HARNESS_DIAG_STARTED) {
            harness_rank_set_add(&found.victims, member->rank);
        }
        found.seq = call->seq;
        harness_diag_say_member(evidence, group, member, call->seq, &found);
    }
    if (harness_rank_set_is_empty(&found.culprits) || harness_rank_set_is_empty(&found.victims)) {
        return false;
    }
    found.group = g;
    found.sure = HARNESS_DIAG_LIKELY;
    found.why = "all have posted it, and only here the device has not begun it";
    harness_diag_answer_add(evidence, waits->answer, &found);
    return true;
}

/* Stacks alone: some are inside a collective, others are not. */
bool harness_diag_name_by_stacks(struct harness_diag_waits *waits)
{
    struct harness_diag_evidence *evidence = waits->evidence;
    struct harness_diag_finding found =
        harness_diag_finding_make(evidence, HARNESS_VERDICT_HANG_NOT_JOINED);
    bool is_loading = true;

    for (uint32_t rank = 0; rank < waits->world; rank++) {
        bool loads = harness_diag_has_note(evidence, rank, HARNESS_DIAG_NOTE_LOADING);

        if (harness_diag_has_note(evidence, rank, HARNESS_DIAG_NOTE_INSIDE)) {
            harness_rank_set_add(&found.victims, rank);
        } else if (loads || harness_diag_has_note(evidence, rank, HARNESS_DIAG_NOTE_OUTSIDE)) {
            harness_rank_set_add(&found.culprits, rank);
            is_loading = is_loading && loads;
        }
    }
    if (harness_rank_set_is_empty(&found.victims) || harness_rank_set_is_empty(&found.culprits)) {
        return false;
    }
    found.verdict = is_loading ? HARNESS_VERDICT_HANG_DATA : HARNESS_VERDICT_HANG_NOT_JOINED;
    found.sure = HARNESS_DIAG_LIKELY;
    found.why = "the stacks of the others are inside a collective, this one's is not";
    for (uint32_t rank = 0; rank < waits->world; rank++) {
        harness_diag_say_notes(evidence, rank, &found);
    }
    harness_diag_answer_add(evidence, waits->answer, &found);
    return true;
}
