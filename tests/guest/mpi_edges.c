/* An MPI program that does what the standard allows and few programs do; nothing of it is wrong,
 * unless that is asked for.
 *
 * Usage: mpi_edges
 * threads|asked|empty|refused|pairs|ending|early|mixed|both_ways|between|files|exchange|groups|
 * workers|pending|neighbors [fault] mpi_edges --has-exchange: 0, if this MPI has MPI_Isendrecv */
#include <mpi.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 64, THREADS = 4, RANKS_MAX = 8 };

static int rank, size;
static bool is_faulty;
static char **words;

static void expect(double got, double expected)
{
    if (got != expected) {
        (void)fprintf(stderr, "%g, not %g\n", got, expected);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

static void sleep_ms(unsigned ms)
{
    (void)poll(NULL, 0, (int)ms);
}

/* MPI gives the request of a thread's call that is done to the next thread that asks for one. */
static void *reduce_often(void *of)
{
    const MPI_Comm comm = *(MPI_Comm *)of;
    float in[COUNT];
    float out[COUNT];
    MPI_Request request;

    for (int step = 0; step < 300; step++) {
        for (int i = 0; i < COUNT; i++) {
            in[i] = (float)(step + i);
            out[i] = -1;
        }
        MPI_Iallreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, comm, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect((double)out[5], (double)size * (step + 5));
    }
    return NULL;
}

static void threads(void)
{
    pthread_t ids[THREADS];
    MPI_Comm comms[THREADS];

    for (int i = 0; i < THREADS; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_create(&ids[i], NULL, reduce_often, &comms[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(ids[i], NULL);
        MPI_Comm_free(&comms[i]);
    }
}

/* Once a call is said to be done, its buffers are the program's, before the request is given back.
 */
static void asked(void)
{
    float in[COUNT];
    float out[COUNT];

    for (int step = 0; step < 20; step++) {
        MPI_Request request;
        int is_done = 0;

        for (int i = 0; i < COUNT; i++) {
            in[i] = (float)(step + i);
        }
        MPI_Iallreduce(in, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
        while (!is_done) {
            MPI_Request_get_status(request, &is_done, MPI_STATUS_IGNORE);
        }
        for (int i = 0; i < COUNT; i++) {
            in[i] = -1;
            out[i] = (float)rank;
        }
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
}

/* Nothing can be described as no elements, or as elements of nothing. */
static void empty(void)
{
    MPI_Datatype nothing;
    int number = 0;

    MPI_Type_contiguous(0, MPI_INT, &nothing);
    MPI_Type_commit(&nothing);
    for (int i = 0; i < 5; i++) {
        MPI_Bcast(&number, rank == 0 ? 4 : 0, rank == 0 ? nothing : MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Type_free(&nothing);
}

/* A count that MPI refuses, and says so. */
static void refused(void)
{
    float in[COUNT] = {0};
    float out[COUNT];
    int class = 0;

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Error_class(MPI_Allreduce(in, out, -1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD), &class);
    expect(class, MPI_ERR_COUNT);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* The largest value and who has it; the fault: rank 1 asks for the least one. */
static void pairs(void)
{
    struct {
        float value;
        int rank;
    } in = {(float)rank, rank}, out;

    for (int step = 0; step < 10; step++) {
        MPI_Allreduce(&in, &out, 1, MPI_FLOAT_INT,
                      is_faulty && rank == 1 && step == 7 ? MPI_MINLOC : MPI_MAXLOC,
                      MPI_COMM_WORLD);
    }
}

/* At its end MPI tells whoever asked for it, who then makes calls. */
static int reduce_at_end(MPI_Comm comm, int key, void *value, void *context)
{
    const int one = 1;
    int sum = 0;

    (void)comm;
    (void)key;
    (void)value;
    (void)context;
    sleep_ms(rank == 0 ? 300 : 0);
    MPI_Reduce(&one, &sum, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    expect(sum, rank == 0 ? size : 0);
    return MPI_SUCCESS;
}

static void ending(void)
{
    int key;

    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, reduce_at_end, &key, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Ranks 1 and 2 get their message late, and must wait for it; in the last round it is there before
 * they do. The fault: rank 2 then waits for one more, of rank 1. */
static void early(void)
{
    int number = 0;

    for (int step = 0; step < 13; step++) {
        MPI_Request request = MPI_REQUEST_NULL;
        MPI_Status status;

        if (rank > 0) {
            MPI_Irecv(&number, 1, MPI_INT, 0, 3, MPI_COMM_WORLD, &request);
            sleep_ms(step == 12 ? 300 : 0);
            MPI_Waitall(1, &request, &status);
        } else {
            sleep_ms(step == 12 ? 0 : 20);
            MPI_Send(&number, 1, MPI_INT, 1, 3, MPI_COMM_WORLD);
            MPI_Send(&number, 1, MPI_INT, 2, 3, MPI_COMM_WORLD);
        }
        if (is_faulty && rank == 2 && step == 12) {
            MPI_Recv(&number, 1, MPI_INT, 1, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
}

static int query(void *of, MPI_Status *status)
{
    (void)of;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, 0);
    return MPI_SUCCESS;
}

static int nothing_to_free(void *of)
{
    (void)of;
    return MPI_SUCCESS;
}

static int nothing_to_cancel(void *of, int is_done)
{
    (void)of;
    (void)is_done;
    return MPI_SUCCESS;
}

static void *complete(void *of)
{
    int number = 0;

    MPI_Recv(&number, 1, MPI_INT, 2, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Grequest_complete(*(MPI_Request *)of);
    return NULL;
}

/* Rank 0 waits for a message of rank 1 and for something that a thread makes, for which that needs
 * rank 2. The fault: that one stands still, and rank 1, which has sent its message, works on. */
static void mixed(void)
{
    MPI_Request requests[2];
    MPI_Status statuses[2];
    pthread_t id;
    int number = 0;

    if (rank == 0) {
        MPI_Grequest_start(query, nothing_to_free, nothing_to_cancel, NULL, &requests[1]);
        MPI_Irecv(&number, 1, MPI_INT, 1, 5, MPI_COMM_WORLD, &requests[0]);
        (void)pthread_create(&id, NULL, complete, &requests[1]);
        MPI_Waitall(2, requests, statuses);
        (void)pthread_join(id, NULL);
    } else {
        sleep_ms(200);
        if (is_faulty && rank == 2) {
            (void)pause();
        }
        MPI_Send(&number, 1, MPI_INT, 0, 5, MPI_COMM_WORLD);
        sleep_ms(is_faulty ? 60000 : 0);
    }
}

/* Rank 0 sends to rank 1, and gets something from rank 2. The fault: that one stands still, and
 * rank 1, which has its message, works on. */
static void both_ways(void)
{
    int number = 0;
    int other = 0;

    if (rank == 0) {
        MPI_Sendrecv(&number, 1, MPI_INT, 1, 6, &other, 1, MPI_INT, 2, 6, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        expect(other, 2);
    } else if (rank == 1) {
        MPI_Recv(&number, 1, MPI_INT, 0, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        sleep_ms(is_faulty ? 60000 : 0);
    } else {
        if (is_faulty) {
            (void)pause();
        }
        MPI_Send(&rank, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
    }
}

/* The fault of these: rank 1 stands still before a call that the others sit in. */
static void stand_still(void)
{
    if (is_faulty && rank == 1) {
        (void)pause();
    }
}

static void between(void)
{
    MPI_Comm half;
    MPI_Comm both;

    MPI_Comm_split(MPI_COMM_WORLD, rank == 1, 0, &half);
    stand_still();
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 1 ? 0 : 1, 3, &both);
    MPI_Comm_free(&both);
    MPI_Comm_free(&half);
}

static void files(void)
{
    const char text[] = "seven b";
    char name[] = "/tmp/ddprove_mpi_edges.XXXXXX";
    MPI_File file;
    const int made = rank == 0 ? mkstemp(name) : -1;

    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                  &file);
    if (made >= 0) {
        (void)close(made);
        (void)unlink(name); /* it lives as long as it is open */
    }
    for (int i = 0; i < 4; i++) {
        if (i == 2) {
            stand_still();
        }
        MPI_File_write_at_all(file, (MPI_Offset)sizeof text * rank, text, sizeof text, MPI_CHAR,
                              MPI_STATUS_IGNORE);
    }
    MPI_File_close(&file);
}

/* Rank 0 gets more from rank 1 than it has room for, which ends its wait for both: rank 2's message
 * follows on what rank 0 does then. The fault: rank 2 stands still before it. */
static void pending(void)
{
    int number[2] = {rank, rank};
    int other = -1;
    MPI_Request requests[2];

    if (rank == 0) {
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Irecv(number, 1, MPI_INT, 1, 8, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&other, 1, MPI_INT, 2, 8, MPI_COMM_WORLD, &requests[1]);
        expect(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE) == MPI_SUCCESS, 0);
        MPI_Send(number, 1, MPI_INT, 2, 8, MPI_COMM_WORLD);
        expect(MPI_Wait(&requests[1], MPI_STATUS_IGNORE), MPI_SUCCESS);
        expect(other, 2);
    } else if (rank == 1) {
        MPI_Send(number, 2, MPI_INT, 0, 8, MPI_COMM_WORLD);
        sleep_ms(is_faulty ? 60000 : 0);
    } else {
        MPI_Recv(number, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (is_faulty) {
            (void)pause();
        }
        MPI_Send(&rank, 1, MPI_INT, 0, 8, MPI_COMM_WORLD);
    }
}

/* Ranks 0 and 1 are neighbours, rank 2 has none. The fault: rank 1 stands still before a call of
 * neighbours, and rank 2 works on before that call, for which nobody needs it. */
static void neighbors(void)
{
    const int other = 1 - rank;
    MPI_Comm graphs[2];

    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, rank < 2, &other, MPI_UNWEIGHTED, rank < 2,
                                   &other, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graphs[0]);
    MPI_Comm_dup(graphs[0], &graphs[1]);
    for (int step = 0; step < 4; step++) {
        int in = -1;
        MPI_Request request;

        if (step == 2) {
            stand_still();
            sleep_ms(rank == 2 && is_faulty ? 60000 : 0);
        }
        MPI_Ineighbor_alltoall(&rank, 1, MPI_INT, &in, 1, MPI_INT, graphs[1], &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        MPI_Neighbor_allgather(&rank, 1, MPI_INT, &in, 1, MPI_INT, graphs[0]);
        expect(in, rank < 2 ? other : -1);
    }
}

static void exchange(void)
{
#if MPI_VERSION >= 4
    for (int step = 0; step < 4; step++) {
        MPI_Request request;
        int in = -1;

        if (step == 2) {
            stand_still();
        }
        MPI_Isendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 1, &in, 1, MPI_INT,
                      (rank + size - 1) % size, 1, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        expect(in, (rank + size - 1) % size);
    }
#endif
}

/* Make a communicator of these ranks, in this order; the last one stays. */
static void make(const int ranks[], int count, MPI_Comm *kept)
{
    MPI_Group all;
    MPI_Group some;
    int place = MPI_UNDEFINED;

    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_incl(all, count, ranks, &some);
    MPI_Group_rank(some, &place);
    if (place != MPI_UNDEFINED) {
        if (*kept != MPI_COMM_NULL) {
            MPI_Comm_free(kept);
        }
        MPI_Comm_create_group(MPI_COMM_WORLD, some, 7, kept);
    }
    MPI_Group_free(&some);
    MPI_Group_free(&all);
}

/* All orders of so many ranks of five, rank 0 among them. */
static void make_orders(int ranks[], int count, int of, MPI_Comm *kept)
{
    bool has_zero = false;

    for (int i = 0; i < count; i++) {
        has_zero = has_zero || ranks[i] == 0;
    }
    if (count == of) {
        if (has_zero) {
            make(ranks, count, kept);
        }
        return;
    }
    for (int next = 0; next < size; next++) {
        bool is_new = true;

        for (int i = 0; i < count; i++) {
            is_new = is_new && ranks[i] != next;
        }
        if (is_new) {
            ranks[count] = next;
            make_orders(ranks, count + 1, of, kept);
        }
    }
}

/* Rank 0 is in more groups than the others, and is done first. */
static void groups(void)
{
    int ranks[RANKS_MAX];
    int number = rank;
    MPI_Comm last = MPI_COMM_NULL;

    for (int count = 2; count <= size; count++) {
        make_orders(ranks, 0, count, &last);
    }
    sleep_ms(rank > 2 ? 500 : 0);
    MPI_Bcast(&number, 1, MPI_INT, size - 1, last); /* it has all ranks, 0 is the last one */
    expect(number, 0);
}

/* Rank 0 starts three workers, which are ranks of a world of their own. */
static void workers(void)
{
    const int one = 1;
    int sum = 0;
    MPI_Comm started;

    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_get_parent(&started);
    if (started == MPI_COMM_NULL) {
        MPI_Comm_spawn(words[0], &words[1], 3, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &started,
                       MPI_ERRCODES_IGNORE);
    } else {
        for (int i = 0; i < 4; i++) {
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        }
        sleep_ms(300);
    }
    MPI_Barrier(started);
    MPI_Comm_disconnect(&started);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } modes[] = {{"threads", threads},    {"asked", asked},     {"empty", empty},
                 {"refused", refused},    {"pairs", pairs},     {"ending", ending},
                 {"early", early},        {"mixed", mixed},     {"both_ways", both_ways},
                 {"between", between},    {"files", files},     {"exchange", exchange},
                 {"groups", groups},      {"workers", workers}, {"pending", pending},
                 {"neighbors", neighbors}};
    const char *mode = argc > 1 ? argv[1] : "";
    int provided;

    if (strcmp(mode, "--has-exchange") == 0) {
        return MPI_VERSION >= 4 ? 0 : 1;
    }
    words = argv;
    is_faulty = argc > 2;
    MPI_Init_thread(&argc, &argv,
                    strcmp(mode, "threads") == 0 || strcmp(mode, "mixed") == 0 ? MPI_THREAD_MULTIPLE
                                                                               : MPI_THREAD_SINGLE,
                    &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strcmp(modes[i].name, mode) == 0) {
            modes[i].run();
        }
    }
    MPI_Finalize();
    return 0;
}
