/* The same collectives over MPI's messages, all through rank 0. MPI's own are not used: the program
 * shows what it does by itself. An error of MPI's ends the job. */
#include <mpi.h>
#include <star.h>
#include <string.h>

static int rank, world_size;

static void give(const float *values, size_t count, int to)
{
    (void)MPI_Send(values, (int)count, MPI_FLOAT, to, 0, MPI_COMM_WORLD);
}

static void take(float *values, size_t count, int from)
{
    (void)MPI_Recv(values, (int)count, MPI_FLOAT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void star_begin(int *own_rank, int *size)
{
    (void)MPI_Init(NULL, NULL);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, own_rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, size);
}

void star_connect(int own_rank, int size, int port)
{
    (void)port; /* MPI has connected them */
    rank = own_rank;
    world_size = size;
}

void star_all_reduce(const float *in, float *out, size_t count)
{
    float other[STAR_COUNT_MAX];

    if (rank > 0) {
        give(in, count, 0);
        take(out, count, 0);
        return;
    }
    memmove(out, in, count * sizeof *out);
    for (int r = 1; r < world_size; r++) {
        take(other, count, r);
        for (size_t i = 0; i < count; i++) {
            out[i] += other[i];
        }
    }
    for (int r = 1; r < world_size; r++) {
        give(out, count, r);
    }
}

void star_broadcast(float *values, size_t count, uint32_t root)
{
    if (rank == (int)root && rank > 0) {
        give(values, count, 0);
    } else if (rank > 0) {
        take(values, count, 0);
    } else if (root > 0) {
        take(values, count, (int)root);
    }
    for (int r = 1; rank == 0 && r < world_size; r++) {
        if (r != (int)root) {
            give(values, count, r);
        }
    }
}

void star_end(void)
{
    (void)MPI_Finalize();
}
