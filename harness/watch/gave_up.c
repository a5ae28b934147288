/* Purpose: who is to blame for the end of a rank that gave up waiting.
 * Idea: its call failed, by a limit of time or because a rank that left closed its connection, and
 * the program ended by that. Whoever had not posted that call, and waits for nobody itself, kept it
 * waiting. One that ended is found by its own end (ends.c). */
#include "harness/watch/analyse.h"

/* The first call that the rank has posted and never seen done, where one of them failed. */
static bool find_given_up(const struct harness_watch *watch, uint32_t rank,
                          struct harness_watch_wait *out)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    if (self->state != HARNESS_WATCH_EXITED || self->code == 0) {
        return false;
    }
    for (size_t g = 0; g < watch->group_count; g++) {
        const struct harness_watch_member *member = &watch->groups[g].members[rank];

        for (size_t i = 0; member->has_broken && i < member->call_count; i++) {
            if (!member->calls[i].is_done) {
                const uint64_t seq = member->kept_seq + i;

                *out = (struct harness_watch_wait){
                    .group = g, .seq = seq, .first = seq, .waiter = (uint64_t)rank + 1};
                return true;
            }
        }
    }
    return false;
}

static bool has_left(const struct harness_watch_rank *rank)
{
    return rank->is_detached || (rank->state == HARNESS_WATCH_EXITED && rank->code == 0);
}

/* It ended by itself, and not well; or waiting itself, so that another one is to blame. */
static bool is_other(const struct harness_watch *watch, uint32_t rank, uint32_t missing)
{
    const struct harness_watch_rank *self = &watch->ranks[missing];

    if (has_left(self)) {
        return false;
    }
    if (harness_watch_is_gone(watch, missing)) {
        return self->has_broken || !harness_watch_may_be_of_launcher(self) ||
               !harness_watch_ended_before(&watch->ranks[rank], self);
    }
    return harness_watch_is_waiting(watch, missing) || self->is_ending;
}

/* culprits: who had not come to the call, if the rank has given one up and they all are to blame
 * for that. False: it is not known that they are. */
static bool find_culprits(const struct harness_watch *watch, uint32_t rank,
                          struct harness_watch_wait *out_wait, struct harness_rank_set *culprits)
{
    bool is_any = false;

    if (!find_given_up(watch, rank, out_wait)) {
        return false;
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (r == rank || !harness_watch_is_missing(watch, out_wait, r)) {
            continue;
        }
        if (is_other(watch, rank, r)) {
            return false;
        }
        is_any = true;
        if (culprits != NULL) {
            harness_rank_set_add(culprits, r);
        }
    }
    return is_any;
}

bool harness_watch_has_given_up(const struct harness_watch *watch, uint32_t rank)
{
    struct harness_watch_wait wait;

    return find_culprits(watch, rank, &wait, NULL);
}

/* All that keep the rank waiting live, and had time to end: one that ends is found by that. */
static bool is_ripe(const struct harness_watch *watch, uint32_t rank,
                    const struct harness_rank_set *culprits)
{
    for (uint32_t i = 0; i < harness_rank_set_count(culprits); i++) {
        const uint32_t r = harness_rank_set_at(culprits, i);

        if (has_left(&watch->ranks[r]) ||
            (watch->ranks[r].is_attached && !harness_watch_is_gone(watch, r) &&
             watch->now_ns - watch->ranks[rank].since_ns < HARNESS_WATCH_DIFFER_HOLD_NS)) {
            return false;
        }
    }
    return true;
}

/* The first call that members have posted differently; 0: none. Who of them is right need not be
 * known yet. */
static uint64_t differing_seq(const struct harness_watch_group *group)
{
    if (group->wrong_seq != 0) {
        return group->wrong_seq;
    }
    return group->differs_ns != 0 ? group->checked_seq + 1 : 0;
}

/* The rank has posted the call, and another one something else as its number. */
static bool is_unlike_another(const struct harness_watch *watch,
                              const struct harness_watch_group *group, uint32_t rank, uint64_t seq)
{
    const struct harness_watch_call *own = harness_watch_call_at(&group->members[rank], seq);

    for (uint32_t r = 0; own != NULL && r < watch->world_size; r++) {
        const struct harness_watch_call *other = harness_watch_call_at(&group->members[r], seq);

        if (other != NULL && !harness_watch_is_same(group, own, other)) {
            return true;
        }
    }
    return false;
}

/* The rank ended inside this call, or behind it. */
static bool is_inside(const struct harness_watch *watch, uint32_t rank, size_t g, uint64_t seq)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];
    const enum harness_watch_reach reach = harness_watch_reach_of(watch, rank, g, seq);
    /* A thread of the library ends a rank that may not wait yet for what it has posted. */
    bool is_so = watch->groups[g].members[rank].has_broken ||
                 (self->state == HARNESS_WATCH_SIGNALED && reach > HARNESS_WATCH_NOWHERE &&
                  reach < HARNESS_WATCH_DONE);

    for (uint32_t i = 0; i < self->wait_count; i++) {
        is_so = is_so || (self->waits[i].group == g && self->waits[i].seq >= seq);
    }
    return is_so;
}

/* A call that does not block lets a rank go on to the next one, whose peers may refuse it before
 * all others have come to the first. So all calls are looked at that are not compared yet. */
bool harness_watch_is_refused(const struct harness_watch *watch, uint32_t rank)
{
    for (size_t g = 0; g < watch->group_count; g++) {
        const struct harness_watch_group *group = &watch->groups[g];
        const uint64_t first = differing_seq(group);

        if (first != 0 && is_inside(watch, rank, g, first)) {
            return true;
        }
        for (uint64_t seq = group->checked_seq + 1; seq <= group->members[rank].posted; seq++) {
            if (is_unlike_another(watch, group, rank, seq) && is_inside(watch, rank, g, seq)) {
                return true;
            }
        }
    }
    return false;
}

void harness_watch_find_given_up(const struct harness_watch *watch, struct harness_findings *out)
{
    for (uint32_t rank = 0; rank < watch->world_size; rank++) {
        struct harness_rank_set culprits = harness_rank_set_in(out->mem);
        struct harness_watch_wait wait;
        struct harness_finding finding;
        char ranks[HARNESS_RANKS_TEXT_BYTES];

        if (harness_watch_is_refused(watch, rank) ||
            !find_culprits(watch, rank, &wait, &culprits) || !is_ripe(watch, rank, &culprits)) {
            continue;
        }
        harness_finding_init(&finding, out->mem,
                             watch->ranks[harness_rank_set_at(&culprits, 0)].is_attached
                                 ? HARNESS_VERDICT_HANG_NOT_JOINED
                                 : HARNESS_VERDICT_LAUNCH_MISSING_RANK,
                             HARNESS_ORACLE_MONITOR, HARNESS_MODE_BUDGET);
        finding.culprits = culprits;
        harness_rank_set_add(&finding.victims, rank);
        wait.seq = watch->groups[wait.group].members[harness_rank_set_at(&culprits, 0)].posted + 1;
        harness_watch_set_op(&watch->groups[wait.group], wait.seq,
                             harness_watch_any_call(watch, &watch->groups[wait.group], wait.seq),
                             &finding);
        finding.step = (int32_t)watch->ranks[harness_rank_set_at(&culprits, 0)].step;
        harness_watch_say(&finding, "rank %s never posted ",
                          harness_rank_set_text(&culprits, ranks));
        harness_watch_say_call(watch, &watch->groups[wait.group], wait.seq,
                               harness_watch_any_call(watch, &watch->groups[wait.group], wait.seq),
                               &finding);
        harness_watch_say(&finding,
                          "; rank %u waited for it until that failed, and exited with "
                          "code %d",
                          rank, watch->ranks[rank].code);
        harness_findings_add(out, &finding);
    }
}
