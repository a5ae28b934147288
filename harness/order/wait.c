/* Purpose: tell what the host waited for from what it happened to see.
 * Idea: seeing a collective's event done keeps what that proves; waiting for the collective makes
 * use of it. Only both order anything, so a wait that is recorded and did not take place proves as
 * little as a lucky poll. */
#include "harness/order/wait.h"

#include <stdlib.h>

static int compare_seqs(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;

    return a < b ? -1 : a > b;
}

static size_t sort_seqs(uint64_t *seqs, size_t count)
{
    size_t kept = 0;

    if (count > 0) {
        qsort(seqs, count, sizeof(*seqs), compare_seqs);
    }
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || seqs[kept - 1] != seqs[i]) {
            seqs[kept++] = seqs[i];
        }
    }
    return kept;
}

/* Number of a collective, + 1; 0: it was never put on a stream. */
static size_t number_of(const struct harness_order_waits *waits, uint64_t seq)
{
    const uint64_t *found =
        waits->count == 0 ? NULL
                          : bsearch(&seq, waits->seqs, waits->count, sizeof(seq), compare_seqs);

    return found == NULL ? 0 : (size_t)(found - waits->seqs) + 1;
}

ddp_status harness_order_waits_init(struct harness_order_waits *waits,
                                    struct harness_clocks *clocks, uint64_t *seqs, size_t count)
{
    *waits = (struct harness_order_waits){.clocks = clocks, .seqs = seqs};
    waits->count = sort_seqs(seqs, count);
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
    waits->behind[event] = 0;
    waits->last_event = event + 1;
}

void harness_order_waits_queued(struct harness_order_waits *waits, uint64_t seq)
{
    if (waits->last_event > 0) {
        waits->behind[waits->last_event - 1] = number_of(waits, seq);
    }
}

ddp_status harness_order_waits_done(struct harness_order_waits *waits, size_t event)
{
    struct harness_clocks *clocks = waits->clocks;
    const size_t number = waits->behind[event];

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
    const size_t number = number_of(waits, seq);

    if (number > 0 && waits->rows[number - 1] != NULL) {
        harness_clocks_rely(waits->clocks, waits->rows[number - 1]);
        ddp_mem_free(waits->clocks->mem, waits->rows[number - 1]);
        waits->rows[number - 1] = NULL;
    }
}
