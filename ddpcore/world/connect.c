/* See the header. */
#include "ddpcore/world/connect.h"

#include <string.h>

#include "ddpcore/transport/shm.h"
#include "ddpcore/transport/tcp.h"

ddp_status ddp_world_connect(struct ddp_world *world, const struct ddp_world_members *members,
                             uint64_t deadline_ns, struct ddp_transport **out, struct ddp_err *err)
{
    const struct ddp_shm_config shm = {.group_name = members->group_name,
                                       .member = members->member,
                                       .member_count = members->member_count,
                                       .member_rank = members->rank,
                                       .heap_bytes = world->config.heap_bytes};
    char address[64];
    const struct ddp_tcp_config tcp = {.group_name = members->group_name,
                                       .member = members->member,
                                       .member_count = members->member_count,
                                       .member_rank = members->rank,
                                       .address = address};

    if (world->config.transport == DDP_WORLD_TRANSPORT_TCP) {
        DDP_TRY(ddp_tcp_local_address(world->where.master_addr, world->where.master_port, address,
                                      sizeof(address), err));
        return ddp_tcp_create(&world->env, world->store, &tcp, deadline_ns, out, err);
    }
    return ddp_shm_create(&world->env, world->store, &shm, deadline_ns, out, err);
}

ddp_status ddp_world_schedules(struct ddp_world *world, const struct ddp_world_members *members,
                               uint64_t comm, struct ddp_transport *transport,
                               struct ddp_coll **out, struct ddp_err *err)
{
    const struct ddp_tuned_world *tuned =
        world->tuned != NULL ? ddp_tuned_find(world->tuned, members->member_count) : NULL;
    struct ddp_coll_schedule_config schedule = {
        .comm = comm,
        .algorithm = world->config.algorithm,
        .choices = tuned != NULL ? tuned->choice : NULL,
        .choice_count = tuned != NULL ? tuned->choice_count : 0,
        .segment_bytes = world->config.segment_bytes,
        .is_checked = world->config.semantics == DDP_SEMANTICS_STRICT,
        .member_rank = members->rank,
        .node_of_rank =
            world->node_of_rank != NULL ? world->node_of_rank : world->config.node_of_rank};
    ddp_status status;

    memcpy(schedule.of_kind, world->config.of_kind, sizeof(schedule.of_kind));
    status = ddp_coll_schedule_create(&world->env, transport, world->device, &schedule, out, err);
    if (status != DDP_OK) {
        transport->ops->destroy(transport);
    }
    return status;
}

ddp_status ddp_world_decorate(struct ddp_world *world, const char *group, struct ddp_coll *coll,
                              struct ddp_coll **out, struct ddp_err *err)
{
    ddp_status status = DDP_OK;

    *out = coll;
    if (world->config.decorate != NULL) {
        status = world->config.decorate(world->config.context, group, coll, out);
    }
    if (status != DDP_OK) {
        coll->ops->destroy(coll);
        return ddp_err_set(err, status, "the collectives' decorator: %s", ddp_status_text(status));
    }
    return DDP_OK;
}
