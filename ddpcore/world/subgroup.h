/* Groups of some ranks of an open world: beside the world's own group, or in its place after a
 * loss.
 *
 * A job that goes on after ranks have died:
 *   ddp_backward_end        says E_PEER_DIED (or what revoked the group), on every rank that lives
 *   ddp_destroy             ends what is under way
 *   ddp_world_survivors     who goes on, the same list on all of them
 *   ddp_subgroup_open       of that list
 *   ddp_create              on the new group: parameters are its member 0's, averages are over
 *                           its members
 *
 * Ranks may be a step apart then, as some had all buckets and others not: compare steps, and take
 * optimizer state from one rank, or from a checkpoint. What the dead ranks' shards held is missing
 * until the sampler is told of the new world. More ranks can only join at a start from a
 * checkpoint.
 *
 * The world's group is closed with the world. Engines: schedules, over the world's transport; for
 * NCCL see ddp_coll_nccl_shrink. */
#ifndef DDPCORE_WORLD_SUBGROUP_H
#define DDPCORE_WORLD_SUBGROUP_H

#include "ddpcore/world/survivors.h"
#include "ddpcore/world/world.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A group of these ranks (rising): all of them call, with the same name and list, and nobody else.
 * A name serves once in a world. Collectives of two groups are independent of each other: ranks
 * that wait for them in opposite order wait for ever. Release by ddp_group_fini, before the world.
 * Errors: E_INVALID (a list or name that cannot be), E_MEMBER (this rank is not in the list, or
 * others have another list), E_UNSUPPORTED (the world's engine), E_TIMEOUT, E_PEER_DIED. */
DDP_MUST_USE ddp_status ddp_subgroup_open(struct ddp_world *world, const char *name,
                                          const uint32_t *ranks, uint32_t rank_count,
                                          struct ddp_group *out, struct ddp_err *err);

/* Which members go on: all that live call, and get the same list. Returns once each rank has come
 * or is known to be dead; those that did neither until settle_ns after the first one came are left
 * out, too. out_ranks: uint32[loss->rank_count], rising. Errors: E_STATE (the group has not
 * failed), E_MEMBER (the others have left this rank out: it came too late), E_TIMEOUT (whoever
 * decides died meanwhile), those of the store: if rank 0 hosts it, a job cannot lose rank 0. */
DDP_MUST_USE ddp_status ddp_world_survivors(struct ddp_world *world,
                                            const struct ddp_lost_group *loss, uint32_t *out_ranks,
                                            uint32_t *out_count, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
