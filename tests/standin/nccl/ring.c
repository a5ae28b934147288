/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * What NCCL's kernels and proxies would do: rings over the data sockets, in the order of folds and
 * with the cuts of device/all_reduce.h and its like; sends and receives of a group at once. The
 * position in the ring is the rank.
 *
 * all_reduce over n ranks, C channels (NCCL_MAX_NCHANNELS, 2 if unset): a channel has
 * ceil(ceil(count / C) / 8) * 8 elements, the last one what is left. It is cut into loops of at
 * most n chunks of 32768 bytes; the chunks of a loop that is not full have ceil(rest / n) elements,
 * rounded up to 16 bytes. Chunk q is folded from rank q + 1 round to rank q, rounded to the type at
 * every hop, and copied to all: neither rank order nor the same order for all elements.
 * reduce_scatter folds the block of rank r like chunk r, reduce everything like the root's chunk.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/standin/nccl/internal.h"

/* One collective on its way. */
struct pass {
    struct standin_comm *comm;
    const struct standin_op *op;
    const struct standin_wait *wait;
    size_t elem_bytes;
    int redop;              /* SUM for AVG */
    unsigned char *own;     /* a chunk of own input, scaled for AVG */
    unsigned char *partial; /* the fold of the ranks before */
    unsigned char *received;
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t round_up(size_t value, size_t step)
{
    return (value + step - 1) / step * step;
}

static int wrap(const struct standin_comm *comm, int rank)
{
    return (rank + 2 * comm->rank_count) % comm->rank_count;
}

/* Sends to the next and receives from the previous at once; NULL leaves a side out. */
static int ring_step(struct pass *pass, const void *send, size_t send_bytes, void *recv,
                     size_t recv_bytes)
{
    struct standin_comm *comm = pass->comm;
    struct standin_message messages[2];
    size_t count = 0;
    memset(messages, 0, sizeof messages);
    if (send != NULL) {
        messages[count].fd = comm->data_fd[wrap(comm, comm->rank + 1)];
        messages[count].is_send = true;
        /* Messages only read what they send. */
        memcpy(&messages[count].data, &send, sizeof send);
        messages[count++].size_bytes = send_bytes;
    }
    if (recv != NULL) {
        messages[count].fd = comm->data_fd[wrap(comm, comm->rank - 1)];
        messages[count].data = recv;
        messages[count++].size_bytes = recv_bytes;
    }
    return standin_messages_run(messages, count, pass->wait);
}

/* Own input of elements at offset, ready to be folded or sent. */
static void load_own(struct pass *pass, size_t offset, size_t count)
{
    memcpy(pass->own, (const unsigned char *)pass->op->send + offset * pass->elem_bytes,
           count * pass->elem_bytes);
    if (pass->op->redop == STANDIN_AVG) {
        standin_avg_before(pass->op->dtype, pass->own, count, pass->comm->rank_count);
    }
}

static void store_folded(struct pass *pass, size_t offset, size_t count)
{
    unsigned char *out = (unsigned char *)pass->op->recv + offset * pass->elem_bytes;
    memcpy(out, pass->partial, count * pass->elem_bytes);
    if (pass->op->redop == STANDIN_AVG) {
        standin_avg_after(pass->op->dtype, out, count, pass->comm->rank_count);
    }
}

/* One hop of a fold. is_first: own input goes out; is_last: the result stays in partial. */
static int fold_step(struct pass *pass, size_t send_count, size_t recv_offset, size_t recv_count)
{
    STANDIN_CHECK(ring_step(pass, pass->partial, send_count * pass->elem_bytes, pass->received,
                            recv_count * pass->elem_bytes));
    load_own(pass, recv_offset, recv_count);
    standin_fold(pass->op->dtype, pass->redop, pass->own, pass->received, recv_count);
    unsigned char *swap = pass->partial;
    pass->partial = pass->received;
    pass->received = swap;
    return STANDIN_SUCCESS;
}

struct loop {
    size_t start, rest, chunk;
};

static size_t chunk_offset(const struct loop *loop, int chunk)
{
    return loop->start + smaller((size_t)chunk * loop->chunk, loop->rest);
}

static size_t chunk_count(const struct loop *loop, int chunk)
{
    size_t start = smaller((size_t)chunk * loop->chunk, loop->rest);
    return smaller(loop->chunk, loop->rest - start);
}

static int all_reduce_loop(struct pass *pass, const struct loop *loop)
{
    struct standin_comm *comm = pass->comm;
    int rank = comm->rank;
    int chunk = wrap(comm, rank - 1);
    unsigned char *out = pass->op->recv;
    load_own(pass, chunk_offset(loop, chunk), chunk_count(loop, chunk));
    memcpy(pass->partial, pass->own, chunk_count(loop, chunk) * pass->elem_bytes);
    for (int step = 0; step < comm->rank_count - 1; step++) {
        int sent = wrap(comm, rank - 1 - step);
        int received = wrap(comm, rank - 2 - step);
        STANDIN_CHECK(fold_step(pass, chunk_count(loop, sent), chunk_offset(loop, received),
                                chunk_count(loop, received)));
    }
    store_folded(pass, chunk_offset(loop, rank), chunk_count(loop, rank));
    for (int step = 0; step < comm->rank_count - 1; step++) {
        int sent = wrap(comm, rank - step);
        int received = wrap(comm, rank - 1 - step);
        STANDIN_CHECK(ring_step(pass, out + chunk_offset(loop, sent) * pass->elem_bytes,
                                chunk_count(loop, sent) * pass->elem_bytes,
                                out + chunk_offset(loop, received) * pass->elem_bytes,
                                chunk_count(loop, received) * pass->elem_bytes));
    }
    return STANDIN_SUCCESS;
}

/* sum=exact: what a switch that adds in the network may do. Everybody gets all inputs, and rounds
 * their exact sum once. */
static int all_reduce_exact(struct pass *pass)
{
    struct standin_comm *comm = pass->comm;
    size_t count = pass->op->count;
    size_t block = count * pass->elem_bytes;
    float *all = malloc((size_t)comm->rank_count * block + 1);
    int result = all == NULL ? STANDIN_SYSTEM_ERROR : STANDIN_SUCCESS;
    if (all != NULL) {
        memcpy(all + (size_t)comm->rank * count, pass->op->send, block);
    }
    for (int step = 0; result == STANDIN_SUCCESS && step < comm->rank_count - 1; step++) {
        size_t sent = (size_t)wrap(comm, comm->rank - step);
        size_t received = (size_t)wrap(comm, comm->rank - 1 - step);
        result = ring_step(pass, all + sent * count, block, all + received * count, block);
    }
    if (result == STANDIN_SUCCESS) {
        standin_sum_exact(all, comm->rank_count, count, pass->op->recv);
    }
    free(all);
    return result;
}

static int all_reduce(struct pass *pass)
{
    if (pass->op->dtype == STANDIN_FLOAT32 && pass->op->redop == STANDIN_SUM &&
        standin_script_has("sum=exact")) {
        return all_reduce_exact(pass);
    }
    size_t count = pass->op->count;
    size_t ranks = (size_t)pass->comm->rank_count;
    size_t channels = (size_t)pass->comm->channel_count;
    size_t part = round_up((count + channels - 1) / channels, 8);
    size_t full = STANDIN_CHUNK_BYTES / pass->elem_bytes;
    for (size_t start = 0; start < count; start += part) {
        size_t channel_rest = smaller(part, count - start);
        for (size_t done = 0; done < channel_rest;) {
            struct loop loop = {start + done, channel_rest - done, full};
            if (loop.rest < ranks * full) {
                loop.chunk = round_up((loop.rest + ranks - 1) / ranks, 16 / pass->elem_bytes);
            }
            loop.chunk = smaller(loop.chunk, full);
            loop.rest = smaller(loop.rest, ranks * loop.chunk);
            STANDIN_CHECK(all_reduce_loop(pass, &loop));
            done += loop.rest;
        }
    }
    return STANDIN_SUCCESS;
}

static int reduce_scatter(struct pass *pass)
{
    struct standin_comm *comm = pass->comm;
    size_t block = pass->op->count;
    size_t full = STANDIN_CHUNK_BYTES / pass->elem_bytes;
    for (size_t start = 0; start < block; start += full) {
        size_t count = smaller(full, block - start);
        load_own(pass, (size_t)wrap(comm, comm->rank - 1) * block + start, count);
        memcpy(pass->partial, pass->own, count * pass->elem_bytes);
        for (int step = 0; step < comm->rank_count - 1; step++) {
            size_t offset = (size_t)wrap(comm, comm->rank - 2 - step) * block + start;
            STANDIN_CHECK(fold_step(pass, count, offset, count));
        }
        store_folded(pass, start, count);
    }
    return STANDIN_SUCCESS;
}

static int reduce(struct pass *pass)
{
    struct standin_comm *comm = pass->comm;
    size_t full = STANDIN_CHUNK_BYTES / pass->elem_bytes;
    bool is_first = wrap(comm, comm->rank - 1) == pass->op->root;
    bool is_last = comm->rank == pass->op->root;
    for (size_t start = 0; start < pass->op->count; start += full) {
        size_t count = smaller(full, pass->op->count - start);
        size_t bytes = count * pass->elem_bytes;
        load_own(pass, start, count);
        if (is_first) {
            memcpy(pass->partial, pass->own, bytes);
        } else {
            STANDIN_CHECK(ring_step(pass, NULL, 0, pass->partial, bytes));
            standin_fold(pass->op->dtype, pass->redop, pass->own, pass->partial, count);
        }
        if (is_last) {
            store_folded(pass, start, count);
        } else {
            STANDIN_CHECK(ring_step(pass, pass->partial, bytes, NULL, 0));
        }
    }
    return STANDIN_SUCCESS;
}

static int broadcast(struct pass *pass)
{
    struct standin_comm *comm = pass->comm;
    unsigned char *out = pass->op->recv;
    size_t total = pass->op->count * pass->elem_bytes;
    bool is_root = comm->rank == pass->op->root;
    bool is_last = wrap(comm, comm->rank + 1) == pass->op->root;
    if (is_root && pass->op->send != pass->op->recv) {
        memcpy(out, pass->op->send, total);
    }
    for (size_t start = 0; start < total; start += STANDIN_CHUNK_BYTES) {
        size_t bytes = smaller(STANDIN_CHUNK_BYTES, total - start);
        if (!is_root) {
            STANDIN_CHECK(ring_step(pass, NULL, 0, out + start, bytes));
        }
        if (!is_last) {
            STANDIN_CHECK(ring_step(pass, out + start, bytes, NULL, 0));
        }
    }
    return STANDIN_SUCCESS;
}

static int all_gather(struct pass *pass)
{
    struct standin_comm *comm = pass->comm;
    unsigned char *out = pass->op->recv;
    size_t block = pass->op->count * pass->elem_bytes;
    unsigned char *own = out + (size_t)comm->rank * block;
    if (pass->op->send != own) {
        memcpy(own, pass->op->send, block);
    }
    for (int step = 0; step < comm->rank_count - 1; step++) {
        size_t sent = (size_t)wrap(comm, comm->rank - step);
        size_t received = (size_t)wrap(comm, comm->rank - 1 - step);
        STANDIN_CHECK(ring_step(pass, out + sent * block, block, out + received * block, block));
    }
    return STANDIN_SUCCESS;
}

static int run_alone(const struct standin_op *op)
{
    if (op->recv != op->send) {
        memmove(op->recv, op->send, op->count * standin_dtype_bytes(op->dtype));
    }
    return STANDIN_SUCCESS;
}

static int collective_run(struct standin_comm *comm, const struct standin_op *op,
                          const struct standin_wait *wait)
{
    static int (*const runs[])(struct pass *) = {
        [STANDIN_ALL_REDUCE] = all_reduce,
        [STANDIN_BROADCAST] = broadcast,
        [STANDIN_REDUCE] = reduce,
        [STANDIN_ALL_GATHER] = all_gather,
        [STANDIN_REDUCE_SCATTER] = reduce_scatter,
    };
    if (comm->rank_count == 1) {
        return run_alone(op);
    }
    struct pass pass = {.comm = comm,
                        .op = op,
                        .wait = wait,
                        .elem_bytes = standin_dtype_bytes(op->dtype),
                        .redop = op->redop == STANDIN_AVG ? STANDIN_SUM : op->redop};
    unsigned char *buffers = malloc(3 * (size_t)STANDIN_CHUNK_BYTES);
    if (buffers == NULL) {
        return STANDIN_SYSTEM_ERROR;
    }
    pass.own = buffers;
    pass.partial = buffers + STANDIN_CHUNK_BYTES;
    pass.received = buffers + 2 * STANDIN_CHUNK_BYTES;
    int result = runs[op->func](&pass);
    free(buffers);
    return result;
}

static bool is_peer_op(const struct standin_op *op)
{
    return op->func == STANDIN_SEND || op->func == STANDIN_RECV;
}

/* The k-th send to itself goes to the k-th receive from itself. */
static int copy_to_self(struct standin_comm *comm, const struct standin_op *head)
{
    const struct standin_op *recv = head;
    for (const struct standin_op *send = head; send != NULL; send = send->next) {
        if (send->func != STANDIN_SEND || send->root != comm->rank) {
            continue;
        }
        while (recv != NULL && (recv->func != STANDIN_RECV || recv->root != comm->rank)) {
            recv = recv->next;
        }
        if (recv == NULL) {
            standin_warn("Send to self without a matching receive in its group");
            return STANDIN_INVALID_USAGE;
        }
        size_t send_bytes = send->count * standin_dtype_bytes(send->dtype);
        size_t recv_bytes = recv->count * standin_dtype_bytes(recv->dtype);
        memmove(recv->recv, send->send, smaller(send_bytes, recv_bytes));
        recv = recv->next;
    }
    return STANDIN_SUCCESS;
}

static int peers_run(struct standin_comm *comm, const struct standin_op *head,
                     const struct standin_wait *wait)
{
    size_t count = 0, used = 0;
    for (const struct standin_op *op = head; op != NULL; op = op->next) {
        count += is_peer_op(op) ? 1 : 0;
    }
    if (count == 0) {
        return STANDIN_SUCCESS;
    }
    STANDIN_CHECK(copy_to_self(comm, head));
    struct standin_message *messages = calloc(count, sizeof *messages);
    if (messages == NULL) {
        return STANDIN_SYSTEM_ERROR;
    }
    for (const struct standin_op *op = head; op != NULL; op = op->next) {
        if (is_peer_op(op) && op->root != comm->rank) {
            const void *data = op->func == STANDIN_SEND ? op->send : op->recv;
            messages[used].fd = comm->data_fd[op->root];
            messages[used].is_send = op->func == STANDIN_SEND;
            memcpy(&messages[used].data, &data, sizeof data);
            messages[used++].size_bytes = op->count * standin_dtype_bytes(op->dtype);
        }
    }
    int result = standin_messages_run(messages, used, wait);
    free(messages);
    return result;
}

static void corrupt(struct standin_comm *comm, const struct standin_op *op)
{
    size_t blocks = op->func == STANDIN_ALL_GATHER ? (size_t)comm->rank_count : 1;
    size_t bytes = blocks * op->count * standin_dtype_bytes(op->dtype);
    if (bytes > 0 && op->recv != NULL) {
        ((unsigned char *)op->recv)[bytes - 1] ^= 1;
    }
}

int standin_ops_run(struct standin_comm *comm, struct standin_op *head,
                    const struct standin_wait *wait)
{
    for (struct standin_op *op = head; op != NULL; op = op->next) {
        if (op->is_hung) {
            standin_wait_park(wait);
            return STANDIN_INTERNAL_ERROR;
        }
    }
    STANDIN_CHECK(peers_run(comm, head, wait));
    for (struct standin_op *op = head; op != NULL; op = op->next) {
        if (!is_peer_op(op)) {
            STANDIN_CHECK(collective_run(comm, op, wait));
        }
        if (op->is_corrupt) {
            corrupt(comm, op);
        }
    }
    return STANDIN_SUCCESS;
}
