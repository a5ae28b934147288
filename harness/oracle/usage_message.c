/* Ranks that ended by a message that was not the one they waited for: whose fault that is. Messages
 * come in turn and say of which operation they are, so what came tells what did not. */
#include <stdio.h>
#include <string.h>

#include "harness/oracle/subject.h"

/* The first event of a kind that a rank recorded, of all ranks; NULL: none did. */
static const struct harness_trace_event *first_event(const struct harness_emulation *e,
                                                     enum ddp_event kind)
{
    const struct harness_trace_event *first = NULL;

    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, kind, &count);

        if (count > 0 && list[0]->entry.arg[1] < e->world &&
            (first == NULL || list[0]->entry.time_ns < first->entry.time_ns)) {
            first = list[0];
        }
    }
    return first;
}

void harness_usage_blame_ends(const struct harness_emulation *e, struct harness_finding *finding)
{
    const struct harness_trace_event *first = first_event(e, DDP_EVENT_MESSAGE_ASTRAY);
    const uint64_t *arg;
    size_t used = strlen(finding->text);

    if (first == NULL) {
        return;
    }
    arg = first->entry.arg;
    harness_rank_set_clear(&finding->culprits);
    harness_rank_set_add(&finding->culprits, first->rank);
    harness_rank_set_add(&finding->culprits, (uint32_t)arg[1]);
    finding->step = first->entry.phase > DDP_PHASE_INIT ? (int32_t)first->entry.step : -1;
    finding->phase = first->entry.phase;
    harness_subject_set_op(e, arg[0], finding);
    (void)snprintf(
        finding->text + used, sizeof(finding->text) - used,
        "; in collective %llu message %llu from rank %llu came to rank %u, where message "
        "%llu was due: %s",
        (unsigned long long)arg[0], (unsigned long long)arg[2], (unsigned long long)arg[1],
        first->rank, (unsigned long long)arg[3],
        arg[2] > arg[3] ? "what was before it has not come" : "it came again");
}

/* A rank that posted an operation and went on to a later one: without having sent its part to the
 * other one, or without having taken what that one had sent. */
struct absence {
    uint32_t rank, other;
    uint64_t seq, later;
    bool is_sent; /* its part is what is missing */
};

/* Both posted the operation alike. Who posted something else is the program's finding. */
static bool is_posted_alike(const struct harness_emulation *e, uint32_t a, uint32_t b, uint64_t seq)
{
    const struct harness_trace_event *of_a =
        harness_index_with_seq(&e->index, a, DDP_EVENT_COLL_POST, seq);
    const struct harness_trace_event *of_b =
        harness_index_with_seq(&e->index, b, DDP_EVENT_COLL_POST, seq);

    return of_a != NULL && of_b != NULL && of_a->entry.arg[1] == of_b->entry.arg[1] &&
           of_a->entry.arg[2] == of_b->entry.arg[2];
}

/* The rank posted the operation and took no part, or not all of it. */
static void blame_absent(const struct harness_emulation *e, const struct absence *absence,
                         struct harness_finding *finding)
{
    const struct ddp_event_entry *post =
        &harness_index_with_seq(&e->index, absence->rank, DDP_EVENT_COLL_POST, absence->seq)->entry;

    finding->verdict = HARNESS_VERDICT_MISMATCH_MISSING;
    harness_rank_set_add(&finding->culprits, absence->rank);
    finding->step = post->phase > DDP_PHASE_INIT ? (int32_t)post->step : -1;
    finding->phase = post->phase;
    harness_subject_set_op(e, absence->seq, finding);
}

/* What a message that came in another one's place says, whichever came first. */
static bool find_absence(const struct harness_emulation *e, struct absence *out)
{
    const struct harness_trace_event *ahead = first_event(e, DDP_EVENT_MESSAGE_AHEAD);
    const struct harness_trace_event *behind = first_event(e, DDP_EVENT_MESSAGE_BEHIND);
    const bool is_ahead =
        ahead != NULL && (behind == NULL || ahead->entry.time_ns <= behind->entry.time_ns);
    const struct harness_trace_event *first = is_ahead ? ahead : behind;
    const uint64_t *arg;

    if (first == NULL) {
        return false;
    }
    arg = first->entry.arg;
    *out = is_ahead ? (struct absence){(uint32_t)arg[1], first->rank, arg[0], arg[2], true}
                    : (struct absence){first->rank, (uint32_t)arg[1], arg[2], arg[0], false};
    /* One that went on without having sent its part has posted what came in its place. */
    return is_posted_alike(e, out->rank, out->other, out->seq) &&
           (!is_ahead ||
            harness_index_with_seq(&e->index, out->rank, DDP_EVENT_COLL_POST, out->later) != NULL);
}

/* Some rank ended so. */
static bool is_mismatch_reported(const struct harness_emulation *e)
{
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_RANK_ERROR, &count);

        for (size_t i = 0; i < count; i++) {
            if (harness_index_status(list[i]->entry.arg[0]) == DDP_E_MISMATCH) {
                return true;
            }
        }
    }
    return false;
}

bool harness_usage_is_absent(const struct harness_emulation *e, uint32_t rank, uint64_t seq)
{
    struct absence absence;

    return find_absence(e, &absence) && absence.rank == rank && absence.seq == seq &&
           is_mismatch_reported(e);
}

bool harness_usage_is_absent_since(const struct harness_emulation *e, uint32_t rank, uint64_t seq)
{
    const bool is_checked = e->input->plan->job.semantics == HARNESS_SEMANTICS_STRICT;
    struct absence absence;

    return find_absence(e, &absence) && absence.rank == rank &&
           (absence.seq == seq || (!is_checked && absence.seq > seq)) && is_mismatch_reported(e);
}

void harness_usage_blame_displaced(const struct harness_emulation *e,
                                   struct harness_finding *finding)
{
    struct absence absence;
    size_t used = strlen(finding->text);
    char *end = finding->text + used;

    if (!find_absence(e, &absence)) {
        return;
    }
    blame_absent(e, &absence, finding);
    if (absence.is_sent) {
        (void)snprintf(end, sizeof(finding->text) - used,
                       "; rank %u posted collective %llu and sent no more of it to rank %u, which "
                       "got a message of its collective %llu instead",
                       absence.rank, (unsigned long long)absence.seq, absence.other,
                       (unsigned long long)absence.later);
    } else {
        (void)snprintf(end, sizeof(finding->text) - used,
                       "; rank %u posted collective %llu and went on to %llu without what rank %u "
                       "had sent it",
                       absence.rank, (unsigned long long)absence.seq,
                       (unsigned long long)absence.later, absence.other);
    }
}
