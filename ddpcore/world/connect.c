/* See the header. */
#include "ddpcore/world/connect.h"

#include "ddpcore/transport/shm.h"
#include "ddpcore/transport/tcp.h"

ddp_status ddp_world_connect(struct ddp_world *world, const struct ddp_world_members *members,
                             uint64_t deadline_ns, struct ddp_transport **out, struct ddp_err *err)
{
    const struct ddp_shm_config shm = {.group_name = members->group_name,
                                       .member = members->member,
                                       .member_count = members->member_count,
                                       .member_rank = members->rank,
                                       .heap_bytes = world->heap_bytes};
    char address[64];
    const struct ddp_tcp_config tcp = {.group_name = members->group_name,
                                       .member = members->member,
                                       .member_count = members->member_count,
                                       .member_rank = members->rank,
                                       .address = address};

    if (world->transport == DDP_WORLD_TRANSPORT_TCP) {
        DDP_TRY(ddp_tcp_local_address(world->where.master_addr, world->where.master_port, address,
                                      sizeof(address), err));
        return ddp_tcp_create(&world->env, world->store, &tcp, deadline_ns, out, err);
    }
    return ddp_shm_create(&world->env, world->store, &shm, deadline_ns, out, err);
}
