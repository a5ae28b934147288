/* Counter-based pseudo-random numbers: a value is a pure function of (key, counter), so the order
 * in which ranks draw changes nothing. Keys are derived by name, never by sharing a stream.
 * Generator: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11). */
#ifndef DDPCORE_BASE_PRNG_H
#define DDPCORE_BASE_PRNG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ddp_prng {
    uint64_t key;
    uint64_t counter; /* next counter for the sequential calls */
};

/* The block function itself: 128 random bits from a counter and a key, without state. */
void ddp_prng_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* Key from a seed and a label ("init/fc1.weight"); different labels give unrelated streams. */
struct ddp_prng ddp_prng_make(uint64_t seed, const char *label);
/* Child stream number `index` of a stream; the parent is unchanged. */
struct ddp_prng ddp_prng_split(const struct ddp_prng *prng, uint64_t index);

/* 64 random bits at a counter, without state. */
uint64_t ddp_prng_at(const struct ddp_prng *prng, uint64_t counter);
/* Sequential draws. */
uint64_t ddp_prng_u64(struct ddp_prng *prng);
/* Uniform in [0, bound), unbiased; bound > 0. */
uint64_t ddp_prng_below(struct ddp_prng *prng, uint64_t bound);
/* Uniform in [0, 1) with 24 random bits: exact in float. */
float ddp_prng_uniform(struct ddp_prng *prng);
/* The same numbers as count calls of ddp_prng_uniform, faster. */
void ddp_prng_uniform_fill(struct ddp_prng *prng, float *out, size_t count);
/* Random permutation of 0..count-1 (Fisher-Yates). indices: uint32_t[count]. */
void ddp_prng_permutation(struct ddp_prng *prng, uint32_t *indices, uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
