/* Collectives that move the data themselves: a right one in each style, and wrong ones. */
#include <ddprove_coll.h>
#include <stdlib.h>
#include <string.h>

struct ring {
    struct ddprove_coll_host host;
    char *incoming;
    struct ddprove_coll_call call;
    uint32_t step, own; /* of post and poll */
    int calls;
};

#ifndef WHAT
#define WHAT RIGHT
#endif
enum { RIGHT, POSTED, LOST, TWICE, NOTHING, CRASH, LATER_CRASH };

static int open_ring(const struct ddprove_coll_host *host, void **out_self)
{
    struct ring *ring = calloc(1, sizeof *ring);

    if (ring == NULL) {
        return DDPROVE_COLL_FAILED;
    }
    ring->host = *host;
    *out_self = ring;
    return DDPROVE_COLL_OK;
}

static void close_ring(void *self)
{
    free(self);
}

/* Every rank sends all it has to rank 0, which adds and sends back. */
static int run(void *self, const struct ddprove_coll_call *call)
{
    struct ring *ring = self;
    const struct ddprove_coll_host *host = &ring->host;
    uint64_t bytes = call->count * sizeof(float);
    float *sum = call->output;
    float *term;
    int result = DDPROVE_COLL_OK;

    if (call->dtype != DDPROVE_COLL_F32 || call->op != DDPROVE_COLL_SUM) {
        return DDPROVE_COLL_UNSUPPORTED;
    }
    if (WHAT == CRASH || (WHAT == LATER_CRASH && ++ring->calls > 3 && host->rank == 1)) {
        abort();
    }
    if (WHAT == NOTHING && ring->calls++ > 0) {
        return DDPROVE_COLL_OK;
    }
    if (call->input != call->output && bytes > 0) {
        memcpy(sum, call->input, bytes);
    }
    if (host->rank != 0) {
        result = ddprove_coll_exchange(host, 0, sum, bytes, 0, NULL, 0);
        return result != DDPROVE_COLL_OK ? result
                                         : ddprove_coll_exchange(host, 0, NULL, 0, 0, sum, bytes);
    }
    term = malloc(bytes + 1);
    for (uint32_t rank = 1; rank < host->size && result == DDPROVE_COLL_OK; rank++) {
        result = ddprove_coll_exchange(host, 0, NULL, 0, rank, term, bytes);
        for (uint64_t i = 0; i < call->count; i++) {
            if (!(WHAT == LOST && rank == host->size - 1 && i == call->count - 1)) {
                sum[i] += term[i];
            }
            if (WHAT == TWICE && rank == 1 && i == call->count / 2) {
                sum[i] += term[i];
            }
        }
    }
    for (uint32_t rank = 1; rank < host->size && result == DDPROVE_COLL_OK; rank++) {
        result = ddprove_coll_exchange(host, rank, sum, bytes, 0, NULL, 0);
    }
    free(term);
    return result;
}

/* The same in two steps, for the other style: posted, then all of it in the first poll. */
static int post(void *self, const struct ddprove_coll_call *call)
{
    ((struct ring *)self)->call = *call;
    return DDPROVE_COLL_OK;
}

static int poll_ring(void *self)
{
    return run(self, &((struct ring *)self)->call);
}

const struct ddprove_coll_opaque ddprove_coll_opaque_plugin = {
    .version = DDPROVE_COLL_OPAQUE_VERSION,
    .struct_bytes = sizeof(struct ddprove_coll_opaque),
    .name = "star",
    .kind = DDPROVE_COLL_ALL_REDUCE,
    .claims = DDPROVE_COLL_SAME_BITS | DDPROVE_COLL_SAME_ORDER,
    .open = open_ring,
    .close = close_ring,
    .run = WHAT == POSTED ? NULL : run,
    .post = WHAT == POSTED ? post : NULL,
    .poll = WHAT == POSTED ? poll_ring : NULL,
};
