/* Vector clocks of a rank's streams. Internal to the happens-before checker. */
#ifndef HARNESS_ORDER_CLOCK_H
#define HARNESS_ORDER_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Streams and events are numbered densely from 0 here. */
struct harness_clocks {
    struct ddp_mem *mem;
    uint32_t stream_count; /* the host's row is one of them, the last */
    size_t event_count;
    /* stream_count rows. Row s, entry t: work of stream t up to this time happens before the work
     * that is enqueued on s next; entry (s, s) is the time of that work itself. The host's row:
     * what the host has waited for */
    uint64_t *stream;
    uint64_t *seen;   /* row of what was queried done, waited for or not */
    uint64_t **event; /* [event_count] the row at the last record; NULL: never recorded */
};

/* stream_count: without the host, whose number it becomes. */
DDP_MUST_USE ddp_status harness_clocks_init(struct harness_clocks *clocks, struct ddp_mem *mem,
                                            uint32_t stream_count, size_t event_count);
void harness_clocks_fini(struct harness_clocks *clocks);
/* The host enqueues work on a stream; returns the work's time there. */
uint64_t harness_clocks_enqueue(struct harness_clocks *clocks, uint32_t stream);
DDP_MUST_USE ddp_status harness_clocks_record(struct harness_clocks *clocks, size_t event,
                                              uint32_t stream);
void harness_clocks_wait(struct harness_clocks *clocks, size_t event, uint32_t stream);
/* The event was seen done. */
void harness_clocks_see(struct harness_clocks *clocks, size_t event);
/* Add the event's row to another. */
void harness_clocks_add(const struct harness_clocks *clocks, size_t event, uint64_t *row);
/* The host has waited for what a row (an event's) says. */
void harness_clocks_rely(struct harness_clocks *clocks, const uint64_t *row);
/* Whether work of `time` on `stream` happens before what was just enqueued on `later`. */
bool harness_clocks_is_before(const struct harness_clocks *clocks, uint32_t stream, uint64_t time,
                              uint32_t later);
/* Whether work of `time` on `stream` was seen done. */
bool harness_clocks_is_seen(const struct harness_clocks *clocks, uint32_t stream, uint64_t time);

#ifdef __cplusplus
}
#endif
#endif
