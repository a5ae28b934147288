/* Collectives: operations of a whole group, posted and polled.
 *
 * Collectives of one group run in the order in which they were posted; all members must post the
 * same sequence. Decorators (observer, fault injection) implement the same table and hold `inner`.
 * To add an engine: see queue.h. To add a decorator: fill one static const table. Tests:
 * tests/unit/collective. */
#ifndef DDPCORE_COLLECTIVE_COLLECTIVE_H
#define DDPCORE_COLLECTIVE_COLLECTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/dtype.h"
#include "ddpcore/base/idle.h"
#include "ddpcore/base/status.h"
#include "ddpcore/device/device.h"
#include "ddpcore/schedule/algorithm.h"
#include "ddpcore/seam/env.h"
#include "ddpcore/transport/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_coll_args {
    enum ddp_coll_kind kind;
    enum ddp_redop redop; /* of sums (ddp_coll_kind_is_sum); SUM otherwise */
    enum ddp_dtype dtype;
    enum ddp_coll_role role; /* what it is for: part of the signature, shown in reports */
    uint32_t index;          /* bucket or chunk number, part of the signature */
    uint32_t root; /* broadcast: member that holds the data; reduce: that gets it; else 0 */
    /* == output for in place; all_gather: elem_count elements, in place they already lie at output
     * + member * elem_count; reduce_scatter, all_to_all: members * elem_count. */
    const void *input;
    /* all_reduce, broadcast, reduce on the root: elem_count; all_gather, all_to_all: members *
     * elem_count; reduce_scatter: elem_count, in place at input + member * elem_count, and nothing
     * else of the input is written. */
    void *output;
    size_t elem_count; /* per member, of all_to_all per pair; 0 is allowed everywhere */
    /* The stream that fills the input, with work that is enqueued before post; NULL: the default
     * stream. Collectives on a device wait for that work; for those on the host it is done. */
    struct ddp_stream *producer;
};

/* One posted collective. Caller's storage, not moved until it is no longer PENDING. */
struct ddp_coll_work {
    struct ddp_coll_args args; /* as posted */
    uint64_t seq;              /* set by the poster before post: 1, 2, 3, ... per group */
    ddp_status status;
    struct ddp_coll_work *next; /* in the queue */
    void *engine;               /* the engine's own data while the work is queued, else NULL */
    uint64_t observed;          /* the observer's state */
    bool is_waited;             /* the poster's: its wait for this work was recorded */
};

struct ddp_coll;

struct ddp_coll_ops {
    /* Queue a collective; work->seq and work->args are set. Buffers are borrowed until poll is not
     * PENDING. Errors are final for this work. */
    ddp_status (*post)(struct ddp_coll *coll, struct ddp_coll_work *work);
    /* Drive the group's queue; returns work's status. Errors: E_PEER_DIED, E_REVOKED, E_MISMATCH
     * (a message of another collective arrived), all of which end every queued work. */
    ddp_status (*poll)(struct ddp_coll *coll, struct ddp_coll_work *work);
    /* Make every member's queued and later works end with E_REVOKED. */
    void (*revoke)(struct ddp_coll *coll, const struct ddp_revocation *revocation);
    bool (*is_revoked)(struct ddp_coll *coll, struct ddp_revocation *out);
    /* Global rank of a dead member, or -1. */
    int32_t (*dead_rank)(struct ddp_coll *coll);
    /* Memory that collectives can use without a copy, NULL if there is none (left). As
     * ddp_transport_ops.alloc/free; space as in ddp_device_ops.alloc. */
    void *(*alloc)(struct ddp_coll *coll, size_t size_bytes, enum ddp_space space);
    void (*free)(struct ddp_coll *coll, enum ddp_space space, void *data);
    /* The last error in the words of the library underneath, "" if it has none. Borrowed until the
     * next call. */
    const char *(*last_error)(struct ddp_coll *coll);
    void (*hint)(struct ddp_coll *coll, struct ddp_idle_hint *hint);
    /* Destroys inner layers too. */
    void (*destroy)(struct ddp_coll *coll);
    /* Whether a pending work waits for a message of this member now; false if that is not known.
     * NULL: it never is. */
    bool (*awaits)(struct ddp_coll *coll, const struct ddp_coll_work *work, uint32_t member);
};

struct ddp_coll {
    const struct ddp_coll_ops *ops;
    struct ddp_env *env;
    struct ddp_device *device; /* whose memory DDP_SPACE_DEVICE is */
    uint64_t comm;             /* group identity, equal on all members */
    uint32_t member, member_count;
    const uint32_t *member_rank; /* global rank of each member; NULL = identity */
};

/* What people call a member: its global rank. */
static inline uint32_t ddp_coll_rank_of(const struct ddp_coll *coll, uint32_t member)
{
    return coll->member_rank == NULL ? member : coll->member_rank[member];
}

/* Hash of everything that must agree between members, but for the number, which messages carry
 * themselves: comm, kind, redop, dtype, root, count, role, index. */
uint64_t ddp_coll_signature(uint64_t comm, const struct ddp_coll_args *args);

/* Leave a group that cannot be made, or joined, for this failure: who waits for this member learns
 * of it. Destroys transport. */
void ddp_coll_give_up(struct ddp_env *env, struct ddp_transport *transport, ddp_status status);

struct ddp_schedule;
/* Receives each schedule the first time it is to be used, before it is; borrowed until return. With
 * a failure the collective does not start and ends with that status. */
struct ddp_schedule_observer {
    ddp_status (*used)(struct ddp_schedule_observer *observer, const struct ddp_schedule *schedule);
};

/* Emits all-reduces in the place of an algorithm of the table. */
struct ddp_schedule_emitter {
    /* Emits the steps of schedule->params.rank, which must be right as ddp_schedule_add asks, and
     * may name schedule->algorithm. It may take its time. Errors are those of the collective. */
    ddp_status (*emit)(struct ddp_schedule_emitter *emitter, struct ddp_schedule *schedule,
                       struct ddp_err *err);
};

struct ddp_coll_mover;

/* How all-reduces of up to bytes_max bytes are done. */
struct ddp_coll_choice {
    size_t bytes_max;
    enum ddp_algorithm_id algorithm;
    size_t segment_bytes; /* longest message; 0 = the algorithm's default */
};

struct ddp_coll_schedule_config {
    uint64_t comm;
    enum ddp_algorithm_id algorithm; /* of all_reduce; NONE = by choices, or its default */
    /* By size, the smallest first; larger ones are done as the last one says. Borrowed. All members
     * must have the same. */
    const struct ddp_coll_choice *choices;
    size_t choice_count; /* 0: the default algorithm does all */
    /* Of the other kinds; NONE = the kind's default. */
    enum ddp_algorithm_id of_kind[DDP_COLL_KIND_COUNT];
    size_t segment_bytes; /* longest message; 0 = the algorithm's default */
    bool is_checked;      /* compare signatures on every message (strict semantics) */
    /* No data moves: every collective runs as a barrier whose messages carry the collective's own
     * signature, so it succeeds only if all members have posted the same. Implies is_checked. */
    bool is_agreement;
    const uint32_t *member_rank;            /* global rank of each member; NULL = identity */
    const size_t *node_of_rank;             /* of each global rank; NULL: all are on one node */
    struct ddp_schedule_observer *observer; /* or NULL */
    struct ddp_schedule_emitter *emitter;   /* or NULL; borrowed */
    struct ddp_coll_mover *mover; /* does users' and buckets' all-reduces, or NULL; borrowed */
};
/* Schedules on a transport and a device: the executor. Takes over transport and borrows device.
 * Errors: E_NOT_FOUND (an algorithm of another kind; err lists the known ones), E_INVALID (choices
 * that are not in order). */
DDP_MUST_USE ddp_status ddp_coll_schedule_create(struct ddp_env *env,
                                                 struct ddp_transport *transport,
                                                 struct ddp_device *device,
                                                 const struct ddp_coll_schedule_config *config,
                                                 struct ddp_coll **out, struct ddp_err *err);

/* Decorator that records every collective from what it sees pass: posted arguments, hashes of input
 * and output (when is_hashing), completion. Updates the page's sequence words. Takes over inner.
 * The hash salt is ddp_hash_text("<role>/<index>"); barriers and empty buffers hash as 0. */
DDP_MUST_USE ddp_status ddp_coll_observer_create(struct ddp_coll *inner, bool is_hashing,
                                                 struct ddp_coll **out);

#ifdef __cplusplus
}
#endif
#endif
