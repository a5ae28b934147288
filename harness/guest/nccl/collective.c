/* The calls. What a fault makes of one (once, not at all, twice, later) is in the count that its
 * beginning returns; a changed count, type, operator or root is in the call. */
#include "harness/guest/call.h"
#include "harness/guest/nccl/adapter.h"

/* The guest library's names, by NCCL's numbers. */
static const uint8_t dtypes[] = {
#define X(name, number, id) [number] = DDPROVE_GUEST_##id,
    GUEST_NCCL_DTYPE_TABLE(X)
#undef X
};
static const uint8_t redops[] = {
#define X(name, number, id) [number] = DDPROVE_GUEST_##id,
    GUEST_NCCL_REDOP_TABLE(X)
#undef X
};
enum { DTYPE_COUNT = sizeof dtypes, REDOP_COUNT = sizeof redops };

static uint32_t dtype_of(int type)
{
    return type >= 0 && type < DTYPE_COUNT ? dtypes[type] : DDPROVE_GUEST_BYTES;
}

static uint32_t redop_of(int op)
{
    return op >= 0 && op < REDOP_COUNT ? redops[op] : DDPROVE_GUEST_USER;
}

/* NCCL's operator for the call's; the program's own if NCCL has none. */
static int op_of(const struct ddprove_guest_call *call, int op)
{
    for (int i = 0; i < REDOP_COUNT; i++) {
        if (redops[i] == call->redop) {
            return i;
        }
    }
    return op;
}

/* NCCL's type for the call's. */
static int type_of(const struct ddprove_guest_call *call, int type)
{
    for (int i = 0; i < DTYPE_COUNT && call->dtype != dtype_of(type); i++) {
        if (dtypes[i] == call->dtype) {
            return i;
        }
    }
    return type;
}

static struct ddprove_guest_call call_of(struct ncclComm *comm, uint32_t kind, size_t count,
                                         int type)
{
    return (struct ddprove_guest_call){
        .size_bytes = sizeof(struct ddprove_guest_call),
        .comm = ddprove_guest_is_watched() ? guest_nccl_comm_handle(comm) : 0,
        .kind = kind,
        .dtype = dtype_of(type),
        .elem_count = count};
}

static size_t size_bytes_of(int type)
{
    static const uint8_t sizes[DDPROVE_GUEST_DTYPE_COUNT] = {
#define X(id, name, size_bytes) [DDPROVE_GUEST_##id] = size_bytes,
        DDPROVE_GUEST_DTYPE_TABLE(X)
#undef X
    };

    return sizes[dtype_of(type)];
}

/* Of a message, which is shown in bytes. */
static size_t elems_of(const struct ddprove_guest_call *call, size_t count, int type)
{
    return call->comm != 0 ? call->elem_count / size_bytes_of(type) : count;
}

/* What the program asks for, as NCCL takes it, changed as a fault asks. */
static void change(struct guest_nccl_args *args, const struct ddprove_guest_call *call)
{
    if (call->kind == DDPROVE_GUEST_SEND) {
        args->count = elems_of(call, args->count, args->type);
    } else {
        args->count = call->elem_count;
        args->type = type_of(call, args->type);
        args->op = op_of(call, args->op);
        args->root = (int)call->root;
    }
}

static int make_times(int times, const struct guest_nccl_args *args)
{
    int result = GUEST_NCCL_SUCCESS;

    while (times-- > 0 && result == GUEST_NCCL_SUCCESS) {
        result = args->make(args);
    }
    return result;
}

/* What was to come after the call that has just been made. */
static void make_held(struct ncclComm *comm)
{
    struct guest_nccl_held held;
    struct guest_nccl_turn turn;

    if (guest_nccl_take_held(comm, &held)) {
        guest_nccl_begin_held(&turn, &held.call, held.args.stream);
        (void)guest_nccl_end(&turn, held.args.make(&held.args));
    }
}

static int make(struct ddprove_guest_call *call, struct guest_nccl_args args)
{
    struct guest_nccl_turn turn;
    const int times = guest_nccl_begin(&turn, call, args.stream, guest_nccl_can_hold(args.comm));
    int result;

    change(&args, call);
    result = guest_nccl_end(&turn, make_times(times, &args));
    if (times == GUEST_CALL_HELD) {
        guest_nccl_hold(&(struct guest_nccl_held){*call, args});
    } else {
        make_held(args.comm);
    }
    return result;
}

static int make_all_reduce(const struct guest_nccl_args *a)
{
    return guest_nccl()->AllReduce(a->in, a->out, a->count, a->type, a->op, a->comm, a->stream);
}

static int make_reduce(const struct guest_nccl_args *a)
{
    return guest_nccl()->Reduce(a->in, a->out, a->count, a->type, a->op, a->root, a->comm,
                                a->stream);
}

static int make_reduce_scatter(const struct guest_nccl_args *a)
{
    return guest_nccl()->ReduceScatter(a->in, a->out, a->count, a->type, a->op, a->comm, a->stream);
}

static int make_broadcast(const struct guest_nccl_args *a)
{
    return guest_nccl()->Broadcast(a->in, a->out, a->count, a->type, a->root, a->comm, a->stream);
}

static int make_all_gather(const struct guest_nccl_args *a)
{
    return guest_nccl()->AllGather(a->in, a->out, a->count, a->type, a->comm, a->stream);
}

static int make_all_to_all(const struct guest_nccl_args *a)
{
    return guest_nccl()->AlltoAll(a->in, a->out, a->count, a->type, a->comm, a->stream);
}

static int make_gather(const struct guest_nccl_args *a)
{
    return guest_nccl()->Gather(a->in, a->out, a->count, a->type, a->root, a->comm, a->stream);
}

static int make_scatter(const struct guest_nccl_args *a)
{
    return guest_nccl()->Scatter(a->in, a->out, a->count, a->type, a->root, a->comm, a->stream);
}

static int make_send(const struct guest_nccl_args *a)
{
    return guest_nccl()->Send(a->in, a->count, a->type, a->root, a->comm, a->stream);
}

static int make_recv(const struct guest_nccl_args *a)
{
    return guest_nccl()->Recv(a->out, a->count, a->type, a->root, a->comm, a->stream);
}

int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, struct ncclComm *comm,
                  void *stream)
{
    struct ddprove_guest_call call = call_of(comm, DDPROVE_GUEST_ALL_REDUCE, count, type);

    call.redop = redop_of(op);
    return make(&call, (struct guest_nccl_args){make_all_reduce, in, out, count, type, op, 0, comm,
                                                stream});
}

int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root,
               struct ncclComm *comm, void *stream)
{
    struct ddprove_guest_call call = call_of(comm, DDPROVE_GUEST_REDUCE, count, type);

    call.redop = redop_of(op);
    call.root = (uint32_t)root;
    return make(
        &call, (struct guest_nccl_args){make_reduce, in, out, count, type, op, root, comm, stream});
}

int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op,
                      struct ncclComm *comm, void *stream)
{
    struct ddprove_guest_call call = call_of(comm, DDPROVE_GUEST_REDUCE_SCATTER, count, type);

    call.redop = redop_of(op);
    return make(&call, (struct guest_nccl_args){make_reduce_scatter, in, out, count, type, op, 0,
                                                comm, stream});
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root,
                  struct ncclComm *comm, void *stream)
{
    struct ddprove_guest_call call = call_of(comm, DDPROVE_GUEST_BROADCAST, count, type);

    call.root = (uint32_t)root;
    return make(&call, (struct guest_nccl_args){make_broadcast, in, out, count, type, 0, root, comm,
                                                stream});
}

int ncclBcast(void *data, size_t count, int type, int root, struct ncclComm *comm, void *stream)
{
    return ncclBroadcast(data, data, count, type, root, comm, stream);
}

int ncclAllGather(const void *in, void *out, size_t count, int type, struct ncclComm *comm,
                  void *stream)
{
    struct ddprove_guest_call call = call_of(comm, DDPROVE_GUEST_ALL_GATHER, count, type);

    return make(
        &call, (struct guest_nccl_args){make_all_gather, in, out, count, type, 0, 0, comm, stream});
}

int ncclAlltoAll(const void *in, void *out, size_t count, int type, struct ncclComm *comm,
                 void *stream)
{
    struct ddprove_guest_call call = call_of(comm, DDPROVE_GUEST_ALL_TO_ALL, count, type);

    if (guest_nccl()->AlltoAll == NULL) {
        return GUEST_NCCL_INVALID_USAGE;
    }
    return make(
        &call, (struct guest_nccl_args){make_all_to_all, in, out, count, type, 0, 0, comm, stream});
}

int ncclGather(const void *in, void *out, size_t count, int type, int root, struct ncclComm *comm,
               void *stream)
{
    struct ddprove_guest_call call = call_of(comm, DDPROVE_GUEST_GATHER, count, type);

    if (guest_nccl()->Gather == NULL) {
        return GUEST_NCCL_INVALID_USAGE;
    }
    call.root = (uint32_t)root;
    return make(&call,
                (struct guest_nccl_args){make_gather, in, out, count, type, 0, root, comm, stream});
}

int ncclScatter(const void *in, void *out, size_t count, int type, int root, struct ncclComm *comm,
                void *stream)
{
    struct ddprove_guest_call call = call_of(comm, DDPROVE_GUEST_SCATTER, count, type);

    if (guest_nccl()->Scatter == NULL) {
        return GUEST_NCCL_INVALID_USAGE;
    }
    call.root = (uint32_t)root;
    return make(
        &call, (struct guest_nccl_args){make_scatter, in, out, count, type, 0, root, comm, stream});
}

/* Both ends show a message as the same call, the sender's, of their pair: it is the bytes that must
 * agree. */
static struct ddprove_guest_call message_of(struct ncclComm *comm, int peer, int is_send,
                                            size_t count, int type)
{
    struct ddprove_guest_call call = {.size_bytes = sizeof call, .kind = DDPROVE_GUEST_SEND};
    struct guest_nccl_comm self;

    if (ddprove_guest_is_watched() && guest_nccl_comm_find(comm, &self)) {
        call.comm = guest_nccl_pair(&self, is_send ? self.rank : (uint32_t)peer,
                                    is_send ? (uint32_t)peer : self.rank);
        call.elem_count = count * size_bytes_of(type);
    }
    return call;
}

int ncclSend(const void *in, size_t count, int type, int peer, struct ncclComm *comm, void *stream)
{
    struct ddprove_guest_call call = message_of(comm, peer, 1, count, type);

    return make(&call,
                (struct guest_nccl_args){make_send, in, NULL, count, type, 0, peer, comm, stream});
}

int ncclRecv(void *out, size_t count, int type, int peer, struct ncclComm *comm, void *stream)
{
    struct ddprove_guest_call call = message_of(comm, peer, 0, count, type);

    return make(&call,
                (struct guest_nccl_args){make_recv, NULL, out, count, type, 0, peer, comm, stream});
}
