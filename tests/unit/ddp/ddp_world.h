/* A world for tests of the DDP core: every rank is a thread, but only the holder of a baton runs,
 * so a run is one fixed interleaving in virtual time. Collectives are a table that all ranks share:
 * one executes, left to right over the ranks, once every member has posted it. */
#ifndef TESTS_UNIT_DDP_DDP_WORLD_H
#define TESTS_UNIT_DDP_DDP_WORLD_H

#include "ddpcore/base/clock.h"
#include "ddpcore/ddp/ddp.h"

#define WORLD_SIZE_MAX   8
#define WORLD_SEQ_MAX    512
#define WORLD_RING_COUNT 512

struct world;

struct world_rank {
    struct world *world;
    uint32_t rank;
    struct ddp_env env;
    struct ddp_group group; /* initialised before the program starts */
    struct ddp_device *device;
    struct ddp_mem_pool *pool;
    struct ddp_recorder recorder;
    void *recorder_storage;
    void *arg;
};

/* One rank's program. Returning leaves the group in good order. */
typedef void (*world_program)(struct world_rank *rank);

struct world_config {
    uint32_t world_size;
    enum ddp_semantics semantics;
    uint64_t timeout_ns; /* of waits; 0 = never */
    world_program program;
    void *arg;
    bool is_loop; /* the real thing: schedules over the loop transport, with the observer */
};

/* Run all ranks to their end. A deadlock fails the test: every wait then returns E_SYSTEM. */
void world_run(const struct world_config *config);
/* This rank is dead for the others; its program must return without another call. */
void world_die(struct world_rank *rank);
/* Collectives completed so far. */
uint64_t world_done_count(const struct world *world);
/* Arguments with which collective number seq (from 1) was executed; NULL if it was not. */
const struct ddp_coll_args *world_executed(const struct world *world, uint64_t seq);
/* Events of one kind in a rank's ring; *out: the last one, if there is any. */
uint64_t world_events(const struct world_rank *rank, enum ddp_event event,
                      struct ddp_event_entry *out);

#endif
