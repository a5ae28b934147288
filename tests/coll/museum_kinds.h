/* Exhibits 5xx of museum.c: other kinds than all-reduces. */
#ifndef TESTS_COLL_MUSEUM_KINDS_H
#define TESTS_COLL_MUSEUM_KINDS_H

#include <museum.h>

static void broadcast_segment(const struct ddprove_coll_question *q,
                              const struct ddprove_coll_sink *to, uint64_t first, uint64_t count)
{
    uint32_t root = IS(501) ? 0 : q->root; /* 501: always from rank 0 */

    if (q->rank != root) {
        (void)take(to, root, out(first, count), NONE, NONE);
        return;
    }
    for (uint32_t rank = 0; rank < q->size; rank++) {
        if (rank != root) {
            (void)send(to, rank, in(first, count), NONE);
        }
    }
    if (!q->is_in_place && !IS(502)) { /* 502: the root keeps nothing for itself */
        (void)copy(to, out(first, count), in(first, count), NONE);
    }
}

static int broadcast(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to)
{
    uint64_t longest = q->segment > 0 ? q->segment : q->count;

    for (uint64_t first = 0; first < q->count; first += longest) {
        broadcast_segment(q, to, first, q->count - first < longest ? q->count - first : longest);
    }
    return 0;
}

static int all_gather(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to)
{
    uint64_t longest = q->segment > 0 ? q->segment : q->count;

    for (uint64_t first = 0; first < q->count; first += longest) {
        uint64_t count = q->count - first < longest ? q->count - first : longest;

        for (uint32_t i = 1; i < q->size; i++) {
            uint32_t ahead = (q->rank + i) % q->size;
            uint32_t behind = (q->rank + q->size - i) % q->size;
            uint64_t block = IS(511) ? i : behind; /* 511: blocks in the order of arrival */

            (void)send(to, ahead, in(first, count), NONE);
            (void)take(to, behind, out(block * q->count + first, count), NONE, NONE);
        }
        if (!q->is_in_place) {
            (void)copy(to, out((IS(511) ? 0 : q->rank) * q->count + first, count), in(first, count),
                       NONE);
        }
    }
    return 0;
}

static int barrier(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to)
{
    uint32_t signal = to->scratch(to->context, DDPROVE_COLL_U8, 1);
    uint32_t heard = to->scratch(to->context, DDPROVE_COLL_U8, 32);
    uint32_t last = NONE;
    uint32_t round = 0;

    /* 521: one round too few in worlds beyond four */
    for (uint32_t distance = 1; distance < (IS(521) && q->size > 4 ? 4 : q->size); distance *= 2) {
        uint32_t after = IS(522) ? NONE : last; /* 522: passes on what it has not heard */

        (void)send(to, (q->rank + distance) % q->size, scratch(signal, 0, 1), after);
        last = take(to, (q->rank + q->size - distance) % q->size, scratch(heard, round++, 1), last,
                    NONE);
    }
    return 0;
}

#endif
