/* Ranks that hold each other: that no rank can set free any more. */
#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"

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
        if (of->waits[i].lane != 0 && is_hopeless(self, rank, i) &&
            of->lanes[of->waits[i].lane - 1].stream == stream) {
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

/* Some rank is sure to be missing from what the wait is for, and will not come to it. What may only
 * be so does not count here: such waits would hold each other up, and nothing else them. */
static bool is_hopeless_for_sure(const struct hopeless *self, const struct harness_watch_wait *wait)
{
    for (uint32_t r = 0; r < self->watch->world_size; r++) {
        const enum harness_watch_reach reach =
            harness_watch_reach_of(self->watch, r, wait->group, wait->seq);

        if (!harness_watch_is_gone(self->watch, r) && reach < HARNESS_WATCH_BEGUN &&
            harness_watch_is_missing(self->watch, wait, r) &&
            (reach == HARNESS_WATCH_LAUNCHED ? is_behind(self, r, wait) : is_held(self, r))) {
            return true;
        }
    }
    return false;
}

/* A call that the rank has launched together with one that will not end. */
static bool is_beside(const struct hopeless *self, uint32_t rank,
                      const struct harness_watch_wait *wait)
{
    const struct harness_watch_rank *of = &self->watch->ranks[rank];
    uint32_t i = harness_watch_next_before(self->watch, rank, wait, 0);

    while (i < of->wait_count &&
           (!is_hopeless(self, rank, i) || !is_hopeless_for_sure(self, &of->waits[i]))) {
        i = harness_watch_next_before(self->watch, rank, wait, i + 1);
    }
    return i < of->wait_count;
}

/* The rank is missing from the call, and will not come to it. */
static bool is_lost(const struct hopeless *self, uint32_t rank,
                    const struct harness_watch_wait *wait)
{
    const enum harness_watch_reach reach =
        harness_watch_reach_of(self->watch, rank, wait->group, wait->seq);

    return reach == HARNESS_WATCH_BEGUN      ? is_beside(self, rank, wait)
           : reach == HARNESS_WATCH_LAUNCHED ? is_behind(self, rank, wait)
                                             : is_held(self, rank);
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
            harness_watch_is_missing(self->watch, wait, r) && is_lost(self, r, wait)) {
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
            is_stuck = is_stuck || (of->waits[i].lane != 0 && is_hopeless(&self, r, i));
        }
        if (is_stuck) {
            harness_rank_set_add(out, r);
        }
    }
    ddp_mem_free(watch->mem, self.is);
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
