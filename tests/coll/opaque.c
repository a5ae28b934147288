/* Collectives that move the data themselves: a right one in each style, and ones that are wrong in
 * one way each. Which: WHAT. */
#include <ddprove_coll.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum what {
    RIGHT,
    POSTED,
    LOST,        /* the last element lacks the last rank */
    TWICE,       /* rank 1 is added twice to the middle */
    NOTHING,     /* only the first call does anything */
    CRASH,       /* when it is called */
    LATER_CRASH, /* rank 1, in the fourth call */
    HANG,        /* of 5 ranks */
    LATER_HANG,  /* rank 1 waits for nothing, when it has been called CALLS times */
    SPIN,        /* rank 1 computes for ever, then */
    LATE_CRASH,  /* rank 1 crashes, then */
    ERROR,       /* of 7 elements */
    BEHIND,      /* writes behind the output, if the count is odd */
    BEFORE,      /* writes before it */
    INPUT,       /* uses the input for what it works out */
    CLOBBER,     /* in place it has lost its own part */
    ALIGNED,     /* takes 16 bytes at once and counts from where they begin */
    MAX_IS_SUM,  /* takes other operations for sums */
    FLUSH,       /* no subnormal numbers */
    NAN_IS_ZERO, /* a NaN counts as nothing */
    UNSIGNED,    /* no negative zero */
    OTHER_BITS,  /* the last rank rounds in another way */
    TURNING,     /* every element begins with another rank */
    BY_COUNT,    /* an even count is added from behind */
    DROPPING,    /* large numbers of rank 1 are no part of the sum */
    ARRIVAL,     /* adds in another order every time, if there are many elements */
    STALE,       /* takes the numbers of an address that it knows for those that lay there */
    LEAK,
    DESCRIPTORS,
    GLOBAL,       /* one state for all communicators */
    TRUSTING,     /* takes any count for its own */
    NARROW,       /* counts bytes in 32 bits */
    IMMORTAL,     /* goes on waiting for a rank that is dead */
    PICKY,        /* right: refuses odd counts by itself, tells other mismatches, and no death */
    PUT_BACK,     /* lends the input to another use, and puts it back */
    DEAF,         /* is not to be aborted */
    SOUND,        /* aborted as it should be */
    SOUND_POSTED, /* in the other style */
    FORGETFUL,    /* a call knows nothing of an abort before it */
    IDLE,         /* nor of one between two calls, but of one before the first */
    RESTARTING,   /* nor of one between its post and its first poll */
    FREEING,      /* an abort gives memory back, each time */
    ONCE          /* opens no second time, once a call has failed */
};
#ifndef WHAT
#define WHAT RIGHT
#endif

#define IS_IMMORTAL (WHAT == IMMORTAL || WHAT == PICKY)

#ifndef CALLS
#define CALLS 100
#endif

enum { MANY = 1003, PADDED = 10240 };

struct star {
    struct ddprove_coll_host host;
    struct ddprove_coll_call call;
    float *terms; /* one rank's after the other */
    uint64_t term_count;
    float *kept; /* of STALE */
    const void *kept_input;
    float staging[PADDED]; /* of TRUSTING */
    int calls;
    int is_running;
    volatile int is_aborted;
};
static struct star *first; /* of GLOBAL */
static int has_failed;     /* of ONCE */
static volatile int spun;  /* of SPIN */

static int open_star(const struct ddprove_coll_host *host, void **out_self)
{
    struct star *star = calloc(1, sizeof *star);

    if (star == NULL || (WHAT == ONCE && has_failed)) {
        return DDPROVE_COLL_FAILED;
    }
    star->host = *host;
    first = first == NULL ? star : first;
    *out_self = star;
    return DDPROVE_COLL_OK;
}

static void close_star(void *self)
{
    struct star *star = self;

    first = first == star ? NULL : first;
    free(star->terms);
    free(star->kept);
    free(star);
}

static void abort_star(void *self)
{
    struct star *star = self;

    if (WHAT == FREEING) {
        free(star->terms);
    }
    if (WHAT != DEAF && (WHAT != IDLE || star->is_running || star->calls == 0)) {
        star->is_aborted = 1;
    }
}

/* As ddprove_coll_exchange, but it looks whether it was aborted. */
static int move(struct star *star, uint32_t peer, const void *src, void *dst, uint64_t bytes)
{
    const struct ddprove_coll_host *host = &star->host;
    int result = bytes > 0 ? (int)DDPROVE_COLL_AGAIN : (int)DDPROVE_COLL_OK;

    while (result == (int)DDPROVE_COLL_AGAIN) {
        if (star->is_aborted) {
            return DDPROVE_COLL_ABORTED;
        }
        result = src != NULL ? host->send(host->context, peer, src, bytes)
                             : host->recv(host->context, peer, dst, bytes);
        if (result == (int)DDPROVE_COLL_AGAIN) {
            host->wait(host->context);
        }
    }
    while (IS_IMMORTAL && result == (int)DDPROVE_COLL_FAILED) {
        host->wait(host->context);
    }
    return result;
}

/* All ranks tell rank 0 their count, and it tells them whether all are the same. */
static int agree(struct star *star, uint64_t count)
{
    uint64_t is_same = 1;
    int result = DDPROVE_COLL_OK;

    if (WHAT == TRUSTING) {
        return DDPROVE_COLL_OK;
    }
    if (star->host.rank != 0) {
        result = move(star, 0, &count, NULL, sizeof count);
        if (result == DDPROVE_COLL_OK) {
            result = move(star, 0, NULL, &is_same, sizeof is_same);
        }
    }
    for (uint32_t rank = 1; star->host.rank == 0 && rank < star->host.size; rank++) {
        uint64_t theirs = 0;

        if (result == DDPROVE_COLL_OK) {
            result = move(star, rank, NULL, &theirs, sizeof theirs);
        }
        is_same = is_same && theirs == count;
    }
    for (uint32_t rank = 1; star->host.rank == 0 && rank < star->host.size; rank++) {
        if (result == DDPROVE_COLL_OK) {
            result = move(star, rank, &is_same, NULL, sizeof is_same);
        }
    }
    return result == DDPROVE_COLL_OK && !is_same ? (int)DDPROVE_COLL_FAILED : result;
}

/* A part, or the sum, of one rank. */
static int move_part(struct star *star, uint32_t peer, const float *src, float *dst, uint64_t count)
{
    uint64_t bytes = count * sizeof(float);
    int result;

    if (WHAT == NARROW && (int32_t)bytes < 0) {
        bytes = 0;
    }
    if (WHAT != TRUSTING || count > PADDED) {
        return move(star, peer, src, dst, bytes);
    }
    if (src != NULL && bytes > 0) {
        memcpy(star->staging, src, bytes);
    }
    result =
        move(star, peer, src != NULL ? star->staging : NULL, star->staging, sizeof star->staging);
    if (dst != NULL && bytes > 0 && result == DDPROVE_COLL_OK) {
        memcpy(dst, star->staging, bytes);
    }
    return result;
}

static float *room(struct star *star, uint64_t count)
{
    if (count > star->term_count) {
        free(star->terms);
        star->terms = calloc(count, sizeof *star->terms);
        star->term_count = count;
    }
    return star->terms;
}

static float take(float value, uint32_t rank)
{
    if (WHAT == DROPPING && rank == 1 && fabsf(value) > 0x1p90f && fabsf(value) < 0x1p120f) {
        return 0;
    }
    if (WHAT == FLUSH && fabsf(value) < 0x1p-126f) {
        return 0;
    }
    if (WHAT == NAN_IS_ZERO && isnan(value)) {
        return 0;
    }
    return value;
}

/* Which rank comes k-th. */
static uint32_t rank_at(const struct star *star, uint64_t count, uint64_t elem, uint32_t k)
{
    uint32_t size = star->host.size;

    if (WHAT == TURNING) {
        return (uint32_t)((k + elem) % size);
    }
    if (WHAT == BY_COUNT && count % 2 == 0) {
        return size - 1 - k;
    }
    if (WHAT == ARRIVAL && count == MANY) {
        return (k + (uint32_t)star->calls) % size;
    }
    return k;
}

static void add_all(struct star *star, const float *terms, uint64_t count, float *sum)
{
    uint32_t size = star->host.size;

    for (uint64_t i = 0; i < count; i++) {
        uint32_t begin = rank_at(star, count, i, 0);
        float total = take(terms[begin * count + i], begin);

        for (uint32_t k = 1; k < size; k++) {
            uint32_t rank = rank_at(star, count, i, k);

            if (!(WHAT == LOST && rank == size - 1 && i == count - 1)) {
                total += take(terms[rank * count + i], rank);
            }
            if (WHAT == TWICE && rank == 1 && i == count / 2) {
                total += terms[rank * count + i];
            }
        }
        sum[i] = take(total, size) + (WHAT == UNSIGNED ? 0.0f : -0.0f);
    }
}

/* Of an address that is known, what lay there before. */
static const float *recall(struct star *star, const float *input, const float *terms,
                           uint64_t count)
{
    size_t bytes = star->host.size * count * sizeof(float);

    if (WHAT != STALE || count != MANY) {
        return terms;
    }
    if (star->kept_input != input) {
        star->kept = realloc(star->kept, bytes);
        memcpy(star->kept, terms, bytes);
        star->kept_input = input;
    }
    return star->kept;
}

/* Rank 0 collects everything, adds, and sends the sum back. */
static int reduce(struct star *star, const float *input, float *sum, uint64_t count)
{
    uint32_t size = star->host.size;
    int result = agree(star, count);
    float *terms;

    if (result != DDPROVE_COLL_OK) {
        return result;
    }
    if (star->host.rank != 0) {
        result = move_part(star, 0, input, NULL, count);
        return result == DDPROVE_COLL_OK ? move_part(star, 0, NULL, sum, count) : result;
    }
    terms = room(star, size * count + 1);
    if (count > 0) {
        memcpy(terms, input, count * sizeof(float));
    }
    for (uint32_t rank = 1; rank < size && result == DDPROVE_COLL_OK; rank++) {
        result = move_part(star, rank, NULL, terms + rank * count, count);
    }
    if (result == DDPROVE_COLL_OK) {
        add_all(star, recall(star, input, terms, count), count, sum);
    }
    for (uint32_t rank = 1; rank < size && result == DDPROVE_COLL_OK; rank++) {
        result = move_part(star, rank, sum, NULL, count);
    }
    return result;
}

/* What is wrong before the sum; its result, or -1: go on. */
static int go_wrong(struct star *star, const struct ddprove_coll_call *call)
{
    uint32_t rank = star->host.rank;

    star->calls++;
    if (WHAT == CRASH || (WHAT == LATER_CRASH && star->calls > 3 && rank == 1)) {
        abort();
    }
    if (WHAT == NOTHING && star->calls > 1) {
        return DDPROVE_COLL_OK;
    }
    if (WHAT == ERROR && call->count == 7) {
        return DDPROVE_COLL_FAILED;
    }
    while (WHAT == HANG && star->host.size == 5 && rank == 1) {
        star->host.wait(star->host.context);
    }
    while (WHAT == LATER_HANG && star->calls > CALLS && rank == 1) {
        star->host.wait(star->host.context);
    }
    while (WHAT == SPIN && star->calls > CALLS && rank == 1) {
        spun++;
    }
    if (WHAT == LATE_CRASH && star->calls > CALLS && rank == 1) {
        abort();
    }
    if (WHAT == LEAK) {
        memset(malloc(512), 1, 512);
    }
    if (WHAT == DESCRIPTORS && open("/dev/null", O_RDONLY) < 0) {
        return DDPROVE_COLL_FAILED;
    }
    return -1;
}

static void spoil(const struct star *star, const struct ddprove_coll_call *call)
{
    float *sum = call->output;
    uint64_t count = call->count;

    if (WHAT == BEHIND && count % 2 == 1) {
        sum[count] = 0;
    }
    if (WHAT == BEFORE && count > 0) {
        sum[-1] = 0;
    }
    if (WHAT == INPUT && call->input != call->output && count > 0) {
        ((float *)(uintptr_t)call->input)[count / 2] += 1;
    }
    if (WHAT == PUT_BACK && call->input != call->output && count > 4) {
        volatile float *borrowed = (float *)(uintptr_t)call->input;
        float kept = borrowed[4];

        borrowed[4] = -1;
        borrowed[4] = kept;
    }
    if (WHAT == OTHER_BITS && star->host.rank == star->host.size - 1 && count == MANY &&
        truncf(sum[count / 3]) != sum[count / 3]) {
        sum[count / 3] = nextafterf(sum[count / 3], 0.0f);
    }
    if (WHAT == ALIGNED && (uintptr_t)sum % 16 != 0 && count > 0) {
        sum[0] += 1;
    }
}

static int run(void *self, const struct ddprove_coll_call *call)
{
    struct star *star = WHAT == GLOBAL && first != NULL ? first : self;
    float *sum = call->output;
    int result;

    if (WHAT == PICKY && call->count % 2 != 0) {
        return DDPROVE_COLL_UNSUPPORTED;
    }
    if (call->dtype != DDPROVE_COLL_F32 || (call->op != DDPROVE_COLL_SUM && WHAT != MAX_IS_SUM)) {
        return DDPROVE_COLL_UNSUPPORTED;
    }
    star->is_running = 1;
    star->is_aborted = WHAT == FORGETFUL ? 0 : star->is_aborted;
    result = go_wrong(star, call);
    if (result >= 0) {
        return result;
    }
    if (WHAT == CLOBBER && call->count > 0) {
        sum[0] = 0;
    }
    result = reduce(star, call->input, sum, call->count);
    star->is_running = 0;
    has_failed = has_failed || result != DDPROVE_COLL_OK;
    if (result == DDPROVE_COLL_OK) {
        spoil(star, call);
    }
    return result;
}

/* The same in two steps, for the other style: posted, then all of it in the first poll. */
static int post(void *self, const struct ddprove_coll_call *call)
{
    struct star *star = self;

    star->call = *call;
    return star->is_aborted ? DDPROVE_COLL_ABORTED : DDPROVE_COLL_OK;
}

static int poll_star(void *self)
{
    if (WHAT == RESTARTING) {
        ((struct star *)self)->is_aborted = 0;
    }
    return run(self, &((struct star *)self)->call);
}

#define IS_POSTED (WHAT == POSTED || WHAT == SOUND_POSTED || WHAT == RESTARTING)

const struct ddprove_coll_opaque ddprove_coll_opaque_plugin = {
    .version = DDPROVE_COLL_OPAQUE_VERSION,
    .struct_bytes = sizeof(struct ddprove_coll_opaque),
    .name = "star",
    .kind = DDPROVE_COLL_ALL_REDUCE,
    .claims = DDPROVE_COLL_SAME_BITS | DDPROVE_COLL_SAME_ORDER | DDPROVE_COLL_TELLS_MISMATCH |
              (WHAT == PICKY ? 0 : DDPROVE_COLL_TELLS_DEATH),
    .open = open_star,
    .close = close_star,
    .run = IS_POSTED ? NULL : run,
    .post = IS_POSTED ? post : NULL,
    .poll = IS_POSTED ? poll_star : NULL,
    .abort = WHAT >= DEAF ? abort_star : NULL,
};
