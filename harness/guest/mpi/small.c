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

int64_t *guest_mpi_small_result(int64_t *number)
{
    *number = 0;
    return number;
}

static int is_small_enough(const void *numbers)
{
    return guest_mpi_is_large() || numbers == NULL;
}

/* Without memory there is no array, which the library refuses. */
static void *array_of(struct guest_mpi_small *small, const void *numbers, int count)
{
    const int64_t *large = numbers;
    int *ints = malloc(((size_t)count + 1) * sizeof *ints);

    for (int i = 0; ints != NULL && i < count; i++) {
        ints[i] = (int)guest_mpi_small_one(large[i]);
    }
    small->arrays[small->count++] = ints;
    return ints;
}

void *guest_mpi_small_array(struct guest_mpi_small *small, const void *numbers, uint64_t comm)
{
    return is_small_enough(numbers) ? (void *)(uintptr_t)numbers
                                    : array_of(small, numbers, member_count(comm));
}

void *guest_mpi_small_near(struct guest_mpi_small *small, const void *numbers, uint64_t comm,
                           int is_sent)
{
    return is_small_enough(numbers) ? (void *)(uintptr_t)numbers
                                    : array_of(small, numbers, guest_mpi_near_count(comm, is_sent));
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
