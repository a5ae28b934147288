/* Datasets and sharding: contents, errors, and the sampler's rules. */
#include <string.h>

#include "reference/data.h"
#include "reference/permutation.h"
#include "tests/ct.h"
#include "tests/unit/permutation_golden.h"

/* digits has 1,797 samples of 64 exact sixteenths, every label occurs, and the first rows are the
 * published ones. */
CT_TEST(data, digits)
{
    const struct ref_data_config config = {.name = "digits"};
    struct ref_data data;
    struct ddp_err err;
    size_t count[10] = {0};

    CT_REQUIRE_OK(ref_data_open(ddp_mem_system(), &config, &data, &err));
    CT_CHECK_EQ_U64(data.sample_count, 1797);
    CT_CHECK_EQ_U64(data.feature_count, 64);
    CT_CHECK_EQ_U64(data.class_count, 10);
    CT_CHECK(data.targets == NULL);
    CT_CHECK(data.features[2] == 5.0F / 16.0F && data.features[3] == 13.0F / 16.0F);
    CT_CHECK(data.labels[0] == 0 && data.labels[1] == 1 && data.labels[1796] == 8);
    for (size_t s = 0; s < data.sample_count; s++) {
        CT_REQUIRE(data.labels[s] >= 0 && data.labels[s] < 10);
        count[data.labels[s]]++;
        for (size_t i = 0; i < 64; i++) {
            float sixteenths = data.features[s * 64 + i] * 16.0F;
            CT_CHECK(sixteenths >= 0.0F && sixteenths <= 16.0F &&
                     sixteenths == (float)(int)sixteenths);
        }
    }
    for (size_t label = 0; label < 10; label++) {
        CT_CHECK(count[label] >= 174 && count[label] <= 183);
    }
    ref_data_close(&data);
}

/* With the files that a dataset needs. */
static struct ref_data_config name_files(const char *name)
{
    static const char images[] =
        DDPROVE_SOURCE_DIR "/scenarios/models/data/digits-images-idx3-ubyte";
    static const char labels[] =
        DDPROVE_SOURCE_DIR "/scenarios/models/data/digits-labels-idx1-ubyte";
    struct ref_data_config config = {.name = name, .feature_count = 12, .seed = 5};

    if (strcmp(name, "idx") == 0) {
        config.path = images;
        config.label_path = labels;
    } else if (strcmp(name, "csv") == 0) {
        config.path = DDPROVE_SOURCE_DIR "/reference/data/digits.csv";
    }
    return config;
}

/* Every dataset named opens, repeats its bits for a seed, and shortens to the first samples. */
CT_TEST(data, repeats_and_shortens)
{
    for (const char *const *name = ref_data_names(); *name != NULL; name++) {
        const struct ref_data_config whole = name_files(*name);
        struct ref_data_config part = whole;
        struct ref_data a;
        struct ref_data b;
        struct ddp_err err;

        part.sample_count = 40;
        CT_REQUIRE_OK(ref_data_open(ddp_mem_system(), &whole, &a, &err));
        CT_REQUIRE_OK(ref_data_open(ddp_mem_system(), &part, &b, &err));
        CT_CHECK_EQ_U64(b.sample_count, 40);
        CT_CHECK_EQ_U64(a.feature_count, b.feature_count);
        CT_CHECK_BYTES(a.features, b.features, 40 * b.feature_count * sizeof(float));
        if (a.labels != NULL) {
            CT_CHECK_BYTES(a.labels, b.labels, 40 * b.label_count * sizeof(int32_t));
        } else {
            CT_CHECK_BYTES(a.targets, b.targets, 40 * b.target_count * sizeof(float));
        }
        ref_data_close(&a);
        ref_data_close(&b);
    }
}

/* Unknown names get a suggestion, too many digits are refused, and each failed allocation is an
 * error that leaks nothing. */
CT_TEST(data, errors)
{
    struct ref_data_config config = {.name = "digit"};
    struct ddp_mem_pool *pool;
    struct ref_data data;
    struct ddp_err err;

    CT_CHECK_STATUS(ref_data_open(ddp_mem_system(), &config, &data, &err), DDP_E_NOT_FOUND);
    CT_CHECK(strstr(err.text, "digits") != NULL);
    config = (struct ref_data_config){.name = "digits", .sample_count = 1798};
    CT_CHECK_STATUS(ref_data_open(ddp_mem_system(), &config, &data, &err), DDP_E_INVALID);
    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    for (uint64_t nth = 0; nth < 3; nth++) {
        config = (struct ref_data_config){.name = "synthetic", .sample_count = 10};
        ddp_mem_pool_fail_after(pool, nth, 1);
        CT_CHECK_STATUS(ref_data_open(ddp_mem_pool_mem(pool), &config, &data, &err), DDP_E_NOMEM);
        CT_CHECK_EQ_U64(ddp_mem_pool_block_count(pool), 0);
    }
    ddp_mem_pool_destroy(pool);
}

/* Each batch through a cursor of its own: none may depend on what was asked before. */
static ddp_status shard_batch(const struct ref_shard_config *config, uint32_t rank, uint64_t index,
                              uint32_t *samples, size_t *out_rows)
{
    struct ref_shard_cursor cursor;
    ddp_status status;

    *out_rows = 0;
    DDP_TRY(ref_shard_cursor_init(&cursor, config, ddp_mem_system()));
    status = ref_shard_cursor_batch(&cursor, rank, index, samples, out_rows);
    ref_shard_cursor_fini(&cursor);
    return status;
}

/* Unshuffled ranks take every W-th sample; the list is padded from its head to equal shards. */
CT_TEST(shard, strides_and_pads_from_the_head)
{
    const size_t batch_rows[3] = {2, 2, 2};
    const struct ref_shard_config config = {
        .sample_count = 10, .world_size = 3, .batch_rows = batch_rows};
    /* padded list: 0..9, 0, 1; rank 2 owns 2 5 8 1 */
    const uint32_t expected[3][4] = {{0, 3, 6, 9}, {1, 4, 7, 0}, {2, 5, 8, 1}};
    uint32_t samples[2];
    size_t rows;

    for (uint32_t rank = 0; rank < 3; rank++) {
        for (uint64_t index = 0; index < 4; index++) { /* two epochs of two batches */
            CT_REQUIRE_OK(shard_batch(&config, rank, index, samples, &rows));
            CT_CHECK_EQ_U64(rows, 2);
            CT_CHECK_EQ_U64(samples[0], expected[rank][index % 2 * 2]);
            CT_CHECK_EQ_U64(samples[1], expected[rank][index % 2 * 2 + 1]);
        }
        CT_CHECK(ref_shard_batch_count(&config, rank) == SIZE_MAX);
    }
}

/* More ranks than samples: the list repeats as often as needed, as the sampler's does. */
CT_TEST(shard, more_ranks_than_samples)
{
    const size_t batch_rows[5] = {1, 1, 1, 1, 1};
    const struct ref_shard_config config = {
        .sample_count = 2, .world_size = 5, .batch_rows = batch_rows};
    uint32_t sample;
    size_t rows;

    for (uint32_t rank = 0; rank < 5; rank++) {
        CT_REQUIRE_OK(shard_batch(&config, rank, 0, &sample, &rows));
        CT_CHECK_EQ_U64(rows, 1);
        CT_CHECK_EQ_U64(sample, rank % 2);
    }
}

/* A shuffled epoch is the permutation of seed + epoch, all of it once, different next epoch. */
CT_TEST(shard, shuffles_by_epoch)
{
    const size_t batch_rows[2] = {5, 5};
    const struct ref_shard_config config = {.sample_count = 20,
                                            .world_size = 2,
                                            .is_shuffled = true,
                                            .seed = 9,
                                            .batch_rows = batch_rows};
    struct ref_shard_cursor cursor;

    CT_REQUIRE_OK(ref_shard_cursor_init(&cursor, &config, ddp_mem_system()));
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint32_t list[20];

        ref_permutation(9 + epoch, list, 20);
        for (uint32_t i = 0; i < 20; i++) {
            uint32_t rank = i % 2;
            uint32_t samples[5];
            size_t rows;
            CT_REQUIRE_OK(
                ref_shard_cursor_batch(&cursor, rank, epoch * 2 + i / 2 / 5, samples, &rows));
            CT_CHECK_EQ_U64(samples[i / 2 % 5], list[i]);
        }
    }
    ref_shard_cursor_fini(&cursor);
}

/* Given sizes cut the list into consecutive shards; an epoch's last batch is smaller; one epoch
 * ends for each rank at its own time, an empty shard at once. */
CT_TEST(shard, given_sizes)
{
    const size_t batch_rows[3] = {2, 3, 1};
    const size_t shard_size[3] = {5, 3, 0};
    const struct ref_shard_config config = {.sample_count = 9,
                                            .world_size = 3,
                                            .is_one_epoch = true,
                                            .batch_rows = batch_rows,
                                            .shard_size = shard_size};
    uint32_t samples[3];
    size_t rows;

    CT_CHECK_EQ_U64(ref_shard_batch_count(&config, 0), 3);
    CT_CHECK_EQ_U64(ref_shard_batch_count(&config, 1), 1);
    CT_CHECK_EQ_U64(ref_shard_batch_count(&config, 2), 0);
    CT_REQUIRE_OK(shard_batch(&config, 0, 2, samples, &rows));
    CT_CHECK_EQ_U64(rows, 1);
    CT_CHECK_EQ_U64(samples[0], 4);
    CT_REQUIRE_OK(shard_batch(&config, 0, 3, samples, &rows));
    CT_CHECK_EQ_U64(rows, 0);
    CT_REQUIRE_OK(shard_batch(&config, 1, 0, samples, &rows));
    CT_CHECK_EQ_U64(rows, 3);
    CT_CHECK(samples[0] == 5 && samples[1] == 6 && samples[2] == 7);
    CT_REQUIRE_OK(shard_batch(&config, 2, 0, samples, &rows));
    CT_CHECK_EQ_U64(rows, 0);
}

/* Impossible configurations are refused. */
CT_TEST(shard, errors)
{
    size_t batch_rows[2] = {2, 2};
    size_t shard_size[2] = {6, 5};
    struct ref_shard_config config = {
        .sample_count = 10, .world_size = 2, .batch_rows = batch_rows, .shard_size = shard_size};
    uint32_t samples[2];
    size_t rows;

    CT_CHECK_STATUS(shard_batch(&config, 0, 0, samples, &rows), DDP_E_INVALID);
    shard_size[1] = 4;
    CT_CHECK_OK(shard_batch(&config, 1, 0, samples, &rows));
    CT_CHECK_STATUS(shard_batch(&config, 2, 0, samples, &rows), DDP_E_INVALID);
    batch_rows[0] = 0;
    CT_CHECK_STATUS(shard_batch(&config, 1, 0, samples, &rows), DDP_E_INVALID);
}

/* The judge's own permutation is torch.randperm's, too. */
CT_TEST(shard, shuffles_as_pytorch)
{
    static uint32_t indices[70001];

    for (size_t i = 0; i < PERMUTATION_GOLDEN_COUNT; i++) {
        const struct permutation_golden *golden = &permutation_golden[i];

        indices[golden->count] = 77;
        ref_permutation(golden->seed, indices, golden->count);
        CT_CHECK(permutation_is_golden(golden, indices));
        CT_CHECK_EQ_U64(indices[golden->count], 77);
    }
    ref_permutation(1, indices, 0);
}
