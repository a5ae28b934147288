/* Requests that are started again and again, and given back. */
#include "harness/guest/call.h"
#include "harness/guest/fault.h"
#include "harness/guest/mpi/pending.h"

/* What its arguments are was said when it was made ready; a fault that changes them makes of it a
 * call of its own, where that is possible. Made twice, the first one has to end
 * before the second one can start. */
static int start_call(struct guest_mpi_pending *pending, void *request)
{
    uint64_t status[16];
    int times;
    int result = 0;

    pending->call = pending->about;
    if (!guest_mpi_other_can(&pending->about)) {
        guest_fault_bind(&pending->call);
    }
    times = ddprove_guest_call_post(&pending->call);
    if (times == 0) {
        ddprove_guest_call_done(&pending->call);
        return 0;
    }
    if (guest_mpi_other_is(&pending->call, &pending->about)) {
        return guest_mpi_other_make(pending);
    }
    guest_fault_swap(&pending->call, pending->about.in);
    for (int n = times; n > 0 && result == 0; n--) {
        result = guest_mpi()->Start(request);
        if (n > 1 && result == 0) {
            ddprove_guest_call_wait_begin(&pending->call);
            result = guest_mpi()->Wait(request, status);
            ddprove_guest_call_wait_end(&pending->call);
        }
    }
    pending->is_active = 1;
    guest_mpi_pending_set(pending);
    return result;
}

int MPI_Start(void *request)
{
    struct guest_mpi_pending pending;

    if (!guest_mpi_pending_of(guest_mpi_load(request, 0), &pending)) {
        return guest_mpi()->Start(request);
    }
    if (pending.kind == GUEST_MPI_PENDING_CALL) {
        return start_call(&pending, request);
    }
    pending.is_active = 1;
    guest_mpi_pending_set(&pending);
    return guest_mpi()->Start(request);
}
GUEST_MPI_ALSO(Start);

int MPI_Startall(int count, void *requests)
{
    const size_t size = (size_t)guest_mpi_names()->HANDLE_BYTES;
    int result = 0;

    if (!guest_mpi_pending_is_any()) {
        return guest_mpi()->Startall(count, requests);
    }
    for (int i = 0; i < count && result == 0; i++) {
        result = MPI_Start((char *)requests + (size_t)i * size);
    }
    return result;
}
GUEST_MPI_ALSO(Startall);

int MPI_Request_free(void *request)
{
    if (guest_mpi_pending_is_any()) {
        guest_mpi_pending_forget(guest_mpi_load(request, 0));
    }
    return guest_mpi()->Request_free(request);
}
GUEST_MPI_ALSO(Request_free);
