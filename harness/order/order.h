/* Which device work happens before which, from what a rank recorded (device.access, event.record,
 * event.wait, event.done, coll.waited), and the first place where two uses of the same memory have
 * no order.
 *
 * A rank is its host thread and its streams. Work happens after everything earlier on its stream
 * and after everything that the host relied on when it enqueued the work; a wait for an event puts
 * a stream, and seeing an event done puts the host, behind the event's last record. On a collective
 * the host relies when it has waited for it: a poll that saw it done first was lucky. Nothing else
 * orders: the default stream is one of the streams, and a query that did not succeed says nothing.
 * Timing plays no part, so a missing event or wait is found in every run.
 * Two uses need what was seen, whoever waited: freeing memory, and a watcher's look at it. Nothing
 * needs a look, which is over when the watcher goes on. */
#ifndef HARNESS_ORDER_ORDER_H
#define HARNESS_ORDER_ORDER_H

#include "ddpcore/base/param.h"
#include "harness/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A rank with more streams is refused: E_OVERFLOW. */
#define HARNESS_STREAMS_MAX 256

/* The first use of memory, in the host's order, that something does not allow. */
struct harness_disorder {
    bool is_set;
    uint32_t step;
    uint16_t micro;
    uint8_t phase;
    int32_t bucket; /* -1: no bucket is concerned */
    int32_t param;  /* -1: no single parameter is concerned */
    uint64_t seq;   /* of the collective; 0: none */
    /* "bucket 1 (fc1.bias, fc1.weight) is read by all_reduce seq 7 on stream 1 while ..." */
    char text[512];
};

struct harness_order_facts {
    struct harness_disorder disorder;
    bool is_coll_recorded; /* some of them were a collective's */
    /* A bucket's all-reduce completed, no fault left anything out, and no access of a collective to
     * the bucket was recorded: whether it was ordered cannot be said. */
    bool is_reduction_unseen;
    uint32_t unseen_bucket;
    uint64_t unseen_seq;
};

/* Judge one rank. events: all that it recorded, in its order; none may be missing from the middle.
 * O(n log n) for n events, plus, for each access, the pieces into which earlier ones have cut the
 * range that it covers; an access makes at most two, and a write joins those that it covers. Times
 * the number of streams. params: names for the text, or NULL.
 * Errors: E_NOMEM, E_OVERFLOW (err says what). */
DDP_MUST_USE ddp_status harness_order_check(const struct harness_trace_event *const *events,
                                            size_t event_count, const struct ddp_param *params,
                                            size_t param_count, struct ddp_mem *mem,
                                            struct harness_order_facts *out, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
