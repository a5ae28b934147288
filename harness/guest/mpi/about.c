/* What a call of MPI is about, and what a fault makes of its arguments. */
#include "harness/guest/mpi/adapter.h"

static int is_in_place(const void *data)
{
    return (intptr_t)data == guest_mpi_names()->IN_PLACE;
}

/* A count below 0 is none: MPI says so, and nobody is to look for so many elements before. */
static int is_refused(uint64_t count)
{
    return (int64_t)count < 0;
}

static int rank_of(uint64_t comm)
{
    int rank = -1;

    (void)guest_mpi()->Comm_rank(comm, &rank);
    return rank;
}

struct ddprove_guest_call guest_mpi_about(uint64_t comm, uint32_t kind, int root)
{
    return (struct ddprove_guest_call){.size_bytes = sizeof(struct ddprove_guest_call),
                                       .comm = guest_mpi_comm(comm),
                                       .kind = kind,
                                       .root = (uint32_t)root};
}

struct ddprove_guest_call guest_mpi_about_op(uint64_t comm, uint32_t kind, uint64_t op)
{
    struct ddprove_guest_call call = guest_mpi_about(comm, kind, 0);

    if (call.comm != 0) {
        call.redop = guest_mpi_redop(op);
    }
    return call;
}

/* Of a reduction to one rank, the others have no result. */
struct ddprove_guest_call guest_mpi_about_data(uint64_t comm, uint32_t kind, uint64_t count,
                                               uint64_t type, const uint64_t *op, int root,
                                               const void *in, void *out)
{
    struct ddprove_guest_call call = guest_mpi_about(comm, kind, root);

    if (call.comm == 0) {
        return call;
    }
    call.dtype = guest_mpi_dtype(type, count, &call.elem_count);
    call.redop = op != NULL ? guest_mpi_redop(*op) : DDPROVE_GUEST_NO_REDOP;
    if (call.dtype != DDPROVE_GUEST_BYTES && !is_refused(count)) {
        call.in = is_in_place(in) ? out : in;
        call.out = kind == DDPROVE_GUEST_REDUCE && rank_of(comm) != root ? NULL : out;
    }
    return call;
}

static int is_shown(const struct ddprove_guest_call *call, const struct guest_mpi_side *side)
{
    uint64_t elem_count = 0;

    return !is_in_place(side->data) &&
           guest_mpi_dtype(side->type, side->count, &elem_count) == call->dtype &&
           elem_count == call->elem_count;
}

/* The side whose count is the same on all ranks: the root alone says what it receives from each, or
 * sends to each; who keeps its part where it is says nothing of it. Data are shown if both sides
 * are elements of the same type that has a name and nothing is in place; by the call's kind and
 * root a rank has both sides or one. */
struct ddprove_guest_call guest_mpi_about_parts(uint64_t comm, uint32_t kind, int root,
                                                struct guest_mpi_side in, struct guest_mpi_side out)
{
    struct ddprove_guest_call call = guest_mpi_about(comm, kind, root);
    const int is_by_in = kind == DDPROVE_GUEST_GATHER    ? !is_in_place(in.data)
                         : kind == DDPROVE_GUEST_SCATTER ? is_in_place(out.data)
                                                         : 0;
    const struct guest_mpi_side *told = is_by_in ? &in : &out;
    int has_in;
    int has_out;
    int size = 1;

    if (call.comm == 0) {
        return call;
    }
    call.dtype = guest_mpi_dtype(told->type, told->count, &call.elem_count);
    has_in = kind != DDPROVE_GUEST_SCATTER || rank_of(comm) == root;
    has_out = kind != DDPROVE_GUEST_GATHER || rank_of(comm) == root;
    if (call.dtype == DDPROVE_GUEST_BYTES || is_refused(told->count) ||
        (has_in && !is_shown(&call, &in)) || (has_out && !is_shown(&call, &out))) {
        return call;
    }
    (void)guest_mpi()->Comm_size(comm, &size);
    call.in = has_in ? in.data : NULL;
    call.out = has_out ? (void *)(uintptr_t)out.data : NULL;
    call.out_count =
        kind == DDPROVE_GUEST_SCATTER ? call.elem_count : call.elem_count * (uint64_t)size;
    return call;
}

const void *guest_mpi_in(const struct ddprove_guest_call *call, const void *in)
{
    return call->comm == 0 || call->in == NULL || is_in_place(in) ? in : call->in;
}

int64_t guest_mpi_count(const struct ddprove_guest_call *call, int64_t count)
{
    return guest_mpi_small_one(
        call->comm != 0 && call->dtype != DDPROVE_GUEST_BYTES ? (int64_t)call->elem_count : count);
}

int64_t guest_mpi_part(const struct ddprove_guest_call *call, int64_t count)
{
    return guest_mpi_small_one(call->in != NULL || call->out != NULL ? (int64_t)call->elem_count
                                                                     : count);
}

uint64_t guest_mpi_type(const struct ddprove_guest_call *call, uint64_t type)
{
    return call->comm != 0 && call->dtype != DDPROVE_GUEST_BYTES
               ? guest_mpi_type_of(call->dtype, type)
               : type;
}

uint64_t guest_mpi_op(const struct ddprove_guest_call *call, uint64_t op)
{
    return call->comm != 0 ? guest_mpi_op_of(call->redop, op) : op;
}
