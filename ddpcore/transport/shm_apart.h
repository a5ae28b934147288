/* Messages of the shm transport that the sender's heap has no room for: a gradient larger than all
 * of it, or one that is sent while buckets fill it. Each lies apart, in an anonymous file of its
 * own, which the receiver maps; that is slow, and works for any size. Internal to the transport. */
#ifndef DDPCORE_TRANSPORT_SHM_APART_H
#define DDPCORE_TRANSPORT_SHM_APART_H

#include "ddpcore/transport/shm_segment.h"
#include "ddpcore/transport/transport.h"

/* A slot's offset then; its data say in which file. */
#define DDP_SHM_APART UINT64_MAX

/* Copies the message into a file, and says so in the slot. *out_fd: to be closed once the message
 * was acknowledged. Errors: E_NOMEM, E_NO_FD. */
DDP_MUST_USE ddp_status ddp_shm_apart_put(const struct ddp_message *message,
                                          struct ddp_shm_slot *slot, int *out_fd);
/* *out: slot->size_bytes of memory, to be unmapped. Errors: E_PEER_DIED (the file went with its
 * process), E_CORRUPT (it is shorter), E_NO_FD, E_NOMEM, E_SYSTEM. */
DDP_MUST_USE ddp_status ddp_shm_apart_map(const struct ddp_shm_slot *slot, void **out);

#endif
