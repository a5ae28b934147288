/* A rank's batches, dealt by the core's sampler, against the reference's: two implementations that
 * share no code. */
#include "harness/rank/batches.h"
#include "reference/data.h"
#include "tests/ct.h"

enum { WORLD_MAX = 5, ROWS_MAX = 7, INDEX_MAX = 12 };

static void compare(const struct ref_shard_config *config)
{
    for (uint32_t rank = 0; rank < config->world_size; rank++) {
        const struct ddp_sampler_config sampler = {.sample_count = config->sample_count,
                                                   .rank = rank,
                                                   .world_size = config->world_size,
                                                   .is_shuffled = config->is_shuffled,
                                                   .seed = config->seed,
                                                   .shard_size = config->shard_size};
        struct ref_shard_cursor cursor;
        struct harness_batches batches;

        CT_REQUIRE_OK(ref_shard_cursor_init(&cursor, config, ddp_mem_system()));
        CT_REQUIRE_OK(harness_batches_init(&batches, ddp_mem_system(), &sampler,
                                           config->batch_rows[rank], config->is_one_epoch));
        for (uint64_t i = 0; i < INDEX_MAX; i++) {
            /* Back and forth between epochs, as a restored run may begin anywhere. */
            const uint64_t index = i * 5 % INDEX_MAX;
            uint32_t expected[ROWS_MAX];
            uint32_t *samples;
            size_t expected_rows, rows;

            CT_REQUIRE_OK(ref_shard_cursor_batch(&cursor, rank, index, expected, &expected_rows));
            CT_REQUIRE_OK(harness_batches_take(&batches, index, &samples, &rows));
            CT_REQUIRE(rows == expected_rows);
            CT_CHECK_BYTES(samples, expected, rows * sizeof samples[0]);
        }
        harness_batches_fini(&batches);
        ref_shard_cursor_fini(&cursor);
    }
}

/* Any number of ranks and samples, batches that divide and that do not, more ranks than samples. */
CT_TEST(batches, are_the_references)
{
    for (uint32_t variant = 0; variant < 4 * WORLD_MAX * 12 * 3; variant++) {
        size_t rows[WORLD_MAX];
        const struct ref_shard_config config = {
            .sample_count = 1 + variant / (4 * WORLD_MAX) % 12 * 2,
            .world_size = 1 + variant / 4 % WORLD_MAX,
            .is_shuffled = variant % 2 == 1,
            .is_one_epoch = variant / 2 % 2 == 1,
            .seed = 11,
            .batch_rows = rows,
        };

        for (uint32_t r = 0; r < WORLD_MAX; r++) {
            rows[r] = 1 + (variant / (4 * WORLD_MAX * 12) * 2 + r) % ROWS_MAX;
        }
        compare(&config);
    }
}

/* Shares of given sizes, one of them empty, with samples left over. */
CT_TEST(batches, of_given_shares_are_the_references)
{
    const size_t rows[] = {4, 3, 1, 2}, sizes[] = {9, 0, 3, 6};

    for (int variant = 0; variant < 4; variant++) {
        const struct ref_shard_config config = {.sample_count = 20,
                                                .world_size = 4,
                                                .is_shuffled = variant % 2 == 1,
                                                .is_one_epoch = variant / 2 == 1,
                                                .seed = 5,
                                                .batch_rows = rows,
                                                .shard_size = sizes};

        compare(&config);
    }
}

/* No rows, a rank outside the world, shares that hold more than there is. */
CT_TEST(batches, refuse_what_cannot_be_dealt)
{
    const size_t sizes[] = {3, 2}, huge[] = {1, SIZE_MAX};
    struct ddp_sampler_config sampler = {.sample_count = 4, .world_size = 2};
    struct harness_batches batches;

    CT_CHECK_STATUS(harness_batches_init(&batches, ddp_mem_system(), &sampler, 0, false),
                    DDP_E_INVALID);
    harness_batches_fini(&batches);
    sampler.rank = 2;
    CT_CHECK_STATUS(harness_batches_init(&batches, ddp_mem_system(), &sampler, 1, false),
                    DDP_E_INVALID);
    harness_batches_fini(&batches);
    sampler.rank = 0;
    sampler.shard_size = sizes;
    CT_CHECK_STATUS(harness_batches_init(&batches, ddp_mem_system(), &sampler, 1, false),
                    DDP_E_INVALID);
    harness_batches_fini(&batches);
    sampler.shard_size = huge;
    CT_CHECK_STATUS(harness_batches_init(&batches, ddp_mem_system(), &sampler, 1, false),
                    DDP_E_INVALID);
    harness_batches_fini(&batches);
}
