/* Who a rank's neighbours are in a communicator with a topology. */
#include <stdlib.h>

#include "harness/guest/call.h"
#include "harness/guest/mpi/adapter.h"

/* Neighbours that are there to be sent to and received from alike. */
static int count_of(uint64_t comm, enum guest_mpi_topology topology)
{
    int rank = 0;
    int count = 0;

    if (topology == GUEST_MPI_GRID) {
        return guest_mpi()->Cartdim_get(comm, &count) == 0 ? 2 * count : -1;
    }
    return guest_mpi()->Comm_rank(comm, &rank) == 0 &&
                   guest_mpi()->Graph_neighbors_count(comm, rank, &count) == 0
               ? count
               : -1;
}

int guest_mpi_near_count(uint64_t comm, int is_sent)
{
    const struct guest_mpi_names *names = guest_mpi_names();
    int from_count = 0;
    int to_count = 0;
    int is_weighted = 0;
    int topology = 0;

    if (guest_mpi()->Topo_test(comm, &topology) != 0) {
        return 0;
    }
    if (topology == names->DIST_GRAPH) {
        (void)guest_mpi()->Dist_graph_neighbors_count(comm, &from_count, &to_count, &is_weighted);
        return is_sent ? to_count : from_count;
    }
    from_count = topology == names->CART    ? count_of(comm, GUEST_MPI_GRID)
                 : topology == names->GRAPH ? count_of(comm, GUEST_MPI_GRAPH)
                                            : 0;
    return from_count > 0 ? from_count : 0;
}

static int fill(uint64_t comm, enum guest_mpi_topology topology, int count, int *out)
{
    int rank = 0;
    int result = guest_mpi()->Comm_rank(comm, &rank);

    if (topology == GUEST_MPI_GRAPH) {
        return result != 0 ? result : guest_mpi()->Graph_neighbors(comm, rank, count, out);
    }
    for (int i = 0; i < count && result == 0; i += 2) {
        result = guest_mpi()->Cart_shift(comm, i / 2, 1, &out[i], &out[i + 1]);
    }
    return result;
}

static void show_alike(uint64_t comm, uint32_t handle, enum guest_mpi_topology topology)
{
    const int count = count_of(comm, topology);
    int *ranks = count >= 0 ? malloc(((size_t)count + 1) * sizeof *ranks) : NULL;

    if (ranks != NULL && fill(comm, topology, count, ranks) == 0) {
        guest_comm_near(handle, ranks, count, NULL, 0);
    }
    free(ranks);
}

static void show_directed(uint64_t comm, uint32_t handle)
{
    int from_count = 0;
    int to_count = 0;
    int is_weighted = 0;
    int *ranks = NULL;
    int *weights = NULL;
    size_t size;

    if (guest_mpi()->Dist_graph_neighbors_count(comm, &from_count, &to_count, &is_weighted) != 0) {
        return;
    }
    size = (size_t)from_count + (size_t)to_count + 1;
    ranks = malloc(size * sizeof *ranks);
    weights = malloc(size * sizeof *weights);
    if (ranks != NULL && weights != NULL &&
        guest_mpi()->Dist_graph_neighbors(comm, from_count, ranks, weights, to_count,
                                          ranks + from_count, weights + from_count) == 0) {
        guest_comm_near(handle, ranks, from_count, ranks + from_count, to_count);
    }
    free(ranks);
    free(weights);
}

void guest_mpi_show_near(uint64_t comm, uint32_t handle, enum guest_mpi_topology topology)
{
    switch (topology) {
    case GUEST_MPI_GRID:
    case GUEST_MPI_GRAPH:
        show_alike(comm, handle, topology);
        break;
    case GUEST_MPI_DIRECTED:
        show_directed(comm, handle);
        break;
    case GUEST_MPI_NO_TOPOLOGY:
        break;
    }
}
