/* An MPI program that makes the calls beside collectives and plain messages: on files, on windows,
 * of neighbours with large counts, of messages that are buffered or found before they are received.
 * It checks its results, so whatever stands before its
 * MPI has passed everything on. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { RANKS_MAX = 8, LONG = 100000 };

static int rank, size;
static MPI_Info info;

static void expect(const char *what, double got, double expected)
{
    if (got != expected) {
        (void)fprintf(stderr, "%s: %g, not %g\n", what, got, expected);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

/* Programs ask by whether these are there; with an MPI that lacks them, whatever has put them there
 * makes them work. */
#if MPI_VERSION < 4
#define WEAK __attribute__((weak))
WEAK int MPI_Win_create_c(void *base, MPI_Aint size_bytes, MPI_Aint unit, MPI_Info info,
                          MPI_Comm comm, MPI_Win *window);
WEAK int MPI_Win_allocate_c(MPI_Aint size_bytes, MPI_Aint unit, MPI_Info info, MPI_Comm comm,
                            void *base, MPI_Win *window);
WEAK int MPI_Win_allocate_shared_c(MPI_Aint size_bytes, MPI_Aint unit, MPI_Info info, MPI_Comm comm,
                                   void *base, MPI_Win *window);
WEAK int MPI_Put_c(const void *data, MPI_Count count, MPI_Datatype type, int to, MPI_Aint place,
                   MPI_Count to_count, MPI_Datatype to_type, MPI_Win window);
WEAK int MPI_Buffer_detach_c(void *data, MPI_Count *size_bytes);
WEAK int MPI_Mrecv_c(void *data, MPI_Count count, MPI_Datatype type, MPI_Message *message,
                     MPI_Status *status);
WEAK int MPI_Neighbor_allgatherv_c(const void *in, MPI_Count in_count, MPI_Datatype in_type,
                                   void *out, const MPI_Count counts[], const MPI_Aint places[],
                                   MPI_Datatype out_type, MPI_Comm comm);
WEAK int MPI_Ineighbor_allgatherv_c(const void *in, MPI_Count in_count, MPI_Datatype in_type,
                                    void *out, const MPI_Count counts[], const MPI_Aint places[],
                                    MPI_Datatype out_type, MPI_Comm comm, MPI_Request *request);
WEAK int MPI_Neighbor_alltoallv_c(const void *in, const MPI_Count in_counts[],
                                  const MPI_Aint in_places[], MPI_Datatype in_type, void *out,
                                  const MPI_Count out_counts[], const MPI_Aint out_places[],
                                  MPI_Datatype out_type, MPI_Comm comm);
WEAK int MPI_Ineighbor_alltoallv_c(const void *in, const MPI_Count in_counts[],
                                   const MPI_Aint in_places[], MPI_Datatype in_type, void *out,
                                   const MPI_Count out_counts[], const MPI_Aint out_places[],
                                   MPI_Datatype out_type, MPI_Comm comm, MPI_Request *request);
WEAK int MPI_Neighbor_alltoallw_c(const void *in, const MPI_Count in_counts[],
                                  const MPI_Aint in_places[], const MPI_Datatype in_types[],
                                  void *out, const MPI_Count out_counts[],
                                  const MPI_Aint out_places[], const MPI_Datatype out_types[],
                                  MPI_Comm comm);
WEAK int MPI_Ineighbor_alltoallw_c(const void *in, const MPI_Count in_counts[],
                                   const MPI_Aint in_places[], const MPI_Datatype in_types[],
                                   void *out, const MPI_Count out_counts[],
                                   const MPI_Aint out_places[], const MPI_Datatype out_types[],
                                   MPI_Comm comm, MPI_Request *request);
#endif

/* --- neighbours
 * ------------------------------------------------------------------------------------------------
 */

/* To whom a rank sends, and from whom it receives. */
struct near {
    MPI_Comm comm;
    int to_count, from_count;
    int to[RANKS_MAX], from[RANKS_MAX];
};

static struct {
    int in[RANKS_MAX], out[RANKS_MAX];
    MPI_Count counts[RANKS_MAX];
    MPI_Aint places[RANKS_MAX], bytes[RANKS_MAX];
    MPI_Datatype types[RANKS_MAX];
} parts;

/* Each sends its rank to all, or to each one what tells the two. */
static void check_near(const char *what, const struct near *near, int is_gathered)
{
    for (int i = 0; i < near->from_count; i++) {
        expect(what, parts.out[i], is_gathered ? near->from[i] : 100 * near->from[i] + rank);
        parts.out[i] = -1;
    }
}

static void neighbours(const struct near *near)
{
    MPI_Request request;

    for (int i = 0; i < RANKS_MAX; i++) {
        parts.in[i] = i < near->to_count ? 100 * rank + near->to[i] : -1;
        parts.out[i] = -1;
        parts.counts[i] = 1;
        parts.places[i] = i;
        parts.bytes[i] = i * (MPI_Aint)sizeof(int);
        parts.types[i] = MPI_INT;
    }
#define GATHER &rank, 1, MPI_INT, parts.out, parts.counts, parts.places, MPI_INT, near->comm
#define EACH                                                                                       \
    parts.in, parts.counts, parts.places, MPI_INT, parts.out, parts.counts, parts.places, MPI_INT, \
        near->comm
#define EACH_TYPE                                                                           \
    parts.in, parts.counts, parts.bytes, parts.types, parts.out, parts.counts, parts.bytes, \
        parts.types, near->comm
    MPI_Neighbor_allgatherv_c(GATHER);
    check_near("Neighbor_allgatherv_c", near, 1);
    MPI_Neighbor_alltoallv_c(EACH);
    check_near("Neighbor_alltoallv_c", near, 0);
    MPI_Neighbor_alltoallw_c(EACH_TYPE);
    check_near("Neighbor_alltoallw_c", near, 0);
#define CHECK_LATER(name, arguments, is_gathered) \
    MPI_I##name(arguments, &request);             \
    MPI_Wait(&request, MPI_STATUS_IGNORE);        \
    check_near("I" #name, near, is_gathered);
    CHECK_LATER(neighbor_allgatherv_c, GATHER, 1)
    CHECK_LATER(neighbor_alltoallv_c, EACH, 0)
    CHECK_LATER(neighbor_alltoallw_c, EACH_TYPE, 0)
#if MPI_VERSION >= 4
#define CHECK_STARTED(name, arguments, is_gathered)          \
    MPI_##name##_init_c(arguments, MPI_INFO_NULL, &request); \
    MPI_Start(&request);                                     \
    MPI_Wait(&request, MPI_STATUS_IGNORE);                   \
    MPI_Request_free(&request);                              \
    check_near(#name "_init_c", near, is_gathered);
    CHECK_STARTED(Neighbor_allgatherv, GATHER, 1)
    CHECK_STARTED(Neighbor_alltoallv, EACH, 0)
    CHECK_STARTED(Neighbor_alltoallw, EACH_TYPE, 0)
#endif
}

/* More neighbours are sent to than received from, or fewer; a grid; a graph. */
static void topologies(void)
{
    struct near near = {.to_count = 0};
    const int periodic = 1;
    int index[RANKS_MAX];
    int edges[2 * RANKS_MAX];
    int mapped;

    if (MPI_Neighbor_alltoallv_c == NULL) {
        return;
    }
    for (int i = 0; i < size; i++) {
        if (i < rank) {
            near.from[near.from_count++] = i;
        } else if (i > rank) {
            near.to[near.to_count++] = i;
        }
        index[i] = 2 * (i + 1);
        edges[2 * i] = (i + size - 1) % size;
        edges[2 * i + 1] = (i + 1) % size;
    }
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, near.from_count, near.from, MPI_UNWEIGHTED,
                                   near.to_count, near.to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &near.comm);
    neighbours(&near);
    MPI_Comm_free(&near.comm);
    near.from_count = near.to_count = 2;
    near.from[0] = near.to[0] = edges[2 * rank];
    near.from[1] = near.to[1] = edges[2 * rank + 1];
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &near.comm);
    neighbours(&near);
    MPI_Comm_free(&near.comm);
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &near.comm);
    neighbours(&near);
    MPI_Comm_free(&near.comm);
    MPI_Cart_map(MPI_COMM_WORLD, 1, &size, &periodic, &mapped);
    MPI_Graph_map(MPI_COMM_WORLD, size, index, edges, &mapped);
}

/* --- windows
 * ---------------------------------------------------------------------------------------------------
 */

/* Nobody goes on to write there before it has been read. */
static void expect_all(const char *what, int got, int expected)
{
    expect(what, got, expected);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* What a rank's right neighbour puts into its window, and takes. */
static void put_and_get(const char *what, MPI_Win window, int *base, int left)
{
    const int one = 1;
    int got = -1;

    *base = -1;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Win_fence(0, window);
    MPI_Put(&rank, 1, MPI_INT, left, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    expect_all(what, *base, (rank + 1) % size);
    if (MPI_Put_c != NULL) {
        MPI_Put_c(&left, 1, MPI_INT, left, 0, 1, MPI_INT, window);
        MPI_Win_fence(0, window);
        expect_all(what, *base, rank);
    }
    MPI_Accumulate(&one, 1, MPI_INT, left, 0, 1, MPI_INT, MPI_REPLACE, window);
    MPI_Win_fence(0, window);
    MPI_Get(&got, 1, MPI_INT, left, 0, 1, MPI_INT, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    expect_all(what, got, 1);
}

/* The window holds 1. */
static void put_at_once(const char *what, MPI_Win window, int left)
{
    MPI_Request request;
    int old = -1;
    int more = 1;
    int none = 3;
    int got = -1;

    MPI_Win_lock_all(0, window);
    MPI_Fetch_and_op(&more, &old, MPI_INT, left, 0, MPI_SUM, window);
    MPI_Win_flush(left, window);
    expect(what, old, 1);
    MPI_Get_accumulate(&more, 1, MPI_INT, &old, 1, MPI_INT, left, 0, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_flush_all(window);
    expect(what, old, 2);
    more = 7;
    MPI_Compare_and_swap(&more, &none, &old, MPI_INT, left, 0, window);
    MPI_Win_flush(left, window);
    expect(what, old, 3);
    MPI_Rget(&got, 1, MPI_INT, left, 0, 1, MPI_INT, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(what, got, 7);
    MPI_Rput(&rank, 1, MPI_INT, left, 0, 1, MPI_INT, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(left, window);
    more = 1;
    MPI_Raccumulate(&more, 1, MPI_INT, left, 0, 1, MPI_INT, MPI_SUM, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(left, window);
    MPI_Rget_accumulate(&more, 1, MPI_INT, &old, 1, MPI_INT, left, 0, 1, MPI_INT, MPI_SUM, window,
                        &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(what, old, rank + 1);
    MPI_Win_unlock_all(window);
}

#if MPI_VERSION >= 4
static void put_large(const char *what, MPI_Win window, int left)
{
    MPI_Request request;
    int old = -1;
    int more = 5;
    int got = -1;

    MPI_Win_fence(0, window);
    MPI_Accumulate_c(&more, 1, MPI_INT, left, 0, 1, MPI_INT, MPI_REPLACE, window);
    MPI_Win_fence(0, window);
    MPI_Get_c(&got, 1, MPI_INT, left, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    expect(what, got, 5);
    MPI_Get_accumulate_c(&more, 1, MPI_INT, &old, 1, MPI_INT, left, 0, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    expect(what, old, 5);
    MPI_Win_lock_all(0, window);
    MPI_Rput_c(&rank, 1, MPI_INT, left, 0, 1, MPI_INT, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(left, window);
    MPI_Raccumulate_c(&more, 1, MPI_INT, left, 0, 1, MPI_INT, MPI_SUM, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Win_flush(left, window);
    MPI_Rget_accumulate_c(&more, 1, MPI_INT, &old, 1, MPI_INT, left, 0, 1, MPI_INT, MPI_SUM, window,
                          &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(what, old, rank + 5);
    MPI_Rget_c(&got, 1, MPI_INT, left, 0, 1, MPI_INT, window, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect(what, got, rank + 10);
    MPI_Win_unlock_all(window);
}
#endif

static void use_window(const char *what, MPI_Win window, int *base)
{
    const int left = (rank + size - 1) % size;

    put_and_get(what, window, base, left);
    put_at_once(what, window, left);
#if MPI_VERSION >= 4
    put_large(what, window, left);
#endif
    MPI_Win_set_info(window, info);
    MPI_Win_free(&window);
}

/* MPICH 4.0 loses what is put into windows of 4 bytes that it has made. */
static void windows(void)
{
    int own[16] = {0};
    int *made = NULL;
    MPI_Win window;

    MPI_Win_create(own, sizeof own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    use_window("Win_create", window, own);
    if (MPI_Win_create_c != NULL) {
        MPI_Win_create_c(own, sizeof own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
        use_window("Win_create_c", window, own);
        MPI_Win_allocate_c(sizeof own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &made, &window);
        use_window("Win_allocate_c", window, made);
        MPI_Win_allocate_shared_c(sizeof own, sizeof *own, MPI_INFO_NULL, MPI_COMM_WORLD, &made,
                                  &window);
        use_window("Win_allocate_shared_c", window, made);
    }
}

/* --- messages
 * --------------------------------------------------------------------------------------------------
 */

static double out[LONG], in[LONG];

static void receive_matched(int from, int is_at_once)
{
    MPI_Message message;
    MPI_Request request;

    in[LONG - 1] = -1;
    MPI_Mprobe(is_at_once ? MPI_ANY_SOURCE : from, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    if (is_at_once) {
        MPI_Imrecv(in, LONG, MPI_DOUBLE, &message, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (MPI_Mrecv_c != NULL) {
        MPI_Mrecv_c(in, LONG, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
    } else {
        MPI_Mrecv(in, LONG, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
    }
    expect("a message that was found", in[LONG - 1], from);
}

static void messages(void)
{
    const int right = (rank + 1) % size;
    const int left = (rank + size - 1) % size;
    const int bytes = 4 * (LONG * (int)sizeof(double) + MPI_BSEND_OVERHEAD);
    void *room = malloc((size_t)bytes);
    void *old = NULL;
    MPI_Request requests[2];
    MPI_Message message;
    int detached = 0;

    out[LONG - 1] = rank;
    MPI_Buffer_attach(room, bytes);
    MPI_Bsend(out, LONG, MPI_DOUBLE, right, 1, MPI_COMM_WORLD);
    receive_matched(left, 0);
    MPI_Ibsend(out, LONG, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[0]);
    receive_matched(left, 1);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
    MPI_Bsend_init(out, LONG, MPI_DOUBLE, right, 1, MPI_COMM_WORLD, &requests[0]);
    for (int i = 0; i < 2; i++) {
        MPI_Start(&requests[0]);
        MPI_Irecv(in, LONG, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        expect("a buffered message", in[LONG - 1], left);
    }
    MPI_Request_free(&requests[0]);
#if MPI_VERSION >= 4
    MPI_Bsend_c(out, LONG, MPI_DOUBLE, right, 1, MPI_COMM_WORLD);
    MPI_Mprobe(left, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Imrecv_c(in, LONG, MPI_DOUBLE, &message, &requests[0]);
    MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
#endif
    MPI_Mprobe(MPI_PROC_NULL, 1, MPI_COMM_WORLD, &message, MPI_STATUS_IGNORE);
    MPI_Mrecv(in, LONG, MPI_DOUBLE, &message, MPI_STATUS_IGNORE);
    MPI_Buffer_detach(&old, &detached);
    expect("the buffer's size", detached, bytes);
    if (MPI_Buffer_detach_c != NULL) {
        MPI_Count large = -1;

        MPI_Buffer_attach(room, bytes);
        MPI_Buffer_detach_c(&old, &large);
        expect("the buffer's size, large", (double)large, bytes);
    }
    free(room);
}

/* --- files
 * ---------------------------------------------------------------------------------------------------
 */

static MPI_File file;
static char name[] = "/tmp/ddprove_mpi_apart.XXXXXX";

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

/* Each pair of calls that begin and end writes or reads the rank, at its place. */
static void files(void)
{
    int got = -1;

    open_file();
#define EACH_FORM(C)                                                      \
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);                          \
    MPI_File_write_ordered_begin##C(file, &rank, 1, MPI_INT);             \
    MPI_File_write_ordered_end(file, &rank, MPI_STATUS_IGNORE);           \
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);                          \
    MPI_File_read_ordered_begin##C(file, &got, 1, MPI_INT);               \
    MPI_File_read_ordered_end(file, &got, MPI_STATUS_IGNORE);             \
    expect("read in order", got, rank);                                   \
    MPI_File_write_at_all_begin##C(file, size + rank, &rank, 1, MPI_INT); \
    MPI_File_write_at_all_end(file, &rank, MPI_STATUS_IGNORE);            \
    got = -1;                                                             \
    MPI_File_read_at_all_begin##C(file, size + rank, &got, 1, MPI_INT);   \
    MPI_File_read_at_all_end(file, &got, MPI_STATUS_IGNORE);              \
    expect("read at a place", got, rank);                                 \
    MPI_File_seek(file, rank, MPI_SEEK_SET);                              \
    MPI_File_write_all_begin##C(file, &rank, 1, MPI_INT);                 \
    MPI_File_write_all_end(file, &rank, MPI_STATUS_IGNORE);               \
    MPI_File_seek(file, rank, MPI_SEEK_SET);                              \
    got = -1;                                                             \
    MPI_File_read_all_begin##C(file, &got, 1, MPI_INT);                   \
    MPI_File_read_all_end(file, &got, MPI_STATUS_IGNORE);                 \
    expect("read by all", got, rank);
    EACH_FORM()
#if MPI_VERSION >= 4
    EACH_FORM(_c)
#endif
    MPI_File_set_atomicity(file, 1);
    MPI_File_set_info(file, info);
    MPI_File_close(&file);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 3 || size > RANKS_MAX) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Info_create(&info);
    topologies();
    windows();
    messages();
    files();
    MPI_Info_free(&info);
    MPI_Finalize();
    return 0;
}
