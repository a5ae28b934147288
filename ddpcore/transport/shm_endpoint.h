/* One member's end of the shm transport. Internal: shared by shm.c (the table) and shm_attach.c
 * (construction). */
#ifndef DDPCORE_TRANSPORT_SHM_ENDPOINT_H
#define DDPCORE_TRANSPORT_SHM_ENDPOINT_H

#include <poll.h>

#include "ddpcore/seam/env.h"
#include "ddpcore/transport/shm.h"
#include "ddpcore/transport/shm_segment.h"

struct ddp_shm_peer {
    struct ddp_shm_sender sender;
    struct ddp_shm_receiver receiver;
    void **staging;  /* void *[slot_count]: copy that a slot's message lies in, or NULL */
    bool *is_copied; /* bool[slot_count]: the sender's range was free at once */
    int *apart;      /* int[slot_count]: the file that a slot's message lies in, or -1 */
    uint32_t apart_count;
    uint64_t reclaimed; /* messages whose copies were given back */
    void *mapped;       /* the oldest message from there, if it lies in a file; else NULL */
    size_t mapped_bytes;
    bool is_dead;
};

struct ddp_shm_endpoint {
    struct ddp_transport base;
    struct ddp_env *env;
    struct ddp_shm_segment segment;
    struct ddp_shm_member *own;
    struct ddp_shm_heap heap;
    struct ddp_shm_peer *peers; /* [member_count] */
    struct pollfd *pidfds;      /* [member_count]; fd -1: no need to watch */
    uint64_t looked_ns;         /* when the pidfds were last looked at */
    uint32_t idle_calls;        /* calls that returned PENDING */
    int32_t dead_peer;
    bool has_attached; /* peers know of this member */
};

extern const struct ddp_transport_ops ddp_shm_ops;
void ddp_shm_endpoint_destroy(struct ddp_shm_endpoint *endpoint);

#endif
