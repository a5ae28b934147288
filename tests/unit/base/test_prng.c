/* The generator against its published vectors, and the draws made from it. */
#include <string.h>

#include "ddpcore/base/prng.h"
#include "tests/ct.h"

/* The three known-answer vectors that the authors publish for philox4x32 with 10 rounds. */
CT_TEST(prng, philox_known_answers)
{
    static const struct {
        uint32_t counter[4];
        uint32_t key[2];
        uint32_t expected[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        uint32_t out[4];

        ddp_prng_philox4x32(vectors[i].counter, vectors[i].key, out);
        CT_CHECK_BYTES(out, vectors[i].expected, sizeof(out));
    }
}

/* The bits at a counter are the sequential draw of that number, and the first vector's words. */
CT_TEST(prng, sequential_equals_random_access)
{
    struct ddp_prng zero = {0, 0};
    struct ddp_prng prng = ddp_prng_make(7, "init/fc1.weight");
    struct ddp_prng start = prng;

    CT_CHECK_EQ_U64(ddp_prng_at(&zero, 0), UINT64_C(0xe169c58d6627e8d5));
    for (uint64_t i = 0; i < 100; i++) {
        CT_CHECK_EQ_U64(ddp_prng_u64(&prng), ddp_prng_at(&start, i));
    }
}

/* Labels, seeds and split indexes each give another key, and splitting leaves the parent alone. */
CT_TEST(prng, streams_differ)
{
    struct ddp_prng a = ddp_prng_make(1, "a");
    struct ddp_prng b = ddp_prng_make(1, "b");
    struct ddp_prng c = ddp_prng_make(2, "a");
    struct ddp_prng first = ddp_prng_split(&a, 0);
    struct ddp_prng second = ddp_prng_split(&a, 1);
    const uint64_t keys[] = {a.key, b.key, c.key, first.key, second.key, ddp_prng_at(&a, 0)};

    for (size_t i = 0; i < 6; i++) {
        for (size_t j = 0; j < i; j++) {
            CT_CHECK(keys[i] != keys[j]);
        }
    }
    CT_CHECK_EQ_U64(a.counter, 0);
}

/* Bounded draws stay below the bound and reach every value about equally often. */
CT_TEST(prng, below_is_bounded_and_even)
{
    struct ddp_prng prng = ddp_prng_make(3, "below");
    unsigned counts[7] = {0};

    for (int i = 0; i < 70000; i++) {
        uint64_t value = ddp_prng_below(&prng, 7);

        CT_REQUIRE(value < 7);
        counts[value]++;
    }
    for (int i = 0; i < 7; i++) {
        /* 10000 +- 5 standard deviations (sigma = sqrt(70000 * 6/49) = 93). */
        CT_CHECK(counts[i] > 9535 && counts[i] < 10465);
    }
    CT_CHECK_EQ_U64(ddp_prng_below(&prng, 1), 0);
}

/* A bound just above 2^63 rejects half of the draws and still never exceeds it. */
CT_TEST(prng, below_with_huge_bound)
{
    struct ddp_prng prng = ddp_prng_make(3, "huge");
    const uint64_t bound = (UINT64_C(1) << 63) + 1;

    for (int i = 0; i < 1000; i++) {
        CT_REQUIRE(ddp_prng_below(&prng, bound) < bound);
    }
    CT_CHECK(prng.counter > 1500);
}

/* Uniform draws lie in [0, 1), are multiples of 2^-24 and average one half. */
CT_TEST(prng, fill_draws_the_same_numbers)
{
    /* Whole lanes and a rest; a counter that carries into its high word within a fill. */
    static const size_t counts[] = {0, 1, 7, 8, 9, 40, 67};
    static const uint64_t starts[] = {0, 3, UINT32_MAX - 4};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0] * 3; i++) {
        struct ddp_prng one = ddp_prng_make(7, "fill");
        struct ddp_prng other = one;
        size_t count = counts[i / 3];
        float filled[67];

        one.counter = starts[i % 3];
        other.counter = starts[i % 3];
        ddp_prng_uniform_fill(&one, filled, count);
        for (size_t k = 0; k < count; k++) {
            CT_CHECK(filled[k] == ddp_prng_uniform(&other));
        }
        CT_CHECK(one.counter == other.counter);
    }
}

CT_TEST(prng, uniform_is_in_range)
{
    struct ddp_prng prng = ddp_prng_make(4, "uniform");
    double sum = 0;

    for (int i = 0; i < 10000; i++) {
        float value = ddp_prng_uniform(&prng);
        float scaled = value * 0x1p24f;

        CT_REQUIRE(value >= 0 && value < 1);
        CT_REQUIRE(scaled == (float)(uint32_t)scaled);
        sum += (double)value;
    }
    CT_CHECK(sum > 4850 && sum < 5150);
}

/* A permutation holds every index once; the same stream gives it again, another does not. */
CT_TEST(prng, permutation_is_one)
{
    enum { COUNT = 100 };
    struct ddp_prng prng = ddp_prng_make(5, "permutation");
    struct ddp_prng again = prng;
    uint32_t indices[COUNT];
    uint32_t repeated[COUNT];
    uint32_t other[COUNT];
    bool seen[COUNT] = {false};

    ddp_prng_permutation(&prng, indices, COUNT);
    ddp_prng_permutation(&again, repeated, COUNT);
    ddp_prng_permutation(&again, other, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        CT_REQUIRE(indices[i] < COUNT);
        CT_CHECK(!seen[indices[i]]);
        seen[indices[i]] = true;
    }
    CT_CHECK_BYTES(indices, repeated, sizeof(indices));
    CT_CHECK(memcmp(indices, other, sizeof(indices)) != 0);
    ddp_prng_permutation(&prng, NULL, 0);
}
