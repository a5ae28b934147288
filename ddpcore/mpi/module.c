/* libddp_mpi.so: the table of abi.h, filled with an installed MPI. Built only where its
 * development files are; loaded by library.c, never linked. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "ddpcore/mpi/abi.h"

_Static_assert(sizeof(MPI_Comm) <= sizeof(struct ddp_mpi_handle), "a handle holds MPI_Comm");
_Static_assert(sizeof(MPI_Request) <= sizeof(struct ddp_mpi_handle), "a handle holds MPI_Request");

static MPI_Comm comm_of(const struct ddp_mpi_handle *handle)
{
    MPI_Comm comm;

    memcpy(&comm, handle, sizeof(comm));
    return comm;
}

static MPI_Request *request_of(struct ddp_mpi_handle *handle)
{
    return (MPI_Request *)(void *)handle;
}

static void mpi_describe(char *out, size_t size_bytes)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int size = 0;

    if (MPI_Get_library_version(text, &size) != MPI_SUCCESS) {
        size = 0;
    }
    text[size < (int)sizeof(text) ? size : (int)sizeof(text) - 1] = '\0';
    (void)snprintf(out, size_bytes, "%.*s", (int)strcspn(text, ",\n"), text);
}

static void mpi_error_text(int result, char *out, size_t size_bytes)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int size = 0;
    int has_begun = 0;
    int has_ended = 0;

    (void)MPI_Initialized(&has_begun);
    (void)MPI_Finalized(&has_ended);
    if (has_begun && !has_ended && MPI_Error_string(result, text, &size) == MPI_SUCCESS &&
        size > 0) {
        (void)snprintf(out, size_bytes, "%s", text);
    } else {
        (void)snprintf(out, size_bytes, "error %d", result);
    }
}

/* The calls come from another thread than this one, but never two at a time. */
static int mpi_begin(int *out_rank, int *out_size)
{
    int provided = MPI_THREAD_SINGLE;
    int result = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);

    if (result == MPI_SUCCESS && provided < MPI_THREAD_SERIALIZED) {
        result = MPI_ERR_UNSUPPORTED_OPERATION;
    }
    if (result == MPI_SUCCESS) {
        result = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    }
    if (result == MPI_SUCCESS) {
        result = MPI_Comm_rank(MPI_COMM_WORLD, out_rank);
    }
    return result == MPI_SUCCESS ? MPI_Comm_size(MPI_COMM_WORLD, out_size) : result;
}

static int mpi_end(void)
{
    return MPI_Finalize();
}

/* Error handlers are inherited, so this one returns errors too. */
static int mpi_comm_start(struct ddp_mpi_handle *comm, struct ddp_mpi_handle *request)
{
    return MPI_Comm_idup(MPI_COMM_WORLD, (MPI_Comm *)(void *)comm, request_of(request));
}

static MPI_Datatype type_of(enum ddp_mpi_type type)
{
    switch (type) {
    case DDP_MPI_F32:
        return MPI_FLOAT;
    case DDP_MPI_F64:
        return MPI_DOUBLE;
    case DDP_MPI_I32:
        return MPI_INT32_T;
    case DDP_MPI_I64:
        return MPI_INT64_T;
    case DDP_MPI_U8:
        return MPI_UINT8_T;
    default:
        return MPI_UINT16_T;
    }
}

static MPI_Op op_of(enum ddp_mpi_op op)
{
    switch (op) {
    case DDP_MPI_SUM:
        return MPI_SUM;
    case DDP_MPI_MAX:
        return MPI_MAX;
    case DDP_MPI_MIN:
        return MPI_MIN;
    default:
        return MPI_PROD;
    }
}

static int mpi_start(const struct ddp_mpi_handle *comm, const struct ddp_mpi_call *call,
                     struct ddp_mpi_handle *request)
{
    const void *input = call->input != NULL ? call->input : MPI_IN_PLACE;
    MPI_Datatype type = type_of(call->type);

    switch (call->kind) {
    case DDP_MPI_ALL_REDUCE:
        return MPI_Iallreduce(input, call->output, call->elem_count, type, op_of(call->op),
                              comm_of(comm), request_of(request));
    case DDP_MPI_BROADCAST:
        return MPI_Ibcast(call->output, call->elem_count, type, call->root, comm_of(comm),
                          request_of(request));
    case DDP_MPI_ALL_GATHER:
        return MPI_Iallgather(input, call->elem_count, type, call->output, call->elem_count, type,
                              comm_of(comm), request_of(request));
    default:
        return MPI_Ibarrier(comm_of(comm), request_of(request));
    }
}

static int mpi_test(struct ddp_mpi_handle *request, bool *out_is_done)
{
    int is_done = 0;
    int result = MPI_Test(request_of(request), &is_done, MPI_STATUS_IGNORE);

    *out_is_done = is_done != 0;
    return result;
}

static int mpi_progress(const struct ddp_mpi_handle *comm)
{
    int is_there;

    return MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_of(comm), &is_there, MPI_STATUS_IGNORE);
}

ddp_mpi_module_fn ddp_mpi_module;

const struct ddp_mpi_module *ddp_mpi_module(void)
{
    static const struct ddp_mpi_module module = {.abi = DDP_MPI_ABI,
                                                 .describe = mpi_describe,
                                                 .error_text = mpi_error_text,
                                                 .begin = mpi_begin,
                                                 .end = mpi_end,
                                                 .comm_start = mpi_comm_start,
                                                 .start = mpi_start,
                                                 .test = mpi_test,
                                                 .progress = mpi_progress};

    return &module;
}
