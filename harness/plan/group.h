/* Groups of some ranks: key job.groups, one text each, a name and the ranks, as in "pair 0 2".
 * Every rank of a group opens it beside the group of all ranks. job.posts says what they post in
 * it. */
#ifndef HARNESS_PLAN_GROUP_H
#define HARNESS_PLAN_GROUP_H

#include "harness/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HARNESS_GROUPS_MAX       4u
#define HARNESS_GROUP_RANKS_MAX  64u
#define HARNESS_GROUP_NAME_BYTES 32u

struct harness_group {
    char name[HARNESS_GROUP_NAME_BYTES];
    uint64_t comm; /* what its ranks record of it; never that of another group, nor 0 */
    uint32_t ranks[HARNESS_GROUP_RANKS_MAX]; /* rising */
    uint32_t rank_count;
};

/* Errors: E_PARSE; err says what is wrong and what would be right. */
DDP_MUST_USE ddp_status harness_group_parse(const char *text, struct harness_group *out,
                                            struct ddp_err *err);
/* The rank's place in the group; rank_count: it is not in it. */
uint32_t harness_group_member(const struct harness_group *group, uint32_t rank);

#ifdef __cplusplus
}
#endif
#endif
