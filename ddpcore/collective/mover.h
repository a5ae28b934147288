/* Somebody else's code that does all-reduces in the place of schedules, moving the data itself:
 * those of buckets and of users, and what measures its trees. It works under the executor: one
 * collective at a time, in the order of posts, over the group's transport or by something of its
 * own. To add one: fill one static const table, hand it to ddp_coll_schedule_create. */
#ifndef DDPCORE_COLLECTIVE_MOVER_H
#define DDPCORE_COLLECTIVE_MOVER_H

#include "ddpcore/collective/collective.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a collective goes by; valid until it has ended. */
struct ddp_coll_way {
    struct ddp_transport *transport;  /* messages on it must carry work->seq and signature, */
    struct ddp_message_count *counts; /* and their number: [member], shared with the schedules */
    const struct ddp_coll_work *work;
    uint64_t signature;
    bool is_checked; /* a message with another seq or signature is a mismatch */
    struct ddp_queue *queue;
    struct ddp_err *err; /* where words about an error go */
};

struct ddp_coll_mover;
struct ddp_coll_mover_ops {
    /* Begin. OK: it has ended already; PENDING: poll goes on with it. In a checked group all
     * members have posted the same. Errors end the group: E_MISMATCH, E_PEER_DIED, E_REVOKED,
     * E_UNSUPPORTED; E_IO: something else, which may be the consequence of a death: poll is then
     * called again until that is known, and must return the same. */
    ddp_status (*start)(struct ddp_coll_mover *mover, const struct ddp_coll_way *way);
    ddp_status (*poll)(struct ddp_coll_mover *mover, const struct ddp_coll_way *way);
    /* The group has ended: what runs is given up, and nothing uses the work's buffers any more. */
    void (*stop)(struct ddp_coll_mover *mover);
};
struct ddp_coll_mover {
    const struct ddp_coll_mover_ops *ops;
};

/* PENDING, or why there is no point in waiting for the other members: E_REVOKED, E_PEER_DIED. For
 * movers that do not return while they wait. */
ddp_status ddp_coll_way_check(const struct ddp_coll_way *way);

#ifdef __cplusplus
}
#endif
#endif
