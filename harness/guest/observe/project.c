/* Purpose: what a range of elements comes to, at the speed of memory.
 * Idea: whatever the type, elements are brought into groups of floats, doubles or 64-bit integers,
 * and summed and hashed while they are in the cache. The sign of element i is t[i mod 256] * u[i
 * div 256][i mod 8], both drawn: any two elements have the same sign or not with equal chances, as
 * if each had a sign of its own (pairwise independent), and a sign costs one multiplication. Lanes
 * are part of the definition, so that processors with wide registers and with narrow ones get the
 * same bits. */
#include "harness/guest/observe/project.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "harness/guest/fault.h"
#include "harness/guest/observe/half.h"
#include "harness/guest/self.h"

/* BLOCK: so many groups are summed side by side. */
enum { LANES = 8, GROUP = 256, BLOCK = 4, HASH_BYTES = 1024 };

/* Signs of a range, as factors. */
struct signs {
    double element[GROUP];
    uint64_t seed;
};

struct state {
    struct signs signs;
    uint64_t group; /* the next one */
    double sum[LANES];
    double magnitude;
    uint64_t whole;
};

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* 1.0 or -1.0, as a bit says; without a branch, since nobody can foresee it. */
static inline double sign_of(uint64_t bits, unsigned bit)
{
    const uint64_t one = UINT64_C(0x3ff0000000000000) | bits >> bit << 63;
    double sign;

    memcpy(&sign, &one, sizeof sign);
    return sign;
}

static void draw(uint64_t seed, struct signs *out)
{
    out->seed = seed;
    for (unsigned i = 0; i < GROUP; i += 64) {
        const uint64_t bits = guest_mix(seed + GOLDEN * (1 + i));

        for (unsigned k = 0; k < 64; k++) {
            out->element[i + k] = sign_of(bits, k);
        }
    }
}

/* Of a group; bit l is that of lane l. */
static inline uint64_t group_bits(const struct signs *signs, uint64_t group)
{
    return guest_mix(signs->seed ^ GOLDEN * (group + (UINT64_C(1) << 32)));
}

static inline void draw_group(const struct signs *signs, uint64_t group, double out[LANES])
{
    const uint64_t bits = group_bits(signs, group);

    for (unsigned l = 0; l < LANES; l++) {
        out[l] = sign_of(bits, l);
    }
}

/* --- what takes the time: floats, hash
 * ------------------------------------------------------------------------------------------------
 */

/* NH of Black et al., "UMAC" (CRYPTO '99), on 1 KiB: the sum of (a + k) * (b + l) over pairs of
 * 32-bit words with random k and l; two KiB that differ agree with a probability of 2^-32. Over
 * them, a polynomial. */
static uint32_t hash_keys[HASH_BYTES / 4];
static pthread_once_t project_once = PTHREAD_ONCE_INIT;

static void make_keys(void)
{
    for (unsigned i = 0; i < HASH_BYTES / 4; i++) {
        hash_keys[i] = (uint32_t)(guest_mix(GOLDEN * (i + 1)) >> 32);
    }
}

/* For one kind of processor: a block of groups of floats, one group, whole KiB. */
struct loops {
    void (*add_block)(struct state *state, const unsigned char *data);
    void (*add_block_and_magnitude)(struct state *state, const unsigned char *data);
    void (*add_group_and_magnitude)(struct state *state, const unsigned char *data);
    uint64_t (*hash_kibs)(uint64_t hash, const unsigned char *data, uint64_t count);
};

/* Compiled twice, since a vector is lowered to what the function around it may use. A product with
 * a sign is exact, so that whether it is rounded before it is added makes no difference. AVX-512
 * was tried: a tenth faster here, and slower clocks in the program around it on older processors.
 */
#define NAME(name) name##_narrow
#define TARGET
#define DOUBLES(floats)        __builtin_convertvector(floats, v4d_narrow)
#define ADD_PRODUCT(sum, a, b) ((sum) + (a) * (b))
#define PRODUCTS(words)        (((v4w_narrow)(words)&UINT32_MAX) * ((v4w_narrow)(words) >> 32))
#include "harness/guest/observe/project_loops.def"
#undef NAME
#undef TARGET
#undef DOUBLES
#undef ADD_PRODUCT
#undef PRODUCTS
#ifdef __x86_64__
#define NAME(name)      name##_wide
#define TARGET          __attribute__((target("avx2,fma")))
#define DOUBLES(floats) _mm256_cvtps_pd((__m128)(floats))
#define ADD_PRODUCT(sum, a, b) \
    (v4d_wide) _mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(sum))
#define PRODUCTS(words) \
    _mm256_mul_epu32((__m256i)(words), _mm256_shuffle_epi32((__m256i)(words), 0xb1))
#include "harness/guest/observe/project_loops.def"
#undef NAME
#undef TARGET
#undef DOUBLES
#undef ADD_PRODUCT
#undef PRODUCTS
#endif

static const struct loops *loops = &loops_narrow;

int guest_project_widen(int is_wanted)
{
#ifdef __x86_64__
    if (is_wanted && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        loops = &loops_wide;
        return 1;
    }
#endif
    loops = &loops_narrow;
    return 0;
}

static void prepare(void)
{
    make_keys();
    (void)guest_project_widen(1);
}

/* As doubles, since the sum of some floats may be too large for a float. */
static double magnitude_of(const unsigned char *data, uint64_t count)
{
    double magnitude = 0;

    for (uint64_t i = 0; i < count; i++) {
        float value;

        memcpy(&value, data + i * sizeof value, sizeof value);
        magnitude += fabs((double)value);
    }
    return magnitude;
}

/* groups: BLOCK or 1. Of some the magnitude is added whether it is wanted or not. */
static void add_floats(struct state *state, const unsigned char *data, uint64_t groups,
                       unsigned wanted)
{
    const double before = state->magnitude;

    if (groups == 1) {
        loops->add_group_and_magnitude(state, data);
    } else if ((wanted & GUEST_PROJECT_MAGNITUDE) != 0) {
        loops->add_block_and_magnitude(state, data);
    } else {
        loops->add_block(state, data);
    }
    if (isinf(state->magnitude) && isfinite(before)) {
        state->magnitude = before + magnitude_of(data, groups * GROUP);
    }
}

static void add_doubles(struct state *state, const double data[GROUP])
{
    double sum[LANES] = {0};
    double group_sign[LANES];

    for (unsigned i = 0; i < GROUP; i++) {
        const double size = fabs(data[i]);

        sum[i % LANES] += data[i] * state->signs.element[i];
        /* If no element is infinite, but their sum is, it is said as the largest number. */
        state->magnitude =
            isfinite(state->magnitude) && isfinite(size) && size > DBL_MAX - state->magnitude
                ? DBL_MAX
                : state->magnitude + size;
    }
    draw_group(&state->signs, state->group++, group_sign);
    for (unsigned l = 0; l < LANES; l++) {
        state->sum[l] += sum[l] * group_sign[l];
    }
}

static void add_integers(struct state *state, const int64_t data[GROUP], int has_sign)
{
    double group_sign[LANES];

    draw_group(&state->signs, state->group++, group_sign);
    for (unsigned i = 0; i < GROUP; i++) {
        const uint64_t minus = state->signs.element[i] * group_sign[i % LANES] < 0 ? UINT64_MAX : 0;

        state->whole += ((uint64_t)data[i] ^ minus) - minus;
        state->magnitude += has_sign ? fabs((double)data[i]) : (double)(uint64_t)data[i];
    }
}

/* --- types
 * --------------------------------------------------------------------------------------------------------
 */

static int is_signed(uint32_t dtype)
{
    return dtype == DDPROVE_GUEST_I8 || dtype == DDPROVE_GUEST_I16 || dtype == DDPROVE_GUEST_I32 ||
           dtype == DDPROVE_GUEST_I64;
}

static int is_float(uint32_t dtype)
{
    return dtype != DDPROVE_GUEST_BYTES && guest_project_width_bits(dtype) == 0;
}

/* Element i of integers of any width, in 64 bits (little-endian). */
static int64_t integer_at(const unsigned char *data, uint64_t i, uint32_t width_bits, int has_sign)
{
    const unsigned shift = 64 - width_bits;
    uint64_t bits = 0;

    memcpy(&bits, data + i * (width_bits / 8), width_bits / 8);
    bits <<= shift;
    return has_sign ? (int64_t)bits >> shift : (int64_t)(bits >> shift);
}

/* In whole groups: what fills the last one is zero. */
static void add_narrow_floats(struct state *state, const unsigned char *data, uint64_t count,
                              uint32_t dtype, unsigned wanted)
{
    float group[GROUP] = {0};
    uint16_t half;

    for (uint64_t i = 0; i < count; i++) {
        memcpy(&half, data + i * sizeof half, sizeof half);
        group[i] = guest_half_decode(dtype, half);
    }
    add_floats(state, (const unsigned char *)group, 1, wanted);
}

static void add_group(struct state *state, const unsigned char *data, uint64_t count,
                      uint32_t dtype, unsigned wanted)
{
    const uint32_t width_bits = guest_project_width_bits(dtype);
    union {
        float floats[GROUP];
        double doubles[GROUP];
        int64_t integers[GROUP];
    } group;

    memset(&group, 0, sizeof group);
    if (dtype == DDPROVE_GUEST_F32) {
        memcpy(group.floats, data, count * sizeof(float));
        add_floats(state, (const unsigned char *)group.floats, 1, wanted);
    } else if (dtype == DDPROVE_GUEST_F64) {
        memcpy(group.doubles, data, count * sizeof(double));
        add_doubles(state, group.doubles);
    } else if (width_bits != 0) {
        for (uint64_t i = 0; i < count; i++) {
            group.integers[i] = integer_at(data, i, width_bits, is_signed(dtype));
        }
        add_integers(state, group.integers, is_signed(dtype));
    } else {
        add_narrow_floats(state, data, count, dtype, wanted);
    }
}

/* Of at most a piece. */
static void add_piece(struct state *state, const unsigned char *data, uint64_t count,
                      uint32_t dtype, unsigned wanted)
{
    const uint64_t group_bytes = GROUP * guest_dtype_size_bytes(dtype);
    uint64_t i = 0;

    for (; dtype == DDPROVE_GUEST_F32 && (i + BLOCK) * GROUP <= count; i += BLOCK) {
        add_floats(state, data + i * group_bytes, BLOCK, wanted);
    }
    for (; i * GROUP < count; i++) {
        add_group(state, data + i * group_bytes,
                  count - i * GROUP < GROUP ? count - i * GROUP : GROUP, dtype, wanted);
    }
}

/* Of at most a piece. */
static uint64_t hash_piece(uint64_t hash, const unsigned char *data, uint64_t size_bytes)
{
    unsigned char last[HASH_BYTES];

    hash = loops->hash_kibs(hash, data, size_bytes / HASH_BYTES);
    data += size_bytes / HASH_BYTES * HASH_BYTES;
    size_bytes %= HASH_BYTES;
    if (size_bytes > 0) {
        memcpy(last, data, size_bytes);
        memset(last + size_bytes, 0, HASH_BYTES - size_bytes);
        hash = loops->hash_kibs(hash, last, 1);
    }
    return hash;
}

/* A copy of a piece, of which each element that is -0 is 0. */
static void copy_plus_zero(unsigned char *to, const unsigned char *from, uint64_t size_bytes,
                           uint64_t elem_bytes)
{
    const uint64_t minus_zero = UINT64_C(1) << (8 * elem_bytes - 1);

    for (uint64_t at = 0; at < size_bytes; at += elem_bytes) {
        uint64_t bits = 0;

        memcpy(&bits, from + at, elem_bytes);
        bits = bits == minus_zero ? 0 : bits;
        memcpy(to + at, &bits, elem_bytes);
    }
}

void guest_project(const void *data, uint64_t elem_count, uint32_t dtype, uint64_t seed,
                   unsigned wanted, struct guest_projection *out)
{
    const uint64_t elem_bytes = guest_dtype_size_bytes(dtype);
    const uint64_t size_bytes = elem_count * elem_bytes;
    struct state state = {.group = 0};
    unsigned char plus[GUEST_PIECE_BYTES];
    uint64_t hash = 1;

    (void)pthread_once(&project_once, prepare);
    draw(seed, &state.signs);
    for (uint64_t at = 0; at < size_bytes; at += GUEST_PIECE_BYTES) {
        const unsigned char *piece = (const unsigned char *)data + at;
        const uint64_t piece_bytes =
            size_bytes - at < GUEST_PIECE_BYTES ? size_bytes - at : GUEST_PIECE_BYTES;

        if ((wanted & GUEST_PROJECT_SUM) != 0 && dtype != DDPROVE_GUEST_BYTES) {
            add_piece(&state, piece, piece_bytes / elem_bytes, dtype, wanted);
        }
        if ((wanted & GUEST_PROJECT_PLUS_ZERO) != 0 && is_float(dtype)) {
            copy_plus_zero(plus, piece, piece_bytes, elem_bytes);
            piece = plus;
        }
        if ((wanted & GUEST_PROJECT_HASH) != 0) {
            hash = hash_piece(hash, piece, piece_bytes);
        }
    }
    for (unsigned l = 0; l < LANES; l++) {
        out->sum += state.sum[l];
    }
    out->magnitude += (wanted & GUEST_PROJECT_MAGNITUDE) != 0 ? state.magnitude : 0;
    out->whole += state.whole;
    /* An odd weight for each range, so that ranges that change places do not go unnoticed. */
    out->hash += guest_mix(hash ^ size_bytes) * (guest_mix(seed) | 1);
}
