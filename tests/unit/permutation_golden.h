/* torch.randperm(count, generator=torch.Generator().manual_seed(seed)), as PyTorch 2.15 gives it.
 */
#ifndef TESTS_UNIT_PERMUTATION_GOLDEN_H
#define TESTS_UNIT_PERMUTATION_GOLDEN_H

#include <stddef.h>
#include <stdint.h>

struct permutation_golden {
    size_t count;
    uint64_t seed;
    uint32_t first[6]; /* its first elements */
    uint32_t weighted; /* the sum of (i + 1) * element i, modulo 2^32 */
};

static const struct permutation_golden permutation_golden[] = {
    {1, 0U, {0}, 0U},
    {2, 3U, {0, 1}, 2U},
    {10, 0U, {4, 1, 7, 5, 3, 9}, 254U},
    {7, 1U, {0, 6, 1, 3, 5, 2}, 92U},
    {623, 5U, {505, 509, 441, 448, 502, 201}, 59211229U},
    {1797, 7U, {1161, 533, 833, 1541, 270, 1752}, 1451755580U},
    {2048, 4294967305U, {382, 1148, 320, 1685, 1282, 1522}, 2156595902U},
    {70000, 123456789U, {60408, 56444, 54798, 10561, 18694, 11575}, 3526156772U},
};
enum { PERMUTATION_GOLDEN_COUNT = sizeof(permutation_golden) / sizeof(permutation_golden[0]) };

/* Whether the permutation is that one. */
static inline int permutation_is_golden(const struct permutation_golden *golden,
                                        const uint32_t *indices)
{
    uint32_t weighted = 0;
    int is_same = 1;

    for (size_t i = 0; i < golden->count; i++) {
        weighted += (uint32_t)(i + 1) * indices[i];
        is_same = is_same && (i >= 6 || indices[i] == golden->first[i]);
    }
    return is_same && weighted == golden->weighted;
}

#endif
