/* An MPI program that makes one call of every form: blocking, at once, started again and again,
 * with large counts; on communicators of every making; with types and operations of its own. It
 * checks its results, so whatever stands before its MPI has passed everything on.
 *
 * Usage: mpi_forms [FAULT RANK]; FAULT: count or root, of the call with a type and operation of its
 * own. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif
#if MPI_VERSION >= 4 || (defined OPEN_MPI && OMPI_MAJOR_VERSION >= 5)
#define INIT(name) MPI_##name##_init
#elif defined OMPI_HAVE_MPI_EXT_PCOLLREQ
#define INIT(name) MPIX_##name##_init
#endif

/* MPICH 4.0's MPI_Gather_init brings nothing when it is started again. */
#if defined MPICH_NUMVERSION && MPICH_NUMVERSION < 40100000
enum { STARTS = 1 };
#else
enum { STARTS = 2 };
#endif
enum { COUNT = 64, RANKS_MAX = 8 };

static int rank, size;
static float one[COUNT], many[COUNT * RANKS_MAX], out[COUNT * RANKS_MAX];
static int counts[RANKS_MAX], places[RANKS_MAX];
static MPI_Datatype types[RANKS_MAX];

static void expect(const char *what, float got, float expected)
{
    if (got != expected) {
        (void)fprintf(stderr, "%s: %g, not %g\n", what, (double)got, (double)expected);
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
}

/* Rank r puts in r + 1. */
static float sum(void)
{
    return (float)(size * (size + 1) / 2);
}

static void fill(void)
{
    for (int i = 0; i < COUNT * RANKS_MAX; i++) {
        one[i % COUNT] = (float)(rank + 1);
        many[i] = (float)(rank + 1);
        out[i] = -1;
    }
}

/* What all of the forms below bring, call by call: FORM(name, arguments without the request). */
#define FORMS(FORM)                                                                            \
    FORM(Bcast, bcast, (out, COUNT, MPI_FLOAT, 0, MPI_COMM_WORLD))                             \
    FORM(Reduce, reduce, (one, out, COUNT, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD))             \
    FORM(Allreduce, allreduce, (one, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD))          \
    FORM(Scan, scan, (one, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD))                    \
    FORM(Exscan, exscan, (one, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD))                \
    FORM(Reduce_scatter_block, reduce_scatter_block,                                           \
         (many, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD))                               \
    FORM(Allgather, allgather, (one, COUNT, MPI_FLOAT, out, COUNT, MPI_FLOAT, MPI_COMM_WORLD)) \
    FORM(Alltoall, alltoall, (many, COUNT, MPI_FLOAT, out, COUNT, MPI_FLOAT, MPI_COMM_WORLD))  \
    FORM(Gather, gather, (one, COUNT, MPI_FLOAT, out, COUNT, MPI_FLOAT, 0, MPI_COMM_WORLD))    \
    FORM(Scatter, scatter, (many, COUNT, MPI_FLOAT, out, COUNT, MPI_FLOAT, 0, MPI_COMM_WORLD))
/* Those with a count for each member, of which there are int counts only. */
#define FORMS_V(FORM)                                                                             \
    FORM(Barrier, barrier, (MPI_COMM_WORLD))                                                      \
    FORM(Reduce_scatter, reduce_scatter, (many, out, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD)) \
    FORM(Gatherv, gatherv,                                                                        \
         (one, COUNT, MPI_FLOAT, out, counts, places, MPI_FLOAT, 0, MPI_COMM_WORLD))              \
    FORM(Scatterv, scatterv,                                                                      \
         (many, counts, places, MPI_FLOAT, out, COUNT, MPI_FLOAT, 0, MPI_COMM_WORLD))             \
    FORM(Allgatherv, allgatherv,                                                                  \
         (one, COUNT, MPI_FLOAT, out, counts, places, MPI_FLOAT, MPI_COMM_WORLD))                 \
    FORM(Alltoallv, alltoallv,                                                                    \
         (many, counts, places, MPI_FLOAT, out, counts, places, MPI_FLOAT, MPI_COMM_WORLD))       \
    FORM(Alltoallw, alltoallw,                                                                    \
         (many, counts, bytes, types, out, counts, bytes, types, MPI_COMM_WORLD))

/* The first element that rank 0 and the others have then. */
static void check(const char *name)
{
    static const struct {
        const char *name;
        int is_at_root; /* the others have nothing */
        int what;       /* 0: the sum, 1: rank 0's, 2: the sum so far, 3: the sum before */
    } results[] = {{"Reduce", 1, 0},         {"Allreduce", 0, 0}, {"Reduce_scatter_block", 0, 0},
                   {"Allgather", 0, 1},      {"Alltoall", 0, 1},  {"Gather", 1, 1},
                   {"Scatter", 0, 1},        {"Scan", 0, 2},      {"Exscan", 0, 3},
                   {"Reduce_scatter", 0, 0}, {"Gatherv", 1, 1},   {"Scatterv", 0, 1},
                   {"Allgatherv", 0, 1},     {"Alltoallv", 0, 1}, {"Alltoallw", 0, 1}};
    const float so_far = (float)((rank + 1) * (rank + 2) / 2);

    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        const float expected[] = {sum(), 1, so_far, so_far - (float)(rank + 1)};

        if (strcmp(results[i].name, name) == 0 && (rank == 0 || !results[i].is_at_root) &&
            (rank > 0 || results[i].what != 3)) {
            expect(name, out[0], expected[results[i].what]);
            expect(name, out[COUNT - 1], expected[results[i].what]);
        }
    }
    fill();
}

static void collectives(void)
{
    int bytes[RANKS_MAX];
    MPI_Request request;

    for (int i = 0; i < RANKS_MAX; i++) {
        bytes[i] = places[i] * (int)sizeof(float);
    }
#define UNPACK(...) __VA_ARGS__
#define FORM(name, small, arguments)          \
    MPI_##name arguments;                     \
    check(#name);                             \
    MPI_I##small(UNPACK arguments, &request); \
    MPI_Wait(&request, MPI_STATUS_IGNORE);    \
    check(#name);
    FORMS(FORM)
    FORMS_V(FORM)
#undef FORM
#ifdef INIT
#define FORM(name, small, arguments)                       \
    INIT(name)(UNPACK arguments, MPI_INFO_NULL, &request); \
    for (int i = 0; i < STARTS; i++) {                     \
        MPI_Start(&request);                               \
        MPI_Wait(&request, MPI_STATUS_IGNORE);             \
        check(#name);                                      \
    }                                                      \
    MPI_Request_free(&request);
    FORMS(FORM)
    FORMS_V(FORM)
#undef FORM
#endif
#if MPI_VERSION >= 4
#define FORM(name, small, arguments)                                \
    MPI_##name##_c arguments;                                       \
    check(#name);                                                   \
    MPI_I##small##_c(UNPACK arguments, &request);                   \
    MPI_Wait(&request, MPI_STATUS_IGNORE);                          \
    check(#name);                                                   \
    MPI_##name##_init_c(UNPACK arguments, MPI_INFO_NULL, &request); \
    MPI_Start(&request);                                            \
    MPI_Wait(&request, MPI_STATUS_IGNORE);                          \
    MPI_Request_free(&request);                                     \
    check(#name);
    FORMS(FORM)
#undef FORM
#endif
}

/* A program may ask whether there are large counts by whether their functions are there, as mpi4py
 * does. With an MPI that has none, something else may have put them there: then they work. */
#if MPI_VERSION < 4
#define WEAK __attribute__((weak))
WEAK int MPI_Allreduce_c(const void *in, void *result, MPI_Count count, MPI_Datatype type,
                         MPI_Op op, MPI_Comm comm);
WEAK int MPI_Gatherv_c(const void *in, MPI_Count count, MPI_Datatype type, void *result,
                       const MPI_Count result_counts[], const MPI_Aint result_places[],
                       MPI_Datatype result_type, int root, MPI_Comm comm);
WEAK int MPI_Ialltoallv_c(const void *in, const MPI_Count in_counts[], const MPI_Aint in_places[],
                          MPI_Datatype in_type, void *result, const MPI_Count result_counts[],
                          const MPI_Aint result_places[], MPI_Datatype result_type, MPI_Comm comm,
                          MPI_Request *request);
WEAK int MPI_Sendrecv_c(const void *data, MPI_Count count, MPI_Datatype type, int to, int tag,
                        void *in, MPI_Count in_count, MPI_Datatype in_type, int from, int in_tag,
                        MPI_Comm comm, MPI_Status *status);
#endif

static void large(void)
{
    MPI_Count large_counts[RANKS_MAX];
    MPI_Aint large_places[RANKS_MAX];
    MPI_Request request;

    for (int i = 0; i < RANKS_MAX; i++) {
        large_counts[i] = COUNT;
        large_places[i] = (MPI_Aint)i * COUNT;
    }
    if (MPI_Allreduce_c != NULL) {
        MPI_Allreduce_c(one, out, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        check("Allreduce");
        MPI_Gatherv_c(one, COUNT, MPI_FLOAT, out, rank == 0 ? large_counts : NULL,
                      rank == 0 ? large_places : (MPI_Aint *)8, MPI_FLOAT, 0, MPI_COMM_WORLD);
        check("Gatherv");
        MPI_Ialltoallv_c(many, large_counts, large_places, MPI_FLOAT, out, large_counts,
                         large_places, MPI_FLOAT, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        check("Alltoallv");
        MPI_Sendrecv_c(one, COUNT, MPI_FLOAT, (rank + 1) % size, 4, out, COUNT, MPI_FLOAT,
                       (rank + size - 1) % size, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        expect("Sendrecv_c", out[COUNT - 1], (float)((rank + size - 1) % size + 1));
        fill();
    }
}

/* One all-reduce in a communicator, so that its members are compared. */
static void use(MPI_Comm comm)
{
    int members = 0;
    float number = 1;
    float total = 0;

    if (comm != MPI_COMM_NULL) {
        MPI_Comm_size(comm, &members);
        MPI_Allreduce(&number, &total, 1, MPI_FLOAT, MPI_SUM, comm);
        expect("members", total, (float)members);
        MPI_Comm_free(&comm);
    }
}

static void neighbours(MPI_Comm ring)
{
    float in[2] = {0, 0};
    float mine[2] = {(float)rank, (float)rank};
    MPI_Request request;

    MPI_Neighbor_allgather(mine, 1, MPI_FLOAT, in, 1, MPI_FLOAT, ring);
    expect("from the left", in[0], (float)((rank + size - 1) % size));
    MPI_Ineighbor_alltoall(mine, 1, MPI_FLOAT, in, 1, MPI_FLOAT, ring, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    expect("from the right", in[1], (float)((rank + 1) % size));
}

static void topologies(void)
{
    const int periodic = 1;
    const int keep = 1;
    int index[RANKS_MAX];
    int edges[RANKS_MAX];
    const int left = (rank + size - 1) % size;
    const int right = (rank + 1) % size;
    const int degree = 1;
    MPI_Comm made;
    MPI_Comm part;

    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &made);
    neighbours(made);
    MPI_Cart_sub(made, &keep, &part);
    use(part);
    use(made);
    for (int i = 0; i < size; i++) {
        index[i] = i + 1;
        edges[i] = (i + 1) % size;
    }
    MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &made);
    use(made);
    MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &rank, &degree, &right, MPI_UNWEIGHTED, MPI_INFO_NULL,
                          0, &made);
    use(made);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right,
                                   MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &made);
    use(made);
}

static void communicators(void)
{
    MPI_Comm made;
    MPI_Comm other;
    MPI_Group all;
    MPI_Group some;
    MPI_Request request;
    const int second = 1;

    MPI_Comm_dup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, &made);
    use(made);
    MPI_Comm_idup(MPI_COMM_WORLD, &made, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    use(made);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &made);
    use(made);
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &made);
    use(made);
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    MPI_Group_excl(all, 1, &second, &some);
    MPI_Comm_create(MPI_COMM_WORLD, some, &made);
    use(made);
    for (int i = 0; rank != 1 && i < 3; i++) { /* its members alone */
        MPI_Comm_create_group(MPI_COMM_WORLD, some, 7, &made);
        use(made);
    }
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    /* Two groups, and both together again. */
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0, 0, &made);
    MPI_Intercomm_create(made, 0, MPI_COMM_WORLD, rank == 0, 5, &other);
    MPI_Barrier(other);
    MPI_Comm_free(&made);
    MPI_Intercomm_merge(other, rank == 0, &made);
    MPI_Comm_free(&other);
    use(made);
}

static void larger(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < 2 * *count; i++) {
        if (((float *)in)[i] > ((float *)inout)[i]) {
            ((float *)inout)[i] = ((float *)in)[i];
        }
    }
}

/* A type and an operation of the program's own. */
static void own(const char *fault, int fault_rank)
{
    MPI_Datatype pair;
    MPI_Op op;

    MPI_Type_contiguous(2, MPI_FLOAT, &pair);
    MPI_Type_commit(&pair);
    MPI_Op_create(larger, 1, &op);
    fill();
    if (fault_rank >=
        0) { /* MPI finds some faults, too, and is not to end a rank before it has posted */
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    }
    MPI_Allreduce(one, out, rank == fault_rank && strcmp(fault, "count") == 0 ? 8 : 16, pair, op,
                  MPI_COMM_WORLD);
    if (fault_rank < 0) {
        expect("an operation of its own", out[0], (float)size);
    }
    MPI_Bcast(out, 16, pair, rank == fault_rank && strcmp(fault, "root") == 0 ? 1 : 0,
              MPI_COMM_WORLD);
    MPI_Op_free(&op);
    MPI_Type_free(&pair);
}

int main(int argc, char **argv)
{
    const int fault_rank = argc > 2 ? (int)strtol(argv[2], NULL, 10) : -1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size < 3 || size > RANKS_MAX) {
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (int i = 0; i < RANKS_MAX; i++) {
        counts[i] = COUNT;
        places[i] = i * COUNT;
        types[i] = MPI_FLOAT;
    }
    fill();
    collectives();
    large();
    communicators();
    topologies();
    own(argc > 2 ? argv[1] : "", fault_rank);
    MPI_Finalize();
    return 0;
}
