/* A process group: a collective implementation plus sequence numbers, waiting, fault points and
 * failure handling. Every blocking call of the DDP core ends in ddp_group_wait. */
#ifndef DDPCORE_DDP_GROUP_H
#define DDPCORE_DDP_GROUP_H

#include "ddpcore/collective/collective.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the core checks, and when it says so. */
enum ddp_semantics {
    DDP_SEMANTICS_STRICT, /* check everything that must match; misuse revokes the group at once */
    DDP_SEMANTICS_PYTORCH /* PyTorch 2.7: errors when and where PyTorch raises them */
};

/* What ended a group, for people and reports. If a revocation ended it, status is the revocation's
 * status (E_UNUSED_PARAMETER, ...) and rank the one that revoked, on every member. A member that
 * learns of a death by a revocation reports E_PEER_DIED and the dead rank, as if it had seen the
 * death itself. */
struct ddp_failure {
    ddp_status status;
    int32_t rank;  /* global rank to blame, or -1 */
    uint32_t step; /* its step, when known */
    /* By status: E_UNUSED_PARAMETER, E_READY_TWICE: index of the first parameter concerned;
     * E_PEER_DIED: the dead rank; E_INJECTED: the fault point; else the collective's seq, or 0. */
    uint64_t detail;
};

/* A collective that a fault made the group post once more than it was asked to. */
struct ddp_group_duplicate;

struct ddp_group {
    struct ddp_env *env;
    struct ddp_coll *coll;
    enum ddp_semantics semantics;
    uint64_t timeout_ns; /* per wait; 0 = never */
    uint64_t seq;        /* of the last posted collective */
    uint64_t *numbers;   /* NULL, or where several groups count: ddp_group_number_by */
    uint32_t step;       /* of the optimizer step, for revocations; set by the owner */
    struct ddp_failure failure;
    struct ddp_coll_work run_work; /* of ddp_group_run and _barrier */
    struct ddp_group_duplicate *duplicates;
};

/* Takes over coll. */
void ddp_group_init(struct ddp_group *group, struct ddp_env *env, struct ddp_coll *coll,
                    enum ddp_semantics semantics, uint64_t timeout_ns);
void ddp_group_fini(struct ddp_group *group);
/* Number the collectives of several groups of this rank in one row, which goes on at *numbers; it
 * is borrowed. Every rank then counts every collective of all these groups, also those of groups
 * that it is not in, by adding 1: so numbers mean the same to all, and in strict semantics whoever
 * left out a collective of one group is found out by the next one of another. Before the first
 * post. */
void ddp_group_number_by(struct ddp_group *group, uint64_t *numbers);

/* Post work->args and set work->seq. Fault point collective/pre is passed here (collective/enqueue
 * by the implementation, inside its post): an operation skipped there completes at once and takes
 * no sequence number, one doubled there is posted twice back to back. Once the group has failed,
 * every call returns that failure's status. In strict semantics every error fails the group and
 * revokes it. */
DDP_MUST_USE ddp_status ddp_group_post(struct ddp_group *group, struct ddp_coll_work *work);
/* Let the collectives under way get on. PENDING; OK: work is complete; or its error. */
DDP_MUST_USE ddp_status ddp_group_poll(struct ddp_group *group, struct ddp_coll_work *work);
/* Until work ends or the group's timeout passes (E_TIMEOUT; in strict semantics the group is then
 * revoked). Passes collective/wait before (SKIP is honoured for buckets and used maps only: OK is
 * returned while the work is still under way) and collective/post once after it completed. */
DDP_MUST_USE ddp_status ddp_group_wait(struct ddp_group *group, struct ddp_coll_work *work);
/* The same with a time of its own in place of the group's; 0 = never. After a time-out the work
 * stays queued until the group is gone. */
DDP_MUST_USE ddp_status ddp_group_wait_for(struct ddp_group *group, struct ddp_coll_work *work,
                                           uint64_t timeout_ns);
/* As _wait, without fault points: for work that was left under way. */
DDP_MUST_USE ddp_status ddp_group_drain(struct ddp_group *group, struct ddp_coll_work *work);
/* Post and wait. */
DDP_MUST_USE ddp_status ddp_group_run(struct ddp_group *group, const struct ddp_coll_args *args);
DDP_MUST_USE ddp_status ddp_group_barrier(struct ddp_group *group);
/* A barrier that tells who does not come: everybody signals everybody. On any error is_missing
 * (bool[member count], by member) says from whom no signal had come by then, on every member that
 * came; on OK from nobody. E_TIMEOUT if one has not come after timeout_ns (0 = never); the group
 * has then failed, as after any time-out. An engine that runs no schedules knows nobody. */
DDP_MUST_USE ddp_status ddp_group_monitored_barrier(struct ddp_group *group, uint64_t timeout_ns,
                                                    bool *is_missing);
/* Tell every member that the group is unusable and why; returns status. failure becomes {status,
 * own rank}, unless the group had failed before. */
ddp_status ddp_group_revoke(struct ddp_group *group, ddp_status status, uint64_t detail);
/* Tell every member of the failure that this one has met, unless somebody has revoked the group
 * already. For whoever leaves a group that has failed: a member that ends by an error of its own,
 * and tells nobody, is noticed by those alone that wait for its messages. */
void ddp_group_pass_on(const struct ddp_group *group);
/* Another group of this rank has failed: this one ends for the same reason. Members of this one
 * that are not in that one would wait for this rank; in strict semantics, and of a death in all,
 * they are told, with the rank whose failure it was. Nothing happens if this one has failed before.
 */
void ddp_group_follow(struct ddp_group *group, const struct ddp_group *failed);

#ifdef __cplusplus
}
#endif
#endif
