/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * The calls of collectives, sends and receives: checked, then added to the group. Follows
 * enqueue.cc, argcheck.cc and collectives.cc. */
#include <stdlib.h>

#include "tests/standin/nccl/internal.h"

static bool is_reduction(const struct standin_op *op)
{
    return op->func == STANDIN_ALL_REDUCE || op->func == STANDIN_REDUCE ||
           op->func == STANDIN_REDUCE_SCATTER;
}

static int pointer_bad(const struct standin_op *op, const char *name, const void *pointer)
{
    standin_warn("%s : %s %p is not a valid pointer", op->name, name, pointer);
    return STANDIN_INVALID_ARGUMENT;
}

static int check_arguments(const struct standin_comm *comm, const struct standin_op *op)
{
    if (op->root < 0 || op->root >= comm->rank_count) {
        standin_warn("%s : invalid root %d (root should be in the 0..%d range)", op->name, op->root,
                     comm->rank_count);
        return STANDIN_INVALID_ARGUMENT;
    }
    if (op->dtype < 0 || op->dtype >= STANDIN_DTYPE_COUNT) {
        standin_warn("%s : invalid type %d", op->name, op->dtype);
        return STANDIN_INVALID_ARGUMENT;
    }
    if (op->redop < 0) {
        standin_warn("%s : invalid reduction operation %d", op->name, op->redop);
        return STANDIN_INVALID_ARGUMENT;
    }
    if (op->redop > STANDIN_AVG) {
        standin_warn("%s : reduction operation %d unknown to this communicator", op->name,
                     op->redop);
        return STANDIN_INVALID_ARGUMENT;
    }
    if (op->count == 0) {
        return STANDIN_SUCCESS;
    }
    bool is_root = op->root == comm->rank;
    bool needs_send = op->func == STANDIN_BROADCAST ? is_root : op->func != STANDIN_RECV;
    bool needs_recv = op->func == STANDIN_REDUCE ? is_root : op->func != STANDIN_SEND;
    if (needs_send && op->send == NULL) {
        return pointer_bad(op, "sendbuff", op->send);
    }
    if (needs_recv && op->recv == NULL) {
        return pointer_bad(op, "recvbuff", op->recv);
    }
    return STANDIN_SUCCESS;
}

/* What the script has in store for this call. */
static int check_script(struct standin_comm *comm, struct standin_op *op)
{
    uint64_t number = ++comm->op_count;
    struct standin_verdict verdict = standin_script_ask("op", number, comm->rank);
    if (verdict.action == STANDIN_ACT_ERROR) {
        standin_warn("stand-in script: op%llu=%d", (unsigned long long)number, verdict.result);
        return verdict.result;
    }
    op->is_hung = verdict.action == STANDIN_ACT_HANG;
    verdict = standin_script_ask("corrupt_after_op", number, comm->rank);
    op->is_corrupt = verdict.action == STANDIN_ACT_CORRUPT;
    op->async_error = standin_script_ask("async_after_op", number, comm->rank).result;
    return STANDIN_SUCCESS;
}

/* taskAppend */
static int append(struct standin_comm *comm, const struct standin_op *op)
{
    bool is_peer = op->func == STANDIN_SEND || op->func == STANDIN_RECV;
    if (!is_peer && op->count == 0) {
        return STANDIN_SUCCESS;
    }
    if (is_reduction(op) &&
        (op->dtype == STANDIN_FLOAT8_E4M3 || op->dtype == STANDIN_FLOAT8_E5M2)) {
        standin_warn("FP8 reduction support begins with sm90 capable devices.");
        return STANDIN_INVALID_ARGUMENT;
    }
    struct standin_op *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        return STANDIN_SYSTEM_ERROR;
    }
    *copy = *op;
    copy->next = NULL;
    standin_group_add_comm(comm);
    *comm->op_tail = copy;
    comm->op_tail = &copy->next;
    return STANDIN_SUCCESS;
}

static int logged_argument(const struct standin_op *op)
{
    return is_reduction(op) ? op->redop : op->func == STANDIN_ALL_GATHER ? op->dtype : op->root;
}

/* ncclEnqueueCheck */
static int enqueue(struct standin_comm *comm, struct standin_op op)
{
    int result = standin_comm_check(comm, op.name, "comm");
    if (result != STANDIN_SUCCESS) {
        return standin_group_error(result);
    }
    standin_log(comm, "nccl%s %zu %d", op.name, op.count, logged_argument(&op));
    if (atomic_load(&comm->is_revoked)) {
        standin_warn("%s: communicator was revoked", op.name);
        return standin_group_error(STANDIN_INVALID_USAGE);
    }
    STANDIN_CHECK(standin_group_start());
    result = standin_comm_ensure_ready(comm);
    if (result == STANDIN_SUCCESS) {
        result = check_arguments(comm, &op);
    }
    if (result == STANDIN_SUCCESS) {
        result = check_script(comm, &op);
    }
    if (result == STANDIN_SUCCESS) {
        result = append(comm, &op);
    }
    if (result != STANDIN_SUCCESS && !comm->is_blocking) {
        standin_comm_set_async(comm, result);
    }
    (void)standin_group_error(result);
    STANDIN_CHECK(standin_group_end());
    if (!comm->is_blocking) {
        STANDIN_CHECK(standin_comm_async(comm, &result));
    }
    return result;
}

int ncclAllReduce(const void *send, void *recv, size_t count, int dtype, int redop,
                  struct standin_comm *comm, void *stream)
{
    return enqueue(comm, (struct standin_op){.func = STANDIN_ALL_REDUCE,
                                             .name = "AllReduce",
                                             .send = send,
                                             .recv = recv,
                                             .count = count,
                                             .dtype = dtype,
                                             .redop = redop,
                                             .stream = stream});
}

int ncclBroadcast(const void *send, void *recv, size_t count, int dtype, int root,
                  struct standin_comm *comm, void *stream)
{
    return enqueue(comm, (struct standin_op){.func = STANDIN_BROADCAST,
                                             .name = "Broadcast",
                                             .send = send,
                                             .recv = recv,
                                             .count = count,
                                             .dtype = dtype,
                                             .root = root,
                                             .stream = stream});
}

int ncclReduce(const void *send, void *recv, size_t count, int dtype, int redop, int root,
               struct standin_comm *comm, void *stream)
{
    return enqueue(comm, (struct standin_op){.func = STANDIN_REDUCE,
                                             .name = "Reduce",
                                             .send = send,
                                             .recv = recv,
                                             .count = count,
                                             .dtype = dtype,
                                             .redop = redop,
                                             .root = root,
                                             .stream = stream});
}

int ncclAllGather(const void *send, void *recv, size_t send_count, int dtype,
                  struct standin_comm *comm, void *stream)
{
    return enqueue(comm, (struct standin_op){.func = STANDIN_ALL_GATHER,
                                             .name = "AllGather",
                                             .send = send,
                                             .recv = recv,
                                             .count = send_count,
                                             .dtype = dtype,
                                             .stream = stream});
}

int ncclReduceScatter(const void *send, void *recv, size_t recv_count, int dtype, int redop,
                      struct standin_comm *comm, void *stream)
{
    return enqueue(comm, (struct standin_op){.func = STANDIN_REDUCE_SCATTER,
                                             .name = "ReduceScatter",
                                             .send = send,
                                             .recv = recv,
                                             .count = recv_count,
                                             .dtype = dtype,
                                             .redop = redop,
                                             .stream = stream});
}

int ncclSend(const void *send, size_t count, int dtype, int peer, struct standin_comm *comm,
             void *stream)
{
    return enqueue(comm, (struct standin_op){.func = STANDIN_SEND,
                                             .name = "Send",
                                             .send = send,
                                             .count = count,
                                             .dtype = dtype,
                                             .root = peer,
                                             .stream = stream});
}

int ncclRecv(void *recv, size_t count, int dtype, int peer, struct standin_comm *comm, void *stream)
{
    return enqueue(comm, (struct standin_op){.func = STANDIN_RECV,
                                             .name = "Recv",
                                             .recv = recv,
                                             .count = count,
                                             .dtype = dtype,
                                             .root = peer,
                                             .stream = stream});
}
