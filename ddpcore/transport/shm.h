/* Shared-memory transport: real processes on one host.
 *
 * One anonymous shared segment per group (memfd: it has no name, so nothing can be left behind).
 * Member 0 makes it and publishes {pid, descriptor, nonce} in the store; the others open it through
 * /proc/<pid>/fd. Peers' deaths are seen through pidfds. */
#ifndef DDPCORE_TRANSPORT_SHM_H
#define DDPCORE_TRANSPORT_SHM_H

#include "ddpcore/seam/env.h"
#include "ddpcore/store/store.h"
#include "ddpcore/transport/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_SHM_MEMBERS_MAX 1024u

struct ddp_shm_config {
    const char *group_name; /* key prefix in the store; unique per group */
    uint32_t member, member_count;
    const uint32_t *member_rank; /* global rank of each member; NULL = identity */
    size_t heap_bytes;           /* lendable memory per member; 0 = 64 MiB (committed on use). What
                                  * does not fit is sent all the same, slowly: it is copied twice */
    uint32_t slot_count;         /* messages in flight per ordered pair; 0 = 16 */
};
/* Collective over the members: returns on each once all have attached.
 * Errors: E_INVALID (more than DDP_SHM_MEMBERS_MAX; others hear of the count), E_TIMEOUT,
 * E_PEER_DIED (store->dead_rank says who), E_SYSTEM. */
DDP_MUST_USE ddp_status ddp_shm_create(struct ddp_env *env, struct ddp_store *store,
                                       const struct ddp_shm_config *config, uint64_t deadline_ns,
                                       struct ddp_transport **out, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
