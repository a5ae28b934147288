/* The cost of MPI's all-reduce under the preloaded adapter; beside it the same call, which the
 * adapter does not see. */
#include <mpi.h>

#include "tests/bench/guest_cost.h"

static void barrier(void)
{
    (void)PMPI_Barrier(MPI_COMM_WORLD);
}

static void bare(const float *in, float *out, size_t count)
{
    (void)PMPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, (int)count, MPI_FLOAT, MPI_SUM,
                         MPI_COMM_WORLD);
}

static void shown(const float *in, float *out, size_t count)
{
    (void)MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, (int)count, MPI_FLOAT, MPI_SUM,
                        MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    struct cost_program program = {
        .name = "Open MPI, shared memory", .barrier = barrier, .bare = bare, .shown = shown};

    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &program.rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &program.ranks);
    cost_measure(&program);
    return MPI_Finalize();
}
