/* A world for tests of the prober: every rank is a fiber of the simulator's scheduler. Its
 * collective is the real executor over the loop transport, or a table in which the last member to
 * post adds up by a function of the test: an opaque collective. */
#ifndef TESTS_UNIT_RANK_PROBE_WORLD_H
#define TESTS_UNIT_RANK_PROBE_WORLD_H

#include "ddpcore/transport/loop.h"
#include "harness/rank/probe.h"
#include "harness/sim/scheduler.h"
#include "harness/sums/tree.h"

#define PROBE_RANKS_MAX  64u
#define PROBE_RING_COUNT 256u
#define PROBE_DIR        "run"
#define PROBE_TIMEOUT_NS (UINT64_C(60) * 1000000000)

struct probe_world;

struct probe_rank {
    struct probe_world *world;
    uint32_t rank;
    struct ddp_mem_pool *pool;
    struct ddp_env env;
    struct ddp_recorder recorder;
    void *page;
    struct ddp_fault_hook hook;
    uint64_t hook_count; /* armed points passed */
    struct ddp_store *store;
    struct ddp_device *device;
    struct ddp_coll *coll;
    uint64_t post_count; /* of the table */
    uint64_t end_events; /* recorded by the program */
};

/* One all-reduce of the table: input[member_count] to output[member_count]. call counts from 0. */
typedef void (*probe_sum)(struct probe_world *world, uint64_t call,
                          const struct ddp_coll_args *args, void *const *input,
                          void *const *output);

struct probe_config {
    uint32_t count;
    void (*program)(struct probe_rank *rank);
    enum ddp_algorithm_id algorithm; /* the executor's; or */
    probe_sum sum;                   /* the table's */
    struct ddp_schedule_observer *observer;
    bool is_hosted; /* rank 0 serves the store, and only while it asks it for something itself */
    void *arg;
    uint64_t seed;
};

struct probe_slot {
    struct ddp_coll_work *work[PROBE_RANKS_MAX];
    uint32_t posted;
};

struct probe_world {
    struct probe_config config;
    struct ddp_mem_pool *pool;
    struct harness_sim_scheduler scheduler;
    struct ddp_loop_net *net;
    struct ddp_files_memory *files;
    struct probe_rank ranks[PROBE_RANKS_MAX];
    struct probe_slot slots[2]; /* of the present call, and of the next */
    uint64_t call;
    bool is_revoked;
    struct ddp_revocation revocation;
    int32_t dead;                  /* of the table; -1: nobody */
    bool is_serving;               /* is_hosted: rank 0 is at the store, and not at a collective */
    struct harness_tree_map *maps; /* [map_count] what probe_read_trees gave out */
    size_t map_count, map_capacity;
};

/* Run every rank's program to its end; what they wrote stays until _close. False, with a failure
 * noted, if somebody waits for ever. */
bool probe_world_run(struct probe_world *world, const struct probe_config *config);
void probe_world_close(struct probe_world *world);
/* To the table, this rank is dead from now on. */
void probe_world_die(struct probe_rank *rank);
/* Contents of a file of the ranks' in world's memory, or NULL. */
const char *probe_world_file(struct probe_world *world, const char *path);
/* One round of the prober, from a rank's program. */
ddp_status probe_round(struct probe_rank *rank, enum harness_probe_round round,
                       const struct harness_probe_request *requests, size_t count);
/* The trees of a round as the judge reads them; the world's, valid until _close. False, with a
 * failure noted, if there are none. */
bool probe_read_trees(struct probe_world *world, const struct harness_probe_request *request,
                      enum harness_probe_round round, struct harness_tree_map *out);

#endif
