/* The answer: what happened first explains what follows from it. */
#include <string.h>

#include "harness/diagnose/front.h"

/* The difference is the last thing that one side recorded: what follows from a crash, such as other
 * calls on the way out, looks like that. */
static bool is_at_the_end(const struct harness_diag_evidence *evidence,
                          const struct harness_diag_finding *finding)
{
    const struct harness_diag_group *group = &evidence->groups[finding->group];

    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_member *member = &group->members[i];

        if (member->has_record && member->posted == finding->seq) {
            return true;
        }
    }
    return false;
}

static bool find_mismatches(struct harness_diag_evidence *evidence,
                            struct harness_diag_answer *answer)
{
    bool is_found = false;

    for (size_t g = 0; g < evidence->group_count; g++) {
        struct harness_diag_finding finding;

        if (!harness_diag_is_retold(evidence, g) && harness_diag_compare(evidence, g, &finding)) {
            harness_diag_answer_add(evidence, answer, &finding);
            is_found = true;
        }
    }
    return is_found;
}

static bool is_strong(const struct harness_diag_finding *crash)
{
    return crash->sure != HARNESS_DIAG_POSSIBLE;
}

/* It has posted a call that is not done: so it is there. */
static bool is_in_a_call(const struct harness_diag_evidence *evidence, uint32_t rank)
{
    for (size_t g = 0; g < evidence->group_count; g++) {
        const struct harness_diag_member *member =
            harness_diag_member_of(&evidence->groups[g], rank);

        if (member != NULL && harness_diag_is_pending(member)) {
            return true;
        }
    }
    return false;
}

/* The error may have been caught: nothing says that the rank ended, and it is in a call, or the
 * calls tell of another one that holds the others up. */
static bool is_survived(struct harness_diag_evidence *evidence,
                        const struct harness_diag_finding *crash,
                        const struct harness_diag_answer *waits)
{
    bool is_there = false;

    if (crash->has_ended) {
        return false;
    }
    for (uint32_t i = 0; i < harness_rank_set_count(&crash->culprits); i++) {
        is_there = is_there || is_in_a_call(evidence, harness_rank_set_at(&crash->culprits, i));
    }
    return is_there ||
           (waits->finding_count > 0 && !harness_rank_set_is_empty(&waits->findings[0].culprits) &&
            !harness_rank_set_is_common(&waits->findings[0].culprits, &crash->culprits));
}

/* Readings of calls give way to a crash whose rank they would name as one that did not come, or
 * that explains a difference in last calls. */
static void choose(struct harness_diag_evidence *evidence, struct harness_diag_answer *out)
{
    struct harness_diag_finding crash;
    bool has_crash = harness_diag_crashes(evidence, &crash);
    bool has_mismatch = find_mismatches(evidence, out);
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    if (has_crash && is_strong(&crash) &&
        (!has_mismatch ||
         (is_at_the_end(evidence, &out->findings[0]) && out->findings[0].matched == 0))) {
        out->finding_count = 0;
        harness_diag_waits(evidence, out);
        if (is_survived(evidence, &crash, out)) {
            harness_diag_answer_unknown(
                out, harness_diag_keep_format(evidence,
                                              "whether rank %s went on behind an error that it "
                                              "printed: %s",
                                              harness_rank_set_text(&crash.culprits, ranks),
                                              crash.line_count > 0 ? crash.lines[0] : ""));
            return;
        }
        out->finding_count = 0;
        harness_diag_answer_add(evidence, out, &crash);
        return;
    }
    if (has_mismatch) {
        return;
    }
    harness_diag_waits(evidence, out);
    if (has_crash &&
        (out->finding_count == 0 || harness_rank_set_is_empty(&out->findings[0].culprits))) {
        bool is_named = !harness_rank_set_is_empty(&crash.culprits);

        out->finding_count = is_named ? 0 : out->finding_count; /* else one more suspicion */
        harness_diag_answer_add(evidence, out, &crash);
        if (!is_named) {
            harness_diag_answer_unknown(out, "whether these ended by themselves or by what others "
                                             "did: add their own logs, or all ranks' dumps");
        }
    }
}

/* Who it is about, in a sentence. */
struct subject {
    const char *group; /* "": of none */
    bool is_named;     /* culprits, else suspects */
    bool is_one;
    char ranks[HARNESS_RANKS_TEXT_BYTES];
};

static struct subject subject_of(const struct harness_diag_evidence *evidence,
                                 const struct harness_diag_finding *finding)
{
    struct subject subject = {.group =
                                  finding->group == SIZE_MAX
                                      ? ""
                                      : harness_diag_group_name(&evidence->groups[finding->group]),
                              .is_named = !harness_rank_set_is_empty(&finding->culprits)};
    const struct harness_rank_set *who = subject.is_named ? &finding->culprits : &finding->suspects;

    subject.is_one = harness_rank_set_count(who) == 1;
    (void)harness_rank_set_text(who, subject.ranks);
    return subject;
}

/* Two sides posted calls that differ. */
static const char *say_mismatch(struct harness_diag_evidence *evidence,
                                const struct harness_diag_finding *finding,
                                const struct subject *who)
{
    const char *posted = harness_diag_call_text(evidence, &finding->posted);
    const char *expected = harness_diag_call_text(evidence, &finding->expected);

    if (strcmp(posted, expected) == 0) { /* they differ in where they come from */
        posted = harness_diag_keep_format(evidence, "%s from %.250s", posted, finding->posted.site);
        expected = harness_diag_keep_format(evidence, "it from %.250s", finding->expected.site);
    }
    return harness_diag_keep_format(evidence, "%s%s%s posted %s in %s where %s posted %s",
                                    who->is_one ? "rank " : "ranks ", who->ranks,
                                    who->is_named ? "" : " differ: one side", posted, who->group,
                                    who->is_named ? "the others" : "the other side", expected);
}

static const char *say_unmet(struct harness_diag_evidence *evidence,
                             const struct harness_diag_finding *finding, const struct subject *who)
{
    char waiters[HARNESS_RANKS_TEXT_BYTES];

    return harness_diag_keep_format(evidence, "rank %s never met the %s of rank %s in %s",
                                    who->ranks, finding->expected.kind,
                                    harness_rank_set_text(&finding->victims, waiters), who->group);
}

static const char *say_not_joined(struct harness_diag_evidence *evidence,
                                  const struct harness_diag_finding *finding,
                                  const struct subject *who)
{
    char victims[HARNESS_RANKS_TEXT_BYTES];

    return harness_diag_keep_format(
        evidence, "%s%s %s %s %s of %s, which rank%s %s posted",
        who->is_named ? "" : "first suspect: ", who->is_one ? "rank" : "ranks", who->ranks,
        who->is_named ? "never posted" : "may not have posted",
        finding->expected.kind != NULL
            ? harness_diag_call_text(evidence, &finding->expected)
            : harness_diag_keep_format(evidence, "call %lld", (long long)finding->seq),
        who->group, harness_rank_set_count(&finding->victims) == 1 ? "" : "s",
        harness_rank_set_text(&finding->victims, victims));
}

/* No call of its own is to be told of. */
static const char *say_verdict(struct harness_diag_evidence *evidence,
                               const struct harness_diag_finding *finding,
                               const struct subject *who)
{
    return harness_diag_keep_format(
        evidence, "%s%s%s: %s%s%s%s%s",
        who->is_named ? "" : "first suspect: ", who->is_one ? "rank " : "ranks ", who->ranks,
        harness_verdict_meaning(finding->verdict), finding->expected.kind != NULL ? ": " : "",
        finding->expected.kind != NULL ? harness_diag_call_text(evidence, &finding->expected) : "",
        who->group[0] != '\0' ? " of " : "", who->group);
}

static const char *say_what(struct harness_diag_evidence *evidence,
                            const struct harness_diag_finding *finding)
{
    const struct subject who = subject_of(evidence, finding);

    if (finding->posted.kind != NULL && finding->expected.kind != NULL) {
        return say_mismatch(evidence, finding, &who);
    }
    if (finding->expected.kind != NULL && finding->expected.is_message) {
        return say_unmet(evidence, finding, &who);
    }
    if (finding->verdict == HARNESS_VERDICT_HANG_NOT_JOINED && finding->seq > 0) {
        return say_not_joined(evidence, finding, &who);
    }
    if (finding->posted.kind != NULL) {
        return harness_diag_keep_format(evidence, "rank %s alone posted %s in %s", who.ranks,
                                        harness_diag_call_text(evidence, &finding->posted),
                                        who.group);
    }
    return say_verdict(evidence, finding, &who);
}

/* Members of whom nothing, or too little, is recorded. */
static void tell_absent(struct harness_diag_evidence *evidence,
                        const struct harness_diag_group *group, struct harness_diag_answer *out)
{
    struct harness_rank_set absent = harness_rank_set_in(evidence->mem);
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    for (size_t i = 0; i < group->member_count; i++) {
        if (!group->members[i].has_record || group->members[i].is_open) {
            harness_rank_set_add(&absent, group->members[i].rank);
        }
    }
    if (!harness_rank_set_is_empty(&absent) && !group->is_local) {
        harness_diag_answer_unknown(
            out, harness_diag_keep_format(evidence, "how far rank%s %s came in %s: no record of it",
                                          harness_rank_set_count(&absent) == 1 ? "" : "s",
                                          harness_rank_set_text(&absent, ranks),
                                          harness_diag_group_name(group)));
    }
}

/* Members whose record was written before the others went on. */
static void tell_stale(struct harness_diag_evidence *evidence,
                       const struct harness_diag_group *group, struct harness_diag_answer *out)
{
    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_member *member = &group->members[i];

        if (member->has_record && harness_diag_is_stale(group, member, member->posted + 1)) {
            harness_diag_answer_unknown(
                out,
                harness_diag_keep_format(evidence,
                                         "how far rank %u is by now: its record (%s) is older "
                                         "than call %lld of %s, which others have posted since",
                                         member->rank, member->file, (long long)member->posted + 1,
                                         harness_diag_group_name(group)));
        }
    }
}

static void tell_what_lacks(struct harness_diag_evidence *evidence, struct harness_diag_answer *out)
{
    for (size_t g = 0; g < evidence->group_count; g++) {
        tell_stale(evidence, &evidence->groups[g], out);
        tell_absent(evidence, &evidence->groups[g], out);
    }
    if (evidence->timed_errors > 1 && out->finding_count > 0 &&
        harness_rank_set_count(&out->findings[0].culprits) > 1) {
        harness_diag_answer_unknown(out, "which of these errors came first: torchrun's times are "
                                         "whole seconds");
    }
    for (size_t i = 0; i < evidence->note_count; i++) {
        const struct harness_diag_note *note = &evidence->notes[i];

        if (note->kind == HARNESS_DIAG_NOTE_AUDIT) {
            harness_diag_answer_unknown(
                out, harness_diag_keep_format(evidence, "%s: %s",
                                              harness_diag_place_text(evidence, note->place),
                                              note->text));
        }
    }
}

/* Errors that follow from somebody else's end or delay, and nothing says whose. */
static void tell_symptoms(struct harness_diag_evidence *evidence, struct harness_diag_answer *out)
{
    struct harness_rank_set ranks = harness_rank_set_in(evidence->mem);
    char text[HARNESS_RANKS_TEXT_BYTES];

    for (size_t i = 0; i < evidence->note_count; i++) {
        const struct harness_diag_note *note = &evidence->notes[i];

        if (note->rank >= 0 &&
            (note->kind == HARNESS_DIAG_NOTE_LOST || note->kind == HARNESS_DIAG_NOTE_TIMEOUT)) {
            harness_rank_set_add(&ranks, (uint32_t)note->rank);
        }
    }
    if (!harness_rank_set_is_empty(&ranks)) {
        harness_diag_answer_unknown(
            out, harness_diag_keep_format(evidence,
                                          "whose end or delay caused the errors of rank%s %s: "
                                          "add that rank's log, its dump, or the launcher's "
                                          "console",
                                          harness_rank_set_count(&ranks) == 1 ? "" : "s",
                                          harness_rank_set_text(&ranks, text)));
    }
}

/* Whether anything at all was compared. */
static bool has_compared(const struct harness_diag_evidence *evidence)
{
    for (size_t g = 0; g < evidence->group_count; g++) {
        size_t present = 0;

        for (size_t i = 0; i < evidence->groups[g].member_count; i++) {
            present += evidence->groups[g].members[i].has_record;
        }
        if (present >= 2) {
            return true;
        }
    }
    return false;
}

void harness_diag_conclude(struct harness_diag_evidence *evidence, struct harness_diag_answer *out)
{
    bool is_named = false;

    memset(out, 0, sizeof *out);
    choose(evidence, out);
    for (size_t i = 0; i < out->finding_count; i++) {
        struct harness_diag_finding *finding = &out->findings[i];

        finding->what = say_what(evidence, finding);
        is_named = is_named || !harness_rank_set_is_empty(&finding->culprits) ||
                   finding->posted.kind != NULL;
    }
    tell_what_lacks(evidence, out);
    if (out->finding_count == 0) {
        tell_symptoms(evidence, out);
        harness_diag_sites(evidence, out);
    }
    if (out->finding_count == 0 && out->unknown_count == 0 && !has_compared(evidence)) {
        harness_diag_answer_unknown(out,
                                    "how far any two ranks of a group came: only one is recorded");
    }
    if (is_named) {
        out->outcome = HARNESS_OUTCOME_FAIL;
    } else if (out->finding_count == 0 && out->unknown_count == 0 && has_compared(evidence)) {
        out->outcome = HARNESS_OUTCOME_PASS;
    } else {
        out->outcome = HARNESS_OUTCOME_INCONCLUSIVE;
    }
}
