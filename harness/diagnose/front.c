/* How far the members of a group are, as far as their records can be believed. */
#include "harness/diagnose/front.h"

bool harness_diag_has_note(const struct harness_diag_evidence *evidence, uint32_t rank,
                           enum harness_diag_note_kind kind)
{
    for (size_t i = 0; i < evidence->note_count; i++) {
        if (evidence->notes[i].rank == rank && evidence->notes[i].kind == kind) {
            return true;
        }
    }
    return false;
}

bool harness_diag_is_stale(const struct harness_diag_group *group,
                           const struct harness_diag_member *member, int64_t seq)
{
    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_call *call = harness_diag_call_at(&group->members[i], seq);

        if (call != NULL && (call->state == HARNESS_DIAG_DONE ||
                             (member->written_ns != 0 && call->created_ns > member->written_ns))) {
            return true;
        }
    }
    return false;
}

/* Whether the member's lack of seq is a fact. */
bool harness_diag_is_behind(const struct harness_diag_group *group,
                            const struct harness_diag_member *member, int64_t seq)
{
    return member->has_record && member->posted < seq && !member->is_open &&
           !harness_diag_is_stale(group, member, member->posted + 1);
}

bool harness_diag_is_pending(const struct harness_diag_member *member)
{
    const struct harness_diag_call *call =
        member->call_count > 0 ? &member->calls[member->call_count - 1] : NULL;

    if (call != NULL &&
        (call->state == HARNESS_DIAG_PENDING || call->state == HARNESS_DIAG_STARTED)) {
        return true;
    }
    return member->done >= 0 && member->done < member->posted;
}

static bool is_under_way(const struct harness_diag_call *call)
{
    return call != NULL &&
           (call->state == HARNESS_DIAG_PENDING || call->state == HARNESS_DIAG_STARTED);
}

/* The first call that is under way on all members. How far beyond it each has enqueued is chance:
 * those who have come less far hold nobody up. Gloo's states do not tell. */
static int64_t find_stuck(const struct harness_diag_group *group)
{
    const struct harness_diag_member *first = group->member_count > 0 ? &group->members[0] : NULL;

    for (size_t i = 0; first != NULL && !group->is_gloo && i < first->call_count; i++) {
        bool is_stuck = true;

        for (size_t k = 0; k < group->member_count && is_stuck; k++) {
            is_stuck = is_under_way(harness_diag_call_at(&group->members[k], first->calls[i].seq));
        }
        if (is_stuck) {
            return first->calls[i].seq;
        }
    }
    return 0;
}

struct harness_diag_front harness_diag_front(const struct harness_diag_group *group)
{
    struct harness_diag_front front = {0};
    int64_t least = INT64_MAX;
    int64_t most = 0;

    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_member *member = &group->members[i];

        if (!member->has_record) {
            continue;
        }
        if (!member->is_open && !harness_diag_is_stale(group, member, member->posted + 1)) {
            least = member->posted < least ? member->posted : least;
        }
        most = member->posted > most ? member->posted : most;
        front.is_pending = front.is_pending || harness_diag_is_pending(member);
    }
    front.seq = least < most ? least + 1 : 0;
    for (size_t i = 0; i < group->member_count; i++) {
        const struct harness_diag_member *member = &group->members[i];
        bool is_ahead = member->has_record && member->posted >= (front.seq != 0 ? front.seq : most);
        bool lacks = front.seq != 0 && harness_diag_is_behind(group, member, front.seq);

        front.present += member->has_record;
        front.behind += lacks;
        front.ahead += is_ahead;
        front.absent += !is_ahead && !lacks;
    }
    front.stuck = find_stuck(group);
    if (front.stuck != 0) { /* everybody has come to what everybody waits for */
        front.seq = 0;
        front.behind = 0;
        front.absent = 0;
    }
    return front;
}

/* In this group the rank has posted a call that somebody lacks, or may lack. */
bool harness_diag_waits_here(const struct harness_diag_group *group,
                             const struct harness_diag_front *front,
                             const struct harness_diag_member *member)
{
    if (!member->has_record) {
        return false;
    }
    if (harness_diag_is_pending(member) && front->absent > 0) {
        return true; /* however far the others have enqueued: it is in a call that is not done */
    }
    if (front->seq != 0) {
        return member->posted >= front->seq;
    }
    return harness_diag_is_pending(member) && (front->absent > 0 || !group->is_complete);
}

/* A message that is not done, and that its peer has not met. */
const struct harness_diag_call *harness_diag_open_message(const struct harness_diag_group *group,
                                                          const struct harness_diag_member *member,
                                                          uint32_t *peer)
{
    const struct harness_diag_call *last =
        member->message_count > 0 ? &member->messages[member->message_count - 1] : NULL;
    const struct harness_diag_member *other;
    size_t own = 0;
    size_t met = 0;

    if (last == NULL || member->is_cut || last->peer < 0 || !group->is_complete ||
        (uint64_t)last->peer >= group->member_count || last->state == HARNESS_DIAG_DONE ||
        last->state == HARNESS_DIAG_UNKNOWN) {
        return NULL;
    }
    other = &group->members[last->peer];
    *peer = other->rank;
    for (size_t i = 0; i < member->message_count; i++) {
        own +=
            member->messages[i].peer == last->peer && member->messages[i].is_send == last->is_send;
    }
    for (size_t i = 0; i < other->message_count; i++) {
        const struct harness_diag_call *call = &other->messages[i];

        met += call->peer >= 0 && &group->members[call->peer] == member &&
               call->is_send != last->is_send;
    }
    return own > met && !other->is_cut ? last : NULL;
}
