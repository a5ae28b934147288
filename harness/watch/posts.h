/* What a rank has posted, thread by thread, whatever the communicator. */
#ifndef HARNESS_WATCH_POSTS_H
#define HARNESS_WATCH_POSTS_H

#include "harness/watch/watch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In place of a communicator: between two posts, or behind the last one, the thread has waited for
 * messages: how often, the call behind it tells. */
#define HARNESS_WATCH_MESSAGES SIZE_MAX

struct harness_watch_post {
    size_t group; /* or HARNESS_WATCH_MESSAGES; then seq is 0 */
    uint64_t seq, order;
    uint32_t thread;
};

enum { HARNESS_WATCH_PAST_MAX = 1024 }; /* so many of a rank's last posts of a communicator count */

/* The last posts of a rank, thread by thread, in order. smallest: of communicators of so many
 * members and more. NULL: out of memory. */
struct harness_watch_post *harness_watch_collect_posts(const struct harness_watch *watch,
                                                       uint32_t rank, uint64_t smallest,
                                                       size_t *out_count);

#ifdef __cplusplus
}
#endif
#endif
