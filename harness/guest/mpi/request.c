/* Purpose: calls that return at once, and are done when their request is.
 * Idea: an active request is unique in its process, so a list by request finds the call. It is
 * short: one entry for each call under way. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "harness/guest/mpi/adapter.h"

struct pending {
    MPI_Request request;
    struct ddprove_guest_call call;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pending *list;
static size_t list_count, list_capacity;

static MPI_Request null_request(void)
{
    return GUEST_MPI_OBJECT(MPI_Request, MPI_REQUEST_NULL, "ompi_request_null");
}

/* Without memory the call is not followed, as if it never ended. */
static void remember(MPI_Request request, const struct ddprove_guest_call *call)
{
    struct pending *grown;

    if (call->seq == 0) {
        return;
    }
    (void)pthread_mutex_lock(&lock);
    /* MPI has given the request to another call, so nobody saw the end of the one before. */
    for (size_t i = 0; i < list_count; i++) {
        if (list[i].request == request) {
            list[i] = list[--list_count];
            break;
        }
    }
    if (list_count == list_capacity) {
        grown = realloc(list, (2 * list_capacity + 16) * sizeof *list);
        list = grown != NULL ? grown : list;
        list_capacity = grown != NULL ? 2 * list_capacity + 16 : list_capacity;
    }
    if (list_count < list_capacity) {
        list[list_count++] = (struct pending){request, *call};
    }
    (void)pthread_mutex_unlock(&lock);
}

/* The call of a request; is_taken: it is forgotten. False: it is not one of ours. */
static int find(MPI_Request request, int is_taken, struct ddprove_guest_call *out)
{
    int is_found = 0;

    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; i < list_count && !is_found; i++) {
        if (list[i].request == request) {
            *out = list[i].call;
            is_found = 1;
            if (is_taken) {
                list[i] = list[--list_count];
            }
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return is_found;
}

/* It has been posted, or a fault leaves it out: then its request is one that is done. */
#define POST(call, out_request, function_call)              \
    do {                                                    \
        const int times = ddprove_guest_call_post(&(call)); \
        int result = 0;                                     \
        if (times == 0) {                                   \
            *(out_request) = null_request();                \
            ddprove_guest_call_done(&(call));               \
            return 0;                                       \
        }                                                   \
        result = guest_mpi()->function_call;                \
        if (result == 0) {                                  \
            remember(*(out_request), &(call));              \
        }                                                   \
        return result;                                      \
    } while (0)

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    struct ddprove_guest_call call = {
        .size_bytes = sizeof call, .comm = guest_mpi_comm(comm), .kind = DDPROVE_GUEST_BARRIER};

    POST(call, request, Ibarrier(comm, request));
}

int MPI_Ibcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm,
               MPI_Request *request)
{
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_BROADCAST, (uint64_t)count, type);

    call.root = (uint32_t)root;
    guest_mpi_data(&call, data, data);
    POST(call, request,
         Ibcast(data, guest_mpi_count(&call, count), type, (int)call.root, comm, request));
}

int MPI_Ireduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, int root,
                MPI_Comm comm, MPI_Request *request)
{
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_REDUCE, (uint64_t)count, type);

    call.redop = guest_mpi_redop(op);
    call.root = (uint32_t)root;
    guest_mpi_data_of_root(&call, comm, in, out);
    POST(call, request,
         Ireduce(guest_mpi_in(&call, in), out, guest_mpi_count(&call, count), type,
                 guest_mpi_op(&call, op), (int)call.root, comm, request));
}

int MPI_Iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_ALL_REDUCE, (uint64_t)count, type);

    call.redop = guest_mpi_redop(op);
    guest_mpi_data(&call, in, out);
    POST(call, request,
         Iallreduce(guest_mpi_in(&call, in), out, guest_mpi_count(&call, count), type,
                    guest_mpi_op(&call, op), comm, request));
}

int MPI_Iallgather(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
                   MPI_Datatype out_type, MPI_Comm comm, MPI_Request *request)
{
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_ALL_GATHER, (uint64_t)out_count, out_type);

    guest_mpi_parts(&call, comm, &(struct guest_mpi_side){in, in_count, in_type},
                    &(struct guest_mpi_side){out, out_count, out_type});
    POST(call, request,
         Iallgather(guest_mpi_in(&call, in), in_count, in_type, out, out_count, out_type, comm,
                    request));
}

int MPI_Ialltoall(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count,
                  MPI_Datatype out_type, MPI_Comm comm, MPI_Request *request)
{
    struct ddprove_guest_call call =
        guest_mpi_call(comm, DDPROVE_GUEST_ALL_TO_ALL, (uint64_t)out_count, out_type);

    guest_mpi_parts(&call, comm, &(struct guest_mpi_side){in, in_count, in_type},
                    &(struct guest_mpi_side){out, out_count, out_type});
    POST(call, request,
         Ialltoall(guest_mpi_in(&call, in), in_count, in_type, out, out_count, out_type, comm,
                   request));
}

/* --- completion
 * ---------------------------------------------------------------------------------------------------
 */

static void done(MPI_Request request)
{
    struct ddprove_guest_call call;

    if (find(request, 1, &call)) {
        ddprove_guest_call_done(&call);
    }
}

/* The first of the calls that a thread is about to wait for stands for all of them. */
static int wait_begin(int count, const MPI_Request *requests, struct ddprove_guest_call *out)
{
    for (int i = 0; i < count; i++) {
        if (find(requests[i], 0, out)) {
            ddprove_guest_call_wait_begin(out);
            return 1;
        }
    }
    return 0;
}

/* MPI overwrites requests that are done, so they are copied before. NULL: none of them is of
 * interest, or there is no memory. */
static MPI_Request *copy_of(int count, const MPI_Request *requests)
{
    MPI_Request *copy = list_count > 0 && count > 0 ? malloc((size_t)count * sizeof *copy) : NULL;

    if (copy != NULL) {
        memcpy(copy, requests, (size_t)count * sizeof *copy);
    }
    return copy;
}

int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    const MPI_Request before = *request;
    struct ddprove_guest_call call;
    const int is_waiting = list_count > 0 && wait_begin(1, request, &call);
    const int result = guest_mpi()->Wait(request, status);

    if (is_waiting) {
        ddprove_guest_call_wait_end(&call);
        done(before);
    }
    return result;
}

int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[])
{
    MPI_Request *before = copy_of(count, requests);
    struct ddprove_guest_call call;
    const int is_waiting = before != NULL && wait_begin(count, requests, &call);
    const int result = guest_mpi()->Waitall(count, requests, statuses);

    if (is_waiting) {
        ddprove_guest_call_wait_end(&call);
    }
    for (int i = 0; before != NULL && result == 0 && i < count; i++) {
        done(before[i]);
    }
    free(before);
    return result;
}

int MPI_Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    MPI_Request *before = copy_of(count, requests);
    struct ddprove_guest_call call;
    const int is_waiting = before != NULL && wait_begin(count, requests, &call);
    const int result = guest_mpi()->Waitany(count, requests, index, status);

    if (is_waiting) {
        ddprove_guest_call_wait_end(&call);
    }
    if (before != NULL && result == 0 && *index >= 0 && *index < count) {
        done(before[*index]);
    }
    free(before);
    return result;
}

int MPI_Waitsome(int count, MPI_Request requests[], int *done_count, int indices[],
                 MPI_Status statuses[])
{
    MPI_Request *before = copy_of(count, requests);
    struct ddprove_guest_call call;
    const int is_waiting = before != NULL && wait_begin(count, requests, &call);
    const int result = guest_mpi()->Waitsome(count, requests, done_count, indices, statuses);

    if (is_waiting) {
        ddprove_guest_call_wait_end(&call);
    }
    for (int i = 0;
         before != NULL && result == 0 && *done_count != MPI_UNDEFINED && i < *done_count; i++) {
        done(before[indices[i]]);
    }
    free(before);
    return result;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    const MPI_Request before = *request;
    const int result = guest_mpi()->Test(request, flag, status);

    if (result == 0 && *flag != 0 && list_count > 0) {
        done(before);
    }
    return result;
}

int MPI_Testall(int count, MPI_Request requests[], int *flag, MPI_Status statuses[])
{
    MPI_Request *before = copy_of(count, requests);
    const int result = guest_mpi()->Testall(count, requests, flag, statuses);

    for (int i = 0; before != NULL && result == 0 && *flag != 0 && i < count; i++) {
        done(before[i]);
    }
    free(before);
    return result;
}

int MPI_Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    MPI_Request *before = copy_of(count, requests);
    const int result = guest_mpi()->Testany(count, requests, index, flag, status);

    if (before != NULL && result == 0 && *flag != 0 && *index >= 0 && *index < count) {
        done(before[*index]);
    }
    free(before);
    return result;
}

int MPI_Testsome(int count, MPI_Request requests[], int *done_count, int indices[],
                 MPI_Status statuses[])
{
    MPI_Request *before = copy_of(count, requests);
    const int result = guest_mpi()->Testsome(count, requests, done_count, indices, statuses);

    for (int i = 0;
         before != NULL && result == 0 && *done_count != MPI_UNDEFINED && i < *done_count; i++) {
        done(before[indices[i]]);
    }
    free(before);
    return result;
}
