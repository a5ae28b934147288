/* A world of groups over NCCL's stand-in, in one thread: loop net, loop store, one queued device
 * and one environment for each rank, virtual time, and the stand-in in turns. */
#ifndef TESTS_UNIT_NCCL_NCCL_WORLD_H
#define TESTS_UNIT_NCCL_NCCL_WORLD_H

#include "ddpcore/nccl/state.h"
#include "ddpcore/transport/loop.h"
#include "harness/task/fiber.h"
#include "tests/standin/nccl/hooks.h"
#include "tests/unit/nccl/nccl_device.h"
#include "tests/unit/nccl/nccl_turns.h"

#define NCCL_MEMBERS_MAX 8u
#define NCCL_WORKS_MAX   16u

struct nccl_rank {
    struct ddp_env env;
    struct ddp_mem_pool *pool;
    struct nccl_device device;
    struct ddp_store *store;
    struct ddp_coll *coll; /* NULL: creation failed, or killed */
    struct ddp_coll_work works[NCCL_WORKS_MAX];
    uint32_t work_count;
    struct ddp_fault_hook hook;
    enum ddp_fault_point point; /* at this point the hook answers action, else it goes on */
    enum ddp_fault_action action;
    uint32_t fired[DDP_FAULT_POINT_COUNT];
    ddp_status created;
    struct ddp_err err;
};

struct nccl_world_options {
    bool is_checked, has_revoke;
    bool is_lazy; /* NCCL's first call of a kind waits for the other members, as it does if not told
                   * otherwise */
    enum ddp_algorithm_id algorithm;
    size_t segment_bytes;
    struct ddp_progress *progress; /* of rank 0 */
    struct ddp_recorder *recorder; /* of rank 0 */
    uint64_t abort_timeout_ns, init_timeout_ns;
    uint64_t pass_ns; /* how far the clock goes while everybody waits; 0: a microsecond */
};

struct nccl_world {
    struct ddp_clock_virtual clock;
    struct ddp_idle idle;
    struct ddp_loop_net *net;
    struct ddp_nccl_library *library;
    struct nccl_world_options options;
    uint32_t count;
    struct nccl_rank ranks[NCCL_MEMBERS_MAX];
    struct harness_fiber *running; /* what nccl_world_together runs */
    uint32_t pass_count;
};

/* A world without groups. */
void nccl_world_begin(struct nccl_world *world, uint32_t count,
                      const struct nccl_world_options *options);
/* The rank joins; the status is kept in `created` too. */
ddp_status nccl_world_join(struct nccl_world *world, uint32_t rank);
/* Tell NCCL what to do from now on: tests/standin/nccl/script.c. */
void nccl_world_script(const struct nccl_world *world, const char *text);
/* part(world, rank, context) for ranks 0 to count - 1, at the same time: one goes on while another
 * waits. */
typedef void nccl_world_part(struct nccl_world *world, uint32_t rank, void *context);
void nccl_world_together(struct nccl_world *world, uint32_t count, nccl_world_part *part,
                         void *context);
/* The beginning, and all ranks join; false if one could not. */
bool nccl_world_open(struct nccl_world *world, uint32_t count,
                     const struct nccl_world_options *options);
void nccl_world_close(struct nccl_world *world);

/* Post as the rank's next work. */
ddp_status nccl_world_post(struct nccl_world *world, uint32_t rank,
                           const struct ddp_coll_args *args);
/* Let devices run, poll every pending work once, and let a microsecond pass. Returns whether all
 * works have ended. */
bool nccl_world_step(struct nccl_world *world);
/* Steps until all works have ended: for tests in which they do. */
void nccl_world_run(struct nccl_world *world);
/* Enough steps for messages to arrive and calls to come to rest. */
void nccl_world_settle(struct nccl_world *world);
void nccl_world_advance(struct nccl_world *world, uint64_t ns);
/* The rank's group fails by itself with E_STATE; returns when NCCL has let go of it. */
void nccl_world_abort(struct nccl_world *world, uint32_t rank);
/* The rank vanishes. */
void nccl_world_kill(struct nccl_world *world, uint32_t rank);

#endif
