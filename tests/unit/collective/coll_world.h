/* A world of collectives on the loop net in one thread: every rank is polled in turn, and when
 * nobody moves, the virtual clock goes to the next wake. */
#ifndef TESTS_UNIT_COLLECTIVE_COLL_WORLD_H
#define TESTS_UNIT_COLLECTIVE_COLL_WORLD_H

#include "ddpcore/collective/collective.h"
#include "ddpcore/transport/loop.h"

#define COLL_RANKS_MAX 16u

struct coll_rank {
    struct ddp_env env;
    struct ddp_mem_pool *pool; /* NULL once killed */
    struct ddp_device *device;
    struct ddp_coll *coll;
    struct ddp_coll_work work;
    struct ddp_fault_hook hook;
    enum ddp_fault_action action; /* what the hook answers */
    struct ddp_recorder recorder;
    void *page;
};

struct coll_world {
    struct ddp_clock_virtual clock;
    struct ddp_loop_net *net;
    uint32_t count;
    struct coll_rank ranks[COLL_RANKS_MAX];
    uint64_t *wakes; /* pending wake times, unordered */
    size_t wake_count, wake_capacity;
    struct ddp_idle idle; /* for waits while a world is created or destroyed */
};

struct coll_world_options {
    enum ddp_algorithm_id algorithm;
    const struct ddp_algorithm *other; /* of another kind than all_reduce; or NULL */
    const size_t *node_of_rank;
    size_t segment_bytes;
    bool is_checked;
    bool is_agreement;
    bool is_observed; /* recorder and observer */
    struct ddp_schedule_observer *observer;
    /* Instead of schedules: takes over transport, also on failure. */
    ddp_status (*make)(void *context, struct coll_rank *rank, struct ddp_transport *transport);
    void *context;
};

bool coll_world_open(struct coll_world *world, uint32_t count,
                     const struct coll_world_options *options);
void coll_world_close(struct coll_world *world);
/* Post ranks[rank].work.args as the next of this rank. */
ddp_status coll_world_post(struct coll_world *world, uint32_t rank);
/* Poll until no rank's work is PENDING; false when nothing more can happen. */
bool coll_world_run(struct coll_world *world);
/* One poll of every rank, then one move of the clock. False: nothing is left to wait for. */
bool coll_world_step(struct coll_world *world, bool *out_done);
/* The rank vanishes: the net is told, then its memory is dropped. */
void coll_world_kill(struct coll_world *world, uint32_t rank);
void *coll_world_alloc(struct coll_world *world, uint32_t rank, size_t size_bytes);

/* Calls check with each all-reduce in the table of algorithms. */
void coll_each_all_reduce(void (*check)(enum ddp_algorithm_id algorithm));

#endif
