/* An MPI program that knows nothing of ddprove: three communicators, collectives that block and
 * that do not. What goes wrong in it is asked for on the command line.
 *
 * Usage: mpi_program [FAULT RANK STEP] */
#include <mpi.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 256, STEPS = 60 };

static const char *fault = "";
static int fault_rank = -1, fault_step = -1;
static int rank;
static float in[COUNT], out[COUNT];
static MPI_Comm half, copy;

static bool is_now(const char *name, int step)
{
    return rank == fault_rank && step == fault_step && strcmp(fault, name) == 0;
}

static void die(int step)
{
    if (is_now("kill", step)) {
        (void)raise(SIGKILL);
    }
    if (is_now("stop", step)) {
        (void)raise(SIGSTOP);
    }
    if (is_now("hang", step)) {
        (void)pause();
    }
}

/* Rank 1 takes two communicators in another order than the others. */
static void cross(int step)
{
    if (strcmp(fault, "cross") == 0 && step == fault_step) {
        MPI_Barrier(rank == 1 ? copy : MPI_COMM_WORLD);
        MPI_Barrier(rank == 1 ? MPI_COMM_WORLD : copy);
    }
}

static void train(int step)
{
    MPI_Request requests[2];

    die(step);
    if (!is_now("skip", step)) {
        MPI_Allreduce(in, out, is_now("count", step) ? COUNT / 2 : COUNT, MPI_FLOAT,
                      is_now("max", step) ? MPI_MAX : MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Iallreduce(in, out, COUNT / 4, MPI_FLOAT, MPI_SUM, half, &requests[0]);
    MPI_Ibarrier(copy, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    if (!is_now("lone", step)) {
        MPI_Bcast(out, 16, MPI_FLOAT, is_now("root", step) ? 1 : 0, half);
    }
    cross(step);
}

/* One of each other kind that moves data. */
static void move(void)
{
    static float many[COUNT * 64];
    int size = 1;

    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 0; i < COUNT * 64; i++) {
        many[i] = (float)(rank * i);
    }
    if (size > 64) {
        return;
    }
    MPI_Reduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, size - 1, MPI_COMM_WORLD);
    MPI_Gather(in, COUNT, MPI_FLOAT, many, COUNT, MPI_FLOAT, 0, MPI_COMM_WORLD);
    MPI_Scatter(many, COUNT, MPI_FLOAT, out, COUNT, MPI_FLOAT, 0, MPI_COMM_WORLD);
    MPI_Allgather(out, COUNT, MPI_FLOAT, many, COUNT, MPI_FLOAT, MPI_COMM_WORLD);
    MPI_Reduce_scatter_block(many, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allgather(MPI_IN_PLACE, 0, MPI_FLOAT, many, COUNT, MPI_FLOAT, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    if (argc > 3) {
        fault = argv[1];
        fault_rank = (int)strtol(argv[2], NULL, 10);
        fault_step = (int)strtol(argv[3], NULL, 10);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    for (int i = 0; i < COUNT; i++) {
        in[i] = (float)(rank + i);
    }
    for (int step = 0; step < STEPS; step++) {
        train(step);
    }
    move();
    MPI_Comm_free(&half);
    MPI_Comm_free(&copy);
    MPI_Finalize();
    return 0;
}
