/* A call that was made ready to be started again and again, started with other arguments than it
 * was made ready with: that no request can do. It is made as one of its own, and ended at once. */
#include "harness/guest/mpi/pending.h"

int guest_mpi_other_can(const struct ddprove_guest_call *about)
{
    return (about->kind == DDPROVE_GUEST_BROADCAST || about->kind == DDPROVE_GUEST_ALL_REDUCE ||
            about->kind == DDPROVE_GUEST_SCAN || about->kind == DDPROVE_GUEST_EXSCAN) &&
           about->dtype != DDPROVE_GUEST_BYTES && about->redop != DDPROVE_GUEST_USER;
}

int guest_mpi_other_is(const struct ddprove_guest_call *call,
                       const struct ddprove_guest_call *about)
{
    return call->elem_count != about->elem_count || call->dtype != about->dtype ||
           call->redop != about->redop || call->root != about->root;
}

static int post(const struct guest_mpi_pending *pending, uint64_t *request)
{
    const struct ddprove_guest_call *call = &pending->call;
    const void *in =
        call->in == call->out ? (const void *)(intptr_t)guest_mpi_names()->IN_PLACE : call->in;
    const uint64_t type = guest_mpi_type_of(call->dtype, 0);
    const uint64_t op = guest_mpi_op_of(call->redop, 0);
    const int count = (int)guest_mpi_small_one((int64_t)call->elem_count);

    switch ((enum ddprove_guest_kind)call->kind) {
    case DDPROVE_GUEST_BROADCAST:
        return guest_mpi()->Ibcast(call->out, count, type, (int)call->root, pending->comm, request);
    case DDPROVE_GUEST_SCAN:
        return guest_mpi()->Iscan(in, call->out, count, type, op, pending->comm, request);
    case DDPROVE_GUEST_EXSCAN:
        return guest_mpi()->Iexscan(in, call->out, count, type, op, pending->comm, request);
    default:
        return guest_mpi()->Iallreduce(in, call->out, count, type, op, pending->comm, request);
    }
}

int guest_mpi_other_make(struct guest_mpi_pending *pending)
{
    uint64_t request = 0;
    uint64_t status[16];
    int result = post(pending, &request);

    if (result == 0) {
        ddprove_guest_call_wait_begin(&pending->call);
        result = guest_mpi()->Wait(&request, status);
        ddprove_guest_call_wait_end(&pending->call);
    }
    ddprove_guest_call_done(&pending->call);
    return result;
}
