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

void guest_mpi_wait_begin(uint64_t comm, int peer, int other)
{
    const uint32_t handle = guest_mpi_world() != 0 ? guest_mpi_comm(comm) : 0;
    const struct guest_mpi_names *names = guest_mpi_names();

    if (guest_mpi_world() == 0 || (peer == names->PROC_NULL && other == names->PROC_NULL)) {
        return;
    }
    peer = peer == names->PROC_NULL ? other : peer;
    other = other == names->PROC_NULL ? peer : other;
    if (handle == 0 || peer < 0 || other < 0) {
        guest_wait_show(guest_mpi_world(), guest_wait_pack(-1, -1));
    } else {
        guest_wait_show(handle, guest_wait_pack(peer, other == peer ? -1 : other));
    }
}
