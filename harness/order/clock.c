/* Purpose: say whether one piece of device work happens before another.
 * Idea: vector clocks (Fidge, Mattern) with one component a stream. A stream's own time advances
 * only when an event is recorded on it: other streams can order themselves after an event alone, so
 * work between two records need not be told apart. */
#include "harness/order/clock.h"

#include <string.h>

static uint64_t *row_of(const struct harness_clocks *clocks, uint32_t stream)
{
    DDP_ASSERT(stream < clocks->stream_count);
    return clocks->stream + (size_t)stream * clocks->stream_count;
}

static void join(const struct harness_clocks *clocks, uint64_t *into, const uint64_t *from)
{
    for (uint32_t s = 0; s < clocks->stream_count; s++) {
        into[s] = into[s] > from[s] ? into[s] : from[s];
    }
}

ddp_status harness_clocks_init(struct harness_clocks *clocks, struct ddp_mem *mem,
                               uint32_t stream_count, size_t event_count)
{
    const uint32_t count = stream_count + 1;

    DDP_ASSERT(stream_count > 0); /* the default stream */
    *clocks =
        (struct harness_clocks){.mem = mem, .stream_count = count, .event_count = event_count};
    clocks->stream = ddp_mem_array(mem, (size_t)count * count, sizeof(uint64_t));
    clocks->seen = ddp_mem_array(mem, count, sizeof(uint64_t));
    clocks->event = ddp_mem_array(mem, event_count, sizeof(*clocks->event));
    if (clocks->stream == NULL || clocks->seen == NULL || clocks->event == NULL) {
        harness_clocks_fini(clocks);
        return DDP_E_NOMEM;
    }
    for (uint32_t s = 0; s < count; s++) {
        row_of(clocks, s)[s] = 1;
    }
    return DDP_OK;
}

void harness_clocks_fini(struct harness_clocks *clocks)
{
    for (size_t e = 0; clocks->event != NULL && e < clocks->event_count; e++) {
        ddp_mem_free(clocks->mem, clocks->event[e]);
    }
    if (clocks->mem != NULL) {
        ddp_mem_free(clocks->mem, clocks->event);
        ddp_mem_free(clocks->mem, clocks->seen);
        ddp_mem_free(clocks->mem, clocks->stream);
    }
    *clocks = (struct harness_clocks){0};
}

uint64_t harness_clocks_enqueue(struct harness_clocks *clocks, uint32_t stream)
{
    uint64_t *row = row_of(clocks, stream);

    join(clocks, row, row_of(clocks, clocks->stream_count - 1));
    DDP_ASSERT(row[stream] > 0); /* time 0 is before all work */
    return row[stream];
}

ddp_status harness_clocks_record(struct harness_clocks *clocks, size_t event, uint32_t stream)
{
    uint64_t *row = row_of(clocks, stream);

    DDP_ASSERT(event < clocks->event_count && stream < clocks->stream_count - 1);
    if (clocks->event[event] == NULL) {
        clocks->event[event] = ddp_mem_array(clocks->mem, clocks->stream_count, sizeof(uint64_t));
        if (clocks->event[event] == NULL) {
            return DDP_E_NOMEM;
        }
    }
    (void)harness_clocks_enqueue(clocks, stream);
    memcpy(clocks->event[event], row, clocks->stream_count * sizeof(*row));
    row[stream]++;
    return DDP_OK;
}

void harness_clocks_wait(struct harness_clocks *clocks, size_t event, uint32_t stream)
{
    DDP_ASSERT(event < clocks->event_count && stream < clocks->stream_count - 1);
    if (clocks->event[event] != NULL) {
        join(clocks, row_of(clocks, stream), clocks->event[event]);
    }
}

void harness_clocks_add(const struct harness_clocks *clocks, size_t event, uint64_t *row)
{
    DDP_ASSERT(event < clocks->event_count);
    if (clocks->event[event] != NULL) {
        join(clocks, row, clocks->event[event]);
    }
}

void harness_clocks_see(struct harness_clocks *clocks, size_t event)
{
    harness_clocks_add(clocks, event, clocks->seen);
}

void harness_clocks_rely(struct harness_clocks *clocks, const uint64_t *row)
{
    DDP_ASSERT(row[0] <= clocks->seen[0]); /* it was seen done */
    join(clocks, row_of(clocks, clocks->stream_count - 1), row);
}

bool harness_clocks_is_before(const struct harness_clocks *clocks, uint32_t stream, uint64_t time,
                              uint32_t later)
{
    DDP_ASSERT(stream < clocks->stream_count && time > 0);
    return row_of(clocks, later)[stream] >= time;
}

bool harness_clocks_is_seen(const struct harness_clocks *clocks, uint32_t stream, uint64_t time)
{
    DDP_ASSERT(stream < clocks->stream_count && time > 0);
    return clocks->seen[stream] >= time;
}
