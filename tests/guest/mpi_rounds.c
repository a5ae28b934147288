/* An MPI program that makes a call beside collectives in each of 12 rounds, each with a barrier at
 * its end. In the eleventh the last rank leaves the call out and goes on (skip), or comes to it no
 * more (hang).
 *
 * Usage: mpi_rounds seek|begin|window_info|window_test [skip|hang]
 * mpi_rounds ways [wrong]: messages in each round, made in another way in the eleventh, as the
 * standard allows; wrong: rank 0 then asks for one that nobody owes it */
#include <mpi.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS_MAX = 8, ROUNDS = 12, FAULT_ROUND = 10 };

static int rank, size;
static MPI_Info info;
static int is_left_out, is_hung;

static int comes(int round)
{
    if (rank != size - 1 || round != FAULT_ROUND) {
        return 1;
    }
    if (is_hung) {
        (void)pause();
    }
    return !is_left_out;
}

static MPI_File file;
static char name[] = "/tmp/ddprove_mpi_rounds.XXXXXX";

static void open_file(void)
{
    const int made = rank == 0 ? mkstemp(name) : -1;

    if (made >= 0) {
        (void)close(made);
    }
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                  &file);
    MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
}

static void repeat_file(int is_seek)
{
    open_file();
    for (int i = 0; i < ROUNDS; i++) {
        if (is_seek && comes(i)) {
            MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
        } else if (!is_seek && comes(i)) {
            MPI_File_write_ordered_begin(file, &rank, 1, MPI_INT);
            MPI_File_write_ordered_end(file, &rank, MPI_STATUS_IGNORE);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_File_close(&file);
}

/* Rank 0 opens its window to all others, and asks until they have been there. */
static void repeat_test(MPI_Win window, MPI_Group all, int round)
{
    MPI_Group group;
    const int zero = 0;
    int is_done = 0;

    if (rank == 0) {
        MPI_Group_excl(all, 1, &zero, &group);
        MPI_Win_post(group, 0, window);
        while (!is_done) {
            MPI_Win_test(window, &is_done);
            (void)poll(NULL, 0, is_done ? 0 : 1);
        }
    } else {
        MPI_Group_incl(all, 1, &zero, &group);
        if (comes(round)) {
            MPI_Win_start(group, 0, window);
            MPI_Put(&rank, 1, MPI_INT, 0, 0, 1, MPI_INT, window);
            MPI_Win_complete(window);
        }
    }
    MPI_Group_free(&group);
}

static void repeat_window(int is_test)
{
    int own[RANKS_MAX] = {0};
    MPI_Win window;
    MPI_Group all;

    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Win_create(own, sizeof own, sizeof own[0], MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    for (int i = 0; i < ROUNDS; i++) {
        if (is_test) {
            repeat_test(window, all, i);
        } else if (comes(i)) {
            MPI_Win_set_info(window, info);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Win_free(&window);
    MPI_Group_free(&all);
}

/* The last rank sends a message to rank 0 and gets one from rank 1 in every round, in its own way
 * in the eleventh. is_wrong: in that round rank 0 asks for a message that nobody owes it. */
static void ways(int is_wrong)
{
    const int last = size - 1;
    static char room[4096 + MPI_BSEND_OVERHEAD];
    char *old = NULL;
    int number = 0;
    MPI_Message message;

    MPI_Buffer_attach(room, sizeof room);
    for (int i = 0; i < ROUNDS; i++) {
        const int is_other = i == FAULT_ROUND;
        int is_there = 0;

        if (rank == last && is_other) {
            MPI_Bsend(&number, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
            while (!is_there) {
                MPI_Improbe(1, 2, MPI_COMM_WORLD, &is_there, &message, MPI_STATUS_IGNORE);
            }
            MPI_Mrecv(&number, 1, MPI_INT, &message, MPI_STATUS_IGNORE);
        } else if (rank == last) {
            MPI_Send(&number, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
            MPI_Probe(1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Recv(&number, 1, MPI_INT, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else if (rank == 0) {
            MPI_Recv(&number, 1, MPI_INT, last, is_other && is_wrong ? 3 : 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        } else if (rank == 1) {
            MPI_Send(&number, 1, MPI_INT, last, 2, MPI_COMM_WORLD);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Buffer_detach(&old, &number);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 3 || size > RANKS_MAX) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Info_create(&info);
    is_left_out = argc > 2 && strcmp(argv[2], "skip") == 0;
    is_hung = argc > 2 && strcmp(argv[2], "hang") == 0;
    if (strcmp(mode, "ways") == 0) {
        ways(argc > 2);
    } else if (strncmp(mode, "window", 6) == 0) {
        repeat_window(strcmp(mode, "window_test") == 0);
    } else {
        repeat_file(strcmp(mode, "seek") == 0);
    }
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
