/* Calls that return when their part is done. What a fault makes of a call (once, not at all, twice)
 * is in the count that its beginning returns. */
#include "harness/guest/mpi/adapter.h"

struct ddprove_guest_call guest_mpi_call(MPI_Comm comm, uint32_t kind, uint64_t count,
                                         MPI_Datatype type)
{
    struct ddprove_guest_call call = {
        .size_bytes = sizeof call, .comm = guest_mpi_comm(comm), .kind = kind};

    if (call.comm != 0) {
        call.dtype = guest_mpi_dtype(type, count, &call.elem_count);
    }
    return call;
}

void guest_mpi_data(struct ddprove_guest_call *call, const void *in, void *out)
{
    if (call->comm != 0 && call->dtype != DDPROVE_GUEST_BYTES) {
        call->in = in == MPI_IN_PLACE ? out : in;
        call->out = out;
    }
}

static int rank_of(MPI_Comm comm)
{
    int rank = -1;

    (void)guest_mpi()->Comm_rank(comm, &rank);
    return rank;
}

void guest_mpi_data_of_root(struct ddprove_guest_call *call, MPI_Comm comm, const void *in,
                            void *out)
{
    guest_mpi_data(call, in, out);
    if (call->out != NULL && rank_of(comm) != (int)call->root) {
        call->out = NULL;
    }
}

static int is_shown(const struct ddprove_guest_call *call, const struct guest_mpi_side *side)
{
    uint64_t elem_count = 0;

    return side->data != MPI_IN_PLACE &&
           guest_mpi_dtype(side->type, (uint64_t)side->count, &elem_count) == call->dtype &&
           elem_count == call->elem_count;
}

void guest_mpi_parts(struct ddprove_guest_call *call, MPI_Comm comm,
                     const struct guest_mpi_side *in, const struct guest_mpi_side *out)
{
    const int is_root = call->comm != 0 && rank_of(comm) == (int)call->root;
    const int has_in = call->kind != DDPROVE_GUEST_SCATTER || is_root;
    const int has_out = call->kind != DDPROVE_GUEST_GATHER || is_root;
    int size = 1;

    if (call->comm == 0 || call->dtype == DDPROVE_GUEST_BYTES || (has_in && !is_shown(call, in)) ||
        (has_out && !is_shown(call, out))) {
        return;
    }
    (void)guest_mpi()->Comm_size(comm, &size);
    call->in = has_in ? in->data : NULL;
    call->out = has_out ? (void *)(uintptr_t)out->data : NULL;
    call->out_count =
        call->kind == DDPROVE_GUEST_SCATTER ? call->elem_count : call->elem_count * (uint64_t)size;
}

const void *guest_mpi_in(const struct ddprove_guest_call *call, const void *in)
{
    return in == MPI_IN_PLACE || call->in == NULL ? in : call->in;
}

int guest_mpi_count(const struct ddprove_guest_call *call, int count)
{
    return call->comm != 0 && call->dtype != DDPROVE_GUEST_BYTES ? (int)call->elem_count : count;
}

MPI_Op guest_mpi_op(const struct ddprove_guest_call *call, MPI_Op op)
{
    return call->comm != 0 ? guest_mpi_op_of(call->redop, op) : op;
}

/* Of the variants in which each rank has counts of its own, only the kind and the root are the same
 * on all. */
static struct ddprove_guest_call varying(MPI_Comm comm, uint32_t kind)
{
    return (struct ddprove_guest_call){.size_bytes = sizeof(struct ddprove_guest_call),
                                       .comm = guest_mpi_comm(comm),
                                       .kind = kind};
}

/* A call that fails has no result. */
#define MAKE(call, function_call)                                     \
    do {                                                              \
        int result = 0;                                               \
        for (int n = ddprove_guest_call_begin(&(call)); n > 0; n--) { \
            result = guest_mpi()->function_call;                      \
        }                                                             \
        (call).out = result == 0 ? (call).out : NULL;                 \
        ddprove_guest_call_end(&(call));                              \
        return result;                                                \
    } while (0)

int MPI_Barrier(MPI_Comm comm)
{
    struct ddprove_guest_call call = varying(comm, DDPROVE_GUEST_BARRIER);

    MAKE(call, Barrier(comm));
}

int MPI_Bcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_BROADCAST, (uint64_t)count, type);

    call.root = (uint32_t)root;
    guest_mpi_data(&call, data, data);
    MAKE(call, Bcast(data, guest_mpi_count(&call, count), type, (int)call.root, comm));
}

int MPI_Reduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm comm)
{
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_REDUCE, (uint64_t)count, type);

    call.redop = guest_mpi_redop(op);
    call.root = (uint32_t)root;
    guest_mpi_data_of_root(&call, comm, in, out);
    MAKE(call, Reduce(guest_mpi_in(&call, in), out, guest_mpi_count(&call, count), type,
                      guest_mpi_op(&call, op), (int)call.root, comm));
}

int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_ALL_REDUCE, (uint64_t)count, type);

    call.redop = guest_mpi_redop(op);
    guest_mpi_data(&call, in, out);
    MAKE(call, Allreduce(guest_mpi_in(&call, in), out, guest_mpi_count(&call, count), type,
                         guest_mpi_op(&call, op), comm));
}

int MPI_Scan(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_SCAN, (uint64_t)count, type);

    call.redop = guest_mpi_redop(op);
    guest_mpi_data(&call, in, out);
    MAKE(call, Scan(guest_mpi_in(&call, in), out, guest_mpi_count(&call, count), type,
                    guest_mpi_op(&call, op), comm));
}

int MPI_Exscan(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_EXSCAN, (uint64_t)count, type);

    call.redop = guest_mpi_redop(op);
    guest_mpi_data(&call, in, out);
    MAKE(call, Exscan(guest_mpi_in(&call, in), out, guest_mpi_count(&call, count), type,
                      guest_mpi_op(&call, op), comm));
}

int MPI_Reduce_scatter_block(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                             MPI_Comm comm)
{
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_REDUCE_SCATTER, (uint64_t)count, type);

    call.redop = guest_mpi_redop(op);
    guest_mpi_data(&call, in, out);
    MAKE(call, Reduce_scatter_block(guest_mpi_in(&call, in), out, guest_mpi_count(&call, count),
                                    type, guest_mpi_op(&call, op), comm));
}

int MPI_Reduce_scatter(const void *in, void *out, const int counts[], MPI_Datatype type, MPI_Op op,
                       MPI_Comm comm)
{
    struct ddprove_guest_call call = varying(comm, DDPROVE_GUEST_REDUCE_SCATTER);

    call.redop = guest_mpi_redop(op);
    MAKE(call, Reduce_scatter(in, out, counts, type, op, comm));
}

int MPI_Allgather(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
                  MPI_Datatype out_type, MPI_Comm comm)
{
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_ALL_GATHER, (uint64_t)out_count, out_type);

    guest_mpi_parts(&call, comm, &(struct guest_mpi_side){in, in_count, in_type},
                    &(struct guest_mpi_side){out, out_count, out_type});
    MAKE(call,
         Allgather(guest_mpi_in(&call, in), in_count, in_type, out, out_count, out_type, comm));
}

int MPI_Alltoall(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
                 MPI_Datatype out_type, MPI_Comm comm)
{
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_ALL_TO_ALL, (uint64_t)out_count, out_type);

    guest_mpi_parts(&call, comm, &(struct guest_mpi_side){in, in_count, in_type},
                    &(struct guest_mpi_side){out, out_count, out_type});
    MAKE(call,
         Alltoall(guest_mpi_in(&call, in), in_count, in_type, out, out_count, out_type, comm));
}

/* The root alone says what it receives; each rank what it sends, but a root that keeps its part
 * where it is. */
int MPI_Gather(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
               MPI_Datatype out_type, int root, MPI_Comm comm)
{
    const int is_in_place = in == MPI_IN_PLACE;
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_GATHER, (uint64_t)(is_in_place ? out_count : in_count),
                       is_in_place ? out_type : in_type);

    call.root = (uint32_t)root;
    guest_mpi_parts(&call, comm, &(struct guest_mpi_side){in, in_count, in_type},
                    &(struct guest_mpi_side){out, out_count, out_type});
    MAKE(call, Gather(guest_mpi_in(&call, in), in_count, in_type, out, out_count, out_type,
                      (int)call.root, comm));
}

int MPI_Scatter(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
                MPI_Datatype out_type, int root, MPI_Comm comm)
{
    const int is_in_place = out == MPI_IN_PLACE;
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_SCATTER, (uint64_t)(is_in_place ? in_count : out_count),
                       is_in_place ? in_type : out_type);

    call.root = (uint32_t)root;
    guest_mpi_parts(&call, comm, &(struct guest_mpi_side){in, in_count, in_type},
                    &(struct guest_mpi_side){out, out_count, out_type});
    MAKE(call, Scatter(guest_mpi_in(&call, in), in_count, in_type, out, out_count, out_type,
                       (int)call.root, comm));
}

/* MPI's own parameters: NOLINTNEXTLINE(readability-function-size) */
int MPI_Gatherv(const void *in, int in_count, MPI_Datatype in_type, void *out,
                const int out_counts[], const int places[], MPI_Datatype out_type, int root,
                MPI_Comm comm)
{
    struct ddprove_guest_call call = varying(comm, DDPROVE_GUEST_GATHER);

    call.root = (uint32_t)root;
    MAKE(call, Gatherv(in, in_count, in_type, out, out_counts, places, out_type, root, comm));
}

/* MPI's own parameters: NOLINTNEXTLINE(readability-function-size) */
int MPI_Scatterv(const void *in, const int in_counts[], const int places[], MPI_Datatype in_type,
                 void *out, int out_count, MPI_Datatype out_type, int root, MPI_Comm comm)
{
    struct ddprove_guest_call call = varying(comm, DDPROVE_GUEST_SCATTER);

    call.root = (uint32_t)root;
    MAKE(call, Scatterv(in, in_counts, places, in_type, out, out_count, out_type, root, comm));
}

int MPI_Allgatherv(const void *in, int in_count, MPI_Datatype in_type, void *out,
                   const int out_counts[], const int places[], MPI_Datatype out_type, MPI_Comm comm)
{
    struct ddprove_guest_call call = varying(comm, DDPROVE_GUEST_ALL_GATHER);

    MAKE(call, Allgatherv(in, in_count, in_type, out, out_counts, places, out_type, comm));
}

/* MPI's own parameters: NOLINTNEXTLINE(readability-function-size) */
int MPI_Alltoallv(const void *in, const int in_counts[], const int in_places[],
                  MPI_Datatype in_type, void *out, const int out_counts[], const int out_places[],
                  MPI_Datatype out_type, MPI_Comm comm)
{
    struct ddprove_guest_call call = varying(comm, DDPROVE_GUEST_ALL_TO_ALL);

    MAKE(call,
         Alltoallv(in, in_counts, in_places, in_type, out, out_counts, out_places, out_type, comm));
}

/* MPI's own parameters: NOLINTNEXTLINE(readability-function-size) */
int MPI_Alltoallw(const void *in, const int in_counts[], const int in_places[],
                  const MPI_Datatype in_types[], void *out, const int out_counts[],
                  const int out_places[], const MPI_Datatype out_types[], MPI_Comm comm)
{
    struct ddprove_guest_call call = varying(comm, DDPROVE_GUEST_ALL_TO_ALL);

    MAKE(call, Alltoallw(in, in_counts, in_places, in_types, out, out_counts, out_places, out_types,
                         comm));
}
