/* An MPI program whose ranks never sit in a call to wait for a message, or for a barrier: they ask
 * whether it has come, again and again.
 *
 * Usage: mpi_polls messages|barrier|parts [hang|inside RANK STEP] inside: it stands still while the
 * others ask for what it has begun
 * mpi_polls --has-parts: 0, if this MPI has messages in parts */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 30, PARTS = 4 };

static const char *fault = "";
static int fault_rank = -1, fault_step = -1;
static int rank, size;

static void stand_still(const char *name, int step)
{
    if (rank == fault_rank && step == fault_step && strcmp(fault, name) == 0) {
        (void)pause();
    }
}

static void expect(double got, double expected)
{
    if (got != expected) {
        (void)fprintf(stderr, "%g, not %g\n", got, expected);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

/* Until one of the two is done, and then the other one. */
static void ask_for_each(MPI_Request requests[2], bool is_some)
{
    MPI_Status statuses[2];
    int indices[2];
    int index = 0;
    int done = 0;

    while (done < 2) {
        int now = 0;

        if (is_some) {
            MPI_Testsome(2, requests, &now, indices, statuses);
        } else {
            MPI_Testany(2, requests, &index, &now, &statuses[0]);
        }
        done += now;
    }
}

/* The neighbour's number, asked for in another way in each step. */
static void messages(int step)
{
    const int before = (rank + size - 1) % size;
    double out = rank + step;
    double in = 0;
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[2];
    MPI_Message message;
    int is_there = 0;

    stand_still("hang", step);
    MPI_Isend(&out, 1, MPI_DOUBLE, (rank + 1) % size, step, MPI_COMM_WORLD, &requests[0]);
    if (step % 6 == 0) {
        while (!is_there) {
            MPI_Iprobe(before, step, MPI_COMM_WORLD, &is_there, &statuses[0]);
        }
        MPI_Recv(&in, 1, MPI_DOUBLE, before, step, MPI_COMM_WORLD, &statuses[0]);
    } else if (step % 6 == 1) {
        while (!is_there) {
            MPI_Improbe(before, step, MPI_COMM_WORLD, &is_there, &message, &statuses[0]);
        }
        MPI_Mrecv(&in, 1, MPI_DOUBLE, &message, &statuses[0]);
    } else {
        MPI_Irecv(&in, 1, MPI_DOUBLE, before, step, MPI_COMM_WORLD, &requests[1]);
    }
    if (step % 6 == 2 || step % 6 == 3) {
        ask_for_each(requests, step % 6 == 3);
    }
    while (step % 6 == 4 && !is_there) {
        MPI_Request_get_status(requests[1], &is_there, &statuses[0]);
    }
    for (is_there = 0; !is_there;) {
        MPI_Testall(2, requests, &is_there, statuses);
    }
    expect(in, before + step);
}

/* All ranks meet, and none of them waits for that in a call; then they do. */
static void barrier(int step)
{
    MPI_Request request;
    double out = step;
    double in = 0;
    int is_there = 0;

    stand_still("hang", step);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    stand_still("inside", step);
    while (!is_there) {
        MPI_Test(&request, &is_there, MPI_STATUS_IGNORE);
    }
    MPI_Allreduce(&out, &in, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    expect(in, (double)size * step);
}

#if MPI_VERSION >= 4
static void parts(int step)
{
    static MPI_Request requests[2];
    static double in[PARTS], out[PARTS];
    double sum = 0;
    int is_there = 0;

    if (step == 0) {
        MPI_Psend_init(out, PARTS, 1, MPI_DOUBLE, (rank + 1) % size, 1, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &requests[0]);
        MPI_Precv_init(in, PARTS, 1, MPI_DOUBLE, (rank + size - 1) % size, 1, MPI_COMM_WORLD,
                       MPI_INFO_NULL, &requests[1]);
    }
    stand_still("hang", step);
    MPI_Startall(2, requests);
    for (int part = 0; part < PARTS; part++) {
        out[part] = rank + step;
        MPI_Pready(part, requests[0]);
        if (part == PARTS / 2) {
            stand_still("inside", step);
        }
    }
    while (step % 2 == 0 && !is_there) {
        MPI_Parrived(requests[1], PARTS - 1, &is_there);
    }
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    expect(in[PARTS - 1], (rank + size - 1) % size + step);
    MPI_Allreduce(&in[0], &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (step == STEPS - 1) {
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
    }
}
#else
static void parts(int step)
{
    (void)step;
    MPI_Abort(MPI_COMM_WORLD, 2);
}
#endif

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "messages";

    if (strcmp(mode, "--has-parts") == 0) {
        return MPI_VERSION < 4;
    }
    if (argc > 4) {
        fault = argv[2];
        fault_rank = (int)strtol(argv[3], NULL, 10);
        fault_step = (int)strtol(argv[4], NULL, 10);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int step = 0; step < STEPS; step++) {
        if (strcmp(mode, "messages") == 0) {
            messages(step);
        } else if (strcmp(mode, "barrier") == 0) {
            barrier(step);
        } else {
            parts(step);
        }
    }
    MPI_Finalize();
    return 0;
}
