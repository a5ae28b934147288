/* Which device work happens before which, from what a rank recorded (device.access, event.record,
 * event.wait, event.done, coll.waited), and the first two uses of the same memory that have no
 * order.
 *
 * A rank is its host thread and its streams. Work on a stream happens after
 * - all earlier work on that stream;
 * - what precedes the last record of an event, once the stream was told to wait for the event;
 * - what the host had waited for when it enqueued the work.
 * The host has waited for a collective once coll.waited is recorded and its event was queried done.
 * A poll that finds the collective done is not enough, since it may find it unfinished in the next
 * run. An event that does not follow a collective counts as waited for once it was queried done.
 * Nothing else orders. The default stream is a stream as any other; a query that found an event not
 * done proves nothing. Timing plays no part, so a missing event or wait is found in every run.
 *
 * Freeing memory and a diagnostic read only need the earlier work to be queried done, by a poll or
 * a wait. A diagnostic read never has to be ordered before later work: it ends before the host goes
 * on. */
#ifndef HARNESS_ORDER_ORDER_H
#define HARNESS_ORDER_ORDER_H

#include "ddpcore/base/param.h"
#include "harness/trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A rank with more streams is refused: E_OVERFLOW. */
#define HARNESS_STREAMS_MAX 256

/* The first use of memory, in the host's order, that breaks a rule. */
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
    bool is_coll_recorded; /* some access was a collective's */
    /* A bucket's all-reduce completed, no fault left an operation out, and no access of a
     * collective to the bucket was recorded: whether it was ordered is not known. */
    bool is_reduction_unseen;
    uint32_t unseen_bucket;
    uint64_t unseen_seq;
};

/* Judge one rank. events: all that it recorded, in its order, without gaps. Time: the number of
 * streams times O(n log n) for n events, plus, for each access, the number of pieces into which
 * earlier accesses have cut its range; an access makes at most two more, and a write merges those
 * that it covers. params: names for the text, or NULL.
 * Errors: E_NOMEM, E_OVERFLOW (err says what). */
DDP_MUST_USE ddp_status harness_order_check(const struct harness_trace_event *const *events,
                                            size_t event_count, const struct ddp_param *params,
                                            size_t param_count, struct ddp_mem *mem,
                                            struct harness_order_facts *out, struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
