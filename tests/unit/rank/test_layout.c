/* The core's bucket layout against the plan's: two implementations that share nothing. */
#include "ddpcore/base/prng.h"
#include "ddpcore/ddp/bucket.h"
#include "harness/plan/bucket.h"
#include "tests/ct.h"

enum { PARAMS_MAX = 40, CASE_COUNT = 2000 };

static void compare(const struct ddp_param *params, size_t count, const struct ddp_config *config)
{
    struct harness_bucket *planned = NULL;
    struct ddp_layout layout;
    size_t planned_count = 0;

    CT_REQUIRE_OK(ddp_layout_create(ddp_mem_system(), params, count, config, &layout));
    CT_REQUIRE_OK(harness_bucket_assign(ddp_mem_system(), params, count,
                                        config->first_bucket_cap_bytes, config->bucket_cap_bytes,
                                        &planned, &planned_count));
    CT_REQUIRE(layout.bucket_count == planned_count);
    for (size_t b = 0; b < planned_count; b++) {
        const struct ddp_bucket *bucket = &layout.buckets[b];

        CT_REQUIRE(bucket->param_count == planned[b].param_count);
        CT_CHECK_EQ_U64(bucket->dtype, planned[b].dtype);
        CT_CHECK_EQ_U64(bucket->elem_count, planned[b].elem_count);
        for (size_t i = 0; i < bucket->param_count; i++) {
            const size_t param = planned[b].params[i];

            CT_CHECK_EQ_U64(layout.order[bucket->first_place + i], param);
            CT_CHECK_EQ_U64(layout.bucket_of[param], b);
            CT_CHECK_EQ_U64(layout.offset_of[param], planned[b].offsets[i]);
        }
    }
    harness_bucket_free(ddp_mem_system(), planned, planned_count);
    ddp_layout_destroy(ddp_mem_system(), &layout);
}

/* PyTorch's order of one walk; walk NULL: forwards. */
static void compare_pytorch(const struct ddp_param *params, size_t count, const size_t caps[2],
                            const uint32_t *walk)
{
    struct harness_bucket *planned = NULL;
    int32_t order[PARAMS_MAX], sizes[PARAMS_MAX], signed_walk[PARAMS_MAX];
    size_t planned_count = 0, bucket_count = 0, place = 0;

    for (size_t i = 0; walk != NULL && i < count; i++) {
        signed_walk[i] = (int32_t)walk[i];
    }
    CT_REQUIRE_OK(ddp_bucket_assign(ddp_mem_system(), params, count,
                                    walk != NULL ? signed_walk : NULL, caps, order, sizes,
                                    &bucket_count));
    CT_REQUIRE_OK(harness_bucket_assign_pytorch(ddp_mem_system(), params, count, walk, caps[0],
                                                caps[1], &planned, &planned_count));
    CT_REQUIRE(bucket_count == planned_count);
    for (size_t b = 0; b < planned_count; b++) {
        CT_REQUIRE((uint32_t)sizes[b] == planned[b].param_count);
        for (size_t i = 0; i < planned[b].param_count; i++) {
            CT_CHECK_EQ_I64(order[place++], planned[b].params[i]);
        }
    }
    harness_bucket_free(ddp_mem_system(), planned, planned_count);
}

/* Random tables, caps and walks. */
CT_TEST(layout, of_pytorch_is_the_planned_one)
{
    struct ddp_prng prng = ddp_prng_make(2, "layout");

    for (int c = 0; c < CASE_COUNT; c++) {
        const size_t count = ddp_prng_below(&prng, PARAMS_MAX + 1);
        const uint64_t type_count = 1 + ddp_prng_below(&prng, DDP_DTYPE_COUNT);
        const size_t caps[2] = {1 + ddp_prng_below(&prng, 64), 1 + ddp_prng_below(&prng, 128)};
        struct ddp_param params[PARAMS_MAX];
        uint32_t walk[PARAMS_MAX] = {0};

        for (size_t i = 0; i < count; i++) {
            const size_t other = ddp_prng_below(&prng, i + 1);

            params[i] =
                (struct ddp_param){.dtype = (enum ddp_dtype)ddp_prng_below(&prng, type_count),
                                   .elem_count = ddp_prng_below(&prng, 12)};
            walk[i] = walk[other]; /* Fisher and Yates, inside out */
            walk[other] = (uint32_t)i;
        }
        compare_pytorch(params, count, caps, NULL);
        compare_pytorch(params, count, caps, walk);
    }
}

/* Random tables of one to all types, empty parameters included, and random caps. */
CT_TEST(layout, is_the_planned_one)
{
    struct ddp_prng prng = ddp_prng_make(1, "layout");

    for (int c = 0; c < CASE_COUNT; c++) {
        const size_t count = ddp_prng_below(&prng, PARAMS_MAX + 1);
        const uint64_t type_count = 1 + ddp_prng_below(&prng, DDP_DTYPE_COUNT);
        const struct ddp_config config = {.first_bucket_cap_bytes = 1 + ddp_prng_below(&prng, 64),
                                          .bucket_cap_bytes = 1 + ddp_prng_below(&prng, 128)};
        struct ddp_param params[PARAMS_MAX];

        for (size_t i = 0; i < count; i++) {
            params[i] =
                (struct ddp_param){.dtype = (enum ddp_dtype)ddp_prng_below(&prng, type_count),
                                   .elem_count = ddp_prng_below(&prng, 12)};
        }
        compare(params, count, &config);
    }
}
