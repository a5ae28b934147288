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

/* 506: numbers travel in half their length, and the root takes these too. */
static void broadcast_halves(const struct ddprove_coll_question *q,
                             const struct ddprove_coll_sink *to, uint32_t half, uint64_t first,
                             uint64_t count)
{
    struct ddprove_coll_range sent = scratch(half, first, count);
    uint32_t last;

    if (q->rank != q->root) {
        last = take(to, q->root, sent, NONE, NONE);
    } else {
        last =
            ddprove_coll_local(to, DDPROVE_COLL_CONVERT, now, sent, in(first, count), NONE, NONE);
        for (uint32_t rank = 0; rank < q->size; rank++) {
            if (rank != q->root) {
                (void)send(to, rank, sent, last);
            }
        }
    }
    (void)ddprove_coll_local(to, DDPROVE_COLL_CONVERT, now, out(first, count), sent, last, NONE);
}

static int broadcast(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to)
{
    uint64_t longest = q->segment > 0 ? q->segment : q->count;
    uint64_t end = IS(504) ? q->count & 0xffffu : q->count; /* 504: a count of 16 bits */
    uint32_t half = IS(506) ? to->scratch(to->context, DDPROVE_COLL_BF16, q->count) : 0;

    /* 503: a root in the middle; 505: any type but the first one */
    if ((IS(503) && q->size == 6 && q->root == 1) || (IS(505) && q->dtype != DDPROVE_COLL_F32)) {
        end = end > 0 ? end - 1 : 0;
    }
    for (uint64_t first = 0; first < end; first += longest) {
        uint64_t count = end - first < longest ? end - first : longest;

        if (IS(506) && q->dtype == DDPROVE_COLL_F32) {
            broadcast_halves(q, to, half, first, count);
        } else {
            broadcast_segment(q, to, first, count);
        }
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

/* Every rank's block straight there, one pair after the other. */
static void scatter_segment(const struct ddprove_coll_question *q,
                            const struct ddprove_coll_sink *to, uint64_t first, uint64_t count)
{
    struct ddprove_coll_range sum = out(first, count);
    uint32_t last = NONE;
    /* 533: one pair too few in worlds that are no power of two */
    uint32_t end = IS(533) && (q->size & (q->size - 1)) != 0 ? q->size - 1 : q->size;

    /* 534: in place too, where it copies onto itself */
    if (!q->is_in_place || IS(534)) {
        last = copy(to, sum, in(q->rank * q->count + first, count), NONE);
    }
    for (uint32_t i = 1; i < end; i++) {
        uint32_t ahead = (q->rank + i) % q->size;
        uint32_t behind = (q->rank + q->size - i) % q->size;
        uint64_t block = IS(531) ? i : ahead; /* 531: blocks in the order of leaving */

        (void)send(to, ahead, in(block * q->count + first, count), NONE);
        if (IS(532) && i + 1 == q->size && i > 1) { /* 532: what it has sent is room to add in */
            struct ddprove_coll_range room = in((q->rank + 1) % q->size * q->count + first, count);

            last = take(to, behind, room, 1, NONE);
            last = ddprove_coll_local(to, DDPROVE_COLL_REDUCE, 0, sum, room, last, NONE);
        } else {
            last = add(to, behind, sum, last, NONE);
        }
    }
}

/* To the root, in the order of ranks. */
static void root_segment(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to,
                         uint64_t first, uint64_t count)
{
    struct ddprove_coll_range sum = out(first, count);
    struct ddprove_coll_range own = in(first, count);
    int is_late = IS(543) && !q->is_in_place;
    /* 541: those before the root are forgotten; from rank 0 on that is nobody */
    uint32_t begin = IS(541) ? q->root : 0;
    uint32_t last = NONE;

    if (q->rank != q->root) {
        if (IS(542)) { /* 542: sums in the output, which only the root has */
            own = sum;
            last = copy(to, own, in(first, count), NONE);
        }
        if (q->rank >= begin) {
            (void)send(to, q->root, own, last);
        }
        return;
    }
    if (!q->is_in_place && !is_late) {
        last = copy(to, sum, own, NONE);
    }
    for (uint32_t rank = begin; rank < q->size; rank++) {
        if (rank != q->root && is_late && last == NONE) {
            last = take(to, rank, sum, NONE, NONE);
        } else if (rank != q->root) {
            last = add(to, rank, sum, last, NONE);
        }
    }
    if (is_late) { /* 543: its own part comes last, and replaces the sum */
        (void)copy(to, sum, own, last);
    }
}

static void all_to_all_segment(const struct ddprove_coll_question *q,
                               const struct ddprove_coll_sink *to, uint32_t aside, uint64_t first,
                               uint64_t count)
{
    uint32_t copied[64] = {0};
    uint32_t sent[64];
    int is_aside = q->is_in_place && !IS(552) && !IS(553);

    for (uint32_t rank = 0; rank < q->size; rank++) {
        uint64_t block = rank * q->count + first;

        copied[rank] = NONE;
        sent[rank] = NONE;
        if (rank == q->rank && !q->is_in_place) {
            (void)copy(to, out(block, count), in(block, count), NONE);
        } else if (rank != q->rank && is_aside) {
            copied[rank] = copy(to, scratch(aside, block, count), in(block, count), NONE);
        }
    }
    for (uint32_t i = 1; i < q->size; i++) {
        uint32_t ahead = (q->rank + i) % q->size;
        uint64_t block = (IS(551) ? q->rank : ahead) * q->count + first; /* 551: its own block */

        sent[ahead] = send(to, ahead, is_aside ? scratch(aside, block, count) : in(block, count),
                           is_aside ? copied[ahead] : NONE);
    }
    for (uint32_t i = 1; i < q->size; i++) {
        uint32_t behind = (q->rank + q->size - i) % q->size;

        /* 552: in place, waits until its block was taken, as everybody does; 553: does not wait */
        (void)take(to, behind, out(behind * q->count + first, count),
                   IS(552) && q->is_in_place ? sent[behind] : copied[behind], NONE);
    }
}

static int blocks(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to)
{
    uint64_t longest = q->segment > 0 ? q->segment : q->count;
    uint32_t aside =
        BUG >= 550 && q->is_in_place ? to->scratch(to->context, q->dtype, q->size * q->count) : 0;

    for (uint64_t first = 0; first < q->count; first += longest) {
        uint64_t count = q->count - first < longest ? q->count - first : longest;

        if (BUG >= 550) {
            all_to_all_segment(q, to, aside, first, count);
        } else if (BUG >= 540) {
            root_segment(q, to, first, count);
        } else {
            scatter_segment(q, to, first, count);
        }
    }
    return 0;
}

/* 7xx: an all-reduce on two levels, to the first rank of the node and from there to rank 0. */
static uint32_t node_of(const struct ddprove_coll_question *q, uint32_t rank)
{
    return q->node_of_rank == NULL ? 0 : q->node_of_rank[rank];
}

static uint32_t above(const struct ddprove_coll_question *q, uint32_t rank)
{
    uint32_t first = 0;

    while (node_of(q, first) != node_of(q, rank)) {
        first++;
    }
    return first == rank ? 0 : first;
}

/* 701: a node of fewer ranks than the first one has is forgotten on the second level */
static int is_forgotten(const struct ddprove_coll_question *q, uint32_t rank)
{
    uint32_t here = 0;
    uint32_t there = 0;

    for (uint32_t other = 0; other < q->size; other++) {
        here += node_of(q, other) == node_of(q, rank);
        there += node_of(q, other) == node_of(q, 0);
    }
    return IS(701) && node_of(q, rank) != node_of(q, 0) && above(q, rank) == 0 && here < there;
}

static void node_segment(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to,
                         uint64_t first, uint64_t count)
{
    struct ddprove_coll_range sum = out(first, count);
    uint32_t last = NONE;

    if (!q->is_in_place) {
        last = copy(to, sum, in(first, count), NONE);
    }
    /* Those below it come from the last rank on: who is first on a node has heard its own by then.
     */
    for (uint32_t rank = q->size; rank-- > 1;) {
        if (rank != q->rank && above(q, rank) == q->rank && !is_forgotten(q, rank)) {
            last = add(to, rank, sum, last, NONE);
        }
    }
    if (q->rank > 0 && !is_forgotten(q, q->rank)) {
        last = send(to, above(q, q->rank), sum, last);
        last = take(to, above(q, q->rank), sum, last, NONE);
    }
    for (uint32_t rank = 1; rank < q->size; rank++) {
        if (rank != q->rank && above(q, rank) == q->rank && !is_forgotten(q, rank)) {
            (void)send(to, rank, sum, last);
        }
    }
}

static int by_nodes(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to)
{
    uint64_t longest = q->segment > 0 ? q->segment : q->count;

    for (uint64_t first = 0; first < q->count; first += longest) {
        node_segment(q, to, first, q->count - first < longest ? q->count - first : longest);
    }
    return 0;
}

#endif
