/* Collectives of every type, operation and kind that move the data themselves: a right one of each
 * kind, and ones that are wrong only for a type, an operation, a count, a world, a root, a kind of
 * buffer, or behind another call. Which: WHAT; of what kind: KIND. */
#include <ddprove_coll.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum what {
    RIGHT,
    FAR,          /* spoils one element, of many */
    SIX,          /* of 6 ranks */
    MIDDLE_ROOT,  /* takes a root in the middle for the last one */
    HALF_BEHIND,  /* writes behind the output, of a type of 16 bits */
    PLACE_BEHIND, /* in place */
    SHIFT_BEHIND, /* of a buffer that is not aligned */
    FAR_BEHIND,   /* a whole block behind it */
    MIN_INPUT,    /* uses the input for a minimum */
    BLOCKS,       /* in place, uses the other ranks' blocks */
    NO_OUTPUT,    /* writes the sum where a rank has no output */
    LONG_HALF,    /* loses the last of many elements of 16 bits */
    DEMOTED,      /* adds f64 as f32 */
    FLOATING,     /* adds i32 as f32 */
    DOUBLE,       /* adds i64 as f64 */
    NARROW_LONG,  /* adds i64 in 32 bits */
    ZERO_MAX,     /* a maximum begins at zero */
    SIGNED_BYTES, /* compares bytes with a sign */
    COMPRESSED,   /* of 64 elements and more it sends f32 that are no whole numbers cut short */
    FAR_HALVES,   /* of many elements it sends f32 with the bits of f16 alone */
    UNCLEARED,    /* adds to memory that it takes for zeros */
    GROWING,      /* a long call right behind a short one loses its last element */
    MAPPED,       /* maps memory in each call */
    NOT_EMPTY,    /* right, but takes no empty call */
    MULTIPLES,    /* right, but takes multiples of the world alone */
    EVEN,         /* right, but takes even counts alone */
    EVEN_WRONG    /* like that, and loses the last of 64 elements and more */
};
#ifndef WHAT
#define WHAT RIGHT
#endif
#ifndef KIND
#define KIND DDPROVE_COLL_ALL_REDUCE
#endif

enum { LONG = 16384, SHORT = 64, BLOCK_BYTES = 1024, PAGE_BYTES = 4096 };

struct star {
    struct ddprove_coll_host host;
    uint64_t last_count;
    int calls;
};

static int open_star(const struct ddprove_coll_host *host, void **out_self)
{
    struct star *star = calloc(1, sizeof *star);

    star->host = *host;
    *out_self = star;
    return DDPROVE_COLL_OK;
}

static uint64_t size_of(uint32_t dtype)
{
    switch (dtype) {
    case DDPROVE_COLL_F64:
    case DDPROVE_COLL_I64:
        return 8;
    case DDPROVE_COLL_U8:
        return 1;
    case DDPROVE_COLL_F16:
    case DDPROVE_COLL_BF16:
        return 2;
    default:
        return 4;
    }
}

static int is_half(uint32_t dtype)
{
    return size_of(dtype) == 2;
}

/* --- messages --------------------------------------------------------------------------------- */

static int move(struct star *star, uint32_t peer, const void *src, void *dst, uint64_t bytes)
{
    const struct ddprove_coll_host *host = &star->host;
    int result = bytes > 0 ? (int)DDPROVE_COLL_AGAIN : (int)DDPROVE_COLL_OK;

    while (result == (int)DDPROVE_COLL_AGAIN) {
        result = src != NULL ? host->send(host->context, peer, src, bytes)
                             : host->recv(host->context, peer, dst, bytes);
        if (result == (int)DDPROVE_COLL_AGAIN) {
            host->wait(host->context);
        }
    }
    return result;
}

/* --- elements --------------------------------------------------------------------------------- */

#define COMBINE(op, a, b)                               \
    ((op) == DDPROVE_COLL_SUM   ? (a) + (b)             \
     : (op) == DDPROVE_COLL_MAX ? (a) > (b) ? (a) : (b) \
     : (op) == DDPROVE_COLL_MIN ? (a) < (b) ? (a) : (b) \
                                : (a) * (b))

static float from_half(uint16_t half, uint32_t dtype)
{
    uint32_t word = (uint32_t)half << 16;
    _Float16 small;
    float value;

    if (dtype == DDPROVE_COLL_BF16) {
        memcpy(&value, &word, sizeof value);
        return value;
    }
    memcpy(&small, &half, sizeof small);
    return (float)small;
}

static uint16_t to_half(float value, uint32_t dtype)
{
    _Float16 small = (_Float16)value;
    uint16_t half;
    uint32_t word;

    if (dtype == DDPROVE_COLL_BF16) {
        memcpy(&word, &value, sizeof word);
        return (uint16_t)((word + 0x7fffu + (word >> 16 & 1u)) >> 16);
    }
    memcpy(&half, &small, sizeof half);
    return half;
}

static int64_t combine_long(uint32_t op, int64_t a, int64_t b)
{
    if (WHAT == DOUBLE) {
        return (int64_t)COMBINE(op, (double)a, (double)b);
    }
    return WHAT == NARROW_LONG ? (int32_t)COMBINE(op, a, b) : COMBINE(op, a, b);
}

/* *sum = *sum and *term, of one element. */
static void combine(uint32_t op, uint32_t dtype, void *sum, const void *term)
{
    double f64[2];
    float f32[2];
    uint16_t half[2];
    int64_t i64[2];
    int32_t i32[2];
    uint8_t u8[2];
    uint64_t bytes = size_of(dtype);

#define AS(pair) (memcpy(&(pair)[0], sum, bytes), memcpy(&(pair)[1], term, bytes))
    switch (dtype) {
    case DDPROVE_COLL_F64:
        AS(f64);
        f64[0] = WHAT == DEMOTED ? COMBINE(op, (float)f64[0], (float)f64[1])
                                 : COMBINE(op, f64[0], f64[1]);
        memcpy(sum, f64, bytes);
        return;
    case DDPROVE_COLL_I64:
        AS(i64);
        i64[0] = combine_long(op, i64[0], i64[1]);
        memcpy(sum, i64, bytes);
        return;
    case DDPROVE_COLL_I32:
        AS(i32);
        i32[0] = WHAT == FLOATING ? (int32_t)COMBINE(op, (float)i32[0], (float)i32[1])
                                  : COMBINE(op, i32[0], i32[1]);
        memcpy(sum, i32, bytes);
        return;
    case DDPROVE_COLL_U8:
        AS(u8);
        u8[0] = WHAT == SIGNED_BYTES ? (uint8_t)COMBINE(op, (int8_t)u8[0], (int8_t)u8[1])
                                     : (uint8_t)COMBINE(op, u8[0], u8[1]);
        memcpy(sum, u8, bytes);
        return;
    case DDPROVE_COLL_F32:
        AS(f32);
        f32[0] = COMBINE(op, f32[0], f32[1]);
        f32[0] = WHAT == ZERO_MAX && op == DDPROVE_COLL_MAX && f32[0] < 0 ? 0 : f32[0];
        memcpy(sum, f32, bytes);
        return;
    default:
        AS(half);
        half[0] = to_half(COMBINE(op, from_half(half[0], dtype), from_half(half[1], dtype)), dtype);
        memcpy(sum, half, bytes);
    }
}

/* --- calls ------------------------------------------------------------------------------------ */

/* Spoils the sum as it is made, on rank 0. */
static void spoil(const struct star *star, const struct ddprove_coll_call *call, unsigned char *sum,
                  uint64_t count)
{
    uint64_t last = (count - 1) * size_of(call->dtype);

    if ((WHAT == FAR && count > LONG) || (WHAT == SIX && star->host.size == 6) ||
        (WHAT == LONG_HALF && is_half(call->dtype) && count > SHORT) ||
        (WHAT == EVEN_WRONG && count >= SHORT) ||
        (WHAT == GROWING && count > SHORT && star->last_count >= 20 && star->last_count < SHORT)) {
        memset(sum + last, 0, size_of(call->dtype));
    }
}

/* Rank 0 collects all that ranks put in, adds, and keeps the sum. */
static int collect(struct star *star, const struct ddprove_coll_call *call, uint64_t count,
                   unsigned char **out_sum)
{
    uint64_t elem_bytes = size_of(call->dtype);
    uint64_t bytes = count * elem_bytes;
    unsigned char *sum = malloc(bytes + 1);
    unsigned char *term = malloc(bytes + 1);
    int result = DDPROVE_COLL_OK;

    *out_sum = sum;
    memcpy(sum, call->input, bytes);
    if (WHAT == UNCLEARED && call->op == DDPROVE_COLL_SUM) {
        memcpy(sum, term, bytes);
        for (uint64_t i = 0; i < count; i++) {
            combine(call->op, call->dtype, sum + i * elem_bytes,
                    (const unsigned char *)call->input + i * elem_bytes);
        }
    }
    for (uint32_t rank = 1; rank < star->host.size && result == DDPROVE_COLL_OK; rank++) {
        result = move(star, rank, NULL, term, bytes);
        for (uint64_t i = 0; i < count && result == DDPROVE_COLL_OK; i++) {
            combine(call->op, call->dtype, sum + i * elem_bytes, term + i * elem_bytes);
        }
    }
    free(term);
    if (count > 0) {
        spoil(star, call, sum, count);
    }
    return result;
}

/* What a rank sends. */
static int give(struct star *star, const struct ddprove_coll_call *call, uint64_t bytes)
{
    unsigned char *copy = malloc(bytes + 1);
    int result;

    memcpy(copy, call->input, bytes);
    for (uint64_t i = 0; WHAT == COMPRESSED && call->dtype == DDPROVE_COLL_F32 &&
                         call->count >= SHORT && i < bytes / 4;
         i++) {
        float value;

        memcpy(&value, copy + 4 * i, 4);
        memset(copy + 4 * i, 0, truncf(value) != value ? 1 : 0);
    }
    for (uint64_t i = 0; WHAT == FAR_HALVES && call->dtype == DDPROVE_COLL_F32 &&
                         call->count >= LONG && i < bytes / 4;
         i++) {
        uint32_t word;

        memcpy(&word, copy + 4 * i, 4);
        word &= ~UINT32_C(0x1fff);
        memcpy(copy + 4 * i, &word, 4);
    }
    result = move(star, 0, copy, NULL, bytes);
    free(copy);
    return result;
}

/* Which rank's block of the sum a rank gets: all of it, of other kinds. */
static uint64_t block_of(const struct star *star, uint32_t rank, uint64_t block_bytes)
{
    (void)star;
    return KIND == DDPROVE_COLL_REDUCE_SCATTER ? rank * block_bytes : 0;
}

static int reduce(struct star *star, const struct ddprove_coll_call *call)
{
    uint64_t blocks = KIND == DDPROVE_COLL_REDUCE_SCATTER ? star->host.size : 1;
    uint64_t block_bytes = call->count * size_of(call->dtype);
    unsigned char *sum;
    int result;

    if (star->host.rank != 0) {
        result = give(star, call, blocks * block_bytes);
        return result != DDPROVE_COLL_OK ? result : move(star, 0, NULL, call->output, block_bytes);
    }
    result = collect(star, call, blocks * call->count, &sum);
    for (uint32_t rank = 1; rank < star->host.size && result == DDPROVE_COLL_OK; rank++) {
        result = move(star, rank, sum + block_of(star, rank, block_bytes), NULL, block_bytes);
    }
    if (block_bytes > 0) {
        memcpy(call->output, sum, block_bytes);
    }
    free(sum);
    return result;
}

/* To the root alone, over rank 0. */
static int reduce_to_root(struct star *star, const struct ddprove_coll_call *call)
{
    uint64_t bytes = call->count * size_of(call->dtype);
    unsigned char *sum = NULL;
    int result;

    if (star->host.rank != 0) {
        result = give(star, call, bytes);
        return result == DDPROVE_COLL_OK && star->host.rank == call->root
                   ? move(star, 0, NULL, call->output, bytes)
                   : result;
    }
    result = collect(star, call, call->count, &sum);
    if (result == DDPROVE_COLL_OK && call->root != 0) {
        result = move(star, call->root, sum, NULL, bytes);
    }
    if (bytes > 0 && (call->root == 0 || WHAT == NO_OUTPUT)) {
        memcpy(call->output, sum, bytes);
    }
    free(sum);
    return result;
}

static int broadcast(struct star *star, const struct ddprove_coll_call *call)
{
    uint64_t bytes = call->count * size_of(call->dtype);
    uint32_t last = star->host.size - 1;
    uint32_t root = WHAT == MIDDLE_ROOT && call->root > 0 ? last : call->root;
    int result = DDPROVE_COLL_OK;

    if (star->host.rank != root) {
        return move(star, root, NULL, call->output, bytes);
    }
    for (uint32_t rank = 0; rank < star->host.size && result == DDPROVE_COLL_OK; rank++) {
        result = rank != root ? move(star, rank, call->input, NULL, bytes) : result;
    }
    if (call->input != call->output && bytes > 0) {
        memcpy(call->output, call->input, bytes);
    }
    return result;
}

/* --- what is wrong beside what comes out -------------------------------------------------------
 */

static void scribble(const struct star *star, const struct ddprove_coll_call *call)
{
    uint64_t bytes = call->count * size_of(call->dtype);
    unsigned char *output = call->output;
    int is_in_place = KIND == DDPROVE_COLL_REDUCE_SCATTER
                          ? output == (const unsigned char *)call->input + star->host.rank * bytes
                          : output == call->input;

    if ((WHAT == HALF_BEHIND && is_half(call->dtype)) ||
        (WHAT == PLACE_BEHIND && output == call->input) ||
        (WHAT == SHIFT_BEHIND && (uintptr_t)output % 16 != 0)) {
        output[bytes] = 0;
    }
    if (WHAT == FAR_BEHIND && call->count > 0) {
        output[bytes + BLOCK_BYTES] = 0;
    }
    if (WHAT == MIN_INPUT && call->op == DDPROVE_COLL_MIN && output != call->input &&
        call->count > 0) {
        ((unsigned char *)(uintptr_t)call->input)[0] ^= 1;
    }
    if (WHAT == BLOCKS && is_in_place && star->host.rank > 0 && call->count > 0) {
        ((unsigned char *)(uintptr_t)call->input)[0] ^= 1;
    }
}

static int is_refused(const struct star *star, const struct ddprove_coll_call *call)
{
    return (WHAT == NOT_EMPTY && call->count == 0) ||
           (WHAT == MULTIPLES && call->count % star->host.size != 0) ||
           ((WHAT == EVEN || WHAT == EVEN_WRONG) && call->count % 2 != 0);
}

static int run(void *self, const struct ddprove_coll_call *call)
{
    struct star *star = self;
    int result;

    if (is_refused(star, call)) {
        return DDPROVE_COLL_UNSUPPORTED;
    }
    if (WHAT == MAPPED) {
        (void)!mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    result = KIND == DDPROVE_COLL_BROADCAST        ? broadcast(star, call)
             : KIND == DDPROVE_COLL_REDUCE_TO_ROOT ? reduce_to_root(star, call)
                                                   : reduce(star, call);
    star->last_count = call->count;
    if (result == DDPROVE_COLL_OK) {
        scribble(star, call);
    }
    return result;
}

const struct ddprove_coll_opaque ddprove_coll_opaque_plugin = {
    .version = DDPROVE_COLL_OPAQUE_VERSION,
    .struct_bytes = sizeof(struct ddprove_coll_opaque),
    .name = "typed",
    .kind = KIND,
    .claims = DDPROVE_COLL_SAME_BITS | DDPROVE_COLL_SAME_ORDER,
    .open = open_star,
    .close = free,
    .run = run,
};
