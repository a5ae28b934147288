/* Large counts for an MPI that has none. */
#include <limits.h>
#include <stdlib.h>

#include "harness/guest/mpi/adapter.h"

int64_t guest_mpi_small_one(int64_t count)
{
    return !guest_mpi_is_large() && count > INT_MAX ? -1 : count;
}

/* Of a communicator between two groups, the members are those of the other one. */
static int member_count(uint64_t comm)
{
    int is_inter = 0;
    int size = 0;

    (void)guest_mpi()->Comm_test_inter(comm, &is_inter);
    (void)(is_inter ? guest_mpi()->Comm_remote_size(comm, &size)
                    : guest_mpi()->Comm_size(comm, &size));
    return size;
}

/* Without memory there is no array, which the library refuses. */
void *guest_mpi_small_array(struct guest_mpi_small *small, const void *numbers, uint64_t comm)
{
    const int64_t *large = numbers;
    const int count = guest_mpi_is_large() || large == NULL ? 0 : member_count(comm);
    int *ints;

    if (count == 0) {
        return (void *)(uintptr_t)numbers;
    }
    ints = malloc((size_t)count * sizeof *ints);
    for (int i = 0; ints != NULL && i < count; i++) {
        ints[i] = (int)guest_mpi_small_one(large[i]);
    }
    small->arrays[small->count++] = ints;
    return ints;
}

void *guest_mpi_small_array_at(struct guest_mpi_small *small, const void *numbers, uint64_t comm,
                               int root)
{
    int rank = -1;

    (void)guest_mpi()->Comm_rank(comm, &rank);
    return rank == root ? guest_mpi_small_array(small, numbers, comm) : (void *)(uintptr_t)numbers;
}

void guest_mpi_small_free(struct guest_mpi_small *small)
{
    while (small->count > 0) {
        free(small->arrays[--small->count]);
    }
}
