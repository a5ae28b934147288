/* MPI's life in a process (library.c), and the state of a group over it, shared by its engine
 * (engine.c) and its beginning (group.c). Internal. */
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
/* _begin: UNBORN or READY; _end: READY. MPI blocks in both until all members have called, so they
 * run in a thread of the library; poll until they are done. Errors: E_STATE, E_SYSTEM (no thread).
 */
DDP_MUST_USE ddp_status ddp_mpi_library_begin(struct ddp_mpi_library *library);
DDP_MUST_USE ddp_status ddp_mpi_library_end(struct ddp_mpi_library *library);
/* PENDING, OK (READY or ENDED), E_SYSTEM (MPI refused; err), E_STATE (given up). */
ddp_status ddp_mpi_library_poll(struct ddp_mpi_library *library, struct ddp_err *err);
/* MPI's rank of this process, and MPI's number of processes; once READY. */
void ddp_mpi_library_place(const struct ddp_mpi_library *library, uint32_t *out_rank,
                           uint32_t *out_size);
void ddp_mpi_library_give_up(struct ddp_mpi_library *library);
/* E_SYSTEM with "<what>: <MPI's text>". */
ddp_status ddp_mpi_err(const struct ddp_mpi_library *library, int result, const char *what,
                       struct ddp_err *err);

struct ddp_mpi_job {
    struct ddp_control_job control;
    struct ddp_mpi_handle request;
    bool is_running; /* MPI has started it */
};

struct ddp_mpi_coll {
    struct ddp_queue queue;
    struct ddp_control control;
    struct ddp_mpi_library *library;
    const struct ddp_mpi_module *module;
    struct ddp_mpi_handle comm, joining;
    bool is_lost; /* MPI reported an error */
};

extern const struct ddp_engine ddp_mpi_engine;

#endif
