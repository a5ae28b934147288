/* Small sets of ranks as bits of a word, for tests' tables. */
#ifndef TESTS_RANK_MASK_H
#define TESTS_RANK_MASK_H

#include "harness/verdict/set.h"

/* The set in mem, a pool. */
static inline struct harness_rank_set rank_set_of_mask(struct ddp_mem *mem, uint64_t mask)
{
    struct harness_rank_set set = harness_rank_set_in(mem);

    for (uint32_t rank = 0; rank < 64; rank++) {
        if ((mask >> rank & 1u) != 0) {
            harness_rank_set_add(&set, rank);
        }
    }
    return set;
}

static inline uint64_t mask_of_rank_set(const struct harness_rank_set *set)
{
    uint64_t mask = 0;

    for (uint32_t i = 0; i < harness_rank_set_count(set); i++) {
        mask |= UINT64_C(1) << (harness_rank_set_at(set, i) % 64);
    }
    return mask;
}

#endif
