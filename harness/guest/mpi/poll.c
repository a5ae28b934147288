/* Functions that ask whether something has come: a program that calls one in a loop waits, though
 * it sits in no call. And messages in parts, which are asked for part by part. */
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

/* Once it is said to be done, its buffers are the program's again. */
int MPI_Request_get_status(uint64_t request, int *flag, void *status)
{
    struct guest_mpi_asked asked = {.request = guest_mpi_clean(request)};
    struct guest_mpi_pending pending;
    int result;

    if (guest_mpi_pending_is_any()) {
        guest_mpi_pending_ask(&asked, 1);
    }
    result = guest_mpi()->Request_get_status(request, flag, status);
    if (result == 0 && *flag != 0) {
        if (guest_mpi_pending_find(&asked, &pending) && pending.is_active &&
            pending.kind == GUEST_MPI_PENDING_MESSAGE) {
            guest_wait_count();
        }
        guest_mpi_pending_end(&asked, result, 1);
    }
    answered(asked.request, result, result == 0 && *flag != 0);
    return result;
}
GUEST_MPI_ALSO(Request_get_status);

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
