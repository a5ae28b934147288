/* The control channel of a group whose data a library moves that names no dead member, carries no
 * reason and does not compare calls (NCCL, MPI). It runs over a transport of host memory: deaths
 * and revocations travel there, and works agree there before the library sees them. Internal. */
#ifndef DDPCORE_COLLECTIVE_CONTROL_H
#define DDPCORE_COLLECTIVE_CONTROL_H

#include "ddpcore/collective/collective.h"

/* Lies still while it is open. */
struct ddp_control {
    struct ddp_env env; /* the rank's, without faults: the group passes its points itself */
    struct ddp_device *host;
    /* Barriers whose messages carry a collective's signature; NULL: not open. */
    struct ddp_coll *coll;
    uint64_t death_known_ns; /* when a death was first seen; 0 = none */
};

/* Takes over transport if it succeeds; member_rank as in ddp_coll_schedule_config. Errors: E_NOMEM.
 * Closed in any case by ddp_control_close. */
DDP_MUST_USE ddp_status ddp_control_open(struct ddp_control *control, const struct ddp_env *env,
                                         struct ddp_transport *transport, uint64_t comm,
                                         const uint32_t *member_rank, struct ddp_err *err);
/* Leave the group, and end what is agreed on. */
void ddp_control_leave(struct ddp_control *control);
/* Leave, and release what agreements needed. */
void ddp_control_close(struct ddp_control *control);

/* Post `agreement` for a work with these args and number; poll it as any work. */
DDP_MUST_USE ddp_status ddp_control_agree(struct ddp_control *control,
                                          struct ddp_coll_work *agreement,
                                          const struct ddp_coll_work *work);
bool ddp_control_is_revoked(struct ddp_control *control);
/* Global rank of a dead member, or -1. */
int32_t ddp_control_dead_rank(struct ddp_control *control);
/* PENDING, or E_PEER_DIED: a death that has been known for the transport's grace. */
ddp_status ddp_control_look_for_death(struct ddp_control *control);
/* PENDING, or why there is no point in waiting for the other members: E_REVOKED, E_PEER_DIED. */
ddp_status ddp_control_look_at_members(struct ddp_control *control);
/* Revoke with this status and the number of the work it happened in (0: none), unless everybody
 * knows or can see it for himself. */
void ddp_control_tell(struct ddp_control *control, ddp_status status, uint64_t seq);

#endif
