/* Who waits for whom, across communicators and threads. */
#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"

#define ANY_GROUP SIZE_MAX

bool harness_watch_is_gone(const struct harness_watch *watch, uint32_t rank)
{
    return watch->ranks[rank].state == HARNESS_WATCH_EXITED ||
           watch->ranks[rank].state == HARNESS_WATCH_SIGNALED;
}

bool harness_watch_is_waiting(const struct harness_watch *watch, uint32_t rank)
{
    return !harness_watch_is_gone(watch, rank) && watch->ranks[rank].wait_count > 0;
}

/* How far the device is with a call that was launched. */
static enum harness_watch_reach reach_on_device(const struct harness_watch_rank *self,
                                                const struct harness_watch_member *member,
                                                const struct harness_watch_call *call, uint64_t seq)
{
    const struct harness_watch_lane *lane = call->lane != 0 ? &self->lanes[call->lane - 1] : NULL;

    if (lane == NULL) {
        return HARNESS_WATCH_BEGUN;
    }
    if (member->is_freed || lane->handle != member->handle || lane->ended >= seq) {
        return HARNESS_WATCH_DONE;
    }
    return lane->begun >= seq ? HARNESS_WATCH_BEGUN : HARNESS_WATCH_LAUNCHED;
}

enum harness_watch_reach harness_watch_reach_of(const struct harness_watch *watch, uint32_t rank,
                                                size_t group, uint64_t seq)
{
    const struct harness_watch_member *member = &watch->groups[group].members[rank];
    const struct harness_watch_call *call = harness_watch_call_at(member, seq);

    if (member->is_unshown) { /* it may have come to any */
        return HARNESS_WATCH_DONE;
    }
    if (!member->is_there || member->posted < seq) {
        return HARNESS_WATCH_NOWHERE;
    }
    if (call == NULL || call->is_done) { /* one that is not kept any more is long past */
        return HARNESS_WATCH_DONE;
    }
    if (!member->is_of_device) {
        return HARNESS_WATCH_BEGUN;
    }
    return call->is_launched ? reach_on_device(&watch->ranks[rank], member, call, seq)
                             : HARNESS_WATCH_POSTED;
}

/* Some member's device has not come to the call for sure. */
static bool lacks_somebody(const struct harness_watch *watch, const struct harness_watch_wait *wait)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (watch->groups[wait->group].members[r].is_there &&
            harness_watch_reach_of(watch, r, wait->group, wait->seq) < HARNESS_WATCH_BEGUN) {
            return true;
        }
    }
    return false;
}

uint32_t harness_watch_next_before(const struct harness_watch *watch, uint32_t rank,
                                   const struct harness_watch_wait *wait, uint32_t from)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];
    const struct harness_watch_call *call =
        harness_watch_call_at(&watch->groups[wait->group].members[rank], wait->seq);
    const uint32_t lane = call != NULL ? call->lane : 0;

    if (lane == 0) {
        return self->wait_count;
    }
    for (uint32_t i = from > self->thread_wait_count ? from : self->thread_wait_count;
         i < self->wait_count; i++) {
        const struct harness_watch_wait *other = &self->waits[i];

        if (other->lane != 0 && other->lane != lane &&
            self->lanes[other->lane - 1].stream == self->lanes[lane - 1].stream &&
            lacks_somebody(watch, other)) {
            return i;
        }
    }
    return self->wait_count;
}

/* A call that the device was seen to begin and not to end. */
static bool is_left_open(const struct harness_watch *watch, uint32_t rank,
                         const struct harness_watch_wait *wait)
{
    const struct harness_watch_call *call =
        harness_watch_call_at(&watch->groups[wait->group].members[rank], wait->seq);

    return call != NULL && call->lane != 0;
}

/* A call of a device needs the devices of all members, and one of a thread their threads. A rank
 * that is gone has no device any more; what it had under way has had time to end on the others. */
static bool has_not_come(const struct harness_watch *watch, const struct harness_watch_wait *wait,
                         uint32_t other)
{
    const enum harness_watch_reach reach =
        harness_watch_reach_of(watch, other, wait->group, wait->seq);

    if (wait->lane == 0) {
        return reach < HARNESS_WATCH_LAUNCHED;
    }
    if (reach != HARNESS_WATCH_BEGUN) {
        return reach < HARNESS_WATCH_BEGUN;
    }
    return harness_watch_next_before(watch, other, wait, 0) < watch->ranks[other].wait_count ||
           (is_left_open(watch, other, wait) && harness_watch_is_gone(watch, other) &&
            watch->now_ns - watch->ranks[other].since_ns >= HARNESS_WATCH_STOP_HOLD_NS);
}

uint64_t harness_watch_count_known(const struct harness_watch *watch,
                                   const struct harness_watch_group *group)
{
    uint64_t known = 0;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        known += group->members[r].is_there;
    }
    return known;
}

/* A thread waits for this rank itself: for its message, or for it to take one. Of two, it may be
 * the other one. What a rank sent before it ended well arrives after that. */
static bool is_awaited(const struct harness_watch *watch, const struct harness_watch_wait *wait,
                       uint32_t other)
{
    const struct harness_watch_member *member = &watch->groups[wait->group].members[other];
    const struct harness_watch_rank *self = &watch->ranks[other];
    const bool is_one = guest_wait_rank(wait->seq, 1) < 0;

    if (!member->is_there || ((int64_t)member->rank != guest_wait_rank(wait->seq, 0) &&
                              (int64_t)member->rank != guest_wait_rank(wait->seq, 1))) {
        return false;
    }
    if (self->is_detached || (self->state == HARNESS_WATCH_EXITED && self->code == 0)) {
        return is_one && wait->is_polled == 0 &&
               harness_watch_unchanged_ns(watch) >= HARNESS_WATCH_CYCLE_HOLD_NS &&
               watch->now_ns >= self->alive_ns + HARNESS_WATCH_CYCLE_HOLD_NS;
    }
    return true;
}

/* All ranks of the job are in the group, as its members were told how many there are. */
static bool is_of_all(const struct harness_watch *watch, const struct harness_watch_group *group)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (group->members[r].is_there && watch->ranks[r].world_size != group->size) {
            return false;
        }
    }
    return true;
}

/* The rank could show all of its communicators: it does not have one that it does not show. */
static bool has_shown_all(const struct harness_watch_rank *rank)
{
    return rank->lost_comms == 0 && rank->lost_count == 0;
}

/* The rank is the other end of a pair, by the communicator that the pair belongs to. */
static bool is_other_end(const struct harness_watch *watch, const struct harness_watch_group *group,
                         uint32_t other)
{
    const struct harness_watch_member *member =
        group->parent != 0 ? &watch->groups[group->parent - 1].members[other] : NULL;

    return member != NULL && member->is_there && member->rank == group->peer &&
           harness_watch_count_known(watch, group) == 1;
}

/* Which rank of the job a member is; world_size: it is not known. */
static uint32_t job_rank_of(const struct harness_watch *watch,
                            const struct harness_watch_group *group, uint32_t rank)
{
    uint32_t r = 0;

    while (r < watch->world_size &&
           (!group->members[r].is_there || group->members[r].rank != rank)) {
        r++;
    }
    return r;
}

/* All that the member gets something from have come to the call. */
static bool have_senders_come(const struct harness_watch *watch,
                              const struct harness_watch_wait *wait,
                              const struct harness_watch_member *member)
{
    const struct harness_watch_group *group = &watch->groups[wait->group];

    for (size_t i = 0; i < member->near_count; i++) {
        const uint32_t r = job_rank_of(watch, group, guest_near_rank(member->near[i]));

        if ((member->near[i] & GUEST_NEAR_TO) == 0 &&
            (r == watch->world_size ||
             harness_watch_reach_of(watch, r, wait->group, wait->seq) == HARNESS_WATCH_NOWHERE)) {
            return false;
        }
    }
    return true;
}

/* The neighbours of whoever waits; NULL: it may need any member. */
static const struct harness_watch_member *near_of(const struct harness_watch *watch,
                                                  const struct harness_watch_wait *wait)
{
    const struct harness_watch_member *member;
    const struct harness_watch_call *call;
    uint32_t kind;

    if (wait->waiter == 0 || watch->ranks[wait->waiter - 1].lost_count > 0) {
        return NULL;
    }
    member = &watch->groups[wait->group].members[wait->waiter - 1];
    call = harness_watch_call_at(member, wait->seq);
    kind = call != NULL ? guest_op_kind(call->op) : DDPROVE_GUEST_OTHER;
    return member->has_near && (kind == DDPROVE_GUEST_NEIGHBOR_ALL_GATHER ||
                                kind == DDPROVE_GUEST_NEIGHBOR_ALL_TO_ALL)
               ? member
               : NULL;
}

bool harness_watch_is_near(const struct harness_watch *watch, const struct harness_watch_wait *wait,
                           uint32_t other)
{
    const struct harness_watch_member *member = near_of(watch, wait);
    const uint32_t rank = watch->groups[wait->group].members[other].rank;

    for (size_t i = 0; member != NULL && i < member->near_count; i++) {
        if (guest_near_rank(member->near[i]) == rank) {
            return (member->near[i] & GUEST_NEAR_TO) == 0 || have_senders_come(watch, wait, member);
        }
    }
    return member == NULL;
}

/* Members that are not known yet, because they have not made the communicator, are any rank that
 * lacks it; a pair is made by its first message. */
bool harness_watch_is_missing(const struct harness_watch *watch,
                              const struct harness_watch_wait *wait, uint32_t other)
{
    const struct harness_watch_group *group = &watch->groups[wait->group];
    uint64_t known;

    if (guest_wait_is_of_ranks(wait->seq)) {
        return is_awaited(watch, wait, other);
    }
    if (group->members[other].is_there) {
        return has_not_come(watch, wait, other) && harness_watch_is_near(watch, wait, other);
    }
    if (!has_shown_all(&watch->ranks[other])) {
        return false;
    }
    if (group->is_pair || (watch->world_size != group->size && other >= group->size)) {
        return is_other_end(watch, group, other);
    }
    known = harness_watch_count_known(watch, group);
    /* Which ranks these are is certain only if everybody who lacks it is one. */
    return known < group->size && (watch->world_size - known == group->size - known ||
                                   (other < group->size && is_of_all(watch, group)));
}

/* Of calls that were launched together, the first one that the rank lacks. */
static uint64_t first_lacking(const struct harness_watch *watch,
                              const struct harness_watch_wait *wait, uint32_t rank)
{
    const uint64_t posted = watch->groups[wait->group].members[rank].posted;

    if (guest_wait_is_of_ranks(wait->seq)) {
        return wait->seq;
    }
    return posted < wait->first ? wait->first : posted < wait->seq ? posted + 1 : wait->seq;
}

/* Some wait of the rank that needs the other one; of one group, or of any. */
static bool find_need(const struct harness_watch *watch, uint32_t rank, uint32_t other,
                      size_t group, struct harness_watch_wait *out)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    /* Streams first: a thread that launches calls is ahead of them, and seldom waits. */
    for (uint32_t i = self->wait_count; rank != other && i-- > 0;) {
        const struct harness_watch_wait *wait = &self->waits[i];

        if ((group == ANY_GROUP || group == wait->group) &&
            harness_watch_is_missing(watch, wait, other)) {
            if (out != NULL) {
                *out = *wait;
                out->seq = first_lacking(watch, wait, other);
            }
            return true;
        }
    }
    return false;
}

bool harness_watch_needs(const struct harness_watch *watch, uint32_t rank, uint32_t other,
                         struct harness_watch_wait *out)
{
    return find_need(watch, rank, other, ANY_GROUP, out);
}

bool harness_watch_needs_in(const struct harness_watch *watch, uint32_t rank, uint32_t other,
                            size_t group, struct harness_watch_wait *out)
{
    return find_need(watch, rank, other, group, out);
}

bool harness_watch_is_kept(const struct harness_watch *watch, uint32_t rank)
{
    if (!harness_watch_is_waiting(watch, rank)) {
        return false;
    }
    if (watch->ranks[rank].waits[0].lane == 0) { /* threads come first */
        return true;
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (harness_watch_needs(watch, rank, r, NULL)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < watch->ranks[rank].wait_count; i++) {
        const struct harness_watch_group *group = &watch->groups[watch->ranks[rank].waits[i].group];

        if (harness_watch_count_known(watch, group) < group->size) {
            return true; /* perhaps for one that is not known */
        }
    }
    return false;
}

bool harness_watch_is_needed(const struct harness_watch *watch, uint32_t rank,
                             struct harness_watch_wait *out)
{
    const bool is_gone = harness_watch_is_gone(watch, rank);
    struct harness_watch_wait wait;

    for (uint32_t i = 0; i < watch->waiter_count; i++) {
        const uint32_t r = watch->waiters[i];
        /* What has ended since may have failed for want of this one. */
        bool counts = !harness_watch_is_gone(watch, r) ||
                      (is_gone && watch->ranks[r].since_ns >= watch->ranks[rank].since_ns);

        if (counts && harness_watch_needs(watch, r, rank, &wait)) {
            if (out != NULL) {
                *out = wait;
            }
            return true;
        }
    }
    return false;
}

/* It is seen that the member's device has come to the call, or that its thread has, which makes
 * a communicator itself. A launch alone does not show it. */
static bool is_seen_inside(const struct harness_watch *watch, const struct harness_watch_wait *wait,
                           uint32_t rank)
{
    const struct harness_watch_call *call =
        harness_watch_call_at(&watch->groups[wait->group].members[rank], wait->seq);
    const enum harness_watch_reach reach =
        harness_watch_reach_of(watch, rank, wait->group, wait->seq);

    return reach == HARNESS_WATCH_DONE ||
           (reach == HARNESS_WATCH_BEGUN &&
            (call->lane != 0 || guest_op_kind(call->op) == DDPROVE_GUEST_COMM_CREATE));
}

bool harness_watch_is_complete(const struct harness_watch *watch,
                               const struct harness_watch_wait *wait)
{
    const struct harness_watch_group *group = &watch->groups[wait->group];

    if (guest_wait_is_of_ranks(wait->seq)) {
        return false;
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (harness_watch_is_missing(watch, wait, r) ||
            (group->members[r].is_of_device && !is_seen_inside(watch, wait, r))) {
            return false;
        }
    }
    return harness_watch_count_known(watch, group) == group->size;
}

uint64_t harness_watch_count_come(const struct harness_watch *watch,
                                  const struct harness_watch_wait *wait)
{
    const struct harness_watch_group *group = &watch->groups[wait->group];
    uint64_t count = 0;

    for (uint32_t r = 0; r < watch->world_size; r++) {
        count += group->members[r].is_there && !harness_watch_is_missing(watch, wait, r);
    }
    return count;
}
