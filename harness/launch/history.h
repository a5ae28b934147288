/* What a rank has posted, read from its ring as it grows: a page shows only the last post, and the
 * one that first differed from the program is the one that matters. */
#ifndef HARNESS_LAUNCH_HISTORY_H
#define HARNESS_LAUNCH_HISTORY_H

#include "ddpcore/seam/recorder.h"
#include "harness/plan/program.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_history {
    uint64_t read_count; /* ring entries read so far */
    bool is_deviating;   /* a post differed from the program; the rest is of the first such one */
    uint64_t seq, packed_op, elem_count, step;
};

/* Read on up to page's event count. Once a post differed, page is altered to show the rank as of
 * that post: what it posted later follows from it. */
void harness_history_follow(struct harness_history *history, const struct harness_program *program,
                            const struct ddp_event_entry *ring, uint64_t ring_entry_count,
                            struct ddp_page *page);

#ifdef __cplusplus
}
#endif
#endif
