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
                                                   .drop_last = config->drop_last,
                                                   .seed = config->seed,
                                                   .shard_size = config->shard_size};
        struct ref_shard_cursor cursor;
        struct harness_batches batches;

        CT_REQUIRE_OK(ref_shard_cursor_init(&cursor, config, ddp_mem_system()));
        CT_REQUIRE_OK(harness_batches_init(&batches, ddp_mem_system(), &sampler,
                                           config->batch_rows[rank], config->is_one_epoch));
        if (config->start.index > 0) {
            const struct ddp_sampler_state state = {config->start.epoch, config->start.used};

            CT_REQUIRE_OK(harness_batches_go_on(&batches, config->start.index, &state));
        }
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
            .drop_last = variant / (4 * WORLD_MAX) % 3 == 1,
            .seed = 11,
            .batch_rows = rows,
        };

        for (uint32_t r = 0; r < WORLD_MAX; r++) {
            rows[r] = 1 + (variant / (4 * WORLD_MAX * 12) * 2 + r) % ROWS_MAX;
        }
        compare(&config);
    }
}

/* A run that another number of ranks goes on with, wherever it stopped, padded and cut: the state
 * that the first one's ranks agree on, and what follows; between both, every sample of the epoch
 * once, but for what pads it or is cut off. */
CT_TEST(batches, go_on_with_other_ranks)
{
    enum { SAMPLES = 47, ROWS = 3 };
    const size_t rows[] = {ROWS, ROWS, ROWS, ROWS, ROWS};

    for (uint32_t variant = 0; variant < WORLD_MAX * WORLD_MAX * 2 * 4; variant++) {
        const uint32_t before = 1 + variant % WORLD_MAX,
                       after = 1 + variant / WORLD_MAX % WORLD_MAX;
        const uint64_t stop = 1 + variant / (WORLD_MAX * WORLD_MAX * 2);
        unsigned seen[SAMPLES] = {0}, lost = 0, again = 0;
        struct ref_shard_config config = {.sample_count = SAMPLES,
                                          .world_size = after,
                                          .is_shuffled = true,
                                          .drop_last = variant / (WORLD_MAX * WORLD_MAX) % 2 == 1,
                                          .seed = 11,
                                          .batch_rows = rows};

        for (uint32_t r = 0; r < before + after; r++) {
            const bool is_before = r < before;
            const struct ddp_sampler_config sampler = {.sample_count = SAMPLES,
                                                       .rank = is_before ? r : r - before,
                                                       .world_size = is_before ? before : after,
                                                       .is_shuffled = true,
                                                       .drop_last = config.drop_last,
                                                       .seed = 11};
            struct harness_batches batches;
            struct ddp_sampler_state state;

            CT_REQUIRE_OK(harness_batches_init(&batches, ddp_mem_system(), &sampler, ROWS, false));
            state = harness_batches_state(&batches, stop);
            if (is_before) {
                config.start = (struct ref_shard_start){stop, state.epoch, state.used};
                CT_CHECK(state.epoch > 0 || state.used == stop * ROWS * before);
            } else {
                state = (struct ddp_sampler_state){config.start.epoch, config.start.used};
                CT_REQUIRE_OK(harness_batches_go_on(&batches, stop, &state));
            }
            for (uint64_t i = is_before ? 0 : stop; is_before ? i < stop : state.epoch == 0; i++) {
                uint32_t *samples;
                size_t count;

                CT_REQUIRE_OK(harness_batches_take(&batches, i, &samples, &count));
                for (size_t k = 0; k < count && batches.epoch == 0; k++) {
                    seen[samples[k]]++;
                }
                state = is_before ? state : harness_batches_state(&batches, i + 1);
            }
            harness_batches_fini(&batches);
        }
        for (size_t i = 0; i < SAMPLES; i++) {
            lost += seen[i] == 0 ? 1 : 0;
            again += seen[i] > 1 ? seen[i] - 1 : 0;
        }
        CT_CHECK(config.drop_last ? again == 0 && lost < (before > after ? before : after)
                                  : lost == 0 && again < (before > after ? before : after));
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
