/* What ended ranks, or made them leave their work, by themselves. Errors of connections and
 * time-outs follow from something else and accuse nobody; an abort may do so too. */
#include <signal.h>
#include <string.h>

#include "harness/diagnose/front.h"

/* Which notes are looked for, the strongest first. */
enum rung { RAISED, SIGNALED, DEAD, ODD, WEAK, RUNG_COUNT };

static bool is_symptomatic(const struct harness_diag_evidence *evidence, uint32_t rank)
{
    return harness_diag_has_note(evidence, rank, HARNESS_DIAG_NOTE_LOST) ||
           harness_diag_has_note(evidence, rank, HARNESS_DIAG_NOTE_TIMEOUT);
}

/* RUNG_COUNT: it is no crash, or somebody else's doing. */
static enum rung rung_of(const struct harness_diag_evidence *evidence,
                         const struct harness_diag_note *note)
{
    if (note->rank < 0) {
        return RUNG_COUNT;
    }
    switch (note->kind) {
    case HARNESS_DIAG_NOTE_RAISED:
        return RAISED;
    case HARNESS_DIAG_NOTE_SIGNAL:
        if (note->number == SIGTERM || note->number == SIGINT || note->number == SIGHUP) {
            return RUNG_COUNT;
        }
        return note->number != SIGABRT                          ? SIGNALED
               : is_symptomatic(evidence, (uint32_t)note->rank) ? RUNG_COUNT
                                                                : WEAK;
    case HARNESS_DIAG_NOTE_DEAD:
        return DEAD;
    case HARNESS_DIAG_NOTE_ODD:
        return ODD;
    case HARNESS_DIAG_NOTE_EXIT:
        return note->number == 0 || is_symptomatic(evidence, (uint32_t)note->rank) ? RUNG_COUNT
                                                                                   : WEAK;
    default:
        return RUNG_COUNT;
    }
}

static enum harness_verdict verdict_of(const struct harness_diag_note *note)
{
    if (note->kind == HARNESS_DIAG_NOTE_SIGNAL || note->kind == HARNESS_DIAG_NOTE_DEAD) {
        return HARNESS_VERDICT_CRASH_SIGNALED;
    }
    if (note->kind == HARNESS_DIAG_NOTE_ODD) {
        return HARNESS_VERDICT_MISMATCH_OP;
    }
    if (strstr(note->text, "Expected to have finished reduction") != NULL) {
        return HARNESS_VERDICT_USAGE_UNUSED_PARAMETER;
    }
    if (strstr(note->text, "CUDA out of memory") != NULL ||
        strstr(note->text, "OutOfMemoryError") != NULL) {
        return HARNESS_VERDICT_RESOURCE_DEVICE_MEMORY;
    }
    if (strstr(note->text, "No space left on device") != NULL) {
        return HARNESS_VERDICT_RESOURCE_DISK;
    }
    return HARNESS_VERDICT_CRASH_EXITED;
}

static void describe(enum rung rung, struct harness_diag_finding *out)
{
    out->sure = rung == WEAK ? HARNESS_DIAG_POSSIBLE : HARNESS_DIAG_LIKELY;
    if (rung == RAISED || rung == SIGNALED) {
        out->sure = harness_rank_set_count(&out->culprits) == 1 && out->has_ended
                        ? HARNESS_DIAG_CERTAIN
                        : HARNESS_DIAG_LIKELY;
    }
    out->why = rung == RAISED ? "its error is its own; errors of connections and time-outs of the "
                                "others follow from it"
               : rung == SIGNALED ? "nobody else ended by a signal of its own"
               : rung == ODD      ? "it has made as many calls as the others, and others of a kind"
               : rung == DEAD     ? "its peers report that it does not answer"
                                  : "it ended with an error, and nothing says what the error was";
    if (rung == DEAD) {
        harness_diag_finding_or(out, HARNESS_VERDICT_CRASH_EXITED);
        harness_diag_finding_or(out, HARNESS_VERDICT_HANG_STOPPED);
    }
}

/* Where the others wait for one of the culprits. */
static void find_call(struct harness_diag_evidence *evidence, struct harness_diag_finding *out)
{
    for (size_t g = 0; g < evidence->group_count; g++) {
        const struct harness_diag_group *group = &evidence->groups[g];
        struct harness_diag_front front = harness_diag_front(group);

        for (size_t i = 0; i < group->member_count && !group->is_local; i++) {
            const struct harness_diag_member *member = &group->members[i];
            const struct harness_diag_call *call;

            if (front.seq == 0 || member->posted < front.seq) {
                continue;
            }
            call = harness_diag_call_at(member, front.seq);
            if (out->expected.kind == NULL && call != NULL) {
                out->expected = *call;
                out->group = g;
                out->seq = front.seq;
            }
            if (!harness_rank_set_has(&out->culprits, member->rank)) {
                harness_rank_set_add(&out->victims, member->rank);
            }
        }
    }
}

static void add_notes(struct harness_diag_evidence *evidence, struct harness_diag_finding *out)
{
    for (size_t i = 0; i < evidence->note_count; i++) {
        const struct harness_diag_note *note = &evidence->notes[i];

        if (note->rank < 0 || note->kind == HARNESS_DIAG_NOTE_AUDIT) {
            continue;
        }
        harness_diag_finding_line(
            out,
            harness_diag_keep_format(evidence, "rank %lld: %.300s [%s]", (long long)note->rank,
                                     note->text, harness_diag_place_text(evidence, note->place)));
        if (!harness_rank_set_has(&out->culprits, (uint32_t)note->rank)) {
            harness_rank_set_add(&out->victims, (uint32_t)note->rank);
        }
    }
}

/* What a console shows of an error does not say that it ended the rank. */
static bool has_ended(const struct harness_diag_evidence *evidence,
                      const struct harness_rank_set *ranks)
{
    for (size_t i = 0; i < evidence->note_count; i++) {
        const struct harness_diag_note *note = &evidence->notes[i];

        if (note->rank >= 0 && harness_rank_set_has(ranks, (uint32_t)note->rank) &&
            (note->kind == HARNESS_DIAG_NOTE_SIGNAL || note->kind == HARNESS_DIAG_NOTE_EXIT ||
             (note->kind == HARNESS_DIAG_NOTE_RAISED && note->number == 1))) {
            return true;
        }
    }
    return false;
}

bool harness_diag_crashes(struct harness_diag_evidence *evidence, struct harness_diag_finding *out)
{
    enum rung best = RUNG_COUNT;
    const struct harness_diag_note *first = NULL;

    for (size_t i = 0; i < evidence->note_count; i++) {
        enum rung rung = rung_of(evidence, &evidence->notes[i]);

        if (rung < best) {
            best = rung;
            first = &evidence->notes[i];
        }
    }
    if (first == NULL) {
        return false;
    }
    *out = harness_diag_finding_make(evidence, verdict_of(first));
    for (size_t i = 0; i < evidence->note_count; i++) {
        if (rung_of(evidence, &evidence->notes[i]) == best) {
            harness_rank_set_add(&out->culprits, (uint32_t)evidence->notes[i].rank);
        }
    }
    if (best == WEAK &&
        (first->kind == HARNESS_DIAG_NOTE_SIGNAL || harness_rank_set_count(&out->culprits) > 1)) {
        out->suspects = out->culprits; /* an abort may be what others' errors lead to */
        out->culprits = harness_rank_set_in(evidence->mem);
    }
    out->has_ended = best != RAISED || has_ended(evidence, &out->culprits);
    describe(best, out);
    add_notes(evidence, out);
    find_call(evidence, out);
    return true;
}
