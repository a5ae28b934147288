/* What a group of a world is made of, be it of all ranks or some. Internal to ddpcore/world. */
#ifndef DDPCORE_WORLD_CONNECT_H
#define DDPCORE_WORLD_CONNECT_H

#include "ddpcore/transport/transport.h"
#include "ddpcore/world/world.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_world_members {
    const char *group_name; /* unique in the store */
    uint32_t member, member_count;
    const uint32_t *rank; /* global rank of each member; NULL: all ranks */
};

/* By the world's transport. Errors: those of ddp_shm_create and ddp_tcp_create. */
DDP_MUST_USE ddp_status ddp_world_connect(struct ddp_world *world,
                                          const struct ddp_world_members *members,
                                          uint64_t deadline_ns, struct ddp_transport **out,
                                          struct ddp_err *err);
/* Schedules over such a transport, as the world's config says. Takes over transport, also on
 * failure. */
DDP_MUST_USE ddp_status ddp_world_schedules(struct ddp_world *world,
                                            const struct ddp_world_members *members, uint64_t comm,
                                            struct ddp_transport *transport, struct ddp_coll **out,
                                            struct ddp_err *err);
/* The config's decorator around coll, if it has one. Takes over coll, also on failure. */
DDP_MUST_USE ddp_status ddp_world_decorate(struct ddp_world *world, const char *group,
                                           struct ddp_coll *coll, struct ddp_coll **out,
                                           struct ddp_err *err);

/* advice.c: what ranks must know alike before the first collective. Reads config.tuned_path on rank
 * 0 and hands it to all. Errors: those of ddp_tuned_read, on every rank; of the store. */
DDP_MUST_USE ddp_status ddp_world_take_tuned(struct ddp_world *world, uint64_t deadline_ns,
                                             struct ddp_err *err);
/* Numbers the hosts in the order of their lowest ranks, where something hierarchical needs it. */
DDP_MUST_USE ddp_status ddp_world_find_nodes(struct ddp_world *world, uint64_t deadline_ns,
                                             struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
