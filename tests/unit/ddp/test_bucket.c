/* Bucket layout: order, caps, offsets. */
#include "ddpcore/ddp/bucket.h"
#include "tests/ct.h"

/* Caps default to 25 MiB and 1 MiB; a given cap is also the first one's unless that is given. */
CT_TEST(bucket, default_caps)
{
    struct ddp_config config = {0};

    ddp_config_fill(&config);
    CT_CHECK_EQ_U64(config.bucket_cap_bytes, 25u << 20);
    CT_CHECK_EQ_U64(config.first_bucket_cap_bytes, 1u << 20);
    config = (struct ddp_config){.bucket_cap_bytes = 100};
    ddp_config_fill(&config);
    CT_CHECK_EQ_U64(config.first_bucket_cap_bytes, 100);
    config = (struct ddp_config){.first_bucket_cap_bytes = 7};
    ddp_config_fill(&config);
    CT_CHECK_EQ_U64(config.bucket_cap_bytes, 25u << 20);
    CT_CHECK_EQ_U64(config.first_bucket_cap_bytes, 7);
}

/* Parameters are taken from the last to the first; a bucket closes with the parameter that brings
 * it to its cap, so it may exceed it, and an empty parameter takes a place but no bytes. */
CT_TEST(bucket, reverse_order)
{
    const struct ddp_param params[] = {{.elem_count = 100}, {.elem_count = 1}, {.elem_count = 8},
                                       {.elem_count = 0},   {.elem_count = 3}, {.elem_count = 5}};
    const size_t bucket_of[] = {2, 2, 1, 1, 0, 0};
    const size_t offset_of[] = {1, 0, 0, 0, 5, 0};
    struct ddp_config config = {.bucket_cap_bytes = 32, .first_bucket_cap_bytes = 24};
    struct ddp_layout layout;

    CT_REQUIRE_OK(ddp_layout_create(ddp_mem_system(), params, 6, &config, &layout));
    CT_CHECK_EQ_U64(layout.bucket_count, 3);
    for (size_t i = 0; i < 6; i++) {
        CT_CHECK_EQ_U64(layout.bucket_of[i], bucket_of[i]);
        CT_CHECK_EQ_U64(layout.offset_of[i], offset_of[i]);
        CT_CHECK_EQ_U64(layout.order[i], 5 - i);
    }
    CT_CHECK_EQ_U64(layout.buckets[0].elem_count, 8);
    CT_CHECK_EQ_U64(layout.buckets[1].elem_count, 8);
    CT_CHECK_EQ_U64(layout.buckets[2].elem_count, 101);
    CT_CHECK_EQ_U64(layout.buckets[1].first_place, 2);
    CT_CHECK_EQ_U64(layout.buckets[1].param_count, 2);
    ddp_layout_destroy(ddp_mem_system(), &layout);
}

static void check_delayed(enum ddp_bucket_order bucket_order, const size_t *order)
{
    const struct ddp_param params[] = {
        {.dtype = DDP_DTYPE_F32, .elem_count = 4}, {.dtype = DDP_DTYPE_F32, .elem_count = 1},
        {.dtype = DDP_DTYPE_F32, .elem_count = 8}, {.dtype = DDP_DTYPE_F16, .elem_count = 2},
        {.dtype = DDP_DTYPE_F32, .elem_count = 9}, {.dtype = DDP_DTYPE_F32, .elem_count = 4}};
    const bool is_delayed[] = {false, true, false, true, true, false};
    struct ddp_config config = {.bucket_cap_bytes = 32,
                                .first_bucket_cap_bytes = 16,
                                .bucket_order = bucket_order,
                                .find_unused_parameters = true,
                                .is_delayed = is_delayed};
    struct ddp_layout layout;

    CT_REQUIRE_OK(ddp_layout_create(ddp_mem_system(), params, 6, &config, &layout));
    for (size_t i = 0; i < 6; i++) {
        CT_CHECK_EQ_U64(layout.order[i], order[i]);
    }
    CT_CHECK_EQ_U64(layout.bucket_count, 5);
    CT_CHECK_EQ_U64(layout.buckets[3].param_count, 2);
    CT_CHECK_EQ_U64(layout.buckets[3].elem_count, 10);
    CT_CHECK_EQ_U64(layout.offset_of[4], 1);
    CT_CHECK(layout.buckets[4].dtype == DDP_DTYPE_F16);
    ddp_layout_destroy(ddp_mem_system(), &layout);
}

/* What is delayed lies behind all others, a bucket a type in the order of the model, and the others
 * as if it were not there. */
CT_TEST(bucket, delayed_ones_come_last)
{
    const size_t reverse[] = {5, 2, 0, 1, 4, 3};
    const size_t pytorch[] = {5, 2, 0, 1, 4, 3};

    check_delayed(DDP_BUCKET_ORDER_REVERSE, reverse);
    check_delayed(DDP_BUCKET_ORDER_PYTORCH, pytorch);
}

/* Sizes that do not fit are refused, not wrapped. */
CT_TEST(bucket, overflow)
{
    const struct ddp_param params[] = {{.elem_count = SIZE_MAX / 4}, {.elem_count = SIZE_MAX / 4}};
    struct ddp_config config = {.bucket_cap_bytes = 1, .first_bucket_cap_bytes = 1};
    struct ddp_layout layout;

    CT_CHECK_STATUS(ddp_layout_create(ddp_mem_system(), params, 2, &config, &layout),
                    DDP_E_OVERFLOW);
}

/* Each type fills a bucket of its own, beside the others' and with caps of its own; buckets are in
 * the order of their last parameters. */
CT_TEST(bucket, types_fill_buckets_side_by_side)
{
    const struct ddp_param params[] = {
        {.dtype = DDP_DTYPE_F32, .elem_count = 1},  {.dtype = DDP_DTYPE_F16, .elem_count = 1},
        {.dtype = DDP_DTYPE_F32, .elem_count = 4},  {.dtype = DDP_DTYPE_F16, .elem_count = 8},
        {.dtype = DDP_DTYPE_BF16, .elem_count = 3}, {.dtype = DDP_DTYPE_F32, .elem_count = 2},
        {.dtype = DDP_DTYPE_F16, .elem_count = 4},  {.dtype = DDP_DTYPE_F32, .elem_count = 1}};
    const size_t bucket_of[] = {5, 4, 3, 2, 1, 0, 2, 0};
    const size_t offset_of[] = {0, 0, 0, 4, 0, 1, 0, 0};
    const size_t order[] = {7, 5, 4, 6, 3, 2, 1, 0};
    struct ddp_config config = {.bucket_cap_bytes = 16, .first_bucket_cap_bytes = 12};
    struct ddp_layout layout;

    CT_REQUIRE_OK(ddp_layout_create(ddp_mem_system(), params, 8, &config, &layout));
    CT_CHECK_EQ_U64(layout.bucket_count, 6);
    for (size_t i = 0; i < 8; i++) {
        CT_CHECK_EQ_U64(layout.bucket_of[i], bucket_of[i]);
        CT_CHECK_EQ_U64(layout.offset_of[i], offset_of[i]);
        CT_CHECK_EQ_U64(layout.order[i], order[i]);
        CT_CHECK_EQ_U64(layout.buckets[bucket_of[i]].dtype, params[i].dtype);
    }
    CT_CHECK_EQ_U64(layout.buckets[2].elem_count, 12);
    CT_CHECK_EQ_U64(layout.buckets[2].size_bytes, 24);
    CT_CHECK_EQ_U64(layout.buckets[2].first_place, 3);
    ddp_layout_destroy(ddp_mem_system(), &layout);
}
