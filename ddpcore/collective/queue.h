/* The work queue of a group. Order, deaths, revocations and ends are the same for every engine; an
 * engine says how the work at the head makes progress. Works end in the order in which they were
 * posted, each once; an error ends the group and every work that is queued. Internal.
 *
 *   posted -> queued -> head -> OK        or, with the whole group,  -> an error
 *
 * To add an engine: embed a struct ddp_queue as first member, fill one static const table. */
#ifndef DDPCORE_COLLECTIVE_QUEUE_H
#define DDPCORE_COLLECTIVE_QUEUE_H

#include "ddpcore/collective/collective.h"

struct ddp_queue;

/* Slots that say so may be NULL. Those that return a status return OK, PENDING or an error. */
struct ddp_engine {
    /* Works are started as soon as they are posted; else at the first poll. */
    bool starts_at_post;
    /* An error of this member revokes the group, so that nobody waits for this member. */
    bool announces_errors;
    /* Whether the engine can do this. The arguments are within their ranges. NULL: all of them.
     * Errors: E_UNSUPPORTED. */
    ddp_status (*check)(const struct ddp_queue *queue, const struct ddp_coll_args *args);
    /* Get what the work needs, and set work->engine to it; called once, when the work is posted.
     * An error refuses this work only, except E_DEVICE, which ends the group. */
    ddp_status (*prepare)(struct ddp_queue *queue, struct ddp_coll_work *work);
    /* Give back what `prepare` got; the work is the head, and leaves the queue. */
    void (*release)(struct ddp_queue *queue, struct ddp_coll_work *work);
    /* Start or move on works behind the head, where the engine can overlap them. Called before
     * run_head, once per poll. Works that are complete end with OK even if this returns an error.
     * NULL: works do not overlap. */
    ddp_status (*run_ahead)(struct ddp_queue *queue);
    /* Move the head on as far as possible now. OK: it is complete. PENDING: it cannot go on now. An
     * error ends the group; while the queue holds it (may_be_death), the call is repeated. */
    ddp_status (*run_head)(struct ddp_queue *queue, struct ddp_coll_work *head);
    /* Whether this error may be the consequence of a member's death. *out_unexplained is what to
     * report if nobody is found dead within DDP_QUEUE_SUSPICION_NS; at once, if it may not. NULL:
     * no error is. */
    bool (*may_be_death)(struct ddp_queue *queue, ddp_status error, ddp_status *out_unexplained);
    /* Whether the head waits for nothing but messages of the queue's transport, so that an idle
     * wait may sleep until one comes. NULL: always. */
    bool (*waits_for_message)(const struct ddp_queue *queue, const struct ddp_coll_work *head);
    /* Whether the head waits for a message of this member. NULL: not known. */
    bool (*awaits)(const struct ddp_queue *queue, const struct ddp_coll_work *head,
                   uint32_t member);
    /* The group has ended with this error: stop what runs. Called once. NULL: nothing to stop. */
    void (*stop)(struct ddp_queue *queue, ddp_status status);
    /* After the group has ended: whether nothing uses the works' buffers any more. Asked at every
     * poll until it returns true. NULL: always. */
    bool (*is_quiet)(struct ddp_queue *queue);
    /* Memory as in struct ddp_coll_ops. NULL, both: the device's. */
    void *(*alloc)(struct ddp_queue *queue, size_t size_bytes);
    void (*free)(struct ddp_queue *queue, void *data);
    /* End the group, call ddp_queue_fini, and release everything. */
    void (*destroy)(struct ddp_queue *queue);
};

/* A process that dies closes its sockets first and is reported dead last, after the driver has torn
 * its GPU context down. So an error that may mean a peer's death is held for this long: within it,
 * the death becomes known, and with it who died. */
#define DDP_QUEUE_SUSPICION_NS DDP_NS_PER_S

struct ddp_queue {
    struct ddp_coll base;
    const struct ddp_engine *engine;
    /* Reports deaths and revocations. NULL: this member has left the group. */
    struct ddp_transport *transport;
    uint32_t *member_rank;     /* global rank of each member */
    struct ddp_stream *stream; /* the one on which works run; NULL: they run on the host */
    struct ddp_coll_work *head, *tail;
    ddp_status failed;       /* what ended the group, or OK; final */
    bool is_over;            /* destroy has begun */
    uint64_t death_known_ns; /* when a wait first met a death; 0 = none */
    uint64_t suspected_ns;   /* when an error that may be a death came; 0 = none */
    struct ddp_err err;      /* the engine's last error in words */
};

/* queue: zero-filled. Borrows everything but member_rank (as in ddp_coll_schedule_config), which is
 * copied. Errors: E_NOMEM; nothing is left to release then. */
DDP_MUST_USE ddp_status ddp_queue_init(struct ddp_queue *queue, const struct ddp_engine *engine,
                                       struct ddp_env *env, struct ddp_device *device,
                                       struct ddp_transport *transport, uint64_t comm,
                                       const uint32_t *member_rank);
/* No work is queued. */
void ddp_queue_fini(struct ddp_queue *queue);
/* The queue of a collective that was made by this engine; decorators' inner ones only. */
struct ddp_queue *ddp_queue_of(struct ddp_coll *coll, const struct ddp_engine *engine);

/* End the group: later posts return this error. The first error counts. */
void ddp_queue_close(struct ddp_queue *queue, ddp_status error);
/* End the group, stop what runs, and end the works as soon as nothing uses their buffers. */
void ddp_queue_fail(struct ddp_queue *queue, ddp_status error);
/* After the group has ended: end the works, if nothing uses their buffers. */
void ddp_queue_drain(struct ddp_queue *queue);

/* PENDING, or why there is no point in waiting for the other members: E_REVOKED, or E_PEER_DIED
 * once a death has been known for the transport's grace. */
ddp_status ddp_queue_check_members(struct ddp_queue *queue);
/* What to report for an error. E_PEER_DIED: it may come from a death, and somebody is dead.
 * PENDING: it may come from a death that is not known yet. Else the error, or what the engine says
 * instead.
 */
ddp_status ddp_queue_explain(struct ddp_queue *queue, ddp_status error);
/* Revoke the group with this status and the number of the work it happened in (0: none), unless it
 * is revoked already or the status is one that every member notices by itself. */
void ddp_queue_announce(struct ddp_queue *queue, ddp_status status, uint64_t seq);
/* Pass a fault point for this work. *out_skip: leave out what comes next, and report success.
 * Errors: E_INJECTED. */
ddp_status ddp_queue_pass_armed_point(const struct ddp_queue *queue, enum ddp_fault_point point,
                                      const struct ddp_coll_work *work, bool *out_skip);
static inline ddp_status ddp_queue_pass_point(const struct ddp_queue *queue,
                                              enum ddp_fault_point point,
                                              const struct ddp_coll_work *work, bool *out_skip)
{
    *out_skip = false;
    return ddp_fault_point_is_armed(queue->base.env->faults, point)
               ? ddp_queue_pass_armed_point(queue, point, work, out_skip)
               : DDP_OK;
}

/* Whether a collective has no data to move: there is nothing to do. */
static inline bool ddp_queue_is_empty(const struct ddp_coll_args *args)
{
    return args->kind != DDP_COLL_BARRIER && args->elem_count == 0;
}

/* Whether this member's input lies where its output goes. */
static inline bool ddp_queue_is_in_place(const struct ddp_coll_args *args, uint32_t member)
{
    const size_t before_bytes = member * args->elem_count * ddp_dtype_size_bytes(args->dtype);

    switch (args->kind) {
    case DDP_COLL_ALL_GATHER:
        return args->input == args->output ||
               args->input == (const char *)args->output + before_bytes;
    case DDP_COLL_REDUCE_SCATTER:
        return args->output == (const char *)args->input + before_bytes;
    case DDP_COLL_REDUCE:
        return member == args->root && args->input == args->output;
    default:
        return args->input == args->output;
    }
}

#endif
