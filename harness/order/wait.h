/* Which collectives the host saw done, and on which it relies: those it waited for. A poll may see
 * one done by luck; what follows such a poll is in order in this run and not in the next. Internal
 * to the happens-before checker. */
#ifndef HARNESS_ORDER_WAIT_H
#define HARNESS_ORDER_WAIT_H

#include "harness/order/clock.h"

#ifdef __cplusplus
extern "C" {
#endif

struct harness_order_waits {
    struct harness_clocks *clocks;
    uint64_t *seqs; /* of collectives that were put on a stream; sorted, each once */
    size_t count;
    uint64_t **rows;   /* [count] what was over when it was seen done; NULL: it was not, or it was
                        * waited for */
    size_t *behind;    /* [event] the collective behind which its last record stands, + 1; or 0 */
    size_t last_event; /* the one recorded last, + 1; or 0 */
};

/* Takes over seqs, unsorted, which lie in clocks->mem; also on failure. Borrows clocks. */
DDP_MUST_USE ddp_status harness_order_waits_init(struct harness_order_waits *waits,
                                                 struct harness_clocks *clocks, uint64_t *seqs,
                                                 size_t count);
void harness_order_waits_fini(struct harness_order_waits *waits);
/* An event was recorded. */
void harness_order_waits_record(struct harness_order_waits *waits, size_t event);
/* The event recorded last stands behind this collective. */
void harness_order_waits_queued(struct harness_order_waits *waits, uint64_t seq);
/* An event was seen done. The host relies at once on one that stands behind no collective: who asks
 * for it knows why. */
DDP_MUST_USE ddp_status harness_order_waits_done(struct harness_order_waits *waits, size_t event);
/* The host waited for a collective. */
void harness_order_waits_waited(struct harness_order_waits *waits, uint64_t seq);

#ifdef __cplusplus
}
#endif
#endif
