/* The Mersenne Twister as its recurrence: word n follows from words n - 624, n - 623 and n - 227,
 * kept in a ring of 624. */
#include "reference/permutation.h"

enum { RING = 624, AHEAD = 397 };

struct twister {
    uint32_t ring[RING];
    unsigned at; /* the oldest word */
};

static struct twister twister_start(uint32_t seed)
{
    struct twister t = {.ring = {seed}};

    for (unsigned n = 1; n < RING; n++) {
        t.ring[n] = (t.ring[n - 1] ^ t.ring[n - 1] >> 30) * 0x6c078965U + n;
    }
    return t;
}

static uint32_t twister_draw(struct twister *t)
{
    uint32_t *oldest = &t->ring[t->at];
    uint32_t next = t->ring[t->at + 1 < RING ? t->at + 1 : 0];
    uint32_t middle = t->ring[t->at + AHEAD < RING ? t->at + AHEAD : t->at + AHEAD - RING];
    uint32_t joined = (*oldest >> 31 << 31) + (next & INT32_MAX);
    uint32_t word = middle ^ joined / 2 ^ (joined % 2) * 0x9908b0dfU;

    *oldest = word;
    t->at = t->at + 1 < RING ? t->at + 1 : 0;
    word ^= word >> 11;
    word ^= word << 7 & 0x9d2c5680U;
    word ^= word << 15 & 0xefc60000U;
    word ^= word >> 18;
    return word;
}

void ref_permutation(uint64_t seed, uint32_t *out, size_t count)
{
    struct twister t = twister_start((uint32_t)(seed & UINT32_MAX));

    for (size_t n = 0; n < count; n++) {
        out[n] = (uint32_t)n;
    }
    /* The last place has nothing to be exchanged with, and no number is drawn for it. */
    for (size_t left = count; left > 1; left--) {
        uint32_t *first = out + (count - left);
        uint32_t *chosen = first + twister_draw(&t) % left;
        uint32_t value = *chosen;

        *chosen = *first;
        *first = value;
    }
}
