/* Purpose: tell what the host waited for from what a poll found done.
 * Idea: when a collective's event is queried done, keep what that proves; when the collective is
 * waited for, use it. Only both together are an ordering edge: a successful poll alone is none, and
 * a recorded wait without the event seen done is none either. */
#include "harness/order/wait.h"

#include "harness/order/number.h"

ddp_status harness_order_waits_init(struct harness_order_waits *waits,
                                    struct harness_clocks *clocks, uint64_t *seqs, size_t count)
{
    *waits = (struct harness_order_waits){.clocks = clocks, .seqs = seqs};
    waits->count = harness_number_sort(seqs, count);
    waits->rows = ddp_mem_array(clocks->mem, waits->count, sizeof(*waits->rows));
    waits->behind = ddp_mem_array(clocks->mem, clocks->event_count, sizeof(*waits->behind));
    if (waits->rows == NULL || waits->behind == NULL) {
        harness_order_waits_fini(waits);
        return DDP_E_NOMEM;
    }
    return DDP_OK;
}

void harness_order_waits_fini(struct harness_order_waits *waits)
{
    struct ddp_mem *mem = waits->clocks != NULL ? waits->clocks->mem : NULL;

    for (size_t i = 0; waits->rows != NULL && i < waits->count; i++) {
        ddp_mem_free(mem, waits->rows[i]);
    }
    if (mem != NULL) {
        ddp_mem_free(mem, waits->rows);
        ddp_mem_free(mem, waits->behind);
        ddp_mem_free(mem, waits->seqs);
    }
    *waits = (struct harness_order_waits){0};
}

void harness_order_waits_record(struct harness_order_waits *waits, size_t event)
{
    DDP_ASSERT(event < waits->clocks->event_count);
    waits->behind[event] = 0;
    waits->last_event = event + 1;
}

void harness_order_waits_queued(struct harness_order_waits *waits, uint64_t seq)
{
    if (waits->last_event > 0) {
        DDP_ASSERT(waits->last_event <= waits->clocks->event_count);
        waits->behind[waits->last_event - 1] =
            harness_number_of(waits->seqs, waits->count, seq) + 1;
    }
}

ddp_status harness_order_waits_done(struct harness_order_waits *waits, size_t event)
{
    struct harness_clocks *clocks = waits->clocks;
    const size_t number = waits->behind[event];

    DDP_ASSERT(event < clocks->event_count && number <= waits->count);
    harness_clocks_see(clocks, event);
    if (clocks->event[event] == NULL) {
        return DDP_OK;
    }
    if (number == 0) {
        harness_clocks_rely(clocks, clocks->event[event]);
        return DDP_OK;
    }
    if (waits->rows[number - 1] == NULL) {
        waits->rows[number - 1] =
            ddp_mem_array(clocks->mem, clocks->stream_count, sizeof(uint64_t));
    }
    if (waits->rows[number - 1] == NULL) {
        return DDP_E_NOMEM;
    }
    harness_clocks_add(clocks, event, waits->rows[number - 1]);
    return DDP_OK;
}

void harness_order_waits_waited(struct harness_order_waits *waits, uint64_t seq)
{
    const size_t number = harness_number_find(waits->seqs, waits->count, seq);

    if (number < waits->count && waits->rows[number] != NULL) {
        harness_clocks_rely(waits->clocks, waits->rows[number]);
        ddp_mem_free(waits->clocks->mem, waits->rows[number]);
        waits->rows[number] = NULL;
    }
}
