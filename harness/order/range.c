/* Purpose: find, for each access, the earlier ones that it must come after.
 * Idea: pieces of memory with one history each. An access cuts the pieces at its ends in two; a
 * write makes one piece of all it covers. Cuts are bits in a tree of words, so the next one is
 * found in a few steps however many there are. */
#include "harness/order/range.h"

#include <stdlib.h>
#include <string.h>

enum { WORD_BITS = 64, WORD_SHIFT = 6 };

static int compare_boundaries(const void *left, const void *right)
{
    const struct harness_order_boundary *a = left;
    const struct harness_order_boundary *b = right;

    if (a->allocation != b->allocation) {
        return a->allocation < b->allocation ? -1 : 1;
    }
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

static size_t place_of(const struct harness_ranges *ranges, uint64_t allocation, uint64_t offset)
{
    const struct harness_order_boundary key = {allocation, offset};
    const struct harness_order_boundary *found =
        bsearch(&key, ranges->boundaries, ranges->boundary_count, sizeof(key), compare_boundaries);

    DDP_ASSERT(found != NULL);
    return (size_t)(found - ranges->boundaries);
}

/* --- cuts --------------------------------------------------------------------------------------*/

static bool has_cut(const struct harness_ranges *ranges, size_t place)
{
    return (ranges->cuts[0][place >> WORD_SHIFT] >> (place % WORD_BITS) & 1u) != 0;
}

static void set_cut(struct harness_ranges *ranges, size_t place)
{
    DDP_ASSERT(place < ranges->boundary_count);
    for (uint32_t level = 0; level < ranges->level_count; level++) {
        ranges->cuts[level][place >> WORD_SHIFT] |= UINT64_C(1) << (place % WORD_BITS);
        place >>= WORD_SHIFT;
    }
}

static void clear_cut(struct harness_ranges *ranges, size_t place)
{
    DDP_ASSERT(place > 0 && has_cut(ranges, place));
    for (uint32_t level = 0; level < ranges->level_count; level++) {
        uint64_t *word = &ranges->cuts[level][place >> WORD_SHIFT];

        *word &= ~(UINT64_C(1) << (place % WORD_BITS));
        if (*word != 0) {
            return;
        }
        place >>= WORD_SHIFT;
    }
}

/* The nearest cut before a place that has none; there is one, at the allocation's first place. */
static size_t cut_before(const struct harness_ranges *ranges, size_t place)
{
    uint32_t level = 0;
    uint64_t below = 0;

    for (;; level++, place >>= WORD_SHIFT) {
        DDP_ASSERT(level < ranges->level_count);
        below =
            ranges->cuts[level][place >> WORD_SHIFT] & ((UINT64_C(1) << (place % WORD_BITS)) - 1);
        if (below != 0) {
            break;
        }
    }
    place = place >> WORD_SHIFT << WORD_SHIFT | (size_t)(63 - __builtin_clzll(below));
    while (level-- > 0) {
        place = place << WORD_SHIFT | (size_t)(63 - __builtin_clzll(ranges->cuts[level][place]));
    }
    return place;
}

/* The nearest cut after a place; boundary_count if there is none. */
static size_t cut_after(const struct harness_ranges *ranges, size_t place)
{
    uint32_t level = 0;
    uint64_t above = 0;

    for (;; level++, place >>= WORD_SHIFT) {
        if (level == ranges->level_count) {
            return ranges->boundary_count;
        }
        above =
            ranges->cuts[level][place >> WORD_SHIFT] & ~((UINT64_C(2) << (place % WORD_BITS)) - 1);
        if (above != 0) {
            break;
        }
    }
    place = place >> WORD_SHIFT << WORD_SHIFT | (size_t)__builtin_ctzll(above);
    while (level-- > 0) {
        place = place << WORD_SHIFT | (size_t)__builtin_ctzll(ranges->cuts[level][place]);
    }
    return place;
}

static ddp_status create_cuts(struct harness_ranges *ranges)
{
    size_t bits = ranges->boundary_count;

    do {
        size_t words = (bits + WORD_BITS - 1) / WORD_BITS;

        DDP_ASSERT(ranges->level_count < sizeof(ranges->cuts) / sizeof(ranges->cuts[0]));
        ranges->cuts[ranges->level_count] =
            ddp_mem_array(ranges->mem, words, sizeof(*ranges->cuts[0]));
        if (ranges->cuts[ranges->level_count] == NULL) {
            return DDP_E_NOMEM;
        }
        ranges->level_count++;
        bits = words;
    } while (bits > 1);
    for (size_t i = 0; i < ranges->boundary_count; i++) {
        if (i == 0 || ranges->boundaries[i].allocation != ranges->boundaries[i - 1].allocation) {
            set_cut(ranges, i);
        }
    }
    return DDP_OK;
}

/* --- pieces ------------------------------------------------------------------------------------*/

static uint32_t *reads_of(const struct harness_ranges *ranges, size_t place)
{
    return ranges->last_read + place * ranges->stream_count;
}

/* A piece begins at place from now on, with the history of the piece that it was part of. */
static void cut_at(struct harness_ranges *ranges, size_t place)
{
    size_t whole;

    if (has_cut(ranges, place)) {
        return;
    }
    whole = cut_before(ranges, place);
    DDP_ASSERT(whole < place);
    DDP_ASSERT(ranges->boundaries[whole].allocation == ranges->boundaries[place].allocation);
    ranges->last_write[place] = ranges->last_write[whole];
    memcpy(reads_of(ranges, place), reads_of(ranges, whole),
           ranges->stream_count * sizeof(*ranges->last_read));
    set_cut(ranges, place);
}

static size_t sort_boundaries(struct harness_order_boundary *boundaries, size_t count)
{
    size_t kept = 0;

    if (count > 0) {
        qsort(boundaries, count, sizeof(*boundaries), compare_boundaries);
    }
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || compare_boundaries(&boundaries[kept - 1], &boundaries[i]) != 0) {
            boundaries[kept++] = boundaries[i];
        }
    }
    return kept;
}

ddp_status harness_ranges_init(struct harness_ranges *ranges, struct ddp_mem *mem,
                               struct harness_order_boundary *boundaries, size_t boundary_count,
                               uint32_t stream_count)
{
    ddp_status status;

    *ranges =
        (struct harness_ranges){.mem = mem, .stream_count = stream_count, .boundaries = boundaries};
    ranges->boundary_count = sort_boundaries(boundaries, boundary_count);
    status = create_cuts(ranges);
    ranges->last_write = ddp_mem_array(mem, ranges->boundary_count, sizeof(uint32_t));
    ranges->last_read = ddp_mem_array(mem, ranges->boundary_count, stream_count * sizeof(uint32_t));
    if (status != DDP_OK || ranges->last_write == NULL || ranges->last_read == NULL) {
        harness_ranges_fini(ranges);
        return DDP_E_NOMEM;
    }
    return DDP_OK;
}

void harness_ranges_fini(struct harness_ranges *ranges)
{
    if (ranges->mem != NULL) {
        for (uint32_t level = 0; level < ranges->level_count; level++) {
            ddp_mem_free(ranges->mem, ranges->cuts[level]);
        }
        ddp_mem_free(ranges->mem, ranges->last_read);
        ddp_mem_free(ranges->mem, ranges->last_write);
        ddp_mem_free(ranges->mem, ranges->boundaries);
    }
    *ranges = (struct harness_ranges){0};
}

/* The first conflict with the earlier accesses to one piece. */
static uint32_t ask(const struct harness_ranges *ranges, size_t piece, bool is_write,
                    bool (*is_conflict)(void *context, uint32_t earlier), void *context)
{
    const uint32_t *reads = reads_of(ranges, piece);
    uint32_t write = ranges->last_write[piece];

    if (write != 0 && is_conflict(context, write - 1)) {
        return write;
    }
    for (uint32_t s = 0; is_write && s < ranges->stream_count; s++) {
        if (reads[s] != 0 && is_conflict(context, reads[s] - 1)) {
            return reads[s];
        }
    }
    return 0;
}

uint32_t harness_ranges_touch(struct harness_ranges *ranges, const struct harness_touch *touch,
                              bool (*is_conflict)(void *context, uint32_t earlier), void *context)
{
    size_t first = place_of(ranges, touch->allocation, touch->first);
    size_t end = place_of(ranges, touch->allocation, touch->end);
    uint32_t found = 0;

    DDP_ASSERT(first < end && touch->stream < ranges->stream_count);
    DDP_ASSERT(!(touch->is_write && touch->is_diagnostic));
    cut_at(ranges, first);
    cut_at(ranges, end);
    for (size_t piece = first; piece < end; piece = cut_after(ranges, piece)) {
        if (found == 0) {
            found = ask(ranges, piece, touch->is_write, is_conflict, context);
        }
        if (touch->is_diagnostic) {
            continue;
        }
        if (!touch->is_write) {
            reads_of(ranges, piece)[touch->stream] = touch->access + 1;
        } else if (piece != first) {
            clear_cut(ranges, piece);
        }
    }
    if (touch->is_write) {
        ranges->last_write[first] = touch->access + 1;
        memset(reads_of(ranges, first), 0, ranges->stream_count * sizeof(*ranges->last_read));
    }
    return found;
}
