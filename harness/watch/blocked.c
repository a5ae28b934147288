/* Who waits for whom, across communicators and threads. */
#include <string.h>

#include "harness/watch/analyse.h"

bool harness_watch_is_gone(const struct harness_watch *watch, uint32_t rank)
{
    return watch->ranks[rank].state == HARNESS_WATCH_EXITED ||
           watch->ranks[rank].state == HARNESS_WATCH_SIGNALED;
}

bool harness_watch_is_waiting(const struct harness_watch *watch, uint32_t rank)
{
    return !harness_watch_is_gone(watch, rank) && watch->ranks[rank].wait_count > 0;
}

/* Whether a call waits for this rank to post it. Members that are not known yet, because they have
 * not made the communicator, are any rank that lacks it. */
static bool is_missing_from(const struct harness_watch *watch,
                            const struct harness_watch_wait *wait, uint32_t other)
{
    const struct harness_watch_group *group = &watch->groups[wait->group];
    const struct harness_watch_member *member = &group->members[other];
    uint64_t known = 0;

    if (member->is_there) {
        return member->posted < wait->seq;
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        known += group->members[r].is_there;
    }
    /* Which ranks these are is certain only if everybody who lacks it is one. */
    return known < group->size && watch->world_size - known == group->size - known;
}

bool harness_watch_needs(const struct harness_watch *watch, uint32_t rank, uint32_t other,
                         struct harness_watch_wait *out)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    for (uint32_t i = 0; i < self->wait_count && rank != other; i++) {
        if (is_missing_from(watch, &self->waits[i], other)) {
            if (out != NULL) {
                *out = self->waits[i];
            }
            return true;
        }
    }
    return false;
}

/* It can be told whether the rank has come to a call: it is known as a member, or has shown all of
 * its communicators. */
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

    for (uint32_t r = 0; r < watch->world_size; r++) {
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

/* The wait ends if all ranks that it is for can come. */
static bool is_hopeless(const struct harness_watch *watch, const struct harness_watch_wait *wait,
                        const bool *is_stuck)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (is_stuck[r] && is_missing_from(watch, wait, r)) {
            return true;
        }
    }
    return false;
}

/* Every thread that has made a call waits, and no wait can end. */
static bool is_held(const struct harness_watch *watch, uint32_t rank, const bool *is_stuck)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    if (!harness_watch_is_waiting(watch, rank) || self->wait_count < self->thread_count) {
        return false;
    }
    for (uint32_t i = 0; i < self->wait_count; i++) {
        if (!is_hopeless(watch, &self->waits[i], is_stuck)) {
            return false;
        }
    }
    return true;
}

/* The greatest set of ranks that hold each other: start with all, and take out whoever may go on,
 * until nobody may. */
void harness_watch_find_stuck(const struct harness_watch *watch, struct harness_rank_set *out)
{
    bool *is_stuck = ddp_mem_array(watch->mem, watch->world_size, sizeof *is_stuck);
    bool has_changed = is_stuck != NULL;

    for (uint32_t r = 0; is_stuck != NULL && r < watch->world_size; r++) {
        is_stuck[r] = !harness_watch_is_gone(watch, r);
    }
    while (has_changed) {
        has_changed = false;
        for (uint32_t r = 0; r < watch->world_size; r++) {
            if (is_stuck[r] && !is_held(watch, r, is_stuck)) {
                is_stuck[r] = false;
                has_changed = true;
            }
        }
    }
    for (uint32_t r = 0; is_stuck != NULL && r < watch->world_size; r++) {
        if (is_stuck[r]) {
            harness_rank_set_add(out, r);
        }
    }
    ddp_mem_free(watch->mem, is_stuck);
}

bool harness_watch_is_complete(const struct harness_watch *watch,
                               const struct harness_watch_wait *wait)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (is_missing_from(watch, wait, r)) {
            return false;
        }
    }
    return true;
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

        if (!self->is_one_thread && !self->is_alone) {
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

/* How many of the ranks wait in this call. */

static uint32_t count_waiters(const struct harness_watch *watch,
                              const struct harness_rank_set *ranks,
                              const struct harness_watch_wait *wait)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < harness_rank_set_count(ranks); i++) {
        const struct harness_watch_rank *self = &watch->ranks[harness_rank_set_at(ranks, i)];
        bool is_in = false;

        for (uint32_t w = 0; w < self->wait_count; w++) {
            is_in =
                is_in || (self->waits[w].group == wait->group && self->waits[w].seq == wait->seq);
        }
        count += is_in;
    }
    return count;
}

void harness_watch_find_strays(const struct harness_watch *watch,
                               const struct harness_rank_set *stuck,
                               struct harness_rank_set *strays, struct harness_watch_wait *out)
{
    const uint32_t count = harness_rank_set_count(stuck);

    for (uint32_t i = 0; i < count && harness_rank_set_is_empty(strays); i++) {
        const struct harness_watch_rank *self = &watch->ranks[harness_rank_set_at(stuck, i)];

        for (uint32_t w = 0; w < self->wait_count && harness_rank_set_is_empty(strays); w++) {
            *out = self->waits[w];
            for (uint32_t k = 0; k < count && 2 * count_waiters(watch, stuck, out) > count; k++) {
                if (is_missing_from(watch, out, harness_rank_set_at(stuck, k))) {
                    harness_rank_set_add(strays, harness_rank_set_at(stuck, k));
                }
            }
        }
    }
}
