/* Loop transport: all ranks in one thread, messages delivered in virtual time. The simulator's
 * network. Messages carry a delivery time; they are visible once the clock has reached it. */
#ifndef DDPCORE_TRANSPORT_LOOP_H
#define DDPCORE_TRANSPORT_LOOP_H

#include "ddpcore/base/clock.h"
#include "ddpcore/seam/env.h"
#include "ddpcore/store/store.h"
#include "ddpcore/transport/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_loop_config {
    uint32_t world_size;
    uint64_t seed;              /* of delivery jitter */
    uint64_t latency_ns;        /* per message */
    uint64_t latency_jitter_ns; /* uniform in [0, jitter], drawn per (pair, message number) */
    uint64_t bytes_per_us;      /* link rate; 0 = infinite */
    struct ddp_clock *clock;
    struct ddp_mem *mem; /* outlives every rank */
    /* The rank may be able to go on at at_ns: called for messages, acknowledgements, store keys,
     * deaths and revocations. Never NULL. */
    void (*wake)(void *context, uint32_t rank, uint64_t at_ns);
    void *wake_context;
};

struct ddp_loop_net;
/* A network without ranks. *out: to be destroyed after all its endpoints. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status ddp_loop_net_create(const struct ddp_loop_config *config,
                                            struct ddp_loop_net **out);
void ddp_loop_net_destroy(struct ddp_loop_net *net);
/* The rank has died. What it had sent is still delivered; peers then see
 * E_PEER_DIED after one latency. Call before its memory is released. */
void ddp_loop_net_kill(struct ddp_loop_net *net, uint32_t rank);
/* Of a rank that dies: its group goes on without it, so that nobody waits for it at the store, and
 * nobody is told there that it is dead. Before _kill. */
void ddp_loop_net_excuse(struct ddp_loop_net *net, uint32_t rank);
/* Endpoint of env->rank in the group called group_name. member_rank: global rank of each member,
 * the same on all; NULL = identity. Errors: E_INVALID (not of this group, or joined before),
 * E_NOMEM. */
DDP_MUST_USE ddp_status ddp_loop_create(struct ddp_loop_net *net, struct ddp_env *env,
                                        const char *group_name, uint32_t member,
                                        uint32_t member_count, const uint32_t *member_rank,
                                        struct ddp_transport **out);
/* Store endpoint of env->rank on the net's table of keys. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status ddp_loop_store_create(struct ddp_loop_net *net, struct ddp_env *env,
                                              struct ddp_store **out);

#ifdef __cplusplus
}
#endif
#endif
