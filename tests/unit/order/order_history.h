/* A rank's recorded device work, written by hand, and what the happens-before checker says of it.
 */
#ifndef TESTS_UNIT_ORDER_ORDER_HISTORY_H
#define TESTS_UNIT_ORDER_ORDER_HISTORY_H

#include "ddpcore/seam/access.h"
#include "harness/order/order.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { HISTORY_EVENTS_MAX = 1024 };

struct order_history {
    struct harness_trace_event events[HISTORY_EVENTS_MAX];
    const struct harness_trace_event *list[HISTORY_EVENTS_MAX];
    size_t count;
    uint32_t step; /* of the events that follow */
    uint8_t phase;
    struct harness_order_facts facts;
};

void order_history_add(struct order_history *history, enum ddp_event event, uint64_t a0,
                       uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4);
/* Bytes [first, end) of an allocation. */
void order_history_use(struct order_history *history, uint64_t stream, uint64_t allocation,
                       uint64_t first, uint64_t end, enum ddp_access access);
void order_history_record(struct order_history *history, uint64_t event, uint64_t stream);
void order_history_wait(struct order_history *history, uint64_t event, uint64_t stream);
void order_history_done(struct order_history *history, uint64_t event);
void order_history_post(struct order_history *history, uint64_t seq, uint32_t bucket);
void order_history_complete(struct order_history *history, uint64_t seq, uint32_t bucket);
/* The event recorded last follows a collective; the host waited for one. */
void order_history_queued(struct order_history *history, uint64_t seq);
void order_history_waited(struct order_history *history, uint64_t seq);
/* Whether the checker finds the history in order. */
bool order_history_is_ordered(struct order_history *history);

#ifdef __cplusplus
}
#endif
#endif
