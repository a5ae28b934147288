/* Purpose: find two steps of one rank that touch the same elements, one of them writing, in no
 * fixed order.
 * Idea: accesses sorted by their first element overlap only with neighbours; whether the later step
 * of a pair depends on the earlier one is a walk back over dependencies. */
#include <stdio.h>
#include <stdlib.h>

#include "harness/sums/schedule_prove.h"

struct access {
    uint32_t step, buffer;
    size_t first, end;
    bool is_write;
};

struct race_search {
    const struct harness_schedule *schedule;
    struct access *accesses;
    size_t access_count;
    uint32_t *stack; /* [step] steps whose dependencies are still to be followed */
    uint32_t *seen;  /* [step] number of the last walk that met it */
    uint32_t walk;
};

static int compare_accesses(const void *a, const void *b)
{
    const struct access *x = a;
    const struct access *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

static void add_access(struct race_search *search, size_t step, const struct harness_span *span,
                       bool is_write)
{
    if (span->elem_count > 0) {
        DDP_ASSERT(search->access_count < 2 * search->schedule->step_count);
        search->accesses[search->access_count++] = (struct access){
            (uint32_t)step, span->buffer, span->first, span->first + span->elem_count, is_write};
    }
}

static void push(struct race_search *search, size_t *depth, uint32_t step, uint32_t lowest)
{
    if (step >= lowest && search->seen[step] != search->walk) {
        search->seen[step] = search->walk;
        DDP_ASSERT(*depth < search->schedule->step_count); /* each step is pushed once a walk */
        search->stack[(*depth)++] = step;
    }
}

/* Whether `late` depends on `early`, directly or through others. Dependencies point to earlier
 * steps only, so nothing below `early` needs to be visited. */
static bool is_after(struct race_search *search, uint32_t late, uint32_t early)
{
    size_t depth = 0;

    search->walk++;
    push(search, &depth, late, early);
    while (depth > 0) {
        uint32_t at = search->stack[--depth];
        const struct harness_schedule_step *step = &search->schedule->steps[at];

        if (at == early) {
            return true;
        }
        for (uint32_t d = 0; d < step->dep_count; d++) {
            DDP_ASSERT(step->dep[d] < at);
            push(search, &depth, step->dep[d], early);
        }
    }
    return false;
}

/* A step that reads and writes the same elements races with itself: it may copy block by block. */
static bool is_race(struct race_search *search, const struct access *a, const struct access *b)
{
    uint32_t early = a->step < b->step ? a->step : b->step;
    uint32_t late = a->step < b->step ? b->step : a->step;

    if (!a->is_write && !b->is_write) {
        return false;
    }
    return early == late || !is_after(search, late, early);
}

static bool find_race(struct race_search *search, struct harness_step_place *place, char *text,
                      size_t size_bytes)
{
    for (size_t i = 0; i < search->access_count; i++) {
        const struct access *a = &search->accesses[i];

        for (size_t j = i + 1; j < search->access_count; j++) {
            const struct access *b = &search->accesses[j];

            DDP_ASSERT(b->first >= a->first);
            if (b->first >= a->end) {
                break;
            }
            if (b->buffer == a->buffer && is_race(search, a, b)) {
                (void)snprintf(text, size_bytes,
                               "steps %u and %u of rank %u touch the same elements from %zu "
                               "without an order",
                               a->step, b->step, search->schedule->rank, b->first);
                *place = (struct harness_step_place){search->schedule->rank,
                                                     a->step > b->step ? a->step : b->step,
                                                     (int64_t)b->first};
                return true;
            }
        }
    }
    return false;
}

static void collect(struct race_search *search)
{
    const struct harness_schedule *schedule = search->schedule;

    for (size_t s = 0; s < schedule->step_count; s++) {
        add_access(search, s, &schedule->steps[s].src, false);
        add_access(search, s, &schedule->steps[s].dst, true);
    }
    qsort(search->accesses, search->access_count, sizeof(*search->accesses), compare_accesses);
}

ddp_status harness_schedule_order_check(const struct harness_schedule *schedule,
                                        struct ddp_mem *mem, bool *out_is_safe,
                                        struct harness_step_place *place, char *text,
                                        size_t size_bytes)
{
    struct race_search search = {.schedule = schedule};
    size_t count = schedule->step_count;
    ddp_status status = DDP_E_NOMEM;

    search.accesses = ddp_mem_array(mem, 2 * count, sizeof(*search.accesses));
    search.stack = ddp_mem_array(mem, count, sizeof(uint32_t));
    search.seen = ddp_mem_array(mem, count, sizeof(uint32_t));
    if (search.accesses != NULL && search.stack != NULL && search.seen != NULL) {
        collect(&search);
        *out_is_safe = !find_race(&search, place, text, size_bytes);
        status = DDP_OK;
    }
    ddp_mem_free(mem, search.accesses);
    ddp_mem_free(mem, search.stack);
    ddp_mem_free(mem, search.seen);
    return status;
}
