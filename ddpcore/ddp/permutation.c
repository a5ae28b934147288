/* mt19937 of M. Matsumoto and T. Nishimura (1998), and a shuffle from the front: each place is
 * swapped with one of those from it on, chosen by the remainder of a random number. */
#include "ddpcore/ddp/permutation.h"

#include "ddpcore/base/status.h"

enum { WORDS = 624, SHIFT = 397 };

struct mt19937 {
    uint32_t word[WORDS];
    size_t used; /* of this block of words */
};

static void mt19937_init(struct mt19937 *mt, uint32_t seed)
{
    mt->word[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++) {
        const uint32_t last = mt->word[i - 1];

        mt->word[i] = 1812433253U * (last ^ (last >> 30)) + i;
    }
    mt->used = WORDS;
}

/* The next block, in place: each word from itself, its neighbour and one SHIFT further on. */
static void mt19937_refill(struct mt19937 *mt)
{
    for (size_t i = 0; i < WORDS; i++) {
        const uint32_t mixed =
            (mt->word[i] & 0x80000000U) | (mt->word[(i + 1) % WORDS] & 0x7fffffffU);
        const uint32_t twisted = (mixed >> 1) ^ ((mixed & 1U) != 0 ? 0x9908b0dfU : 0U);

        mt->word[i] = mt->word[(i + SHIFT) % WORDS] ^ twisted;
    }
    mt->used = 0;
}

static uint32_t mt19937_next(struct mt19937 *mt)
{
    uint32_t y;

    if (mt->used == WORDS) {
        mt19937_refill(mt);
    }
    y = mt->word[mt->used++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    return y ^ (y >> 18);
}

void ddp_permutation(uint64_t seed, uint32_t *indices, size_t count)
{
    struct mt19937 mt;

    mt19937_init(&mt, (uint32_t)seed);
    for (size_t i = 0; i < count; i++) {
        indices[i] = (uint32_t)i;
    }
    for (size_t i = 0; i + 1 < count; i++) {
        const size_t other = i + mt19937_next(&mt) % (count - i);
        const uint32_t kept = indices[i];

        DDP_ASSERT(other < count);
        indices[i] = indices[other];
        indices[other] = kept;
    }
}
