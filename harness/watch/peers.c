/* Purpose: of ranks that hold each other, tell from what all other ranks did who left a call out,
 * where its own past is too short to say so.
 * Idea: ranks run the same program. Whoever had posted the same as another rank so far, and then
 * something else, while the other one posted a call that is still missing from the first, has left
 * that call out, if most ranks say so: two at least, and nobody did as it did. All others that
 * may be to blame must have done, up to where they wait, what some rank did too. Communicators that
 * were split from one another are the same one to the program: each rank has made them in the same
 * place, under the same name. */
#include <string.h>

#include "harness/watch/analyse.h"
#include "harness/watch/posts.h"

/* So many posts before the one in question have to be alike; fewer, if a rank has not more. */
enum { ALIKE = 64, SAYING_SO_MIN = 2, TIMES_DUE_MIN = 2 };

struct list {
    uint32_t rank;
    struct harness_watch_post *posts;
    size_t count;
};

/* They made it in the same place of the program. */
static bool is_same_comm(const struct harness_watch *watch, const struct list *a, size_t group_a,
                         const struct list *b, size_t group_b)
{
    const struct harness_watch_group *of_a;
    const struct harness_watch_group *of_b;

    if (group_a == HARNESS_WATCH_MESSAGES || group_b == HARNESS_WATCH_MESSAGES ||
        group_a == group_b) {
        return group_a == group_b;
    }
    of_a = &watch->groups[group_a];
    of_b = &watch->groups[group_b];
    return of_a->members[a->rank].handle == of_b->members[b->rank].handle &&
           strcmp(of_a->name, of_b->name) == 0 && !of_a->members[b->rank].is_there &&
           !of_b->members[a->rank].is_there;
}

static bool is_same_post(const struct harness_watch *watch, const struct list *a, size_t at_a,
                         const struct list *b, size_t at_b)
{
    const struct harness_watch_post *of_a = &a->posts[at_a];
    const struct harness_watch_post *of_b = &b->posts[at_b];

    return of_a->seq == of_b->seq && is_same_comm(watch, a, of_a->group, b, of_b->group);
}

static bool is_message(const struct list *list, size_t at)
{
    return list->posts[at].group == HARNESS_WATCH_MESSAGES;
}

static bool is_end(const struct list *list, size_t at, size_t next)
{
    return next >= list->count || list->posts[next].thread != list->posts[at].thread;
}

/* Place of b's post that is a's; count: b has none. A message is like any other. */
static size_t find(const struct harness_watch *watch, const struct list *a, size_t at,
                   const struct list *b)
{
    size_t i = 0;

    while (i < b->count && !is_same_post(watch, a, at, b, i)) {
        i++;
    }
    return i;
}

/* What led up to both is the same. */
static bool is_past_alike(const struct harness_watch *watch, const struct list *a, size_t at_a,
                          const struct list *b, size_t at_b)
{
    for (size_t i = 1; i <= ALIKE && i <= at_a && i <= at_b; i++) {
        if (a->posts[at_a - i].thread != a->posts[at_a].thread ||
            b->posts[at_b - i].thread != b->posts[at_b].thread) {
            break;
        }
        if (!is_same_post(watch, a, at_a - i, b, at_b - i)) {
            return false;
        }
    }
    return true;
}

/* In its past the rank went on from this post as it did now; or it went seldom from there to what
 * was due, so that ranks may differ there by design: of 80,000 drawn circles
 * (tests/unit/watch/test_circle.c) 44 innocent ranks would be named without this, and two are with
 * it. */
static bool is_own_way(const struct list *self, size_t at, size_t due)
{
    uint32_t times_due = 0;

    for (size_t i = 0; i + 1 <= at; i++) {
        if (self->posts[i].thread != self->posts[at].thread ||
            self->posts[i].group != self->posts[at].group) {
            continue;
        }
        if (self->posts[i + 1].group == self->posts[at + 1].group) {
            return true;
        }
        times_due += self->posts[i + 1].group == due;
    }
    return times_due < TIMES_DUE_MIN;
}

/* The other rank posted call `due` behind what both of them posted, and this one something else. */
static bool says_left_out(const struct harness_watch *watch, const struct list *self,
                          const struct list *other, const struct harness_watch_wait *due)
{
    size_t at = 0;
    size_t before;
    size_t own;

    while (at < other->count &&
           (other->posts[at].seq != due->seq ||
            !is_same_comm(watch, self, due->group, other, other->posts[at].group))) {
        at++;
    }
    before = at;
    while (before > 0 && before <= at && at < other->count &&
           (before == at || is_message(other, before))) {
        before--;
        if (other->posts[before].thread != other->posts[at].thread) {
            return false;
        }
    }
    if (at == other->count || before == at || is_message(other, before)) {
        return false;
    }
    own = find(watch, other, before, self);
    if (own == self->count || !is_past_alike(watch, self, own, other, before)) {
        return false;
    }
    while (before < at && !is_end(self, own, own + 1)) {
        if (!is_same_post(watch, self, own + 1, other, before + 1)) {
            return !is_own_way(self, own, due->group);
        }
        own++;
        before++;
    }
    return false;
}

/* The other rank did what this one did until it came to this wait. */
static bool is_alike_until(const struct harness_watch *watch, const struct list *self,
                           const struct list *other, const struct harness_watch_wait *wait)
{
    size_t at = self->count;
    size_t of_other;

    for (size_t i = 0; i < self->count; i++) {
        const bool is_it =
            guest_wait_is_of_ranks(wait->seq)
                ? is_message(self, i) && self->posts[i].order == UINT64_MAX
                : self->posts[i].group == wait->group && self->posts[i].seq == wait->seq;

        at = is_it ? i : at;
    }
    if (at == self->count || (is_message(self, at) && (at == 0 || is_message(self, at - 1)))) {
        return false;
    }
    of_other = find(watch, self, is_message(self, at) ? at - 1 : at, other);
    if (of_other < other->count && is_message(self, at)) {
        of_other++;
    }
    return of_other < other->count && is_same_post(watch, self, at, other, of_other) &&
           is_past_alike(watch, self, at, other, of_other);
}

/* How many ranks say that it left out a call that one of these waits for. *out: that call. */
static uint32_t count_saying_so(const struct harness_watch *watch, const struct list *lists,
                                const struct harness_rank_set *stuck, uint32_t rank,
                                struct harness_watch_wait *out)
{
    const uint32_t other = rank; /* of the two in a wait */
    uint32_t most = 0;

    for (uint32_t i = 0; i < harness_rank_set_count(stuck); i++) {
        const uint32_t waiter = harness_rank_set_at(stuck, i);

        for (uint32_t w = 0; w < watch->ranks[waiter].wait_count; w++) {
            struct harness_watch_wait due;
            uint32_t count = 0;

            if (guest_wait_is_of_ranks(watch->ranks[waiter].waits[w].seq) ||
                !harness_watch_needs_in(watch, waiter, other, watch->ranks[waiter].waits[w].group,
                                        &due)) {
                continue;
            }
            for (uint32_t r = 0; r < watch->world_size; r++) {
                count += r != rank && says_left_out(watch, &lists[rank], &lists[r], &due);
            }
            if (count > most) {
                most = count;
                *out = due;
            }
        }
    }
    return most;
}

static bool did_another_so(const struct harness_watch *watch, const struct list *lists,
                           uint32_t rank)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];

    for (uint32_t r = 0; r < watch->world_size; r++) {
        bool is_alike = r != rank && self->wait_count > 0;

        for (uint32_t w = 0; is_alike && w < self->wait_count; w++) {
            is_alike = is_alike_until(watch, &lists[rank], &lists[r], &self->waits[w]);
        }
        if (is_alike) {
            return true;
        }
    }
    return false;
}

/* Place of the rank's post that it waits in; count: none is. */
static size_t find_wait(const struct list *self, const struct harness_watch_wait *wait)
{
    size_t at = 0;

    while (at < self->count &&
           (self->posts[at].group != wait->group || self->posts[at].seq != wait->seq)) {
        at++;
    }
    return at;
}

/* The other rank went on to something else from where this one came to its post `at`, as this one
 * used to do. */
static bool says_one_more(const struct harness_watch *watch, const struct list *self, size_t at,
                          const struct list *other)
{
    const size_t own = find(watch, self, at - 1, other);

    return own < other->count && !is_end(other, own, own + 1) &&
           is_past_alike(watch, self, at - 1, other, own) &&
           !is_same_post(watch, self, at, other, own + 1) &&
           !is_own_way(self, at - 1, other->posts[own + 1].group);
}

/* How many ranks say that a call which the rank waits in was not due. *out: that call. */
static uint32_t count_saying_one_more(const struct harness_watch *watch, const struct list *lists,
                                      uint32_t rank, struct harness_watch_wait *out)
{
    uint32_t most = 0;

    for (uint32_t w = 0; w < watch->ranks[rank].wait_count; w++) {
        const struct harness_watch_wait *wait = &watch->ranks[rank].waits[w];
        const size_t at = find_wait(&lists[rank], wait);
        uint32_t count = 0;

        if (at == 0 || at == lists[rank].count || is_message(&lists[rank], at - 1) ||
            is_end(&lists[rank], at - 1, at)) {
            continue;
        }
        for (uint32_t r = 0; r < watch->world_size; r++) {
            count += r != rank && says_one_more(watch, &lists[rank], at, &lists[r]);
        }
        if (count > most) {
            most = count;
            *out = *wait;
        }
    }
    return most;
}

/* The one rank of the circle that went on to a call that was not due. */
static bool pick_one_more(const struct harness_watch *watch, const struct list *lists,
                          const struct harness_rank_set *circle, uint32_t *out_rank,
                          struct harness_watch_wait *out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < harness_rank_set_count(circle); i++) {
        const uint32_t rank = harness_rank_set_at(circle, i);
        struct harness_watch_wait wait;

        if (!did_another_so(watch, lists, rank) &&
            count_saying_one_more(watch, lists, rank, &wait) >= SAYING_SO_MIN) {
            *out_rank = rank;
            *out = wait;
            count++;
        }
    }
    return count == 1;
}

/* The one rank of the circle that did what no other one did. */
static bool pick(const struct harness_watch *watch, const struct list *lists,
                 const struct harness_rank_set *stuck, const struct harness_rank_set *circle,
                 uint32_t *out_rank, struct harness_watch_wait *out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < harness_rank_set_count(circle); i++) {
        const uint32_t rank = harness_rank_set_at(circle, i);

        if (!did_another_so(watch, lists, rank)) {
            *out_rank = rank;
            count++;
        }
    }
    return count == 1 && count_saying_so(watch, lists, stuck, *out_rank, out) >= SAYING_SO_MIN;
}

bool harness_watch_find_odd(struct harness_watch *watch, const struct harness_rank_set *stuck,
                            const struct harness_rank_set *circle, uint32_t *out_rank,
                            struct harness_watch_wait *out)
{
    struct list *lists = ddp_mem_array(watch->mem, watch->world_size, sizeof *lists);
    bool is_failed = lists == NULL;
    bool is_found;

    for (uint32_t r = 0; lists != NULL && r < watch->world_size; r++) {
        lists[r].rank = r;
        lists[r].posts = harness_watch_collect_posts(watch, r, 1, &lists[r].count);
        is_failed = is_failed || lists[r].posts == NULL;
    }
    is_found = !is_failed && (pick(watch, lists, stuck, circle, out_rank, out) ||
                              pick_one_more(watch, lists, circle, out_rank, out));
    for (uint32_t r = 0; lists != NULL && r < watch->world_size; r++) {
        ddp_mem_free(watch->mem, lists[r].posts);
    }
    ddp_mem_free(watch->mem, lists);
    watch->is_failed = watch->is_failed || is_failed;
    return is_found;
}
