/* The job of those that go on after a loss (job.on_loss: continue), as a plan of its own: its ranks
 * are the members of the new group, numbered anew. Pure data. */
#ifndef HARNESS_PLAN_CONTINUED_H
#define HARNESS_PLAN_CONTINUED_H

#include "harness/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who goes on, and from where. */
struct harness_continuation {
    const uint32_t *ranks; /* [rank_count] of the lost group, rising: member m was rank ranks[m] */
    uint32_t rank_count;
    uint32_t first_step; /* that the new group does */
    uint32_t source;     /* the member whose state all take */
};

/* *out: a copy whose job has these ranks. Faults keep their numbers; those of ranks that do not go
 * on do nothing. Where samples go on is left as it is. Its new arrays are of mem; those that the
 * first plan has are borrowed. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_plan_continue(struct ddp_mem *mem, const struct harness_plan *plan,
                                              const struct harness_continuation *who,
                                              struct harness_plan *out);
/* The new arrays. */
void harness_plan_continued_fini(struct ddp_mem *mem, const struct harness_plan *first,
                                 struct harness_plan *continued);

#ifdef __cplusplus
}
#endif
#endif
