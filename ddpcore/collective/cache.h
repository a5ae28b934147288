/* A cache of what engines made of schedules (compiled schedules, NCCL's plans), so that a repeated
 * collective neither emits its schedule again nor allocates. Bounded: the least recently used goes.
 * Internal. */
#ifndef DDPCORE_COLLECTIVE_CACHE_H
#define DDPCORE_COLLECTIVE_CACHE_H

#include "ddpcore/collective/queue.h"
#include "ddpcore/schedule/algorithm.h"
#include "ddpcore/schedule/schedule.h"

struct ddp_cache_key {
    enum ddp_coll_kind kind;
    enum ddp_dtype dtype;
    size_t elem_count; /* 0 for a barrier */
    uint32_t root;     /* 0 for all but broadcast */
    bool is_in_place;
    bool is_monitored; /* by DDP_ALGORITHM_DIRECT_BARRIER, whatever the kind's algorithm is */
};

/* First member of whatever a cache holds. */
struct ddp_cached {
    struct ddp_cache_key key;
    struct ddp_cached *chain; /* next in the cache */
    uint32_t users;           /* works queued with it */
};

#define DDP_CACHE_CHAINS 64u
#define DDP_CACHE_MAX    128u

struct ddp_cache;
struct ddp_cache_ops {
    /* Make what this key asks for; params are those of its schedule. The key is set afterwards. */
    ddp_status (*create)(struct ddp_cache *cache, const struct ddp_schedule_params *params,
                         struct ddp_cached **out, struct ddp_err *err);
    void (*destroy)(struct ddp_cache *cache, struct ddp_cached *cached);
};

/* Zero-filled; its owner sets the fields above `chain`. */
struct ddp_cache {
    const struct ddp_cache_ops *ops;
    struct ddp_env *env; /* whose faults alter schedules; NULL: none do */
    struct ddp_mem *mem;
    uint32_t member, member_count;
    size_t segment_bytes;                                       /* 0 = the algorithm's default */
    const struct ddp_algorithm *algorithm[DDP_COLL_KIND_COUNT]; /* NULL: the kind is not used */
    const struct ddp_algorithm *present;    /* of the key that `create` is called for */
    const struct ddp_coll_choice *choices;  /* of all-reduces, by size; borrowed */
    size_t choice_count;                    /* 0: algorithm and segment_bytes hold for all */
    const uint32_t *node_of_rank;           /* of each member, or NULL; borrowed */
    struct ddp_schedule_observer *observer; /* or NULL */
    struct ddp_schedule_emitter *emitter;   /* of all-reduces, or NULL: the algorithm's */

    struct ddp_cached *chain[DDP_CACHE_CHAINS];
    uint32_t count;
};

/* What these arguments ask for, on this member. */
static inline struct ddp_cache_key ddp_cache_key_of(const struct ddp_coll_args *args,
                                                    uint32_t member)
{
    struct ddp_cache_key key;

    key.kind = args->kind;
    key.is_monitored = args->kind == DDP_COLL_BARRIER && args->role == DDP_ROLE_MONITORED;
    key.dtype = args->dtype;
    key.elem_count = args->kind == DDP_COLL_BARRIER ? 0 : args->elem_count;
    key.root = ddp_coll_kind_has_root(args->kind) ? args->root : 0;
    /* The input of other members than the root is not used. */
    key.is_in_place = (args->kind == DDP_COLL_BROADCAST && member != args->root) ||
                      ddp_queue_is_in_place(args, member);
    return key;
}

/* Find or create it; its users are counted up. If the cache is full, one without users
 * goes. */
DDP_MUST_USE ddp_status ddp_cache_take(struct ddp_cache *cache, const struct ddp_cache_key *key,
                                       struct ddp_cached **out, struct ddp_err *err);
void ddp_cache_give_back(struct ddp_cached *cached);
/* Nothing in it has users. */
void ddp_cache_fini(struct ddp_cache *cache);

#endif
