/* An MPI program whose ranks wait in many ways: for requests that are started again and again, in
 * two threads, for messages.
 *
 * Usage: mpi_waits persistent|threads|ring|chain|gather|anybody|window
 * [kill|stop|hang|skip|unchecked RANK STEP] unchecked: no rank looks whether what it gets is right
 * mpi_waits --can-start-again: 0, if this MPI can start a persistent collective twice */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#if MPI_VERSION >= 4 || (defined OPEN_MPI && OMPI_MAJOR_VERSION >= 5)
#define ALLREDUCE_INIT MPI_Allreduce_init
#define GATHER_INIT    MPI_Gather_init
#else
#define ALLREDUCE_INIT MPIX_Allreduce_init
#define GATHER_INIT    MPIX_Gather_init
#endif

#if defined MPICH_NUMVERSION && MPICH_NUMVERSION < 40100000
enum { CAN_START_AGAIN = 0 }; /* it says that the request is still active */
#else
enum { CAN_START_AGAIN = 1 };
#endif

enum { COUNT = 32, STEPS = 30, RANKS_MAX = 16 };

static const char *fault = "";
static int fault_rank = -1, fault_step = -1;
static int rank, size;

static bool is_now(const char *name, int step)
{
    return rank == fault_rank && step == fault_step && strcmp(fault, name) == 0;
}

static void fail(int step)
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

static void expect(float got, float expected)
{
    if (got != expected && strcmp(fault, "unchecked") != 0) {
        (void)fprintf(stderr, "%g, not %g\n", (double)got, (double)expected);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

/* Two sums and a gather are started in every step, and are done in whatever order. */
static void persistent(void)
{
    float in[2][COUNT];
    float out[2][COUNT];
    float all[RANKS_MAX];
    MPI_Request requests[3];
    MPI_Comm copy;

    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    ALLREDUCE_INIT(in[0], out[0], COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL,
                   &requests[0]);
    GATHER_INIT(in[0], 1, MPI_FLOAT, all, 1, MPI_FLOAT, 0, MPI_COMM_WORLD, MPI_INFO_NULL,
                &requests[2]);
    ALLREDUCE_INIT(in[1], out[1], COUNT, MPI_FLOAT, MPI_MAX, copy, MPI_INFO_NULL, &requests[1]);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < COUNT; i++) {
            in[0][i] = (float)(rank + step);
            in[1][i] = (float)(rank + step);
        }
        fail(step);
        if (is_now("skip", step)) {
            MPI_Start(&requests[1]);
        } else {
            MPI_Startall(3, requests);
        }
        for (int done = 0; done < 3; done++) {
            int index = MPI_UNDEFINED;

            MPI_Waitany(3, requests, &index, MPI_STATUS_IGNORE);
        }
        if (!is_now("skip", step)) {
            expect(out[0][COUNT - 1], (float)(size * (size - 1) / 2 + size * step));
        }
        expect(out[1][0], (float)(size - 1 + step));
        if (rank == 0) {
            expect(all[size - 1], (float)(size - 1 + step));
        }
    }
    MPI_Request_free(&requests[2]);
    MPI_Request_free(&requests[0]);
    MPI_Request_free(&requests[1]);
    MPI_Comm_free(&copy);
}

/* Each thread has a communicator of its own. Faults are the second one's. */
static void *work(void *context)
{
    const int number = *(const int *)context;
    static MPI_Comm own[2];
    float in[COUNT] = {0};
    float out[COUNT];

    if (number < 0) { /* before there are threads: all ranks make them in the same order */
        MPI_Comm_dup(MPI_COMM_WORLD, &own[0]);
        MPI_Comm_dup(MPI_COMM_WORLD, &own[1]);
        return NULL;
    }
    for (int step = 0; step < STEPS; step++) {
        in[0] = (float)(step + number);
        if (number == 1) {
            fail(step);
        }
        if (number == 0 || !is_now("skip", step)) {
            MPI_Allreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, own[number]);
            expect(out[0], (float)(size * (step + number)));
        }
        MPI_Barrier(own[number]);
    }
    MPI_Comm_free(&own[number]);
    return NULL;
}

static void threads(void)
{
    int numbers[] = {0, 1, -1};
    pthread_t second;

    (void)work(&numbers[2]);
    (void)pthread_create(&second, NULL, work, &numbers[1]);
    (void)work(&numbers[0]);
    (void)pthread_join(second, NULL);
}

/* Each rank exchanges with its neighbours, then all sum up. */
static void ring(int step)
{
    float in = 0;
    float out = (float)(rank + step);

    fail(step);
    MPI_Sendrecv(&out, 1, MPI_FLOAT, (rank + 1) % size, 1, &in, 1, MPI_FLOAT,
                 (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect(in, (float)((rank + size - 1) % size + step));
    MPI_Allreduce(&out, &in, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* A number goes from the last rank to the first one; then all meet. */
static void chain(int step)
{
    float number = (float)step;

    if (rank < size - 1) {
        MPI_Recv(&number, 1, MPI_FLOAT, rank + 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    fail(step);
    if (rank > 0 && !is_now("skip", step)) {
        MPI_Ssend(&number, 1, MPI_FLOAT, rank - 1, 2, MPI_COMM_WORLD);
    }
    expect(number, (float)step);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The first rank waits for a message of each other one, from whoever it comes next or from each. */
static void gather(int step, bool is_of_anybody)
{
    MPI_Request requests[RANKS_MAX];
    float in[RANKS_MAX];
    float out = (float)(rank + step);

    for (int r = 1; rank == 0 && !is_of_anybody && r < size; r++) {
        MPI_Irecv(&in[r], 1, MPI_FLOAT, r, 3, MPI_COMM_WORLD, &requests[r]);
    }
    for (int r = 1; rank == 0 && is_of_anybody && r < size; r++) {
        MPI_Recv(&in[r], 1, MPI_FLOAT, MPI_ANY_SOURCE, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    if (rank == 0 && !is_of_anybody) {
        MPI_Waitall(size - 1, requests + 1, MPI_STATUSES_IGNORE);
        expect(in[size - 1], (float)(size - 1 + step));
    }
    fail(step);
    if (rank > 0) {
        MPI_Isend(&out, 1, MPI_FLOAT, 0, 3, MPI_COMM_WORLD, &requests[0]);
        MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    }
    MPI_Allreduce(&out, &in[0], 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* The first two ranks meet in a window, between sums of all. */
static void windows(void)
{
    MPI_Comm pair;
    MPI_Win window;
    float *number = NULL;

    MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &pair);
    if (rank < 2) {
        MPI_Win_allocate(sizeof *number, sizeof *number, MPI_INFO_NULL, pair, &number, &window);
    }
    for (int step = 0; step < STEPS; step++) {
        float out = (float)(rank + step);
        float sum = 0;

        if (rank < 2) {
            fail(step);
            MPI_Win_fence(0, window);
        }
        MPI_Allreduce(&out, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank < 2) {
        MPI_Win_free(&window);
        MPI_Comm_free(&pair);
    }
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "ring";
    const bool is_threads = strcmp(mode, "threads") == 0;
    int level = 0;

    if (strcmp(mode, "--can-start-again") == 0) {
        return !CAN_START_AGAIN;
    }
    if (argc > 4) {
        fault = argv[2];
        fault_rank = (int)strtol(argv[3], NULL, 10);
        fault_step = (int)strtol(argv[4], NULL, 10);
    }
    MPI_Init_thread(&argc, &argv, is_threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > RANKS_MAX || (is_threads && level != MPI_THREAD_MULTIPLE)) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (is_threads) {
        threads();
    } else if (strcmp(mode, "persistent") == 0) {
        persistent();
    } else if (strcmp(mode, "window") == 0) {
        windows();
    }
    for (int step = 0; step < STEPS; step++) {
        if (strcmp(mode, "ring") == 0) {
            ring(step);
        } else if (strcmp(mode, "chain") == 0) {
            chain(step);
        } else if (strcmp(mode, "gather") == 0 || strcmp(mode, "anybody") == 0) {
            gather(step, mode[0] == 'a');
        }
    }
    MPI_Finalize();
    return 0;
}
