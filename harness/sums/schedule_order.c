/* Purpose: find two moves of one rank that race for the same elements.
 * Idea: accesses sorted by their first element meet only neighbours that overlap; whether the later
 * move of a pair depends on the earlier one is a walk back over dependencies. */
#include <stdio.h>
#include <stdlib.h>

#include "harness/sums/schedule_prove.h"

struct access {
    uint32_t move, buffer;
    size_t first, end;
    bool is_write;
};

struct race_search {
    const struct harness_schedule *schedule;
    struct access *accesses;
    size_t access_count;
    uint32_t *before; /* [move] the receive from the same peer before it, + 1; 0 = none */
    uint32_t *stack;  /* [move] */
    uint32_t *seen;   /* [move] mark of the search that saw it */
    uint32_t *last;   /* [size] last receive from each peer, + 1 */
    uint32_t mark;
};

static int compare_accesses(const void *a, const void *b)
{
    const struct access *x = a;
    const struct access *y = b;

    if (x->buffer != y->buffer) {
        return x->buffer < y->buffer ? -1 : 1;
    }
    return x->first < y->first ? -1 : x->first > y->first;
}

static void add_access(struct race_search *search, size_t move, const struct harness_span *span,
                       bool is_write)
{
    if (span->elem_count > 0) {
        search->accesses[search->access_count++] = (struct access){
            (uint32_t)move, span->buffer, span->first, span->first + span->elem_count, is_write};
    }
}

static void push(struct race_search *search, size_t *depth, uint32_t move, uint32_t lowest)
{
    if (move >= lowest && search->seen[move] != search->mark) {
        search->seen[move] = search->mark;
        search->stack[(*depth)++] = move;
    }
}

/* Dependencies point to earlier moves only, so nothing below `early` needs to be visited. */
static bool is_after(struct race_search *search, uint32_t late, uint32_t early)
{
    size_t depth = 0;

    search->mark++;
    push(search, &depth, late, early);
    while (depth > 0) {
        uint32_t at = search->stack[--depth];
        const struct harness_move *move = &search->schedule->moves[at];

        if (at == early) {
            return true;
        }
        for (uint32_t d = 0; d < move->dep_count; d++) {
            push(search, &depth, move->dep[d], early);
        }
        if (search->before[at] > 0) {
            push(search, &depth, search->before[at] - 1, early);
        }
    }
    return false;
}

static bool is_race(struct race_search *search, const struct access *a, const struct access *b)
{
    uint32_t early = a->move < b->move ? a->move : b->move;
    uint32_t late = a->move < b->move ? b->move : a->move;

    return early != late && (a->is_write || b->is_write) && !is_after(search, late, early);
}

static bool find_race(struct race_search *search, char *text, size_t size_bytes)
{
    for (size_t i = 0; i < search->access_count; i++) {
        const struct access *a = &search->accesses[i];

        for (size_t j = i + 1; j < search->access_count; j++) {
            const struct access *b = &search->accesses[j];

            if (b->buffer != a->buffer || b->first >= a->end) {
                break;
            }
            if (is_race(search, a, b)) {
                (void)snprintf(text, size_bytes,
                               "steps %u and %u of rank %u touch the same elements from %zu "
                               "without an order",
                               a->move, b->move, search->schedule->rank, b->first);
                return true;
            }
        }
    }
    return false;
}

static void collect(struct race_search *search)
{
    const struct harness_schedule *schedule = search->schedule;

    for (size_t m = 0; m < schedule->move_count; m++) {
        const struct harness_move *move = &schedule->moves[m];

        add_access(search, m, &move->src, false);
        add_access(search, m, &move->dst, true);
        if (move->kind == HARNESS_MOVE_RECV || move->kind == HARNESS_MOVE_RECV_REDUCE) {
            search->before[m] = search->last[move->peer];
            search->last[move->peer] = (uint32_t)m + 1;
        }
    }
    qsort(search->accesses, search->access_count, sizeof(*search->accesses), compare_accesses);
}

ddp_status harness_schedule_order_check(const struct harness_schedule *schedule,
                                        struct ddp_mem *mem, bool *out_is_safe, char *text,
                                        size_t size_bytes)
{
    struct race_search search = {.schedule = schedule};
    size_t count = schedule->move_count;
    ddp_status status = DDP_E_NOMEM;

    search.accesses = ddp_mem_array(mem, 2 * count, sizeof(*search.accesses));
    search.before = ddp_mem_array(mem, count, sizeof(uint32_t));
    search.stack = ddp_mem_array(mem, count, sizeof(uint32_t));
    search.seen = ddp_mem_array(mem, count, sizeof(uint32_t));
    search.last = ddp_mem_array(mem, schedule->size, sizeof(uint32_t));
    if (search.accesses != NULL && search.before != NULL && search.stack != NULL &&
        search.seen != NULL && search.last != NULL) {
        collect(&search);
        *out_is_safe = !find_race(&search, text, size_bytes);
        status = DDP_OK;
    }
    ddp_mem_free(mem, search.accesses);
    ddp_mem_free(mem, search.before);
    ddp_mem_free(mem, search.stack);
    ddp_mem_free(mem, search.seen);
    ddp_mem_free(mem, search.last);
    return status;
}
