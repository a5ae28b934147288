/* Purpose: prove that nobody leaves a barrier before everybody has entered it.
 * Idea: a step ends after the start of every rank whose message reached it, directly or through
 * others. Each step carries the set of those ranks: its own rank, the sets of its dependencies and
 * of the send that it received. A rank leaves when all its steps have ended. */
#include <stdio.h>

#include "harness/sums/schedule_prove.h"

#define WORD_BITS 64u

struct heard { /* sets of ranks, one bit a rank, of any size */
    const struct harness_schedule_set *set;
    struct ddp_mem *mem;
    size_t word_count; /* of one set */
    size_t *first;     /* [rank] number of its first step among all steps */
    uint64_t *words;   /* [step of all ranks][word]; then [rank][word]: what the whole rank heard */
    size_t step_count; /* of all ranks */
};

static uint64_t *set_of_step(const struct heard *heard, uint32_t rank, uint32_t step)
{
    DDP_ASSERT(step < heard->set->member[rank]->step_count);
    return &heard->words[(heard->first[rank] + step) * heard->word_count];
}

static uint64_t *set_of_rank(const struct heard *heard, uint32_t rank)
{
    DDP_ASSERT(rank < heard->set->size);
    return &heard->words[(heard->step_count + rank) * heard->word_count];
}

static void add_rank(uint64_t *words, uint32_t rank)
{
    words[rank / WORD_BITS] |= UINT64_C(1) << (rank % WORD_BITS);
}

static void add_set(const struct heard *heard, uint64_t *words, const uint64_t *others)
{
    for (size_t w = 0; w < heard->word_count; w++) {
        words[w] |= others[w];
    }
}

/* What had happened when the step could begin. */
static void hear(const struct heard *heard, uint32_t rank, uint32_t index)
{
    const struct harness_schedule_step *step = &heard->set->member[rank]->steps[index];
    uint64_t *words = set_of_step(heard, rank, index);

    add_rank(words, rank);
    for (uint32_t d = 0; d < step->dep_count; d++) {
        add_set(heard, words, set_of_step(heard, rank, step->dep[d]));
    }
}

static ddp_status allocate(struct heard *heard)
{
    const struct harness_schedule_set *set = heard->set;

    heard->first = ddp_mem_array(heard->mem, set->size, sizeof(*heard->first));
    if (heard->first == NULL) {
        return DDP_E_NOMEM;
    }
    for (uint32_t r = 0; r < set->size; r++) {
        heard->first[r] = heard->step_count;
        heard->step_count += set->member[r]->step_count;
    }
    heard->word_count = (set->size + WORD_BITS - 1) / WORD_BITS;
    heard->words = ddp_mem_array(heard->mem, heard->step_count + set->size,
                                 heard->word_count * sizeof(*heard->words));
    return heard->words == NULL ? DDP_E_NOMEM : DDP_OK;
}

/* False: text says which rank leaves without whom. */
static bool has_heard_all(const struct heard *heard, uint32_t rank, char *text, size_t size_bytes)
{
    const uint64_t *words = set_of_rank(heard, rank);

    for (uint32_t other = 0; other < heard->set->size; other++) {
        if ((words[other / WORD_BITS] >> (other % WORD_BITS) & 1u) == 0) {
            (void)snprintf(text, size_bytes,
                           "rank %u leaves the barrier before rank %u has entered it", rank, other);
            return false;
        }
    }
    return true;
}

ddp_status harness_schedule_barrier_check(const struct harness_schedule_set *set,
                                          bool *out_is_barrier, struct harness_step_place *place,
                                          char *text, size_t size_bytes)
{
    struct heard heard = {.set = set, .mem = set->mem};
    ddp_status status = allocate(&heard);

    DDP_ASSERT(set->is_ordered);
    for (size_t e = 0; status == DDP_OK && e < set->event_count; e++) {
        const struct harness_schedule_event *event = &set->events[e];

        hear(&heard, event->rank, event->step);
        if (event->from_rank != HARNESS_NO_RANK) {
            hear(&heard, event->from_rank, event->from_step);
            add_set(&heard, set_of_step(&heard, event->rank, event->step),
                    set_of_step(&heard, event->from_rank, event->from_step));
        }
    }
    *out_is_barrier = true;
    for (uint32_t r = 0; status == DDP_OK && *out_is_barrier && r < set->size; r++) {
        add_rank(set_of_rank(&heard, r), r);
        for (uint32_t s = 0; s < set->member[r]->step_count; s++) {
            add_set(&heard, set_of_rank(&heard, r), set_of_step(&heard, r, s));
        }
        *out_is_barrier = has_heard_all(&heard, r, text, size_bytes);
        place->rank = *out_is_barrier ? -1 : (int64_t)r;
    }
    ddp_mem_free(heard.mem, heard.first);
    ddp_mem_free(heard.mem, heard.words);
    return status;
}
