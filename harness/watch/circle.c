/* Who is to blame of ranks that hold each other. */
#include "harness/watch/analyse.h"

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

/* Whoever the rank waits for may have left that call out, for all that can be told: half of its
 * members have come, and say what the rank says, or one that lacks it has not come to the call
 * that most are in either. */
static bool may_be_held_up(const struct harness_watch *watch, uint32_t rank,
                           const struct harness_watch_wait *most)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    for (uint32_t w = 0; w < self->wait_count; w++) {
        const struct harness_watch_wait *wait = &self->waits[w];
        const struct harness_watch_group *group = &watch->groups[wait->group];

        if (2 * harness_watch_count_come(watch, wait) >= group->size) {
            return true;
        }
        for (uint32_t r = 0; r < watch->world_size; r++) {
            if (harness_watch_is_missing(watch, wait, r) &&
                (!watch->groups[most->group].members[r].is_there ||
                 harness_watch_is_missing(watch, most, r))) {
                return true;
            }
        }
    }
    return false;
}

/* Whether the rank waits for a message in vain, or another one should have sent it, is not known.
 */
static bool waits_for_ranks(const struct harness_watch *watch, uint32_t rank)
{
    for (uint32_t w = 0; w < watch->ranks[rank].thread_wait_count; w++) {
        if (guest_wait_is_of_ranks(watch->ranks[rank].waits[w].seq)) {
            return true;
        }
    }
    return false;
}

/* Those that lack this call; nobody, if one of them may be held up. */
static void find_lacking(const struct harness_watch *watch, const struct harness_rank_set *stuck,
                         const struct harness_watch_wait *wait, struct harness_rank_set *out)
{
    for (uint32_t k = 0; k < harness_rank_set_count(stuck); k++) {
        const uint32_t rank = harness_rank_set_at(stuck, k);

        if (harness_watch_is_missing(watch, wait, rank) && !waits_for_ranks(watch, rank)) {
            if (may_be_held_up(watch, rank, wait)) {
                harness_rank_set_clear(out);
                return;
            }
            harness_rank_set_add(out, rank);
        }
    }
}

void harness_watch_find_strays(struct harness_watch *watch, const struct harness_rank_set *stuck,
                               struct harness_rank_set *strays, struct harness_watch_wait *out)
{
    const uint32_t count = harness_rank_set_count(stuck);

    harness_watch_find_strayed(watch, stuck, strays, out);
    for (uint32_t i = 0; i < count && harness_rank_set_is_empty(strays); i++) {
        const struct harness_watch_rank *self = &watch->ranks[harness_rank_set_at(stuck, i)];

        for (uint32_t w = 0; w < self->wait_count && harness_rank_set_is_empty(strays); w++) {
            *out = self->waits[w];
            if (2 * count_waiters(watch, stuck, out) > count) {
                find_lacking(watch, stuck, out, strays);
            }
        }
    }
}
