/* Purpose: ranks whose models are not the others' any more.
 * Idea: replicas are one state until something on a rank differs; from then on that rank has a
 * state of its own, which it shares with those that differ in the same way. */
#include <string.h>

#include "harness/emulation/internal.h"

static struct harness_camp *allocate(struct harness_emulation *e)
{
    struct harness_camp **camps =
        ddp_mem_grow(e->mem, e->camps, e->camp_count, &e->camp_capacity, sizeof(*camps));
    struct harness_camp *camp = harness_emulation_alloc(e, 1, sizeof(*camp));
    size_t hashes = (1 + (size_t)e->slot_count) * e->params.count;

    if (camps != NULL) {
        e->camps = camps;
    }
    if (camps == NULL || camp == NULL) {
        e->is_out_of_memory = true;
        return NULL;
    }
    harness_state_create(e, &camp->state);
    camp->average = harness_emulation_alloc(e, 1, e->params.size_bytes);
    camp->average_hash = harness_emulation_alloc(e, e->params.count, sizeof(*camp->average_hash));
    camp->is_known = harness_emulation_alloc(e, e->params.count, sizeof(bool));
    camp->is_average_known = harness_emulation_alloc(e, e->params.count, sizeof(bool));
    camp->is_used = harness_emulation_alloc(e, e->params.count, sizeof(bool));
    camp->hash = harness_emulation_alloc(e, hashes, sizeof(*camp->hash));
    camp->hash_before = harness_emulation_alloc(e, hashes, sizeof(*camp->hash_before));
    if (e->is_out_of_memory) {
        return NULL;
    }
    camp->number = (uint32_t)e->camp_count;
    e->camps[e->camp_count++] = camp;
    return camp;
}

/* One that all ranks have left, or a new one. */
static struct harness_camp *create(struct harness_emulation *e)
{
    for (size_t c = 1; c < e->camp_count; c++) {
        if (e->camps[c]->rank_count == 0) {
            return e->camps[c];
        }
    }
    return allocate(e);
}

ddp_status harness_camps_create(struct harness_emulation *e)
{
    struct harness_camp *all;

    e->camp_of = harness_emulation_alloc(e, e->world, sizeof(*e->camp_of));
    all = allocate(e);
    if (all == NULL || e->camp_of == NULL) {
        return DDP_E_NOMEM;
    }
    all->rank_count = e->world;
    memset(all->is_known, true, e->params.count);
    return DDP_OK;
}

struct harness_camp *harness_emulation_camp(const struct harness_emulation *e, uint32_t rank)
{
    DDP_ASSERT(rank < e->world && e->camp_of[rank] < e->camp_count);
    return e->camps[e->camp_of[rank]];
}

static void copy(const struct harness_emulation *e, struct harness_camp *target,
                 const struct harness_camp *source)
{
    size_t hashes = (1 + (size_t)e->slot_count) * e->params.count * sizeof(uint64_t);

    harness_state_copy(e, &target->state, &source->state);
    memcpy(target->average, source->average, e->params.size_bytes);
    memcpy(target->average_hash, source->average_hash,
           e->params.count * sizeof(*source->average_hash));
    memcpy(target->is_known, source->is_known, e->params.count * sizeof(bool));
    memcpy(target->is_average_known, source->is_average_known, e->params.count * sizeof(bool));
    memcpy(target->is_used, source->is_used, e->params.count * sizeof(bool));
    memcpy(target->hash, source->hash, hashes);
    memcpy(target->hash_before, source->hash_before, hashes);
}

static void set_first(const struct harness_emulation *e, struct harness_camp *camp)
{
    for (uint32_t r = 0; r < e->world; r++) {
        if (e->camp_of[r] == camp->number) {
            camp->first = r;
            return;
        }
    }
}

static void move(struct harness_emulation *e, uint32_t rank, struct harness_camp *to)
{
    struct harness_camp *from = harness_emulation_camp(e, rank);

    DDP_ASSERT(from != to && from->rank_count > 0);
    e->camp_of[rank] = to->number;
    from->rank_count--;
    to->rank_count++;
    set_first(e, from);
    set_first(e, to);
}

ddp_status harness_camp_part(struct harness_emulation *e, uint32_t rank,
                             bool (*is_like)(const struct harness_emulation *e, uint32_t a,
                                             uint32_t b),
                             bool *out_is_new)
{
    struct harness_camp *old = harness_emulation_camp(e, rank);
    struct harness_camp *own;

    *out_is_new = false;
    for (size_t c = 1; c < e->camp_count; c++) {
        struct harness_camp *camp = e->camps[c];

        if (camp->rank_count > 0 && camp->parting == e->parting && camp->parent == old->number &&
            is_like(e, camp->first, rank)) {
            move(e, rank, camp);
            return DDP_OK;
        }
    }
    *out_is_new = true;
    own = create(e);
    if (own == NULL) {
        return DDP_E_NOMEM;
    }
    copy(e, own, old);
    own->parent = old->number;
    own->parting = e->parting;
    move(e, rank, own);
    return DDP_OK;
}

/* Tensors and step counts of two camps are the same, and known; and by what they scale. */
static bool is_same_state(const struct harness_emulation *e, const struct harness_camp *a,
                          const struct harness_camp *b)
{
    size_t count = e->params.count;

    return e->scale[a->first] == e->scale[b->first] &&
           e->scale_steps[a->first] == e->scale_steps[b->first] &&
           memcmp(a->hash, b->hash, (1 + (size_t)e->slot_count) * count * sizeof(uint64_t)) == 0 &&
           memcmp(a->state.taken, b->state.taken, count * sizeof(*a->state.taken)) == 0 &&
           memchr(a->is_known, false, count) == NULL && memchr(b->is_known, false, count) == NULL;
}

void harness_camps_rejoin(struct harness_emulation *e)
{
    struct harness_camp *all = e->camps[0];

    for (uint32_t r = 0; all->rank_count > 0 && r < e->world; r++) {
        struct harness_camp *own = harness_emulation_camp(e, r);

        if (own != all && is_same_state(e, own, all)) {
            move(e, r, all);
        }
    }
}
