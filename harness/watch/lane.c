/* How far devices are with the calls that ranks have given them. */
#include "harness/watch/read.h"

void harness_watch_take_launch(struct harness_watch *watch, uint32_t rank,
                               const uint64_t arg[GUEST_ARG_COUNT])
{
    size_t group = 0;
    struct harness_watch_member *member = harness_watch_member_of(watch, rank, arg[0], &group);
    const bool has_failed = arg[3] == GUEST_LAUNCH_FAILED;

    if (member == NULL) {
        return;
    }
    for (size_t i = 0; i < member->call_count; i++) {
        struct harness_watch_call *call = &member->calls[member->call_count - 1 - i];
        const uint64_t seq = member->kept_seq + member->call_count - 1 - i;

        if (seq < arg[1]) {
            break; /* the newest come first, so the rest is older */
        }
        if (seq <= arg[2]) {
            call->is_launched = !has_failed;
            call->lane = has_failed || arg[3] > GUEST_LANES_MAX ? 0 : (uint32_t)arg[3];
        }
    }
    member->has_broken = member->has_broken || has_failed;
    watch->ranks[rank].has_broken = watch->ranks[rank].has_broken || has_failed;
}

/* The device may write while this is read: then what is read is of one moment or the next. */
static void read_lane(struct harness_watch *watch, uint32_t rank, uint32_t place)
{
    const struct guest_lane *lane = &guest_arena_page(watch->arena, rank)->lanes[place];
    struct harness_watch_lane *kept = &watch->ranks[rank].lanes[place];
    struct harness_watch_lane now = {.handle = harness_watch_load(&lane->comm)};

    now.stream = harness_watch_load(&lane->stream);
    now.begun = harness_watch_load(&lane->begun);
    now.ended = harness_watch_load(&lane->ended);
    if (harness_watch_load(&lane->comm) != now.handle) {
        return; /* it is changing hands */
    }
    if (now.handle != kept->handle || now.begun != kept->begun || now.ended != kept->ended) {
        now.since_ns = watch->now_ns;
        watch->change_ns = watch->now_ns;
        *kept = now;
    }
}

/* What a stream waits for; false: nothing, or only for calls that were posted since the rank's ring
 * was read: what was posted before these is not known either. */
static bool lane_wait(struct harness_watch *watch, uint32_t rank, uint32_t place,
                      struct harness_watch_wait *out)
{
    const struct harness_watch_lane *lane = &watch->ranks[rank].lanes[place];
    const struct harness_watch_member *member;

    *out = (struct harness_watch_wait){.seq = lane->begun,
                                       .enter_ns = lane->since_ns,
                                       .first = lane->ended + 1,
                                       .lane = place + 1,
                                       .waiter = (uint64_t)rank + 1};
    member = harness_watch_member_of(watch, rank, lane->handle, &out->group);
    if (member == NULL) {
        return false;
    }
    out->seq = member->posted < out->seq ? member->posted : out->seq;
    return out->seq > lane->ended;
}

void harness_watch_read_lanes(struct harness_watch *watch, uint32_t rank)
{
    struct harness_watch_rank *self = &watch->ranks[rank];

    for (uint32_t i = 0; self->has_device && i < GUEST_LANES_MAX; i++) {
        read_lane(watch, rank, i);
        self->wait_count += lane_wait(watch, rank, i, &self->waits[self->wait_count]);
    }
}
