/* A group of some ranks: a transport and an engine of its own. */
#include "ddpcore/world/subgroup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/base/hash.h"
#include "ddpcore/world/connect.h"

enum { NAME_BYTES_MAX = 64 };

static ddp_status check(const struct ddp_world *world, const char *name, const uint32_t *ranks,
                        uint32_t rank_count, struct ddp_err *err)
{
    if (name[0] == '\0' || strlen(name) > NAME_BYTES_MAX) {
        return ddp_err_set(err, DDP_E_INVALID, "a group's name has 1 to %d characters",
                           NAME_BYTES_MAX);
    }
    if (world->nccl != NULL || world->mpi != NULL) {
        return ddp_err_set(
            err, DDP_E_UNSUPPORTED,
            "group %s: groups of some ranks run by schedules, and the world's engine "
            "is another one",
            name);
    }
    for (uint32_t i = 0; i < rank_count; i++) {
        if (ranks[i] >= world->where.world_size || (i > 0 && ranks[i] <= ranks[i - 1])) {
            return ddp_err_set(err, DDP_E_INVALID,
                               "group %s: rank %" PRIu32 " in place %" PRIu32
                               ": ranks must rise, below %" PRIu32,
                               name, ranks[i], i, world->where.world_size);
        }
    }
    return DDP_OK;
}

/* *out: the rank's place in the list. */
static ddp_status find_member(const struct ddp_world *world, const char *name,
                              const uint32_t *ranks, uint32_t rank_count, uint32_t *out,
                              struct ddp_err *err)
{
    for (uint32_t i = 0; i < rank_count; i++) {
        if (ranks[i] == world->where.rank) {
            *out = i;
            return DDP_OK;
        }
    }
    return ddp_err_set(err, DDP_E_MEMBER, "rank %" PRIu32 " is not in group %s", world->where.rank,
                       name);
}

ddp_status ddp_subgroup_open(struct ddp_world *world, const char *name, const uint32_t *ranks,
                             uint32_t rank_count, struct ddp_group *out, struct ddp_err *err)
{
    char whole[NAME_BYTES_MAX + 16];
    struct ddp_world_members members = {
        .group_name = whole, .member_count = rank_count, .rank = ranks};
    struct ddp_transport *transport = NULL;
    struct ddp_coll *coll = NULL;

    DDP_TRY(check(world, name, ranks, rank_count, err));
    DDP_TRY(find_member(world, name, ranks, rank_count, &members.member, err));
    (void)snprintf(whole, sizeof(whole), "group/%s", name);
    DDP_TRY(ddp_world_connect(world, &members,
                              ddp_clock_deadline_ns(world->env.clock, world->timeout_ns),
                              &transport, err));
    /* No group has 0. */
    DDP_TRY(ddp_world_schedules(world, &members, ddp_hash_text(whole) | 1, transport, &coll, err));
    DDP_TRY(ddp_world_decorate(world, name, coll, &coll, err));
    ddp_group_init(out, &world->env, coll, world->group.semantics, world->timeout_ns);
    return DDP_OK;
}
