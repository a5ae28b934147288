/* What a thread waits for, where it is no call that is watched. */
#include "harness/guest/call.h"
#include "harness/guest/mpi/adapter.h"

int guest_mpi_call_begin(struct ddprove_guest_call *call)
{
    const int times = ddprove_guest_call_begin(call);

    if (call->comm == 0) {
        guest_wait_show(guest_mpi_world(), guest_wait_pack(-1, -1));
    }
    return times;
}

/* A call that fails has no result. */
void guest_mpi_call_end(struct ddprove_guest_call *call, int result)
{
    if (call->comm == 0) {
        guest_wait_show(0, 0);
    }
    call->out = result == 0 ? call->out : NULL;
    ddprove_guest_call_end(call);
}

/* What a wait for these ranks is: *out of the communicator that is returned; 0: there is none. */
static uint32_t wait_of(uint64_t comm, int peer, int other, uint64_t *out)
{
    const uint32_t handle = guest_mpi_world() != 0 ? guest_mpi_comm(comm) : 0;
    const struct guest_mpi_names *names = guest_mpi_names();

    *out = guest_wait_pack(-1, -1);
    if (guest_mpi_world() == 0 || (peer == names->PROC_NULL && other == names->PROC_NULL)) {
        return 0;
    }
    peer = peer == names->PROC_NULL ? other : peer;
    other = other == names->PROC_NULL ? peer : other;
    if (handle == 0 || peer < 0 || other < 0) {
        return guest_mpi_world();
    }
    *out = guest_wait_pack(peer, other == peer ? -1 : other);
    return handle;
}

void guest_mpi_wait_begin(uint64_t comm, int peer, int other)
{
    uint64_t what;
    const uint32_t handle = wait_of(comm, peer, other, &what);

    if (handle != 0) {
        guest_wait_show(handle, what);
    }
}

void guest_mpi_probe_begin(uint64_t comm, int peer)
{
    uint64_t what;
    const uint32_t handle = wait_of(comm, peer, peer, &what);

    if (handle != 0) {
        guest_wait_one_of(handle, what);
    }
}

int guest_mpi_exchange_end(uint64_t comm, int to, int from, uint64_t requests[2], int result,
                           void *status)
{
    uint64_t ignored[16]; /* as large as any MPI's status */
    uint64_t what;
    const uint32_t handle = wait_of(comm, to, to, &what);
    int sent;

    if (result != 0) { /* nothing was sent, and nothing is to come */
        (void)guest_mpi()->Cancel(&requests[0]);
        (void)guest_mpi()->Wait(&requests[0], ignored);
        return result;
    }
    guest_mpi_wait_begin(comm, from, from);
    result = guest_mpi()->Wait(&requests[0], status);
    if (handle != 0) {
        guest_wait_one_of(handle, what);
    }
    sent = guest_mpi()->Wait(&requests[1], ignored);
    guest_wait_show(0, 0);
    return result != 0 ? result : sent;
}

void guest_mpi_poll(uint64_t comm, int peer, int other)
{
    uint64_t what;
    const uint32_t handle = wait_of(comm, peer, other, &what);

    guest_poll_show(handle, what);
}

/* --- for one of several
 * ------------------------------------------------------------------------------------------------
 */

void guest_mpi_waits_add_any(struct guest_mpi_waits *waits)
{
    waits->count = GUEST_MPI_WAITS_MAX + 1;
}

static void add(struct guest_mpi_waits *waits, uint32_t comm, uint64_t what)
{
    if (waits->count < GUEST_MPI_WAITS_MAX) {
        waits->items[waits->count].comm = comm;
        waits->items[waits->count].what = what;
        waits->count++;
    } else {
        guest_mpi_waits_add_any(waits);
    }
}

void guest_mpi_waits_add_call(struct guest_mpi_waits *waits, const struct ddprove_guest_call *call)
{
    for (int i = 0; i < waits->count && i < GUEST_MPI_WAITS_MAX; i++) {
        if (waits->items[i].comm == call->comm && !guest_wait_is_of_ranks(waits->items[i].what)) {
            waits->items[i].what =
                call->seq < waits->items[i].what ? call->seq : waits->items[i].what;
            return;
        }
    }
    add(waits, call->comm, call->seq);
}

/* As one that may be another one's: it may be given up once something else has come. */
void guest_mpi_waits_add_message(struct guest_mpi_waits *waits, uint64_t comm, int peer, int other)
{
    const uint32_t handle = guest_mpi_comm(comm);
    const uint64_t what = guest_wait_pack(peer, peer);

    if (handle == 0 || peer < 0 || other != peer) {
        guest_mpi_waits_add_any(waits);
        return;
    }
    for (int i = 0; i < waits->count && i < GUEST_MPI_WAITS_MAX; i++) {
        if (waits->items[i].comm == handle && waits->items[i].what == what) {
            return;
        }
    }
    add(waits, handle, what);
}

void guest_mpi_waits_begin(struct guest_mpi_waits *waits)
{
    int has_all = waits->count <= GUEST_MPI_WAITS_MAX;

    for (int i = 1; i < waits->count && has_all; i++) {
        waits->places[i] = guest_wait_also(waits->items[i].comm, waits->items[i].what);
        if (waits->places[i] < 0) {
            has_all = 0;
            waits->count = i;
            guest_mpi_waits_end(waits);
        }
    }
    if (!has_all) {
        guest_mpi_waits_add_any(waits);
        guest_wait_one_of(guest_mpi_world(), guest_wait_pack(-1, -1));
    } else if (waits->count > 0) {
        guest_wait_one_of(waits->items[0].comm, waits->items[0].what);
    }
}

void guest_mpi_waits_end(struct guest_mpi_waits *waits)
{
    guest_wait_show(0, 0);
    for (int i = 1; i < waits->count && waits->count <= GUEST_MPI_WAITS_MAX; i++) {
        guest_wait_no_more(waits->places[i]);
    }
}
