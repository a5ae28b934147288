/* Purpose: tell from what ranks did before who has left a call out.
 * Idea: training repeats itself. What a thread posts next is foretold from its own past: the
 * longest run of communicators that led up to this point three times before, if the same one
 * followed each time. A rank that went another way, as it never had before, while others wait for
 * it in just the call that it was due to post, has strayed. A past that went another way than
 * foretold too often says nothing, and neither does a turn that other ranks took as well: the
 * program itself has gone on to something new. */
#include <string.h>

#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"
#include "harness/watch/posts.h"

enum {
    PAST_MAX = HARNESS_WATCH_PAST_MAX, /* so many of a thread's last posts are looked at */
    TIMES = 3,             /* so often a run has led up to something before it foretells that */
    NEW_RUN = 3,           /* a turn is new, if none like it was behind so many posts like these */
    RIGHT_MIN = 16,        /* a past is trusted that has foretold so often, and so often */
    RIGHT_FOR_WRONG = 32,  /* for each time that it was wrong; if nobody beside the two that */
    RIGHT_OF_TWO = 64,     /* contradict each other was there, so often, and never was wrong */
    RIGHT_OF_MESSAGES = 24 /* messages have two ends only; so often, and never was wrong */
};

/* A rank went another way than foretold: in place of its call `due_seq` of group `due` it posted
 * `taken_seq` of `taken`. */
struct turn {
    uint32_t rank;
    size_t due, taken;
    uint64_t due_seq, taken_seq;
    uint64_t right, wrong; /* how often its past had foretold what came, and how often not */
};

struct turns {
    struct ddp_mem *mem;
    struct turn *items;
    size_t count, capacity;
    bool is_failed;
};

static bool has_group(const struct harness_watch_post *posts, size_t count, size_t group)
{
    for (size_t i = 0; i < count; i++) {
        if (posts[i].group == group) {
            return true;
        }
    }
    return false;
}

/* Which communicator was to follow posts[0..at): the one that always did, at least TIMES, behind
 * the longest run that ends as these do. run[j]: how many posts before j are as those before `at`;
 * it is carried from one `at` to the next. False: nothing is foretold. *out_length: of the run. */
static bool foretell(const struct harness_watch_post *posts, size_t at, uint32_t *run,
                     size_t *out_group, size_t *out_length)
{
    uint32_t longest[TIMES] = {0}; /* falling */
    bool is_followed = false;

    for (size_t j = at - 1; j > 0; j--) {
        uint32_t length = posts[at - 1].group == posts[j - 1].group ? run[j - 1] + 1 : 0;

        run[j] = length;
        for (size_t k = 0; k < TIMES; k++) {
            const uint32_t shorter = longest[k] < length ? longest[k] : length;

            longest[k] = longest[k] < length ? length : longest[k];
            length = shorter;
        }
    }
    *out_length = longest[TIMES - 1];
    for (size_t j = at - 1; *out_length > 0 && j > 0; j--) {
        if (run[j] >= *out_length && is_followed && posts[j].group != *out_group) {
            return false;
        }
        if (run[j] >= *out_length) {
            *out_group = posts[j].group;
            is_followed = true;
        }
    }
    return is_followed;
}

/* A post of this communicator has never been behind posts like the last ones before `at`. */
static bool is_new(const struct harness_watch_post *posts, size_t at, const uint32_t *run)
{
    for (size_t j = 1; j < at; j++) {
        if (run[j] >= NEW_RUN && posts[j].group == posts[at].group) {
            return false;
        }
    }
    return true;
}

/* Which call of a group was the next one at this post. */
static uint64_t next_seq(const struct harness_watch_post *posts, size_t at, size_t group)
{
    while (at > 0 && posts[at - 1].group != group) {
        at--;
    }
    return at > 0 ? posts[at - 1].seq + 1 : 1;
}

static void add_turn(struct turns *turns, const struct turn *turn)
{
    struct turn *items =
        ddp_mem_grow(turns->mem, turns->items, turns->count, &turns->capacity, sizeof *items);

    if (items == NULL) {
        turns->is_failed = true;
        return;
    }
    turns->items = items;
    turns->items[turns->count++] = *turn;
}

/* The turns of one thread. What is foretold must be known as part of what repeats itself, and so
 * must what was posted: a communicator that is used for the first time begins something new. */
static void find_turns_of(const struct harness_watch_post *posts, size_t count, uint32_t rank,
                          struct turns *turns)
{
    uint32_t run[PAST_MAX] = {0};
    uint64_t right = 0;
    uint64_t wrong = 0;

    for (size_t at = 2; at < count; at++) {
        const struct harness_watch_post *taken = &posts[at];
        size_t due = 0;
        size_t length = 0;

        if (!foretell(posts, at, run, &due, &length) || !has_group(taken - length, length, due)) {
            continue;
        }
        if (taken->group == due) {
            right++;
        } else if (has_group(taken - length, length, taken->group)) {
            if (due != HARNESS_WATCH_MESSAGES && is_new(posts, at, run)) {
                add_turn(turns, &(struct turn){rank, due, taken->group, next_seq(posts, at, due),
                                               taken->seq, right, wrong});
            }
            wrong++;
        }
    }
}

static void find_turns(const struct harness_watch *watch, struct turns *turns)
{
    for (uint32_t r = 0; r < watch->world_size; r++) {
        size_t count = 0;
        size_t end = 0;
        /* nobody waits in a communicator of one */
        struct harness_watch_post *posts = harness_watch_collect_posts(watch, r, 2, &count);

        turns->is_failed = turns->is_failed || posts == NULL;
        for (size_t begin = 0; posts != NULL && begin < count; begin = end) {
            while (end < count && posts[end].thread == posts[begin].thread) {
                end++;
            }
            begin = end - begin > PAST_MAX ? end - PAST_MAX : begin;
            find_turns_of(posts + begin, end - begin, r, turns);
        }
        ddp_mem_free(watch->mem, posts);
    }
}

static bool is_same_name(const struct harness_watch *watch, size_t a, size_t b)
{
    if (a == HARNESS_WATCH_MESSAGES || b == HARNESS_WATCH_MESSAGES) {
        return a == b;
    }
    return strcmp(watch->groups[a].name, watch->groups[b].name) == 0;
}

/* Another rank took the turn too: away from the same call, into the same call, or between
 * communicators of these names. */
static bool is_shared(const struct harness_watch *watch, const struct turns *turns,
                      const struct turn *turn)
{
    for (size_t i = 0; i < turns->count; i++) {
        const struct turn *other = &turns->items[i];

        if (other->rank != turn->rank &&
            ((other->due == turn->due && other->due_seq == turn->due_seq) ||
             (other->taken == turn->taken && other->taken_seq == turn->taken_seq &&
              turn->taken != HARNESS_WATCH_MESSAGES) ||
             (is_same_name(watch, other->due, turn->due) &&
              is_same_name(watch, other->taken, turn->taken)))) {
            return true;
        }
    }
    return false;
}

/* Both communicators have the same two members: the rank's word stands against the other one's. */
static bool is_between_two(const struct harness_watch *watch, const struct turn *turn)
{
    const struct harness_watch_group *due = &watch->groups[turn->due];
    const struct harness_watch_group *taken;

    if (turn->taken == HARNESS_WATCH_MESSAGES) { /* who has not sent it is not shown */
        return due->size == 2;
    }
    taken = &watch->groups[turn->taken];
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (due->members[r].is_there != taken->members[r].is_there) {
            return false;
        }
    }
    return due->size == 2 && taken->size == 2;
}

/* The rank's last call there is a message's. */
static bool is_of_messages(const struct harness_watch *watch, size_t group, uint32_t rank)
{
    const struct harness_watch_member *member;

    if (group == HARNESS_WATCH_MESSAGES) {
        return true;
    }
    member = &watch->groups[group].members[rank];

    return member->call_count > 0 &&
           guest_op_kind(member->calls[member->call_count - 1].op) == DDPROVE_GUEST_SEND;
}

static bool is_trusted(const struct harness_watch *watch, const struct turn *turn)
{
    if (is_between_two(watch, turn)) {
        const bool is_message = is_of_messages(watch, turn->due, turn->rank) &&
                                is_of_messages(watch, turn->taken, turn->rank);

        return turn->right >= (is_message ? RIGHT_OF_MESSAGES : RIGHT_OF_TWO) && turn->wrong == 0;
    }
    return turn->right >= RIGHT_MIN && turn->right >= RIGHT_FOR_WRONG * turn->wrong;
}

/* One of these ranks waits for the call that was due. */
static bool is_awaited(const struct harness_watch *watch, const struct harness_rank_set *stuck,
                       const struct turn *turn)
{
    for (uint32_t i = 0; i < harness_rank_set_count(stuck); i++) {
        struct harness_watch_wait wait;

        if (harness_watch_needs_in(watch, harness_rank_set_at(stuck, i), turn->rank, turn->due,
                                   &wait) &&
            wait.seq == turn->due_seq) {
            return true;
        }
    }
    return false;
}

static bool ask_messages(struct harness_watch *watch, const struct harness_rank_set *stuck)
{
    struct harness_watch_unsent unsent;

    if (!harness_watch_find_unsent(watch, stuck, &unsent)) {
        return false;
    }
    watch->strayed.is[unsent.rank] = true;
    watch->strayed.from = unsent.behind;
    watch->strayed.messages = unsent.messages;
    watch->strayed.usual = unsent.usual;
    return true;
}

static void ask_peers(struct harness_watch *watch, const struct harness_rank_set *stuck)
{
    struct harness_rank_set circle = harness_rank_set_in(stuck->ranks.mem);
    uint32_t rank;

    harness_watch_find_circle(watch, stuck, &circle);
    if (harness_watch_find_odd(watch, stuck, &circle, &rank, &watch->strayed.from)) {
        watch->strayed.is[rank] = true;
    }
}

static void judge(struct harness_watch *watch, const struct harness_rank_set *stuck)
{
    struct turns turns = {.mem = watch->mem};
    bool is_first = true;

    memset(watch->strayed.is, 0, watch->world_size * sizeof *watch->strayed.is);
    watch->strayed.usual = 0;
    find_turns(watch, &turns);
    watch->is_failed = watch->is_failed || turns.is_failed;
    for (size_t i = 0; !turns.is_failed && i < turns.count; i++) {
        const struct turn *turn = &turns.items[i];

        if (is_trusted(watch, turn) && harness_rank_set_has(stuck, turn->rank) &&
            is_awaited(watch, stuck, turn) && !is_shared(watch, &turns, turn)) {
            if (is_first) {
                watch->strayed.from =
                    (struct harness_watch_wait){.group = turn->due, .seq = turn->due_seq};
            }
            is_first = false;
            watch->strayed.is[turn->rank] = true;
        }
    }
    if (is_first && !watch->is_failed && !ask_messages(watch, stuck)) {
        ask_peers(watch, stuck);
    }
    ddp_mem_free(watch->mem, turns.items);
}

void harness_watch_find_strayed(struct harness_watch *watch, const struct harness_rank_set *stuck,
                                struct harness_rank_set *strays, struct harness_watch_wait *out)
{
    const uint32_t count = harness_rank_set_count(stuck);

    if (watch->strayed.is == NULL) {
        watch->strayed.is = ddp_mem_array(watch->mem, watch->world_size, sizeof(bool));
        watch->strayed.stuck = 0;
    }
    if (watch->strayed.is == NULL) {
        watch->is_failed = true;
        return;
    }
    if (watch->strayed.change_ns != watch->change_ns || watch->strayed.stuck != count) {
        judge(watch, stuck);
        watch->strayed.change_ns = watch->change_ns;
        watch->strayed.stuck = count;
    }
    for (uint32_t r = 0; r < watch->world_size; r++) {
        if (watch->strayed.is[r]) {
            harness_rank_set_add(strays, r);
            *out = watch->strayed.from;
        }
    }
}
