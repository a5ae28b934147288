/* The control channel of engines whose data is moved by a library (NCCL, MPI). Such a library names
 * no dead member, gives no reason for an end, and does not compare what the members call. So a
 * second channel runs beside it, over a transport of host memory. It carries deaths and
 * revocations, and in a checked group the members agree there on each work before the library sees
 * it: a barrier whose messages carry the collective's signature. Internal. */
#ifndef DDPCORE_COLLECTIVE_CONTROL_H
#define DDPCORE_COLLECTIVE_CONTROL_H

#include "ddpcore/collective/queue.h"

/* What the engine keeps for a queued work (work->engine). First member of the engine's own struct.
 */
struct ddp_control_job {
    struct ddp_control_job *next_owned; /* all jobs of the group */
    struct ddp_control_job *next_free;
    struct ddp_coll_work *work;     /* NULL: the job is free */
    struct ddp_coll_work agreement; /* the same collective on the control channel */
    bool is_agreed;                 /* the members agree, or need not: the library may see it */
};

/* Not moved while it is open. */
struct ddp_control {
    struct ddp_queue *queue;
    bool is_checked;
    size_t job_bytes;
    struct ddp_control_job *jobs, *free_jobs;
    struct ddp_env env; /* the rank's, without faults: only the queue passes fault points */
    struct ddp_device *host;
    struct ddp_coll *channel; /* NULL: left */
    uint64_t looked_ns;       /* when ddp_control_has_left last looked */
    bool has_left;            /* another member has */
};

/* Over the transport of the queue, which is taken over, also on failure. job_bytes: the size of the
 * engine's jobs, which are zero-filled when they are made. Errors: E_NOMEM. Closed in any case by
 * ddp_control_close. */
DDP_MUST_USE ddp_status ddp_control_open(struct ddp_control *control, struct ddp_queue *queue,
                                         bool is_checked, size_t job_bytes, struct ddp_err *err);
/* Leave the group: other members see that this one departed. Ends agreements. */
void ddp_control_leave(struct ddp_control *control);
/* Leave, and release all jobs. No work is queued. */
void ddp_control_close(struct ddp_control *control);

/* A job for this work: a new one, or a used one as it was given back. Sets work->engine. Errors:
 * E_NOMEM. */
DDP_MUST_USE ddp_status ddp_control_take(struct ddp_control *control, struct ddp_coll_work *work,
                                         struct ddp_control_job **out);
/* Sets work->engine to NULL. The channel may still hold the job's agreement, but only after the
 * group has ended, when no job is taken any more. */
void ddp_control_give_back(struct ddp_control *control, struct ddp_control_job *job);

/* Start to agree on the job's work; in an unchecked group, it is agreed at once. */
DDP_MUST_USE ddp_status ddp_control_post(struct ddp_control *control, struct ddp_control_job *job);
/* OK: all members have posted the same. Errors: E_MISMATCH, E_REVOKED, E_PEER_DIED. */
DDP_MUST_USE ddp_status ddp_control_poll(struct ddp_control *control, struct ddp_control_job *job);

/* Whether a member sends nothing more: it left the group in good order, or died. What it sent
 * before and was not taken yet hides that. It looks at most once a millisecond; until then, false.
 */
bool ddp_control_has_left(struct ddp_control *control);

static inline struct ddp_control_job *ddp_control_job_of(const struct ddp_coll_work *work)
{
    return (struct ddp_control_job *)work->engine;
}

/* For struct ddp_engine: while the head waits for agreement, only a message can move it on. */
bool ddp_control_waits_for_message(const struct ddp_queue *queue, const struct ddp_coll_work *head);

#endif
