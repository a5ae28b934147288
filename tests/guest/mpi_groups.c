/* An MPI program that makes what few programs do of communicators: their hints, calls that return
 * at once between two groups, groups of sessions beside MPI_Init, agreement of those that are left,
 * buffers and questions of MPI 4.1; or (join) one of two ranks that share a socket. It checks its
 * results.
 *
 * Usage: mpi_groups [join] */
#include <arpa/inet.h>
#include <mpi.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

static int rank, size;

static void expect(const char *what, int got, int expected)
{
    if (got != expected) {
        (void)fprintf(stderr, "%s: %d, not %d\n", what, got, expected);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

static void expect_members(const char *what, MPI_Comm *comm, int expected)
{
    const int one = 1;
    int sum = 0;

    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, *comm);
    expect(what, sum, expected);
    MPI_Comm_free(comm);
}

static void hints(void)
{
    MPI_Comm copy;
    MPI_Info info;

    MPI_Info_create(&info);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_info(copy, info);
    MPI_Info_free(&info);
    expect_members("a copy's members", &copy, size);
}

/* Rank 0 and all others; a communicator between them is not watched. */
static void between(void)
{
    MPI_Comm half;
    MPI_Comm both;
    MPI_Request request;

    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank == 0, 5, &both);
    MPI_Ibarrier(both, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Ibarrier(both, &request);
    MPI_Waitall(1, &request, MPI_STATUSES_IGNORE);
    expect_members("the other group's members", &both, rank == 0 ? size - 1 : 1);
    MPI_Comm_free(&half);
}

#ifdef MPI_SESSION_NULL
static void sessions(void)
{
    const int zero = 0;
    MPI_Session session;
    MPI_Group all;
    MPI_Group first;
    MPI_Group rest;
    MPI_Comm made;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &all);
    MPI_Comm_create_from_group(all, "all", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made);
    expect_members("a session's members", &made, size);
    MPI_Group_incl(all, 1, &zero, &first);
    MPI_Group_excl(all, 1, &zero, &rest);
    MPI_Intercomm_create_from_groups(rank == 0 ? first : rest, 0, rank == 0 ? rest : first, 0,
                                     "both", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made);
    expect_members("between a session's groups", &made, rank == 0 ? size - 1 : 1);
    MPI_Group_free(&first);
    MPI_Group_free(&rest);
    MPI_Group_free(&all);
    MPI_Session_finalize(&session);
}
#endif

/* MPICH declares these, and has none. */
#if defined OPEN_MPI && OMPI_MAJOR_VERSION >= 5
static void agreement(void)
{
    int flags = rank == 0 ? 5 : 4;
    MPI_Comm left;

    MPIX_Comm_agree(MPI_COMM_WORLD, &flags);
    expect("agreed", flags, 4);
    MPIX_Comm_shrink(MPI_COMM_WORLD, &left);
    expect_members("those that are left", &left, size);
}
#endif

#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
static void buffers(void)
{
    static char room[4096 + MPI_BSEND_OVERHEAD];
    const int right = (rank + 1) % size;
    const int left = (rank + size - 1) % size;
    void *old = NULL;
    MPI_Count large = -1;
    MPI_Session session;
    int bytes = -1;
    int in = -1;

    MPI_Comm_attach_buffer(MPI_COMM_WORLD, room, sizeof room);
    MPI_Bsend(&rank, 1, MPI_INT, right, 1, MPI_COMM_WORLD);
    MPI_Recv(&in, 1, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    expect("a buffered message", in, left);
    MPI_Comm_flush_buffer(MPI_COMM_WORLD);
    MPI_Comm_detach_buffer(MPI_COMM_WORLD, &old, &bytes);
    expect("a communicator's buffer", bytes, sizeof room);
    MPI_Comm_attach_buffer(MPI_COMM_WORLD, room, sizeof room);
    MPI_Comm_detach_buffer_c(MPI_COMM_WORLD, &old, &large);
    expect("a communicator's buffer, large", (int)large, sizeof room);
    MPI_Buffer_attach(room, sizeof room);
    MPI_Buffer_flush();
    MPI_Buffer_detach(&old, &bytes);
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Session_attach_buffer(session, room, sizeof room);
    MPI_Session_flush_buffer(session);
    MPI_Session_detach_buffer(session, &old, &bytes);
    expect("a session's buffer", bytes, sizeof room);
    MPI_Session_attach_buffer(session, room, sizeof room);
    MPI_Session_detach_buffer_c(session, &old, &large);
    expect("a session's buffer, large", (int)large, sizeof room);
    MPI_Session_finalize(&session);
}

/* Both neighbours' messages, asked for again and again. */
static void statuses(void)
{
    MPI_Request requests[2];
    MPI_Request sent[2];
    int in[2] = {-1, -1};
    int indices[2];
    int is_there = 0;
    int count = 0;

    for (int way = 0; way < 3; way++) {
        for (int i = 0; i < 2; i++) {
            const int other = (rank + (i == 0 ? 1 : size - 1)) % size;

            MPI_Irecv(&in[i], 1, MPI_INT, other, way, MPI_COMM_WORLD, &requests[i]);
            MPI_Isend(&rank, 1, MPI_INT, other, way, MPI_COMM_WORLD, &sent[i]);
        }
        is_there = count = 0;
        while (!is_there && count == 0) {
            if (way == 0) {
                MPI_Request_get_status_all(2, requests, &is_there, MPI_STATUSES_IGNORE);
            } else if (way == 1) {
                MPI_Request_get_status_any(2, requests, &indices[0], &is_there, MPI_STATUS_IGNORE);
            } else {
                MPI_Request_get_status_some(2, requests, &count, indices, MPI_STATUSES_IGNORE);
            }
        }
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        MPI_Waitall(2, sent, MPI_STATUSES_IGNORE);
        expect("from the right", in[0], (rank + 1) % size);
        MPI_Barrier(MPI_COMM_WORLD);
    }
}
#endif

/* Ranks 0 and 1 meet at a port of this machine. */
static int connected_socket(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof address;
    const int made = socket(AF_INET, SOCK_STREAM, 0);
    int joined = made;
    int result = made < 0 ? -1 : 0;

    if (rank == 0 && result == 0) {
        result = bind(made, (struct sockaddr *)&address, sizeof address) +
                 getsockname(made, (struct sockaddr *)&address, &length) + listen(made, 1);
    }
    MPI_Bcast(&address.sin_port, sizeof address.sin_port, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 0 && result == 0) {
        joined = accept(made, NULL, NULL);
        (void)close(made);
    } else if (rank == 1 && result == 0) {
        result = connect(made, (struct sockaddr *)&address, sizeof address);
    }
    expect("a connection", result == 0 && joined >= 0, 1);
    return joined;
}

static void join(void)
{
    const int joined = connected_socket();
    MPI_Comm both = MPI_COMM_NULL;

    if (rank < 2) {
        MPI_Comm_join(joined, &both);
        if (both != MPI_COMM_NULL) {
            MPI_Barrier(both);
            MPI_Comm_disconnect(&both);
        }
    }
    (void)close(joined);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1 && strcmp(argv[1], "join") == 0) {
        join();
    } else {
        hints();
        between();
#ifdef MPI_SESSION_NULL
        sessions();
#endif
#if defined OPEN_MPI && OMPI_MAJOR_VERSION >= 5
        agreement();
#endif
#if MPI_VERSION > 4 || (MPI_VERSION == 4 && MPI_SUBVERSION >= 1)
        buffers();
        statuses();
#endif
    }
    MPI_Finalize();
    return 0;
}
