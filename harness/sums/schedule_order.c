/* Purpose: find two steps of one rank that touch the same elements, one of them writing, in no
 * fixed order.
 * Idea: accesses sorted by buffer and first element overlap only with neighbours. Whether the later
 * step of a pair depends on the earlier one is a bit in a table that is made once, where every step
 * inherits what its dependencies have; of schedules too long for that it is a walk back over them.
 */
#include <stdio.h>

#include "harness/sums/schedule_prove.h"

struct access {
    uint32_t step, buffer;
    size_t first, end;
    bool is_write;
};

/* 8 MiB of table: beyond, a walk costs less. */
enum { TABLE_STEPS_MAX = 8192, WORD_BITS = 64 };

struct race_search {
    const struct harness_schedule *schedule;
    uint64_t *before; /* [step][step / WORD_BITS] the steps that come before; NULL: no table */
    size_t word_count;
    struct access *accesses, *spare; /* spare: room to sort them in */
    size_t access_count;
    uint32_t *stack; /* [step] steps whose dependencies are still to be followed */
    uint32_t *seen;  /* [step] number of the last walk that met it */
    uint32_t walk;
};

static bool is_in_front(const struct access *a, const struct access *b)
{
    return a->buffer != b->buffer ? a->buffer < b->buffer : a->first < b->first;
}

/* Merges the sorted runs [from, middle) and [middle, end) of `in` into `out`; of equal ones those
 * of the first run come first. */
static void merge(const struct access *in, size_t from, size_t middle, size_t end,
                  struct access *out)
{
    size_t left = from;
    size_t right = middle;

    DDP_ASSERT(from <= middle && middle <= end);
    for (size_t i = from; i < end; i++) {
        bool is_right = left == middle || (right < end && is_in_front(&in[right], &in[left]));

        out[i] = in[is_right ? right++ : left++];
    }
}

/* By buffer and first element, else in the order of steps. qsort takes three times as long, which
 * was a tenth of a whole proof. */
static void sort_accesses(struct race_search *search)
{
    size_t count = search->access_count;

    for (size_t length = 1; length < count; length *= 2) {
        struct access *sorted = search->spare;

        for (size_t from = 0; from < count; from += 2 * length) {
            size_t middle = from + length < count ? from + length : count;
            size_t end = from + 2 * length < count ? from + 2 * length : count;

            merge(search->accesses, from, middle, end, sorted);
        }
        search->spare = search->accesses;
        search->accesses = sorted;
    }
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

static uint64_t *row_of(const struct race_search *search, size_t step)
{
    return &search->before[step * search->word_count];
}

/* Dependencies point to earlier steps only, so theirs are complete. */
static void fill_table(struct race_search *search)
{
    for (size_t s = 0; search->before != NULL && s < search->schedule->step_count; s++) {
        const struct harness_schedule_step *step = &search->schedule->steps[s];
        uint64_t *row = row_of(search, s);

        for (uint32_t d = 0; d < step->dep_count; d++) {
            const uint64_t *inherited = row_of(search, step->dep[d]);

            DDP_ASSERT(step->dep[d] < s);
            for (size_t w = 0; w <= step->dep[d] / WORD_BITS; w++) {
                row[w] |= inherited[w];
            }
            row[step->dep[d] / WORD_BITS] |= UINT64_C(1) << (step->dep[d] % WORD_BITS);
        }
    }
}

/* Whether `late` depends on `early`, directly or through others. Dependencies point to earlier
 * steps only, so nothing below `early` needs to be visited. */
static bool is_after(struct race_search *search, uint32_t late, uint32_t early)
{
    size_t depth = 0;

    if (search->before != NULL) {
        return (row_of(search, late)[early / WORD_BITS] >> (early % WORD_BITS) & 1u) != 0;
    }

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

            if (b->buffer != a->buffer || b->first >= a->end) {
                break;
            }
            DDP_ASSERT(b->first >= a->first);
            if (is_race(search, a, b)) {
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
    sort_accesses(search);
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
    search.spare = ddp_mem_array(mem, 2 * count, sizeof(*search.spare));
    search.stack = ddp_mem_array(mem, count, sizeof(uint32_t));
    search.seen = ddp_mem_array(mem, count, sizeof(uint32_t));
    search.word_count = (count + WORD_BITS - 1) / WORD_BITS;
    if (count > 0 && count <= (size_t)TABLE_STEPS_MAX) {
        search.before = ddp_mem_array(mem, count * search.word_count, sizeof(uint64_t));
    }
    if (search.accesses != NULL && search.spare != NULL && search.stack != NULL &&
        search.seen != NULL) {
        fill_table(&search);
        collect(&search);
        *out_is_safe = !find_race(&search, place, text, size_bytes);
        status = DDP_OK;
    }
    ddp_mem_free(mem, search.accesses);
    ddp_mem_free(mem, search.spare);
    ddp_mem_free(mem, search.stack);
    ddp_mem_free(mem, search.seen);
    ddp_mem_free(mem, search.before);
    return status;
}
