/* How members of a group of a world exchange messages. Internal to ddpcore/world. */
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

#ifdef __cplusplus
}
#endif
#endif
