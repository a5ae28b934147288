/* Rank programs on tcp, over the loopback device. */
#include "ddpcore/transport/tcp.h"
#include "tests/unit/transport/transport_ranks.h"

static ddp_status open_tcp(struct rank_context *context, uint64_t deadline_ns, struct ddp_err *err)
{
    const struct ddp_tcp_config config = {.group_name = "test",
                                          .member = context->rank,
                                          .member_count = context->count,
                                          .address = "127.0.0.1",
                                          .slot_count = 8};

    return ddp_tcp_create(context->env, context->store, &config, deadline_ns, &context->transport,
                          err);
}

void ranks_run_tcp(uint32_t count, rank_program *program)
{
    ranks_run_processes(count, open_tcp, program);
}
