/* Which collectives the host saw done, and which of them it waited for. Only a wait orders what
 * follows: a poll that finds a collective done may find it unfinished in the next run. Internal to
 * the happens-before checker. */
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
    uint64_t **rows;   /* [count] the clock row of its event when that was seen done; NULL: it was
                        * not, or the collective was waited for since */
    size_t *behind;    /* [event] number + 1 of the collective that its last record follows; or 0 */
    size_t last_event; /* number + 1 of the event recorded last; or 0 */
};

/* Takes over seqs, unsorted, which lie in clocks->mem; also on failure. Borrows clocks. */
DDP_MUST_USE ddp_status harness_order_waits_init(struct harness_order_waits *waits,
                                                 struct harness_clocks *clocks, uint64_t *seqs,
                                                 size_t count);
void harness_order_waits_fini(struct harness_order_waits *waits);
/* An event was recorded. */
void harness_order_waits_record(struct harness_order_waits *waits, size_t event);
/* The event recorded last follows this collective on its stream. */
void harness_order_waits_queued(struct harness_order_waits *waits, uint64_t seq);
/* An event was queried done. One that does not follow a collective counts as waited for from then
 * on. */
DDP_MUST_USE ddp_status harness_order_waits_done(struct harness_order_waits *waits, size_t event);
/* The host waited for a collective. */
void harness_order_waits_waited(struct harness_order_waits *waits, uint64_t seq);

#ifdef __cplusplus
}
#endif
#endif
