/* Purpose: tell which of two ranks is to blame, one of which waits for a message of the other one.
 * Idea: how often a thread waits for ranks is told with each call that it posts. A rank that always
 * did so as often before calls like this one, and less often before the last one, has left a
 * message out; the one that waits is not to blame, unless it waits once more than it ever did. */
#include "harness/guest/ddprove_guest.h"
#include "harness/watch/analyse.h"
#include "harness/watch/posts.h"

enum { LIKE_MIN = 8 }; /* so many earlier calls like it must have been alike */

/* A thread's posts, in order. */
struct thread_posts {
    const struct harness_watch *watch;
    uint32_t rank;
    const struct harness_watch_post *items;
    size_t count;
};

static const struct harness_watch_call *call_of(const struct thread_posts *self, size_t at)
{
    const struct harness_watch_post *post = &self->items[at];

    return post->group == HARNESS_WATCH_MESSAGES
               ? NULL
               : harness_watch_call_at(&self->watch->groups[post->group].members[self->rank],
                                       post->seq);
}

static bool is_like(const struct thread_posts *self, size_t a, size_t b)
{
    const struct harness_watch_call *one = call_of(self, a);
    const struct harness_watch_call *other = call_of(self, b);

    return one != NULL && other != NULL && self->items[a].group == self->items[b].group &&
           one->op == other->op && one->elem_count == other->elem_count &&
           one->bucket == other->bucket;
}

/* How often the thread waited for ranks before each earlier call like this one. The first of all
 * may stand behind what is done once. False: not always as often, or there were too few. */
static bool find_usual(const struct thread_posts *self, size_t at, uint32_t *out)
{
    uint32_t count = 0;

    for (size_t i = at; i-- > 0;) {
        const struct harness_watch_call *call = is_like(self, i, at) ? call_of(self, i) : NULL;

        if (call == NULL) {
            continue;
        }
        if (count > 0 && call->messages != *out) {
            return count >= LIKE_MIN;
        }
        *out = call->messages;
        count++;
    }
    return count >= LIKE_MIN;
}

/* The one call of the thread's last round before which it waited less often than ever. False: there
 * is none, or something else was new as well. */
static bool find_shortage(const struct thread_posts *self, size_t last, size_t *out)
{
    size_t at = last + 1;
    size_t found = self->count;

    while (at-- > 0 && (at == last || !is_like(self, at, last))) {
        const struct harness_watch_call *call = call_of(self, at);
        uint32_t usual = 0;

        if (call == NULL || !find_usual(self, at, &usual) || call->messages == usual) {
            continue;
        }
        if (call->messages > usual || found < self->count) {
            return false;
        }
        found = at;
    }
    *out = found;
    return found < self->count;
}

/* Behind its last call the thread has waited for ranks more often than ever before the next one. */
static bool is_one_more(const struct thread_posts *self, uint32_t messages)
{
    size_t last = self->count;
    uint32_t most = 0;
    uint32_t count = 0;

    while (last > 0 && call_of(self, last - 1) == NULL) {
        last--;
    }
    for (size_t i = 0; last > 0 && i + 1 < last; i++) {
        const struct harness_watch_call *next = NULL;

        for (size_t k = i + 1; k < last && next == NULL; k++) {
            next = call_of(self, k);
        }
        if (next != NULL && is_like(self, i, last - 1)) {
            most = next->messages > most ? next->messages : most;
            count++;
        }
    }
    return count >= LIKE_MIN && messages > most;
}

/* The posts of the thread within those of its rank. */
static struct thread_posts of_thread(const struct harness_watch *watch, uint32_t rank,
                                     uint32_t thread, const struct harness_watch_post *posts,
                                     size_t count)
{
    struct thread_posts self = {watch, rank, posts, 0};

    while (count > 0 && posts->thread != thread) {
        posts++;
        count--;
    }
    self.items = posts;
    while (self.count < count && posts[self.count].thread == thread) {
        self.count++;
    }
    return self;
}

/* The rank sits in a call, and has left a message out before. */
static bool has_left_out(struct harness_watch *watch, uint32_t rank,
                         struct harness_watch_unsent *out)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];
    size_t count = 0;
    struct harness_watch_post *posts = harness_watch_collect_posts(watch, rank, 1, &count);
    bool is_found = false;

    watch->is_failed = watch->is_failed || posts == NULL;
    for (uint32_t w = 0; posts != NULL && w < self->thread_wait_count && !is_found; w++) {
        const struct harness_watch_wait *wait = &self->waits[w];
        struct thread_posts thread;
        size_t last = 0;
        size_t at = 0;

        while (last < count && (posts[last].group != wait->group || posts[last].seq != wait->seq)) {
            last++;
        }
        if (last == count || guest_wait_is_of_ranks(wait->seq)) {
            continue;
        }
        thread = of_thread(watch, rank, posts[last].thread, posts, count);
        if (find_shortage(&thread, (size_t)(&posts[last] - thread.items), &at)) {
            const struct harness_watch_post *post = &thread.items[at];
            const struct harness_watch_call *call = call_of(&thread, at);

            is_found = call != NULL && find_usual(&thread, at, &out->usual);
            out->rank = rank;
            out->behind = (struct harness_watch_wait){.group = post->group, .seq = post->seq};
            out->messages = call != NULL ? call->messages : 0;
        }
    }
    ddp_mem_free(watch->mem, posts);
    return is_found;
}

/* The rank waits for a message of that other one, as often as it is used to. */
static bool waits_rightly(struct harness_watch *watch, uint32_t rank, uint32_t other)
{
    const struct harness_watch_rank *self = &watch->ranks[rank];
    size_t count = 0;
    struct harness_watch_post *posts;
    bool is_right = false;

    for (uint32_t w = 0; w < self->thread_wait_count; w++) {
        is_right = is_right || (guest_wait_is_of_ranks(self->waits[w].seq) &&
                                harness_watch_is_missing(watch, &self->waits[w], other));
    }
    if (!is_right || rank == other) {
        return false;
    }
    posts = harness_watch_collect_posts(watch, rank, 1, &count);
    watch->is_failed = watch->is_failed || posts == NULL;
    for (uint32_t t = 0; posts != NULL && t < GUEST_THREADS_MAX; t++) {
        const struct thread_posts thread = of_thread(watch, rank, t, posts, count);

        is_right = is_right && !is_one_more(&thread, self->messages[t]);
    }
    is_right = is_right && posts != NULL;
    ddp_mem_free(watch->mem, posts);
    return is_right;
}

bool harness_watch_find_unsent(struct harness_watch *watch, const struct harness_rank_set *stuck,
                               struct harness_watch_unsent *out)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < harness_rank_set_count(stuck); i++) {
        const uint32_t rank = harness_rank_set_at(stuck, i);
        struct harness_watch_unsent unsent;
        bool is_awaited = false;

        if (!has_left_out(watch, rank, &unsent)) {
            continue;
        }
        for (uint32_t k = 0; k < harness_rank_set_count(stuck); k++) {
            is_awaited = is_awaited || waits_rightly(watch, harness_rank_set_at(stuck, k), rank);
        }
        *out = unsent;
        found += is_awaited ? 1 : 2; /* whose message nobody waits for makes it unclear */
    }
    return found == 1;
}
