/* What is told of who waits: evidence, in lines, and what kind of hang it is. */
#include "harness/diagnose/waits.h"

enum { NAMED_MAX = 4 };

/* Something says that those who are ahead are still waiting. What is put together from lines never
 * says of a call that it is done, either. */
bool harness_diag_is_told(const struct harness_diag_evidence *evidence,
                          const struct harness_diag_group *group,
                          const struct harness_diag_front *front)
{
    bool is_told = front->is_pending;

    for (size_t i = 0; i < group->member_count; i++) {
        is_told = is_told || group->members[i].is_log;
    }
    for (size_t i = 0; i < evidence->note_count; i++) {
        enum harness_diag_note_kind kind = evidence->notes[i].kind;

        is_told = is_told || kind == HARNESS_DIAG_NOTE_LOST || kind == HARNESS_DIAG_NOTE_TIMEOUT ||
                  kind == HARNESS_DIAG_NOTE_INSIDE;
    }
    return is_told;
}

/* Where a rank's stack is, or was seen last. */
void harness_diag_say_notes(struct harness_diag_evidence *evidence, uint32_t rank,
                            struct harness_diag_finding *out)
{
    for (size_t i = 0; i < evidence->note_count; i++) {
        const struct harness_diag_note *note = &evidence->notes[i];

        if (note->rank == rank && note->kind != HARNESS_DIAG_NOTE_AUDIT) {
            harness_diag_finding_line(
                out, harness_diag_keep_format(evidence, "rank %u: %s [%s]", rank, note->text,
                                              harness_diag_place_text(evidence, note->place)));
        }
    }
}

void harness_diag_say_member(struct harness_diag_evidence *evidence,
                             const struct harness_diag_group *group,
                             const struct harness_diag_member *member, int64_t seq,
                             struct harness_diag_finding *out)
{
    const struct harness_diag_call *call = harness_diag_call_at(member, seq);
    const struct harness_diag_call *last =
        member->call_count > 0 ? &member->calls[member->call_count - 1] : NULL;

    if (call != NULL) {
        harness_diag_finding_line(
            out, harness_diag_keep_format(evidence, "rank %u posted %s%s%s%s [%s]", member->rank,
                                          harness_diag_call_text(evidence, call),
                                          call->site[0] != '\0' ? " at " : "", call->site,
                                          call->state == HARNESS_DIAG_PENDING ||
                                                  call->state == HARNESS_DIAG_STARTED
                                              ? ", and it is not done"
                                              : "",
                                          harness_diag_place_text(evidence, call->place)));
    } else if (last != NULL) {
        harness_diag_finding_line(
            out, harness_diag_keep_format(evidence, "rank %u's last call in %s is %s%s%s [%s]",
                                          member->rank, harness_diag_group_name(group),
                                          harness_diag_call_text(evidence, last),
                                          last->site[0] != '\0' ? " at " : "", last->site,
                                          harness_diag_place_text(evidence, last->place)));
    } else {
        harness_diag_finding_line(
            out, harness_diag_keep_format(evidence, "rank %u has posted %lld calls in %s [%s]",
                                          member->rank, (long long)member->posted,
                                          harness_diag_group_name(group),
                                          member->file != NULL ? member->file : ""));
    }
}

void harness_diag_say_members(struct harness_diag_waits *waits, size_t g,
                              struct harness_diag_finding *out)
{
    struct harness_diag_evidence *evidence = waits->evidence;
    const struct harness_diag_group *group = &evidence->groups[g];
    int64_t seq = waits->fronts[g].seq;
    size_t named = 0;

    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_member *member = &group->members[i];
        const struct harness_diag_call *call = harness_diag_call_at(member, seq);
        bool is_culprit = harness_rank_set_has(&out->culprits, member->rank) ||
                          harness_rank_set_has(&out->suspects, member->rank);

        if (call != NULL && out->expected.kind == NULL && out->posted.kind == NULL) {
            out->expected = *call;
        }
        if (!is_culprit && member->has_record && member->posted >= seq) {
            harness_rank_set_add(&out->victims, member->rank);
        }
        if (member->has_record && (is_culprit || named++ < NAMED_MAX)) {
            harness_diag_say_member(evidence, group, member, seq, out);
        }
        if (is_culprit) {
            harness_diag_say_notes(evidence, member->rank, out);
        }
    }
}

/* Gloo records no messages: a rank that waits for one looks as if it did something else. */
bool harness_diag_is_silent_on_messages(const struct harness_diag_waits *waits)
{
    for (size_t g = 0; g < waits->evidence->group_count; g++) {
        if (waits->evidence->groups[g].is_gloo) {
            return true;
        }
    }
    return false;
}

/* Whose last call is not what its own past leads one to expect. */
void harness_diag_say_odd(struct harness_diag_evidence *evidence,
                          const struct harness_diag_group *group, struct harness_diag_finding *out)
{
    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_member *member = &group->members[i];

        if (member->call_count > 0 &&
            harness_diag_is_expected(evidence, member, member->call_count - 1) ==
                HARNESS_DIAG_UNEXPECTED) {
            harness_rank_set_add(&out->suspects, member->rank);
            harness_diag_finding_line(
                out, harness_diag_keep_format(evidence,
                                              "rank %u's last call is not what has always "
                                              "followed the ones before it",
                                              member->rank));
        }
    }
}

void harness_diag_choose_hang(struct harness_diag_waits *waits, size_t g,
                              struct harness_diag_finding *out)
{
    struct harness_diag_evidence *evidence = waits->evidence;
    const struct harness_diag_front *front = &waits->fronts[g];
    uint32_t behind = harness_rank_set_count(&out->culprits);
    bool is_loading = true;

    for (uint32_t i = 0; i < harness_rank_set_count(&out->culprits); i++) {
        uint32_t rank = harness_rank_set_at(&out->culprits, i);

        is_loading = is_loading && harness_diag_has_note(evidence, rank, HARNESS_DIAG_NOTE_LOADING);
    }
    out->verdict = is_loading ? HARNESS_VERDICT_HANG_DATA : HARNESS_VERDICT_HANG_NOT_JOINED;
    out->sure =
        behind >= front->ahead || !front->is_pending || harness_diag_is_silent_on_messages(waits)
            ? HARNESS_DIAG_LIKELY
            : HARNESS_DIAG_CERTAIN;
    out->why =
        behind >= front->ahead
            ? "as many members lack it as have posted it, or more; these may have posted one "
              "too many"
            : "the others have posted it, and it waits in no call that keeps it from there";
    if (behind >= front->ahead) {
        harness_diag_finding_or(out, HARNESS_VERDICT_MISMATCH_EXTRA);
    }
    if (front->seq > 1) {
        harness_diag_finding_or(out, HARNESS_VERDICT_MISMATCH_MISSING);
    }
}
