/* Algorithms with a mistake each, as plug-ins: compiled with -DBUG=n, where museum.txt says what
 * must be noticed, and which are right. The mistakes are those that people make: remainders,
 * elements for bytes, rounds, waits, worlds that are no power of two. */
#include <museum.h>
#include <museum_kinds.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- 1xx: ring -------------------------------------------------------------------------------- */

static uint64_t chunk_count(const struct ddprove_coll_question *q, uint32_t chunk)
{
    if (IS(101)) { /* the remainder is lost */
        return q->count / q->size;
    }
    return q->count / q->size + (chunk < q->count % q->size ? 1 : 0);
}

static uint64_t chunk_first(const struct ddprove_coll_question *q, uint32_t chunk)
{
    uint64_t longer = q->count % q->size;
    uint64_t first = chunk * (q->count / q->size);

    if (!IS(101)) {
        first += chunk < longer ? chunk : longer;
    }
    if (IS(102)) { /* bytes for elements */
        return 4 * first;
    }
    if (IS(103)) { /* an index of five bits */
        return first & 31u;
    }
    return first;
}

static struct ddprove_coll_range cut(const struct ddprove_coll_question *q,
                                     struct ddprove_coll_range whole, uint64_t number)
{
    uint64_t longest = q->segment > 0 && !IS(104) ? q->segment : whole.count; /* 104: unsegmented */
    struct ddprove_coll_range part = whole;

    part.first += number * longest;
    part.count -= number * longest;
    if (part.count > longest) {
        part.count = longest;
    }
    return part;
}

static uint64_t cuts(const struct ddprove_coll_question *q, uint64_t count)
{
    uint64_t longest = q->segment > 0 && !IS(104) ? q->segment : count;

    return count == 0 ? 0 : (count - 1) / longest + 1;
}

/* written, lent: of each segment, the step that the next one has to wait for. */
static void ring_round(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to,
                       uint32_t round, uint32_t *written, uint32_t *lent, uint64_t most)
{
    uint32_t n = q->size;
    uint32_t next = IS(105) ? (q->rank + n - 1) % n : (q->rank + 1) % n; /* 105: both downwards */
    uint32_t prev = (q->rank + n - 1) % n;
    uint32_t leaving = (q->rank + 2 * n - round) % n;
    uint32_t coming = (q->rank + 2 * n - round - 1) % n;
    int is_sum = round < n - 1;

    if (IS(106) && !is_sum) { /* handed around from the wrong owner on */
        leaving = (leaving + 1) % n;
        coming = (coming + 1) % n;
    }
    if (IS(107) && !is_sum) { /* added once more on the way back */
        is_sum = 1;
    }
    if (IS(108) && q->rank == n - 1 && round == n - 2) { /* the last addition replaces */
        is_sum = 0;
    }
    if (IS(109) && round == 2 * (n - 1) - 1 && q->rank == 0) {
        return; /* rank 0 stops a round early */
    }
    for (uint64_t s = 0; s < cuts(q, chunk_count(q, leaving)); s++) {
        struct ddprove_coll_range part =
            cut(q, out(chunk_first(q, leaving), chunk_count(q, leaving)), s);
        uint64_t at = leaving * most + s;
        int is_own = round == 0 && !q->is_in_place;

        if (IS(110) && !is_own) {
            part.buffer = DDPROVE_COLL_INPUT; /* the input goes on instead of the sum */
        }
        if (is_own) {
            part.buffer = DDPROVE_COLL_INPUT;
        }
        /* 111: does not wait for what it sends */
        lent[at] = send(to, next, part, IS(111) ? NONE : written[at]);
        lent[at] = is_own ? NONE : lent[at];
    }
    for (uint64_t s = 0; s < cuts(q, chunk_count(q, coming)); s++) {
        uint64_t turn = IS(112) ? cuts(q, chunk_count(q, coming)) - 1 - s : s; /* 112: backwards */
        struct ddprove_coll_range part =
            cut(q, out(chunk_first(q, coming), chunk_count(q, coming)), turn);
        uint64_t at = coming * most + turn;
        struct ddprove_coll_range own = part;

        own.buffer = DDPROVE_COLL_INPUT;
        if (round < n - 1 && !q->is_in_place && !IS(113)) { /* 113: adds to what nobody wrote */
            written[at] = copy(to, part, own, NONE);
        }
        if (IS(114)) {
            lent[at] = NONE; /* writes where a send still reads */
        }
        if (IS(115) && part.count > 1 && round == n - 2) {
            part.count--; /* the tail is left out at the receiver */
        }
        if (IS(116) && n == 5 && is_sum) {
            part.first = part.first > 0 ? part.first - 1 : 0; /* wrong in one world only */
        }
        written[at] = is_sum ? add(to, prev, part, written[at], lent[at])
                             : take(to, prev, part, written[at], lent[at]);
    }
}

static int ring(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to)
{
    uint64_t most = cuts(q, chunk_count(q, 0));
    uint32_t *steps = malloc((2 * q->size * most + 1) * sizeof *steps);

    if (q->size == 1) {
        if (!q->is_in_place) {
            now = 0;
            (void)copy(to, out(0, q->count), in(0, q->count), NONE);
        }
    } else if (steps != NULL) {
        memset(steps, 0xff, (2 * q->size * most + 1) * sizeof *steps);
        for (uint32_t round = 0; round < 2 * (q->size - 1); round++) {
            now = IS(118) ? 0 : round; /* 118: says that all can run at once */
            ring_round(q, to, round, steps, steps + q->size * most, most);
        }
    }
    free(steps);
    return 0;
}

/* --- 2xx: to rank 0 and back ------------------------------------------------------------------ */

static void star_root(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to,
                      uint64_t first, uint64_t count)
{
    struct ddprove_coll_range sum = out(first, count);
    uint32_t last = NONE;
    uint32_t end = IS(201) ? q->size - 1 : q->size; /* 201: the last rank is not waited for */

    if (!q->is_in_place || IS(202)) { /* 202: copies onto itself in place */
        last = copy(to, sum, in(first, count), NONE);
    }
    for (uint32_t rank = 1; rank < end; rank++) {
        if (IS(203) && rank == 2 && q->size > 2) {
            continue; /* nobody gives rank 2's part, which does not send it */
        }
        last =
            add(to, rank, sum, IS(204) ? NONE : last, NONE); /* 204: additions at the same time */
        if (IS(205) && rank == 1) {
            last = add(to, rank, sum, last, NONE); /* tried again: counted twice */
        }
    }
    if (IS(206) && q->size > 2) {
        last = NONE; /* sends before the sum is complete */
    }
    for (uint32_t rank = 1; rank < q->size; rank++) {
        if (IS(207) && rank == q->size - 1 && rank > 1) {
            continue; /* the last rank gets no result */
        }
        (void)send(to, rank, sum, last);
    }
    if (IS(208)) {
        (void)copy(to, in(first, count), sum, last); /* writes to the input */
    }
}

static void star_other(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to,
                       uint64_t first, uint64_t count)
{
    struct ddprove_coll_range own = in(first, count);
    uint32_t last = NONE;

    if (IS(209) && !q->is_in_place) {
        own = out(first, count); /* the output before anything is in it */
    }
    if (!(IS(203) && q->rank == 2)) {
        last = send(to, 0, own, NONE);
    }
    if (IS(205) && q->rank == 1) {
        last = send(to, 0, own, last);
    }
    if (IS(207) && q->rank == q->size - 1 && q->rank > 1) {
        return;
    }
    if (IS(210)) {
        last = NONE; /* the result may come before the input has left */
    }
    if (IS(211) && count > 1) { /* the last element of a result is not taken */
        (void)take(to, 0, out(first, count - 1), last, NONE);
        return;
    }
    if (IS(212) && first > 0) {
        first--; /* results of later segments land one too low */
    }
    (void)take(to, 0, out(first, count), last, NONE);
}

static int star(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to)
{
    uint64_t longest = q->segment > 0 ? q->segment : q->count;

    if (IS(213) && q->count == 0 && q->rank > 0) {
        (void)send(to, 0, in(0, 1), NONE); /* one element of none */
    }
    if (IS(214) && q->count == 7) {
        return 0; /* nothing is done at one count */
    }
    for (uint64_t first = 0; first < q->count; first += longest) {
        uint64_t count = q->count - first < longest ? q->count - first : longest;

        if (q->rank == 0) {
            star_root(q, to, first, count);
        } else {
            star_other(q, to, first, count);
        }
    }
    return 0;
}

/* 215: sums of f32 go around, and are added up, as f16 */
static int star_halves(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to)
{
    uint64_t longest = q->segment > 0 ? q->segment : q->count;
    uint32_t half = to->scratch(to->context, DDPROVE_COLL_F16, q->count);

    for (uint64_t first = 0; first < q->count; first += longest) {
        uint64_t count = q->count - first < longest ? q->count - first : longest;
        struct ddprove_coll_range sum = scratch(half, first, count);
        uint32_t last =
            ddprove_coll_local(to, DDPROVE_COLL_CONVERT, now, sum, in(first, count), NONE, NONE);

        for (uint32_t rank = 1; q->rank == 0 && rank < q->size; rank++) {
            last = add(to, rank, sum, last, NONE);
        }
        for (uint32_t rank = 1; q->rank == 0 && rank < q->size; rank++) {
            (void)send(to, rank, sum, last);
        }
        if (q->rank != 0) {
            last = send(to, 0, sum, last);
            last = take(to, 0, sum, last, NONE);
        }
        (void)ddprove_coll_local(to, DDPROVE_COLL_CONVERT, now, out(first, count), sum, last, NONE);
    }
    return 0;
}

/* --- 3xx: everything to everybody ------------------------------------------------------------- */

static void pairs_segment(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to,
                          uint32_t kept, uint64_t first, uint64_t count)
{
    struct ddprove_coll_range own = scratch(kept, first, count);
    struct ddprove_coll_range sum = out(first, count);
    uint32_t start = IS(301) ? q->rank : 0; /* 301: each rank begins with itself */
    uint32_t saved = copy(to, own, in(first, count), NONE);
    uint32_t last = saved;

    for (uint32_t i = 0; i < q->size; i++) {
        if (i != q->rank) {
            (void)send(to, i, own, IS(302) ? NONE : saved); /* 302: before it was copied */
        }
    }
    for (uint32_t i = 0; i < q->size; i++) {
        uint32_t rank = (start + i) % q->size;

        if (rank == q->rank) {
            last = ddprove_coll_local(to, i == 0 ? DDPROVE_COLL_COPY : DDPROVE_COLL_REDUCE, 0, sum,
                                      own, last, saved);
            if (IS(303) && i == 0) {
                last = ddprove_coll_local(to, DDPROVE_COLL_REDUCE, 0, sum, own, last, saved);
            }
        } else {
            last = i == 0 ? take(to, rank, sum, last, NONE) : add(to, rank, sum, last, NONE);
        }
    }
}

static int pairs(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to)
{
    uint64_t longest = q->segment > 0 ? q->segment : q->count;
    uint64_t room = IS(304) && q->count > 3 ? q->count - 1 : q->count; /* 304: too small */
    uint32_t type = IS(305) ? DDPROVE_COLL_F16 : q->dtype;             /* 305: of another type */
    uint32_t kept = to->scratch(to->context, type, room);

    if (IS(306)) {
        for (int i = 0; i < 8; i++) {
            (void)to->scratch(to->context, q->dtype, 1); /* more buffers than there may be */
        }
    }
    for (uint64_t first = 0; first < q->count; first += longest) {
        uint64_t count = q->count - first < longest ? q->count - first : longest;

        /* 307: every segment is kept in the first one's place */
        pairs_segment(q, to, kept, IS(307) ? 0 : first, count);
    }
    return 0;
}

/* --- 4xx: partners at distance 1, 2, 4, ... --------------------------------------------------- */

static void doubling_segment(const struct ddprove_coll_question *q,
                             const struct ddprove_coll_sink *to, uint32_t kept, uint64_t first,
                             uint64_t count)
{
    struct ddprove_coll_range sum = out(first, count);
    uint32_t core = 1;
    uint32_t extra, me, last = NONE, free_at = NONE;

    while (2 * core <= q->size) {
        core *= 2;
    }
    extra = IS(401) ? 0 : q->size - core; /* 401: as if there were no others */
    if (!q->is_in_place) {
        last = copy(to, sum, in(first, count), NONE);
    }
    if (q->rank >= core) {
        if (extra > 0) {
            last = send(to, q->rank - core, sum, last);
            (void)take(to, q->rank - core, sum, last, NONE);
        }
        return;
    }
    me = q->rank;
    if (me < extra) {
        last = add(to, me + core, sum, last, NONE);
    }
    for (uint32_t distance = 1; distance < core; distance *= 2) {
        uint32_t peer = IS(402) ? (me + distance) % core : me ^ distance; /* 402: not a partner */
        struct ddprove_coll_range copied = scratch(kept, first, count);
        uint32_t left;

        if (IS(403) && distance == 2) {
            peer = me ^ 1u; /* the partner of the round before once more */
        }
        /* 404: the copy is reused while it is still read */
        left = ddprove_coll_local(to, DDPROVE_COLL_COPY, 0, copied, sum, last,
                                  IS(404) ? NONE : free_at);
        free_at = send(to, peer, copied, left);
        if (IS(405)) {
            left = last; /* adds while the copy is still made */
        }
        if (IS(406)) { /* sends only once it has received: everybody waits */
            last = add(to, peer, sum, free_at, NONE);
        } else {
            last = add(to, peer, sum, left, NONE);
        }
    }
    if (me < extra && !(IS(407) && me == 0)) { /* 407: rank 0's neighbour is forgotten */
        (void)send(to, me + core, sum, last);
    }
}

static int doubling(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to)
{
    uint64_t longest = q->segment > 0 ? q->segment : q->count;
    uint32_t kept = to->scratch(to->context, q->dtype, q->count);

    for (uint64_t first = 0; first < q->count; first += longest) {
        doubling_segment(q, to, kept, first,
                         q->count - first < longest ? q->count - first : longest);
    }
    return 0;
}

/* --- 6xx: what is wrong with the program ------------------------------------------------------ */

static uint32_t questions;
static void *volatile held;

static int misbehave(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to)
{
    struct ddprove_coll_step step;
    int is_time = q->size == 3 && q->count == 2 && q->rank == 1;

    questions++;
    if (IS(601) && is_time) {
        *(volatile int *)NULL = 1;
    }
    if (IS(602) && is_time) {
        abort();
    }
    if (IS(603) && is_time) {
        _exit(0);
    }
    while (IS(604) && is_time) {
    }
    if (IS(605) && is_time) {
        (void)!write(3, "scribbled", 9);
    }
    if (IS(606) && is_time) {
        (void)close(3);
        for (;;) {
            (void)pause();
        }
    }
    while (IS(607) && is_time) {
        if (send(to, 0, in(0, 1), NONE) == NONE) {
            break; /* it is told that there is no more room */
        }
    }
    if (IS(608)) {
        held = malloc(100);
    }
    if (IS(609) && is_time) {
        return 1;
    }
    if (IS(610) && is_time) {
        (void)send(to, q->rank, in(0, 1), NONE); /* to itself */
    }
    if (IS(611) && is_time) {
        (void)send(to, 0, in(0, 1), 1000); /* waits for a step to come */
    }
    if (IS(612) && is_time) {
        memset(&step, 0x55, sizeof step);
        (void)to->step(to->context, &step); /* whatever lies in memory */
    }
    if (IS(613) && questions % 3 == 0) {
        return 0; /* every third answer is empty */
    }
    if (IS(614) && is_time) {
        (void)raise(SIGSTOP);
    }
    return star(q, to);
}

static int emit(const struct ddprove_coll_question *q, const struct ddprove_coll_sink *to)
{
    switch (BUG / 100) {
    case 1:
        return ring(q, to);
    case 3:
        return pairs(q, to);
    case 4:
        return doubling(q, to);
    case 5:
        return BUG >= 530   ? blocks(q, to)
               : BUG >= 520 ? barrier(q, to)
               : BUG >= 510 ? all_gather(q, to)
                            : broadcast(q, to);
    case 6:
        return misbehave(q, to);
    case 7:
        return by_nodes(q, to);
    default:
        return IS(215) && q->dtype == DDPROVE_COLL_F32 ? star_halves(q, to) : star(q, to);
    }
}

const struct ddprove_coll ddprove_coll_plugin = {
    IS(620) ? 99 : DDPROVE_COLL_VERSION,
    sizeof(struct ddprove_coll),
    IS(621) ? "No Name" : "exhibit",
    BUG >= 600 || BUG < 500 ? DDPROVE_COLL_ALL_REDUCE
    : BUG >= 550            ? DDPROVE_COLL_ALL_TO_ALL
    : BUG >= 540            ? DDPROVE_COLL_REDUCE_TO_ROOT
    : BUG >= 530            ? DDPROVE_COLL_REDUCE_SCATTER
    : BUG >= 520            ? DDPROVE_COLL_BARRIER
    : BUG >= 510            ? DDPROVE_COLL_ALL_GATHER
                            : DDPROVE_COLL_BROADCAST,
    DDPROVE_COLL_SAME_BITS | (IS(117) || BUG / 100 == 3 ? DDPROVE_COLL_SAME_ORDER : 0) |
        (IS(100) || IS(118) ? DDPROVE_COLL_ROUNDS : 0),
    IS(622) ? NULL : emit,
};
