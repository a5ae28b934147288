/* MPI's life in a process (mpi_library.c), and the state of a group over it, shared by its queue
 * (mpi.c) and its beginning and end (mpi_group.c). Internal. */
#ifndef DDPCORE_MPI_STATE_H
#define DDPCORE_MPI_STATE_H

#include "ddpcore/collective/control.h"
#include "ddpcore/mpi/abi.h"
#include "ddpcore/mpi/mpi.h"

enum ddp_mpi_life {
    DDP_MPI_UNBORN,
    DDP_MPI_BEGINNING,
    DDP_MPI_READY,
    DDP_MPI_ENDING,
    DDP_MPI_ENDED,
    DDP_MPI_GIVEN_UP /* nothing calls it any more */
};

/* A library over this module, which outlives it. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status ddp_mpi_library_wrap(const struct ddp_mpi_module *module,
                                             struct ddp_mpi_library **out, struct ddp_err *err);
const struct ddp_mpi_module *ddp_mpi_library_module(const struct ddp_mpi_library *library);
enum ddp_mpi_life ddp_mpi_library_life(const struct ddp_mpi_library *library);
/* UNBORN or READY: start to begin; READY: start to end. Both block in a thread of the library's,
 * since a member that never comes must not hold up this one. Errors: E_STATE, E_SYSTEM (no thread).
 */
DDP_MUST_USE ddp_status ddp_mpi_library_begin(struct ddp_mpi_library *library);
DDP_MUST_USE ddp_status ddp_mpi_library_end(struct ddp_mpi_library *library);
/* PENDING, OK (READY or ENDED), E_SYSTEM (MPI refused; err), E_STATE (given up). */
ddp_status ddp_mpi_library_poll(struct ddp_mpi_library *library, struct ddp_err *err);
/* This process as MPI counts; once READY. */
void ddp_mpi_library_place(const struct ddp_mpi_library *library, uint32_t *out_rank,
                           uint32_t *out_size);
void ddp_mpi_library_give_up(struct ddp_mpi_library *library);
/* E_SYSTEM with "<what>: <MPI's text>". */
ddp_status ddp_mpi_err(const struct ddp_mpi_library *library, int result, const char *what,
                       struct ddp_err *err);

enum ddp_mpi_phase {
    DDP_MPI_AGREEING, /* members compare signatures */
    DDP_MPI_WAITING,  /* for its turn */
    DDP_MPI_RUNNING   /* started */
};

/* What a queued work needs beside itself. Kept until the group ends. */
struct ddp_mpi_job {
    struct ddp_mpi_job *next_owned; /* all jobs of the group */
    struct ddp_mpi_job *next_free;
    struct ddp_coll_work agreement; /* the same collective on the control channel */
    struct ddp_mpi_handle request;
    enum ddp_mpi_phase phase;
};

struct ddp_mpi_coll {
    struct ddp_coll base;
    struct ddp_mpi_library *library;
    const struct ddp_mpi_module *module;
    struct ddp_mpi_handle comm, joining;
    struct ddp_control control;
    bool is_checked;

    struct ddp_coll_work *head, *tail;
    struct ddp_mpi_job *jobs, *free_jobs;

    ddp_status failed; /* what ended the group, or OK */
    struct ddp_err err;
    uint64_t suspected_ns; /* when MPI reported an error; 0 = none */
};

/* End the group with this error, and its works; MPI is given up. The first error counts. */
void ddp_mpi_coll_fail(struct ddp_mpi_coll *coll, ddp_status status);

extern const struct ddp_coll_ops ddp_mpi_coll_ops;
void ddp_mpi_coll_destroy(struct ddp_coll *base);

#endif
