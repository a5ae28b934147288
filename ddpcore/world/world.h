/* A trainer's way in: from the variables that its launcher has set to a process group of all ranks,
 * in one call.
 *
 *   ddp_world_open     who am I, the store, the transport, the collectives, the group
 *     ddp_create, training
 *   ddp_world_finish   all ranks have come to the end
 *   ddp_world_close
 *
 * Whoever needs something else (several groups, a transport of its own) makes the parts itself, as
 * world.c does: there is nothing in here but calls of public functions. */
#ifndef DDPCORE_WORLD_WORLD_H
#define DDPCORE_WORLD_WORLD_H

#include "ddpcore/base/param.h"
#include "ddpcore/collective/tuned.h"
#include "ddpcore/ddp/group.h"
#include "ddpcore/device/transfer.h"
#include "ddpcore/mpi/mpi.h"
#include "ddpcore/nccl/nccl.h"
#include "ddpcore/store/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Who moves the data. */
enum ddp_world_engine {
    DDP_WORLD_ENGINE_AUTO,     /* schedules, if the device's memory is the host's; else NCCL */
    DDP_WORLD_ENGINE_SCHEDULE, /* algorithms of algorithm.def, over shared memory */
    DDP_WORLD_ENGINE_NCCL,     /* NCCL's own algorithms, or one of algorithm.def over its sends */
    DDP_WORLD_ENGINE_MPI       /* MPI's collectives; mpirun must have started the ranks */
};

/* How ranks exchange messages: the engine SCHEDULE's data, and what engines agree on beside theirs.
 */
enum ddp_world_transport {
    DDP_WORLD_TRANSPORT_SHM, /* shared memory: all ranks are on one host */
    DDP_WORLD_TRANSPORT_TCP  /* sockets, from where this host reaches MASTER_ADDR */
};

/* Zero-initialised: an all-reduce by the default algorithm, strict, 10 minutes. */
struct ddp_world_config {
    uint64_t timeout_ns; /* of coming together, and of each wait; 0 = 10 minutes */
    enum ddp_semantics semantics;
    enum ddp_world_engine engine;
    enum ddp_world_transport transport;
    enum ddp_algorithm_id algorithm; /* of all-reduces; NONE: the engine's default */
    struct ddp_device
        *device;           /* borrowed, current in this thread; NULL: a CPU of the world's own */
    const char *nccl_path; /* library to load; NULL: libnccl.so.2 by name */
    const char *mpi_path;  /* of libddp_mpi.so; needed by the engine MPI */
    size_t heap_bytes;     /* shared memory of a rank, for buckets; 0 = 64 MiB, used on demand. With
                            * less than the gradients need, messages are copied: slower */
    /* Of the engine SCHEDULE: the algorithms of other kinds (NONE: the kind's default), and the
     * longest message (0: the algorithm's own). */
    enum ddp_algorithm_id of_kind[DDP_COLL_KIND_COUNT];
    size_t segment_bytes;
    /* And without algorithm, over shared memory: the file of `ddprove coll tune`, by which
     * all-reduces are done as this machine does them fastest. Rank 0 reads it for all. A group of
     * as many members as nothing was learned of takes the default algorithm. NULL: none. */
    const char *tuned_path;
    /* And of what is hierarchical: the node of each rank, size_t[world_size]. NULL: over TCP by
     * the address of each rank's host, over shared memory one node. */
    const size_t *node_of_rank;
    /* Puts a decorator around the collectives of a group, of the name "world" or a subgroup's,
     * before anything is posted: takes over inner on OK. NULL: none. */
    ddp_status (*decorate)(void *context, const char *group, struct ddp_coll *inner,
                           struct ddp_coll **out);
    void *context; /* decorate's */
};

/* The caller's storage, not moved while it is open. Members are to be read only. */
struct ddp_world {
    struct ddp_rendezvous where; /* rank, world_size, local_rank */
    struct ddp_env env;
    struct ddp_device *device;    /* the config's, or the world's own */
    struct ddp_transfer transfer; /* between the host and the device; to be used */
    struct ddp_group group;
    struct ddp_idle_process idle;
    uint64_t timeout_ns;
    struct ddp_world_config
        config;              /* as it was opened; what it borrows is there while it is open */
    struct ddp_tuned *tuned; /* of all numbers of ranks; NULL: none */
    size_t *node_of_rank;    /* found by address; NULL: the config's */
    struct ddp_store *store;
    struct ddp_coll *engine; /* under its decorators; NULL: no group */
    struct ddp_nccl_library *nccl;
    struct ddp_mpi_library *mpi;
    struct ddp_world_block *blocks;
    bool is_own_device;
};

/* Joins the group of all ranks: all must call. lookup: the environment (ddp_rendezvous_parse). On
 * an error everything is released. Errors: those of the parts, in words: a variable that is
 * missing, a rank that never came or died, a library that is not there; E_INVALID: a config whose
 * parts do not fit. */
DDP_MUST_USE ddp_status ddp_world_open(struct ddp_world *world,
                                       const char *(*lookup)(void *context, const char *name),
                                       void *context, const struct ddp_world_config *config,
                                       struct ddp_err *err);
/* Returns once all ranks have come here: nobody leaves while another one needs it. The last call on
 * the group, with nothing under way; struct ddp is destroyed before. Errors: the group's. */
DDP_MUST_USE ddp_status ddp_world_finish(struct ddp_world *world);
/* Zero-initialised, or after a failed open: does nothing. */
void ddp_world_close(struct ddp_world *world);

/* Zero-filled memory of the world's device, until the world is closed. Errors: the device's, and
 * E_NOMEM. */
DDP_MUST_USE ddp_status ddp_world_alloc(struct ddp_world *world, size_t size_bytes, void **out);
/* A matrix of f32 with its gradient, in such memory. columns 0: a vector. name is borrowed. */
DDP_MUST_USE ddp_status ddp_world_param(struct ddp_world *world, const char *name, size_t rows,
                                        size_t columns, struct ddp_param *out);

/* "rank 2: PEER_DIED: rank 1 ended": what status and the group's failure say, for people; always
 * NUL-terminated. */
void ddp_world_describe(const struct ddp_world *world, ddp_status status, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
