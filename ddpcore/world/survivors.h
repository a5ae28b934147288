/* Who goes on after a loss: ranks of a group that has failed agree on those that live. For whoever
 * makes its groups itself; subgroup.h has the same for an open world. */
#ifndef DDPCORE_WORLD_SURVIVORS_H
#define DDPCORE_WORLD_SURVIVORS_H

#include "ddpcore/ddp/group.h"
#include "ddpcore/store/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What was lost. */
struct ddp_lost_group {
    struct ddp_group *group; /* that has failed; members that wait in it are told */
    const uint32_t *ranks;   /* its members, rising */
    uint32_t rank_count;
    const char *name;   /* of this loss, the same on all that live; serves once */
    uint64_t settle_ns; /* how long ranks may take to come that are not known to be dead; 0: as
                         * long as it takes, and of two that died only one may be known */
    uint64_t value;     /* a number that all are to know of this rank, such as the steps that it has
                         * completed; below 2^62 */
};

/* env->rank agrees with the others through store, each call of which may take timeout_ns (0: for
 * ever). First it ends the lost group for those that have not noticed yet, so that they come, too.
 * Returns once each rank has come or is known to be dead; those that did neither until settle_ns
 * after the first one came are left out, too. out_ranks, out_values (may be NULL):
 * [loss->rank_count], the ranks rising, and the value of each. err says what is wrong. Errors:
 * E_STATE (the group has not failed), E_INVALID, E_CORRUPT (what is in the store is of another
 * loss), E_MEMBER (the others have left this rank out: it came too late), E_TIMEOUT (whoever
 * decides died meanwhile), those of the store: if rank 0 hosts it, a job cannot lose rank 0.
 */
DDP_MUST_USE ddp_status ddp_survivors_agree(struct ddp_env *env, struct ddp_store *store,
                                            uint64_t timeout_ns, const struct ddp_lost_group *loss,
                                            uint32_t *out_ranks, uint64_t *out_values,
                                            uint32_t *out_count, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
