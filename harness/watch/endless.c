/* Ranks wait, nothing moves, and no rank is missing from what they wait in. */
#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"

/* A call of a communicator that some of its members never made, in which the rank waits; NULL: it
 * waits in none. */
static const struct harness_watch_wait *unseen_wait(const struct harness_watch *watch,
                                                    uint32_t rank)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    for (uint32_t i = 0; harness_watch_is_waiting(watch, rank) && i < self->wait_count; i++) {
        const struct harness_watch_group *group = &watch->groups[self->waits[i].group];

        if (!guest_wait_is_of_ranks(self->waits[i].seq) &&
            harness_watch_count_known(watch, group) < group->size) {
            return &self->waits[i];
        }
    }
    return NULL;
}

/* One of these ranks is in a call that the rank waits in. */
static bool waits_with(const struct harness_watch *watch, uint32_t rank,
                       const struct harness_rank_set *ranks)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    for (uint32_t i = 0; harness_watch_is_waiting(watch, rank) && i < self->wait_count; i++) {
        for (uint32_t k = 0; k < harness_rank_set_count(ranks); k++) {
            const struct harness_watch_group *group = &watch->groups[self->waits[i].group];

            if (group->members[harness_rank_set_at(ranks, k)].is_there) {
                return true;
            }
        }
    }
    return false;
}

/* Ranks that wait, or may, for somebody who is not seen, and those that wait in calls with them:
 * that all have come to such a call does not mean that it goes on. */
static void find_held(const struct harness_watch *watch, struct harness_rank_set *out)
{
    bool has_changed = true;

    while (has_changed) {
        has_changed = false;
        for (uint32_t r = 0; r < watch->world_size; r++) {
            if (!harness_rank_set_has(out, r) &&
                (watch->ranks[r].lost_comms > 0 || unseen_wait(watch, r) != NULL ||
                 waits_with(watch, r, out))) {
                harness_rank_set_add(out, r);
                has_changed = true;
            }
        }
    }
}

/* It can be said that a rank waits for somebody who is not seen: of a pair, whose other end would
 * be known if it could show all that it has. */
static bool is_told(const struct harness_watch *watch, uint32_t rank)
{
    const struct harness_watch_wait *wait = unseen_wait(watch, rank);

    return wait != NULL
               ? !watch->groups[wait->group].is_pair || watch->groups[wait->group].parent != 0
               : watch->ranks[rank].lost_comms > 0;
}

/* Nobody can say which ranks these are, but it is none that waits. */
static void find_unseen(const struct harness_watch *watch, const struct harness_rank_set *held,
                        struct harness_findings *out)
{
    const struct harness_watch_wait *wait;
    uint32_t rank = watch->world_size;
    bool is_any = false;
    struct harness_finding finding;

    for (uint32_t i = harness_rank_set_count(held); i-- > 0;) {
        const uint32_t r = harness_rank_set_at(held, i);

        is_any = is_any || is_told(watch, r);
        if (harness_watch_is_waiting(watch, r) && watch->ranks[r].state == HARNESS_WATCH_RUNNING &&
            (rank == watch->world_size || unseen_wait(watch, r) != NULL)) {
            rank = r;
        }
    }
    if (rank == watch->world_size || !is_any) {
        return;
    }
    wait = unseen_wait(watch, rank);
    harness_watch_begin(watch, HARNESS_VERDICT_HANG_NOT_JOINED, HARNESS_MODE_BUDGET, rank, out,
                        &finding);
    harness_rank_set_clear(&finding.culprits);
    harness_watch_say(&finding, "nothing has moved for %.1f s; ",
                      (double)(watch->now_ns - watch->change_ns) / 1e9);
    if (wait != NULL) {
        const struct harness_watch_group *group = &watch->groups[wait->group];

        harness_watch_say(&finding,
                          "of %llu members of a communicator only %llu have shown that they are in "
                          "it",
                          (unsigned long long)group->size,
                          (unsigned long long)harness_watch_count_known(watch, group));
    } else {
        harness_watch_say(&finding, "some rank has communicators that it could not show");
    }
    harness_watch_say_where(watch, rank, &finding);
    harness_watch_add_victims(watch, &finding);
    harness_findings_add(out, &finding);
}

/* Others are inside a call that the rank has posted and does not wait for: it is in code of its
 * own, and many libraries go on with a call only when they are called. Devices go on by themselves.
 */
static bool is_idle_in(const struct harness_watch *watch, uint32_t rank,
                       const struct harness_rank_set *inside)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    if (!self->is_attached || self->is_detached || harness_watch_is_gone(watch, rank) ||
        harness_watch_is_waiting(watch, rank)) {
        return false;
    }
    for (uint32_t i = 0; i < harness_rank_set_count(inside); i++) {
        const struct harness_watch_wait *wait =
            &watch->ranks[harness_rank_set_at(inside, i)].waits[0];
        const struct harness_watch_member *member = &watch->groups[wait->group].members[rank];
        const enum harness_watch_reach reach =
            harness_watch_reach_of(watch, rank, wait->group, wait->seq);

        if (member->is_there && !member->is_of_device && reach > HARNESS_WATCH_NOWHERE &&
            reach < HARNESS_WATCH_DONE) {
            return true;
        }
    }
    return false;
}

/* False: there is no such rank. */
static bool find_idle(const struct harness_watch *watch, const struct harness_rank_set *inside,
                      struct harness_findings *out)
{
    struct harness_rank_set idle = harness_rank_set_in(out->mem);
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (is_idle_in(watch, r, inside)) {
            harness_rank_set_add(&idle, r);
        }
    }
    if (harness_rank_set_is_empty(&idle)) {
        return false;
    }
    harness_watch_begin(watch, HARNESS_VERDICT_HANG_HOST, HARNESS_MODE_BUDGET,
                        harness_rank_set_at(&idle, 0), out, &finding);
    finding.culprits = idle;
    harness_watch_say(&finding,
                      "rank %s is in code of its own, inside a call that others wait in, and "
                      "nothing has moved for %.1f s",
                      harness_rank_set_text(&idle, ranks),
                      (double)(watch->now_ns - watch->change_ns) / 1e9);
    harness_watch_say_where(watch, harness_rank_set_at(&idle, 0), &finding);
    harness_watch_add_victims(watch, &finding);
    harness_findings_add(out, &finding);
    return true;
}

/* Others have the result of the call that these ranks are still inside, and wait for them in a
 * later one: whatever they do inside, it is their own. False: there are no such ranks. */
static bool find_left_inside(const struct harness_watch *watch,
                             const struct harness_rank_set *inside, struct harness_findings *out)
{
    struct harness_rank_set left = harness_rank_set_in(out->mem);
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];
    const struct harness_watch_wait *wait;
    const struct harness_watch_group *group;

    for (uint32_t i = 0; i < harness_rank_set_count(inside); i++) {
        const uint32_t rank = harness_rank_set_at(inside, i);

        wait = &watch->ranks[rank].waits[0];
        if (!guest_wait_is_of_ranks(wait->seq) &&
            watch->groups[wait->group].done_seq >= wait->seq &&
            harness_watch_is_needed(watch, rank, NULL)) {
            harness_rank_set_add(&left, rank);
        }
    }
    if (harness_rank_set_is_empty(&left)) {
        return false;
    }
    wait = &watch->ranks[harness_rank_set_at(&left, 0)].waits[0];
    group = &watch->groups[wait->group];
    harness_watch_begin(watch, HARNESS_VERDICT_HANG_HOST, HARNESS_MODE_BUDGET,
                        harness_rank_set_at(&left, 0), out, &finding);
    finding.culprits = left;
    harness_watch_say(&finding, "rank %s is still inside ", harness_rank_set_text(&left, ranks));
    harness_watch_say_call(watch, group, wait->seq, harness_watch_any_call(watch, group, wait->seq),
                           &finding);
    harness_watch_say(&finding,
                      ", of which others have the result, and nothing has moved for %.1f s",
                      (double)(watch->now_ns - watch->change_ns) / 1e9);
    harness_watch_set_op(group, wait->seq, harness_watch_any_call(watch, group, wait->seq),
                         &finding);
    harness_watch_add_victims(watch, &finding);
    harness_findings_add(out, &finding);
    return true;
}

/* What ranks give is not compared in these calls: a member that has left one behind may have given
 * less than those that are inside need. */
static void add_givers(const struct harness_watch *watch, const struct harness_rank_set *inside,
                       struct harness_rank_set *out)
{
    for (uint32_t i = 0; i < harness_rank_set_count(inside); i++) {
        const struct harness_watch_wait *wait =
            &watch->ranks[harness_rank_set_at(inside, i)].waits[0];
        const struct harness_watch_group *group = &watch->groups[wait->group];
        const struct harness_watch_call *call = harness_watch_any_call(watch, group, wait->seq);

        for (uint32_t r = 0; r < watch->world_size; r++) {
            if (call != NULL && call->elem_count == 0 &&
                guest_op_kind(call->op) != DDPROVE_GUEST_BARRIER && group->members[r].is_there &&
                harness_watch_is_near(watch, wait, r)) {
                harness_rank_set_add(out, r);
            }
        }
    }
}

/* All members have come to a call, and it does not end: nothing has changed for as long as others
 * may wait. */
void harness_watch_find_endless(const struct harness_watch *watch,
                                const struct harness_watch_limits *limits,
                                struct harness_findings *out)
{
    struct harness_rank_set inside = harness_rank_set_in(out->mem);
    struct harness_rank_set held = harness_rank_set_in(out->mem);
    struct harness_finding finding;
    char ranks[HARNESS_RANKS_TEXT_BYTES];

    if (harness_watch_unchanged_ns(watch) < limits->silent_ns) {
        return;
    }
    find_held(watch, &held);
    for (uint32_t r = 0; r < watch->world_size; r++) {
        const struct harness_watch_rank *self = &watch->ranks[r];

        if (!harness_watch_is_gone(watch, r) && self->state == HARNESS_WATCH_RUNNING &&
            harness_watch_is_waiting(watch, r) && !harness_rank_set_has(&held, r) &&
            harness_watch_is_complete(watch, &self->waits[0])) {
            harness_rank_set_add(&inside, r);
        }
    }
    if (harness_rank_set_is_empty(&inside)) {
        find_unseen(watch, &held, out);
        return;
    }
    if (find_idle(watch, &inside, out) || find_left_inside(watch, &inside, out)) {
        return;
    }
    harness_watch_begin(watch, HARNESS_VERDICT_HANG_CYCLE, HARNESS_MODE_BUDGET,
                        harness_rank_set_at(&inside, 0), out, &finding);
    finding.culprits = inside;
    harness_watch_say(&finding,
                      "ranks %s are inside a call to which all its members have come, and "
                      "nothing has moved for %.1f s",
                      harness_rank_set_text(&inside, ranks),
                      (double)(watch->now_ns - watch->change_ns) / 1e9);
    add_givers(watch, &inside, &finding.culprits);
    if (harness_rank_set_count(&finding.culprits) > harness_rank_set_count(&inside)) {
        harness_watch_say(&finding, "; what each gave is not compared");
    }
    harness_watch_say_where(watch, harness_rank_set_at(&inside, 0), &finding);
    harness_findings_add(out, &finding);
}
