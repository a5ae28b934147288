#include "harness/watch/posts.h"

#include <stdlib.h>

static int by_thread_and_order(const void *a, const void *b)
{
    const struct harness_watch_post *one = a;
    const struct harness_watch_post *other = b;

    if (one->thread != other->thread) {
        return one->thread < other->thread ? -1 : 1;
    }
    return one->order < other->order ? -1 : one->order > other->order;
}

/* Messages that were waited for come just before the post that tells of them. */
static size_t add(const struct harness_watch_call *call, size_t group, uint64_t seq,
                  struct harness_watch_post *out)
{
    size_t count = 0;

    if (call->messages != 0) {
        out[count++] =
            (struct harness_watch_post){HARNESS_WATCH_MESSAGES, 0, 2 * call->order, call->thread};
    }
    out[count++] = (struct harness_watch_post){group, seq, 2 * call->order + 1, call->thread};
    return count;
}

struct harness_watch_post *harness_watch_collect_posts(const struct harness_watch *watch,
                                                       uint32_t rank, uint64_t smallest,
                                                       size_t *out_count)
{
    size_t capacity = GUEST_THREADS_MAX;
    struct harness_watch_post *posts;

    for (size_t g = 0; g < watch->group_count; g++) {
        const size_t count = watch->groups[g].members[rank].call_count;

        capacity += 2 * (count < HARNESS_WATCH_PAST_MAX ? count : HARNESS_WATCH_PAST_MAX);
    }
    *out_count = 0;
    posts = ddp_mem_array(watch->mem, capacity, sizeof *posts);
    for (size_t g = 0; posts != NULL && g < watch->group_count; g++) {
        const struct harness_watch_member *member = &watch->groups[g].members[rank];
        const size_t first = member->call_count < HARNESS_WATCH_PAST_MAX
                                 ? 0
                                 : member->call_count - HARNESS_WATCH_PAST_MAX;

        for (size_t i = first; watch->groups[g].size >= smallest && i < member->call_count; i++) {
            if (member->calls[i].time_ns != 0) {
                *out_count += add(&member->calls[i], g, member->kept_seq + i, posts + *out_count);
            }
        }
    }
    for (uint32_t t = 0; posts != NULL && t < GUEST_THREADS_MAX; t++) {
        if (watch->ranks[rank].messages[t] != 0) {
            posts[(*out_count)++] =
                (struct harness_watch_post){HARNESS_WATCH_MESSAGES, 0, UINT64_MAX, t};
        }
    }
    if (posts != NULL) {
        qsort(posts, *out_count, sizeof *posts, by_thread_and_order);
    }
    return posts;
}
