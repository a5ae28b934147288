/* Collectives that a job posts beside those of the DDP core: key job.posts, one text each, posted
 * in every step before the update, in their order.
 *
 *   KIND DTYPE COUNT [OP] [root N] [by ALGORITHM] [in GROUP]
 *   barrier [by ALGORITHM] [in GROUP]
 *   monitored_barrier
 *
 * as in "reduce_scatter f32 100 max by ring_reduce_scatter". COUNT is a member's, of all_to_all a
 * pair's. OP: of kinds that reduce, sum if absent. GROUP: of job.groups, whose ranks alone post it;
 * N is a place in that group then. What goes in follows from seed, step, place in the list, rank
 * and element. */
#ifndef HARNESS_PLAN_POSTED_H
#define HARNESS_PLAN_POSTED_H

#include "ddpcore/schedule/algorithm.h"
#include "harness/plan/group.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_POSTED_MAX       16u
#define HARNESS_POSTED_ELEMS_MAX (UINT64_C(1) << 20)

struct harness_posted {
    enum ddp_coll_kind kind;
    enum ddp_dtype dtype;
    enum ddp_redop redop;
    uint64_t elem_count;
    uint32_t root;
    enum ddp_algorithm_id algorithm;      /* NONE: the kind's default */
    bool is_in_place;                     /* what comes out lies where it went in */
    bool is_monitored;                    /* a barrier that tells who does not come */
    char group[HARNESS_GROUP_NAME_BYTES]; /* ""; of all ranks */
};

/* Errors: E_PARSE; err says what is wrong and what would be right. */
DDP_MUST_USE ddp_status harness_posted_parse(const char *text, struct harness_posted *out,
                                             struct ddp_err *err);
/* The group of the job in which it is posted, from 1; 0: that of all ranks. Errors: E_NOT_FOUND,
 * and those of harness_group_parse. out_group: filled in unless *out is 0. */
DDP_MUST_USE ddp_status harness_posted_group(const struct harness_posted *posted,
                                             const struct harness_job *job, uint32_t *out,
                                             struct harness_group *out_group, struct ddp_err *err);
/* What a rank puts in: ddp_coll_input_blocks(kind, ranks) * elem_count elements. */
void harness_posted_fill(const struct harness_posted *posted, uint64_t seed, uint32_t step,
                         uint32_t index, uint32_t rank, uint64_t total_count, void *out);

#ifdef __cplusplus
}
#endif
#endif
