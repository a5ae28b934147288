/* Philox4x32-10. The 128-bit counter is {position (64 bits), purpose, 0}: draws, splits and keys
 * made from labels have different purposes, so they never meet in one block. */
#include "ddpcore/base/prng.h"

#include "ddpcore/base/hash.h"
#include "ddpcore/base/status.h"

#define MULTIPLIER0 UINT64_C(0xD2511F53)
#define MULTIPLIER1 UINT64_C(0xCD9E8D57)
#define KEY_STEP0   UINT32_C(0x9E3779B9)
#define KEY_STEP1   UINT32_C(0xBB67AE85)

enum prng_purpose { PURPOSE_DRAW, PURPOSE_SPLIT, PURPOSE_LABEL };

void ddp_prng_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t x0 = counter[0];
    uint32_t x1 = counter[1];
    uint32_t x2 = counter[2];
    uint32_t x3 = counter[3];
    uint32_t k0 = key[0];
    uint32_t k1 = key[1];

    for (int round = 0; round < 10; round++) {
        uint64_t product0 = MULTIPLIER0 * x0;
        uint64_t product1 = MULTIPLIER1 * x2;

        x0 = (uint32_t)(product1 >> 32) ^ x1 ^ k0;
        x2 = (uint32_t)(product0 >> 32) ^ x3 ^ k1;
        x1 = (uint32_t)product1;
        x3 = (uint32_t)product0;
        k0 += KEY_STEP0;
        k1 += KEY_STEP1;
    }
    out[0] = x0;
    out[1] = x1;
    out[2] = x2;
    out[3] = x3;
}

static uint64_t draw(uint64_t key, uint64_t position, enum prng_purpose purpose)
{
    const uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), (uint32_t)purpose,
                                 0};
    const uint32_t key_words[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    uint32_t out[4];

    ddp_prng_philox4x32(counter, key_words, out);
    return (uint64_t)out[0] | (uint64_t)out[1] << 32;
}

struct ddp_prng ddp_prng_make(uint64_t seed, const char *label)
{
    struct ddp_prng prng = {draw(seed, ddp_hash_text(label), PURPOSE_LABEL), 0};

    return prng;
}

struct ddp_prng ddp_prng_split(const struct ddp_prng *prng, uint64_t index)
{
    struct ddp_prng child = {draw(prng->key, index, PURPOSE_SPLIT), 0};

    return child;
}

uint64_t ddp_prng_at(const struct ddp_prng *prng, uint64_t counter)
{
    return draw(prng->key, counter, PURPOSE_DRAW);
}

uint64_t ddp_prng_u64(struct ddp_prng *prng)
{
    return ddp_prng_at(prng, prng->counter++);
}

uint64_t ddp_prng_below(struct ddp_prng *prng, uint64_t bound)
{
    uint64_t reject;
    uint64_t value;

    DDP_ASSERT(bound > 0);
    /* 2^64 mod bound: without the draws below it, what is left is a multiple of bound. */
    reject = (0 - bound) % bound;
    do {
        value = ddp_prng_u64(prng);
    } while (value < reject);
    return value % bound;
}

/* From the high word of a draw. */
static float uniform_of(uint32_t high)
{
    return (float)(high >> 8) * 0x1p-24f;
}

float ddp_prng_uniform(struct ddp_prng *prng)
{
    return uniform_of((uint32_t)(ddp_prng_u64(prng) >> 32));
}

/* LANES draws side by side, so that the compiler can use vectors; the same rounds as in
 * ddp_prng_philox4x32. */
enum { LANES = 8 };

static void draw_lanes(uint64_t key, uint64_t position, uint32_t high[LANES])
{
    uint32_t x0[LANES], x1[LANES], x2[LANES], x3[LANES];
    uint32_t k0 = (uint32_t)key;
    uint32_t k1 = (uint32_t)(key >> 32);

    for (unsigned lane = 0; lane < LANES; lane++) {
        x0[lane] = (uint32_t)(position + lane);
        x1[lane] = (uint32_t)((position + lane) >> 32);
        x2[lane] = PURPOSE_DRAW;
        x3[lane] = 0;
    }
    for (int round = 0; round < 10; round++) {
        for (unsigned lane = 0; lane < LANES; lane++) {
            uint64_t product0 = MULTIPLIER0 * x0[lane];
            uint64_t product1 = MULTIPLIER1 * x2[lane];

            x0[lane] = (uint32_t)(product1 >> 32) ^ x1[lane] ^ k0;
            x2[lane] = (uint32_t)(product0 >> 32) ^ x3[lane] ^ k1;
            x1[lane] = (uint32_t)product1;
            x3[lane] = (uint32_t)product0;
        }
        k0 += KEY_STEP0;
        k1 += KEY_STEP1;
    }
    for (unsigned lane = 0; lane < LANES; lane++) {
        high[lane] = x1[lane];
    }
}

void ddp_prng_uniform_fill(struct ddp_prng *prng, float *out, size_t count)
{
    size_t i = 0;

    for (; i + LANES <= count; i += LANES) {
        uint32_t high[LANES];

        draw_lanes(prng->key, prng->counter, high);
        for (unsigned lane = 0; lane < LANES; lane++) {
            out[i + lane] = uniform_of(high[lane]);
        }
        prng->counter += LANES;
    }
    for (; i < count; i++) {
        out[i] = ddp_prng_uniform(prng);
    }
}

void ddp_prng_permutation(struct ddp_prng *prng, uint32_t *indices, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        indices[i] = i;
    }
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = (uint32_t)ddp_prng_below(prng, i);
        uint32_t kept = indices[i - 1];

        indices[i - 1] = indices[other];
        indices[other] = kept;
    }
}
