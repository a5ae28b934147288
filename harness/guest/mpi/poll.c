/* Functions that ask whether something has come: a program that calls one in a loop waits, though
 * it sits in no call. And messages in parts, which are asked for part by part. */
#include <stdlib.h>

#include "harness/guest/call.h"
#include "harness/guest/mpi/pending.h"

/* What was asked, and the answer. */
static void answered(uint64_t request, int result, int is_there)
{
    struct guest_mpi_pending pending;

    if (result != 0 || is_there) {
        guest_poll_over();
    } else if (guest_mpi_pending_of(request, &pending) && pending.is_active) {
        if (pending.kind == GUEST_MPI_PENDING_CALL) {
            guest_poll_show(pending.call.comm, pending.call.seq);
        } else {
            guest_mpi_poll(pending.comm, pending.peer, pending.other);
        }
    }
}

/* Once it is said to be done, its buffers are the program's again, though its request is kept. */
static void found_done(const struct guest_mpi_asked *asked, int result)
{
    struct guest_mpi_pending pending;

    if (guest_mpi_pending_find(asked, &pending) && pending.is_active &&
        pending.kind == GUEST_MPI_PENDING_MESSAGE) {
        guest_wait_count();
    }
    guest_mpi_pending_end(asked, result, 1);
}

int MPI_Request_get_status(uint64_t request, int *flag, void *status)
{
    struct guest_mpi_asked asked = {.request = guest_mpi_clean(request)};
    int result;

    if (guest_mpi_pending_is_any()) {
        guest_mpi_pending_ask(&asked, 1);
    }
    result = guest_mpi()->Request_get_status(request, flag, status);
    if (result == 0 && *flag != 0) {
        found_done(&asked, result);
    }
    answered(asked.request, result, result == 0 && *flag != 0);
    return result;
}
GUEST_MPI_ALSO(Request_get_status);

/* What was asked, before MPI is asked. NULL: nobody watches, or there is no memory. */
static struct guest_mpi_asked *ask_all(int count, const void *requests)
{
    struct guest_mpi_asked *asked =
        guest_mpi_pending_is_any() && count > 0 ? malloc((size_t)count * sizeof *asked) : NULL;

    for (int i = 0; asked != NULL && i < count; i++) {
        asked[i].request = guest_mpi_load(requests, (size_t)i);
    }
    if (asked != NULL) {
        guest_mpi_pending_ask(asked, count);
    }
    return asked;
}

/* So many of them are done, which indices says; NULL: the first ones. Of several it is not told
 * which one a program needs. */
static void answered_all(struct guest_mpi_asked *asked, int count, int result, int done_count,
                         const int *indices)
{
    for (int i = 0; asked != NULL && result == 0 && i < done_count; i++) {
        found_done(&asked[indices != NULL ? indices[i] : i], result);
    }
    if (asked != NULL && count == 1) {
        answered(asked[0].request, result, done_count != 0);
    } else if (asked != NULL && result == 0 && done_count == 0) {
        guest_poll_show(guest_mpi_world(), guest_wait_pack(-1, -1));
    } else {
        guest_poll_over();
    }
    free(asked);
}

int MPI_Request_get_status_all(int count, const void *requests, int *flag, void *statuses)
{
    struct guest_mpi_asked *asked = ask_all(count, requests);
    const int result = guest_mpi()->Request_get_status_all == NULL
                           ? GUEST_MPI_LACKING
                           : guest_mpi()->Request_get_status_all(count, requests, flag, statuses);

    answered_all(asked, count, result, result == 0 && *flag != 0 ? count : 0, NULL);
    return result;
}
GUEST_MPI_ALSO(Request_get_status_all);

/* Of none that is under way, all are done, and the index is MPI_UNDEFINED. */
int MPI_Request_get_status_any(int count, const void *requests, int *index, int *flag, void *status)
{
    struct guest_mpi_asked *asked = ask_all(count, requests);
    const int result =
        guest_mpi()->Request_get_status_any == NULL
            ? GUEST_MPI_LACKING
            : guest_mpi()->Request_get_status_any(count, requests, index, flag, status);

    if (result == 0 && *flag != 0 && *index < 0) {
        guest_poll_over();
        free(asked);
    } else {
        answered_all(asked, count, result, result == 0 && *flag != 0, index);
    }
    return result;
}
GUEST_MPI_ALSO(Request_get_status_any);

int MPI_Request_get_status_some(int count, const void *requests, int *done_count, int indices[],
                                void *statuses)
{
    struct guest_mpi_asked *asked = ask_all(count, requests);
    const int result =
        guest_mpi()->Request_get_status_some == NULL
            ? GUEST_MPI_LACKING
            : guest_mpi()->Request_get_status_some(count, requests, done_count, indices, statuses);

    /* MPI_UNDEFINED is below 0 */
    answered_all(asked, count, result, result == 0 ? *done_count : 0, indices);
    return result;
}
GUEST_MPI_ALSO(Request_get_status_some);

int MPI_Iprobe(int peer, int tag, uint64_t comm, int *flag, void *status)
{
    const int result = guest_mpi()->Iprobe(peer, tag, comm, flag, status);

    if (result != 0 || *flag != 0) {
        guest_poll_over();
    } else {
        guest_mpi_poll(comm, peer, peer);
    }
    return result;
}
GUEST_MPI_ALSO(Iprobe);

/* Whom it asks for is not known. */
int MPI_Win_test(uint64_t window, int *flag)
{
    const int result = guest_mpi()->Win_test(window, flag);

    if (result != 0 || *flag != 0) {
        guest_poll_over();
    } else if (guest_mpi_world() != 0) {
        guest_poll_show(guest_mpi_world(), guest_wait_pack(-1, -1));
    }
    return result;
}
GUEST_MPI_ALSO(Win_test);

static int readied(int result, const void *request, uint64_t comm, int peer)
{
    if (result == 0) {
        guest_mpi_request_of_message(request, comm, peer, peer, 0, 1);
    }
    return result;
}

/* MPI's own parameters: NOLINTBEGIN(readability-function-size) */
int MPI_Psend_init(const void *data, int parts, int64_t count, uint64_t type, int peer, int tag,
                   uint64_t comm, uint64_t info, void *request)
{
    return guest_mpi()->Psend_init == NULL
               ? GUEST_MPI_LACKING
               : readied(guest_mpi()->Psend_init(data, parts, count, type, peer, tag, comm, info,
                                                 request),
                         request, comm, peer);
}
GUEST_MPI_ALSO(Psend_init);

int MPI_Precv_init(void *data, int parts, int64_t count, uint64_t type, int peer, int tag,
                   uint64_t comm, uint64_t info, void *request)
{
    return guest_mpi()->Precv_init == NULL
               ? GUEST_MPI_LACKING
               : readied(guest_mpi()->Precv_init(data, parts, count, type, peer, tag, comm, info,
                                                 request),
                         request, comm, peer);
}
GUEST_MPI_ALSO(Precv_init);
/* NOLINTEND(readability-function-size) */

int MPI_Parrived(uint64_t request, int part, int *flag)
{
    const int result = guest_mpi()->Parrived != NULL ? guest_mpi()->Parrived(request, part, flag)
                                                     : GUEST_MPI_LACKING;

    answered(guest_mpi_clean(request), result, result == 0 && *flag != 0);
    return result;
}
GUEST_MPI_ALSO(Parrived);
