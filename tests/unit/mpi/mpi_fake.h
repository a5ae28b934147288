/* A scripted MPI for groups of one process: the members begin and join in turn, a collective is
 * done once all members have started it. */
#ifndef TESTS_UNIT_MPI_MPI_FAKE_H
#define TESTS_UNIT_MPI_MPI_FAKE_H

#include "ddpcore/mpi/state.h"

#define MPI_FAKE_MEMBERS_MAX 8u
#define MPI_FAKE_ERROR       77 /* its text is "scripted" */

struct mpi_fake {
    int size;           /* what MPI counts */
    bool is_begin_hung; /* begin does not return before mpi_fake_release */
    bool is_end_hung;
    bool is_stuck;    /* no collective is ever done */
    int begin_result; /* of begin, and so on */
    int join_result, start_result, test_result, end_result;
    uint32_t end_count, start_count, progress_count;
};

/* There is one per process, as of MPI. */
extern struct mpi_fake mpi_fake;
const struct ddp_mpi_module *mpi_fake_module(void);
/* Forget everything. size: as in struct mpi_fake. */
void mpi_fake_open(uint32_t size);
/* Returns when a call hangs. */
void mpi_fake_await_hung(void);
/* Calls that hang return. */
void mpi_fake_release(void);

#endif
