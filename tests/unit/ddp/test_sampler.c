/* Distributed sampler: counts, striding, padding, permutation, shards of given sizes. */
#include <string.h>

#include "ddpcore/ddp/permutation.h"
#include "ddpcore/ddp/sampler.h"
#include "tests/ct.h"
#include "tests/unit/permutation_golden.h"

#define COUNT_MAX 64

/* For every small N, W and drop_last: entry j of rank r is list[(r + jW) mod N], the count is
 * PyTorch's, and without padding every sample appears exactly once. */
CT_TEST(sampler, covers_every_sample)
{
    for (uint32_t variant = 0; variant < 4 * 8 * 20; variant++) {
        const uint32_t size = 1 + variant / 4 % 8;
        const size_t samples = variant / 32;
        uint32_t seen[COUNT_MAX] = {0};
        uint32_t list[COUNT_MAX], indices[COUNT_MAX];
        struct ddp_sampler_config config = {.sample_count = samples,
                                            .world_size = size,
                                            .is_shuffled = variant % 2 == 1,
                                            .drop_last = variant / 2 % 2 == 1,
                                            .seed = 3};
        const size_t count = ddp_sampler_count(&config);

        for (uint32_t i = 0; i < samples; i++) {
            list[i] = i;
        }
        if (config.is_shuffled) {
            ddp_permutation(3 + 2, list, samples);
        }
        CT_CHECK_EQ_U64(count, config.drop_last ? samples / size : (samples + size - 1) / size);
        for (config.rank = 0; config.rank < size; config.rank++) {
            CT_REQUIRE_OK(ddp_sampler_epoch(&config, 2, ddp_mem_system(), indices));
            for (size_t j = 0; j < count; j++) {
                CT_CHECK_EQ_U64(indices[j], list[(config.rank + j * size) % samples]);
                seen[indices[j]]++;
            }
        }
        for (size_t i = 0; i < samples; i++) {
            /* Padding repeats the head of the list, dropping leaves its tail out. */
            const size_t total = count * size;

            CT_CHECK_EQ_U64(seen[list[i]], total / samples + (i < total % samples ? 1 : 0));
        }
    }
}

/* Another epoch gives another order, and (seed, epoch) matters only by its sum, as in PyTorch. */
CT_TEST(sampler, epoch_reshuffles)
{
    struct ddp_sampler_config config = {
        .sample_count = 40, .world_size = 1, .is_shuffled = true, .seed = 1};
    uint32_t first[40], second[40];

    CT_REQUIRE_OK(ddp_sampler_epoch(&config, 0, ddp_mem_system(), first));
    CT_REQUIRE_OK(ddp_sampler_epoch(&config, 1, ddp_mem_system(), second));
    CT_CHECK(memcmp(first, second, sizeof(first)) != 0);
    config.seed = 0;
    CT_REQUIRE_OK(ddp_sampler_epoch(&config, 1, ddp_mem_system(), second));
    CT_CHECK_BYTES(first, second, sizeof(first));
}

/* A rank outside the world is refused. */
CT_TEST(sampler, refuses_a_rank_outside_the_world)
{
    const struct ddp_sampler_config config = {.sample_count = 4, .world_size = 2, .rank = 2};
    uint32_t indices[4];

    CT_CHECK_STATUS(ddp_sampler_epoch(&config, 0, ddp_mem_system(), indices), DDP_E_INVALID);
}

/* Shards of given sizes follow one another in the epoch's list; drop_last means nothing to them. */
CT_TEST(sampler, deals_shards_of_given_sizes)
{
    const size_t sizes[] = {4, 0, 7, 1};

    for (int variant = 0; variant < 4; variant++) {
        struct ddp_sampler_config config = {.sample_count = 15,
                                            .world_size = 4,
                                            .is_shuffled = variant % 2 == 1,
                                            .drop_last = variant / 2 == 1,
                                            .seed = 9,
                                            .shard_size = sizes};
        uint32_t list[15], indices[15];
        size_t next = 0;

        for (uint32_t i = 0; i < 15; i++) {
            list[i] = i;
        }
        if (config.is_shuffled) {
            ddp_permutation(9 + 3, list, 15);
        }
        for (config.rank = 0; config.rank < 4; config.rank++) {
            CT_CHECK_EQ_U64(ddp_sampler_count(&config), sizes[config.rank]);
            CT_REQUIRE_OK(ddp_sampler_epoch(&config, 3, ddp_mem_system(), indices));
            CT_CHECK_BYTES(indices, &list[next], sizes[config.rank] * sizeof(indices[0]));
            next += sizes[config.rank];
        }
    }
}

/* Shards that hold more than there is are refused, whichever rank asks. */
CT_TEST(sampler, refuses_shards_beyond_the_samples)
{
    const size_t sizes[] = {2, 3}, huge[] = {1, SIZE_MAX};
    struct ddp_sampler_config config = {.sample_count = 4, .world_size = 2, .shard_size = sizes};
    uint32_t indices[4];

    CT_CHECK_STATUS(ddp_sampler_epoch(&config, 0, ddp_mem_system(), indices), DDP_E_INVALID);
    config.shard_size = huge;
    CT_CHECK_STATUS(ddp_sampler_epoch(&config, 0, ddp_mem_system(), indices), DDP_E_INVALID);
}

/* Permutations are torch.randperm's, element by element; nothing is written behind them. */
CT_TEST(sampler, shuffles_as_pytorch)
{
    static uint32_t indices[70001];

    for (size_t i = 0; i < PERMUTATION_GOLDEN_COUNT; i++) {
        const struct permutation_golden *golden = &permutation_golden[i];

        CT_REQUIRE(golden->count < 70001);
        indices[golden->count] = 77;
        ddp_permutation(golden->seed, indices, golden->count);
        CT_CHECK(permutation_is_golden(golden, indices));
        CT_CHECK_EQ_U64(indices[golden->count], 77);
    }
    ddp_permutation(1, indices, 0);
}

/* Indices of torch.utils.data.DistributedSampler: seed 7, epoch 2, 3 ranks and 10 samples, padded
 * and cut off. */
CT_TEST(sampler, deals_as_pytorch)
{
    static const uint32_t padded[3][4] = {{0, 7, 9, 3}, {5, 6, 1, 0}, {8, 2, 4, 5}};
    static const uint32_t dropped[3][3] = {{0, 7, 9}, {5, 6, 1}, {8, 2, 4}};
    struct ddp_sampler_config config = {
        .sample_count = 10, .world_size = 3, .is_shuffled = true, .seed = 7};
    uint32_t indices[4];

    for (config.rank = 0; config.rank < 3; config.rank++) {
        config.drop_last = false;
        CT_REQUIRE_OK(ddp_sampler_epoch(&config, 2, ddp_mem_system(), indices));
        CT_CHECK_BYTES(indices, padded[config.rank], sizeof(padded[0]));
        config.drop_last = true;
        CT_REQUIRE_OK(ddp_sampler_epoch(&config, 2, ddp_mem_system(), indices));
        CT_CHECK_BYTES(indices, dropped[config.rank], sizeof(dropped[0]));
    }
}

/* Exact shares leave nothing out, whatever drop_last says: with 7 samples of 3 ranks one of them
 * has a third one, so the epoch has not ended after two. */
CT_TEST(sampler, exact_shares_have_no_last_to_drop)
{
    const struct ddp_sampler_config config = {
        .sample_count = 7, .world_size = 3, .is_exact = true, .drop_last = true};
    const struct ddp_sampler_state state = ddp_sampler_state(&config, 4, 2);

    CT_CHECK_EQ_U64(ddp_sampler_count(&config), 3);
    CT_CHECK_EQ_U64(state.epoch, 4);
    CT_CHECK_EQ_U64(state.used, 6);
    CT_CHECK_EQ_U64(ddp_sampler_state(&config, 4, 3).epoch, 5);
}

/* A run with shards that stops in the middle of an epoch goes on where it stopped: what came before
 * and what comes after are the whole shard, also of ranks whose shard had ended. */
CT_TEST(sampler, shards_go_on_where_they_stopped)
{
    const size_t sizes[] = {4, 0, 7, 1};

    for (uint32_t taken = 0; taken <= 7; taken++) {
        struct ddp_sampler_config config = {.sample_count = 15,
                                            .world_size = 4,
                                            .is_shuffled = true,
                                            .seed = 9,
                                            .shard_size = sizes};
        const struct ddp_sampler_state state = ddp_sampler_state(&config, 3, taken);

        CT_CHECK_EQ_U64(state.epoch, taken < 7 ? 3 : 4);
        CT_CHECK_EQ_U64(state.used, taken < 7 ? taken : 0);
        for (config.rank = 0; config.rank < 4; config.rank++) {
            const size_t size = sizes[config.rank];
            const size_t before = state.used < size ? state.used : size;
            uint32_t whole[7], rest[7];

            config.first = 0;
            CT_REQUIRE_OK(ddp_sampler_epoch(&config, state.epoch, ddp_mem_system(), whole));
            config.first = state.used;
            CT_CHECK_EQ_U64(ddp_sampler_count(&config), size - before);
            CT_REQUIRE_OK(ddp_sampler_epoch(&config, state.epoch, ddp_mem_system(), rest));
            CT_CHECK_BYTES(rest, &whole[before], (size - before) * sizeof(rest[0]));
            /* A second stop counts on from the first. */
            CT_CHECK_EQ_U64(ddp_sampler_state(&config, state.epoch, 1).used,
                            state.used < 6 ? state.used + 1 : 0);
        }
    }
}
