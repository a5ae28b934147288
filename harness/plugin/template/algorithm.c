/* An all-reduce to start from: rank 0 adds what the others send, in the order of their ranks, and
 * sends the sum to each of them. It is right, and slow: 2(n - 1) messages wait for each other. */
#include "ddprove_coll.h"

#define NONE DDPROVE_COLL_NONE

/* Elements [first, first + count), at most a segment of them. */
static void emit_segment(const struct ddprove_coll_question *q,
                         const struct ddprove_coll_sink *sink, uint64_t first, uint64_t count)
{
    struct ddprove_coll_range in = ddprove_coll_range(DDPROVE_COLL_INPUT, first, count);
    struct ddprove_coll_range out = ddprove_coll_range(DDPROVE_COLL_OUTPUT, first, count);
    uint32_t last_round = q->size - 1;
    uint32_t last = NONE; /* the last step that touched the output */

    if (q->rank == 0) {
        if (!q->is_in_place) {
            last = ddprove_coll_local(sink, DDPROVE_COLL_COPY, 0, out, in, NONE, NONE);
        }
        for (uint32_t rank = 1; rank < q->size; rank++) {
            last =
                ddprove_coll_recv(sink, DDPROVE_COLL_RECV_REDUCE, rank - 1, rank, out, last, NONE);
        }
        for (uint32_t rank = 1; rank < q->size; rank++) {
            ddprove_coll_send(sink, last_round, rank, out, last, NONE);
        }
    } else {
        /* In place the input is the output: what arrives must not replace it before it was taken.
         */
        last = ddprove_coll_send(sink, q->rank - 1, 0, in, NONE, NONE);
        ddprove_coll_recv(sink, DDPROVE_COLL_RECV, last_round, 0, out, last, NONE);
    }
}

static int emit(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *sink)
{
    uint64_t step = q->segment > 0 ? q->segment : q->count;

    for (uint64_t first = 0; first < q->count; first += step) {
        emit_segment(q, sink, first, q->count - first < step ? q->count - first : step);
    }
    return 0;
}

const struct ddprove_coll ddprove_coll_plugin = {
    DDPROVE_COLL_VERSION,
    sizeof(struct ddprove_coll),
    "@NAME@",
    DDPROVE_COLL_ALL_REDUCE,
    DDPROVE_COLL_SAME_BITS | DDPROVE_COLL_SAME_ORDER,
    emit,
};
