/* Who waits for whom, across communicators and threads. */
#include <string.h>

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
    const struct harness_watch_rank *self = &watch->ranks[other];
    const enum harness_watch_reach reach =
        harness_watch_reach_of(watch, other, wait->group, wait->seq);

    if (wait->lane == 0) {
        return reach < HARNESS_WATCH_LAUNCHED;
    }
    return reach < HARNESS_WATCH_BEGUN ||
           (reach == HARNESS_WATCH_BEGUN && is_left_open(watch, other, wait) &&
            harness_watch_is_gone(watch, other) &&
            watch->now_ns - self->since_ns >= HARNESS_WATCH_STOP_HOLD_NS);
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
        return is_one && harness_watch_unchanged_ns(watch) >= HARNESS_WATCH_CYCLE_HOLD_NS &&
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

/* Members that are not known yet, because they have not made the communicator, are any rank that
 * lacks it; a pair is made by its first message, and may not be seen on one side. */
bool harness_watch_is_missing(const struct harness_watch *watch,
                              const struct harness_watch_wait *wait, uint32_t other)
{
    const struct harness_watch_group *group = &watch->groups[wait->group];
    uint64_t known;

    if (guest_wait_is_of_ranks(wait->seq)) {
        return is_awaited(watch, wait, other);
    }
    if (group->members[other].is_there) {
        return has_not_come(watch, wait, other);
    }
    if (group->is_pair || (watch->world_size != group->size && other >= group->size)) {
        return false;
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
    if (watch->ranks[rank].thread_wait_count > 0) {
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

/* It can be told whether the rank has come to a call: it is known as a member, or has shown all
 * of its communicators. */
static bool is_known(const struct harness_watch *watch, const struct harness_watch_wait *wait,
                     uint32_t rank)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    return watch->groups[wait->group].members[rank].is_there ||
           (self->lost_comms == 0 && self->lost_count == 0);
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

        if (counts && harness_watch_needs(watch, r, rank, &wait) && is_known(watch, &wait, rank)) {
            if (out != NULL) {
                *out = wait;
            }
            return true;
        }
    }
    return false;
}

/* Waits that are still held to be without a way out: by rank, then as in its `waits`. */
struct hopeless {
    const struct harness_watch *watch;
    bool is_presumed;
    bool *is; /* [world_size * HARNESS_WATCH_WAITS_MAX] */
};

static bool is_hopeless(const struct hopeless *self, uint32_t rank, uint32_t wait)
{
    return self->is[(size_t)rank * HARNESS_WATCH_WAITS_MAX + wait];
}

/* A stream of the rank is in a call that will not end. */
static bool is_stream_stuck(const struct hopeless *self, uint32_t rank, uint64_t stream)
{
    const struct harness_watch_rank *of = &self->watch->ranks[rank];

    for (uint32_t i = of->thread_wait_count; i < of->wait_count; i++) {
        if (is_hopeless(self, rank, i) && of->lanes[of->waits[i].lane - 1].stream == stream) {
            return true;
        }
    }
    return false;
}

/* What was launched together ends together, as the stream says so behind all of it. */
static bool is_wait_stuck(const struct hopeless *self, uint32_t rank, uint32_t wait)
{
    const struct harness_watch_rank *of = &self->watch->ranks[rank];
    const uint64_t lane = of->waits[wait].lane;

    return is_hopeless(self, rank, wait) ||
           (lane != 0 && is_stream_stuck(self, rank, of->lanes[lane - 1].stream));
}

/* No thread of the rank will post anything more: every one that has made a call waits, and no
 * wait can end. Presumed: as what shows does not go on, the other threads wait for it. */
static bool is_held(const struct hopeless *self, uint32_t rank)
{
    const struct harness_watch_rank *of = &self->watch->ranks[rank];
    const bool is_of_streams = self->is_presumed && of->wait_count > of->thread_wait_count;
    const uint32_t count = is_of_streams ? of->wait_count : of->thread_wait_count;

    if (harness_watch_is_gone(self->watch, rank) || count == 0 ||
        (!self->is_presumed && count < of->thread_count)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!is_wait_stuck(self, rank, i)) {
            return false;
        }
    }
    return true;
}

/* A call that the rank has launched stands behind one on the same stream that will not end. */
static bool is_behind(const struct hopeless *self, uint32_t rank,
                      const struct harness_watch_wait *wait)
{
    const struct harness_watch_rank *of = &self->watch->ranks[rank];
    const struct harness_watch_call *call =
        harness_watch_call_at(&self->watch->groups[wait->group].members[rank], wait->seq);

    return call != NULL && is_stream_stuck(self, rank, of->lanes[call->lane - 1].stream);
}

/* None of the ranks that a message may be with goes on. */
static bool are_held(const struct hopeless *self, const struct harness_watch_wait *wait)
{
    for (uint32_t r = 0; r < self->watch->world_size; r++) {
        if (harness_watch_is_missing(self->watch, wait, r) && !is_held(self, r)) {
            return false;
        }
    }
    return true;
}

/* Some rank is missing from the call, and cannot come. Two that wait for each other's messages may
 * be about to have them: a large one takes its time. */
static bool has_no_way_out(const struct hopeless *self, const struct harness_watch_wait *wait)
{
    if (guest_wait_is_of_ranks(wait->seq) && (!self->is_presumed || !are_held(self, wait))) {
        return false;
    }
    for (uint32_t r = 0; r < self->watch->world_size; r++) {
        if (!harness_watch_is_gone(self->watch, r) &&
            harness_watch_is_missing(self->watch, wait, r) &&
            (harness_watch_reach_of(self->watch, r, wait->group, wait->seq) ==
                     HARNESS_WATCH_LAUNCHED
                 ? is_behind(self, r, wait)
                 : is_held(self, r))) {
            return true;
        }
    }
    return false;
}

/* Take out the waits that may end. Returns whether there were any. */
static bool take_out(struct hopeless *self)
{
    bool has_changed = false;

    for (uint32_t r = 0; r < self->watch->world_size; r++) {
        for (uint32_t i = 0; i < self->watch->ranks[r].wait_count; i++) {
            if (is_hopeless(self, r, i) && !has_no_way_out(self, &self->watch->ranks[r].waits[i])) {
                self->is[(size_t)r * HARNESS_WATCH_WAITS_MAX + i] = false;
                has_changed = true;
            }
        }
    }
    return has_changed;
}

/* The greatest set of waits that hold each other: start with all, and take out what may end,
 * until nothing may. */
void harness_watch_find_stuck(const struct harness_watch *watch, bool is_presumed,
                              struct harness_rank_set *out)
{
    struct hopeless self = {.watch = watch, .is_presumed = is_presumed};
    bool is_stuck;

    self.is = ddp_mem_array(watch->mem, (size_t)watch->world_size * HARNESS_WATCH_WAITS_MAX,
                            sizeof *self.is);
    for (uint32_t r = 0; self.is != NULL && r < watch->world_size; r++) {
        for (uint32_t i = 0; i < watch->ranks[r].wait_count; i++) {
            self.is[(size_t)r * HARNESS_WATCH_WAITS_MAX + i] = !harness_watch_is_gone(watch, r);
        }
    }
    while (self.is != NULL && take_out(&self)) {
    }
    for (uint32_t r = 0; self.is != NULL && r < watch->world_size; r++) {
        const struct harness_watch_rank *of = &watch->ranks[r];

        is_stuck = is_held(&self, r);
        for (uint32_t i = of->thread_wait_count; i < of->wait_count; i++) {
            is_stuck = is_stuck || is_hopeless(&self, r, i);
        }
        if (is_stuck) {
            harness_rank_set_add(out, r);
        }
    }
    ddp_mem_free(watch->mem, self.is);
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

static bool is_for_all(const struct harness_watch *watch, const struct harness_watch_wait *wait)
{
    const struct harness_watch_call *call =
        harness_watch_any_call(watch, &watch->groups[wait->group], wait->seq);

    return call != NULL && harness_watch_needs_all(call);
}

bool harness_watch_is_sure(const struct harness_watch *watch, const struct harness_rank_set *stuck)
{
    for (uint32_t i = 0; i < harness_rank_set_count(stuck); i++) {
        const struct harness_watch_rank *self = &watch->ranks[harness_rank_set_at(stuck, i)];

        if (self->has_device || (!self->is_one_thread && !self->is_alone)) {
            return false;
        }
        for (uint32_t w = 0; w < self->wait_count; w++) {
            if (!is_for_all(watch, &self->waits[w])) {
                return false;
            }
        }
    }
    return true;
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

void harness_watch_find_circle(const struct harness_watch *watch,
                               const struct harness_rank_set *stuck, struct harness_rank_set *out)
{
    uint32_t before;

    *out = *stuck;
    do {
        struct harness_rank_set needed = harness_rank_set_in(out->ranks.mem);

        before = harness_rank_set_count(out);
        for (uint32_t i = 0; i < before; i++) {
            const uint32_t rank = harness_rank_set_at(out, i);
            bool is_needed = false;

            for (uint32_t k = 0; k < before; k++) {
                is_needed =
                    is_needed ||
                    (k != i && harness_watch_needs(watch, harness_rank_set_at(out, k), rank, NULL));
            }
            if (is_needed) {
                harness_rank_set_add(&needed, rank);
            }
        }
        *out = needed;
    } while (!harness_rank_set_is_empty(out) && harness_rank_set_count(out) < before);
    if (harness_rank_set_is_empty(out)) { /* for themselves, or for what is not known */
        *out = *stuck;
    }
}
