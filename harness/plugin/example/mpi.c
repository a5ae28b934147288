/* MPI's own all-reduce as a plug-in: the library that it is linked with, by the algorithm that the
 * library chooses, or that the user forces in the library's own way (OMPI_MCA_coll_tuned_..., or
 * MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM).
 *
 *   mpicc -shared -fPIC -I HEADERS -o mpi.so mpi.c */
#include <ddprove_coll.h>
#include <mpi.h>
#include <stddef.h>

/* What close gets; nothing is kept but in MPI. */
static int opened;

static int open_mpi(const struct ddprove_coll_host *host, void **out_self)
{
    int provided = 0;
    int rank = -1;
    int size = -1;

    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS ||
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN) != MPI_SUCCESS ||
        MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS || (uint32_t)rank != host->rank ||
        (uint32_t)size != host->size) {
        return DDPROVE_COLL_FAILED;
    }
    *out_self = &opened;
    return DDPROVE_COLL_OK;
}

static void close_mpi(void *self)
{
    (void)self;
    (void)MPI_Finalize();
}

/* 16-bit floats are none of MPI's. */
static MPI_Datatype type_of(uint32_t dtype)
{
    switch (dtype) {
    case DDPROVE_COLL_F32:
        return MPI_FLOAT;
    case DDPROVE_COLL_F64:
        return MPI_DOUBLE;
    case DDPROVE_COLL_I32:
        return MPI_INT32_T;
    case DDPROVE_COLL_I64:
        return MPI_INT64_T;
    case DDPROVE_COLL_U8:
        return MPI_UINT8_T;
    default:
        return MPI_DATATYPE_NULL;
    }
}

static MPI_Op op_of(uint32_t op)
{
    switch (op) {
    case DDPROVE_COLL_SUM:
        return MPI_SUM;
    case DDPROVE_COLL_MAX:
        return MPI_MAX;
    case DDPROVE_COLL_MIN:
        return MPI_MIN;
    case DDPROVE_COLL_PROD:
        return MPI_PROD;
    default:
        return MPI_OP_NULL;
    }
}

static int run(void *self, const struct ddprove_coll_call *call)
{
    MPI_Datatype type = type_of(call->dtype);
    MPI_Op op = op_of(call->op);

    (void)self;
    if (type == MPI_DATATYPE_NULL || op == MPI_OP_NULL || call->count > 0x7fffffff) {
        return DDPROVE_COLL_UNSUPPORTED;
    }
    return MPI_Allreduce(call->input == call->output ? MPI_IN_PLACE : call->input, call->output,
                         (int)call->count, type, op, MPI_COMM_WORLD) == MPI_SUCCESS
               ? DDPROVE_COLL_OK
               : DDPROVE_COLL_FAILED;
}

const struct ddprove_coll_opaque ddprove_coll_opaque_plugin = {
    .version = DDPROVE_COLL_OPAQUE_VERSION,
    .struct_bytes = sizeof(struct ddprove_coll_opaque),
    .name = "mpi",
    .kind = DDPROVE_COLL_ALL_REDUCE,
    .claims = DDPROVE_COLL_SAME_BITS,
    .needs = DDPROVE_COLL_BY_MPIRUN | DDPROVE_COLL_ONE_COMM,
    .open = open_mpi,
    .close = close_mpi,
    .run = run,
};
