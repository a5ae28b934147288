/* PyTorch's assignment of parameters to buckets: the vectors of its own tests
 * (ComputeBucketAssignmentTest in test/distributed/test_c10d_common.py), the order of the list, and
 * lists that cannot be adopted. */
#include "ddpcore/ddp/bucket.h"
#include "tests/ct.h"

enum { PARAMS_MAX = 8 };

static struct ddp_param param_of(enum ddp_dtype dtype, size_t elem_count)
{
    return (struct ddp_param){.dtype = dtype, .elem_count = elem_count};
}

/* expected: the parameters bucket by bucket, -1 behind each bucket. PyTorch's vectors are lists
 * before they are turned around: compare them from the back. */
static void check_vector(const struct ddp_param *params, size_t count, const size_t caps[2],
                         const int *expected)
{
    int32_t order[PARAMS_MAX], sizes[PARAMS_MAX];
    size_t bucket_count = 0, end = count;

    CT_REQUIRE_OK(ddp_bucket_assign(ddp_mem_system(), params, count, NULL, caps, order, sizes,
                                    &bucket_count));
    for (size_t b = bucket_count; b-- > 0; expected++) {
        end -= (size_t)sizes[b];
        for (size_t i = 0; i < (size_t)sizes[b]; i++) {
            CT_CHECK_EQ_I64(order[end + i], *expected++);
        }
        CT_CHECK_EQ_I64(*expected, -1);
    }
    CT_CHECK_EQ_U64(end, 0);
}

CT_TEST(assignment, single_limit_single_dtype)
{
    const struct ddp_param params[] = {param_of(DDP_DTYPE_F32, 100), param_of(DDP_DTYPE_F32, 200),
                                       param_of(DDP_DTYPE_F32, 100), param_of(DDP_DTYPE_F32, 50)};
    const int expected[] = {0, -1, 1, -1, 2, -1, 3, -1};

    check_vector(params, 4, (const size_t[]){400, 400}, expected);
}

CT_TEST(assignment, single_limit_multi_dtype)
{
    const struct ddp_param params[] = {param_of(DDP_DTYPE_F32, 50), param_of(DDP_DTYPE_F64, 25),
                                       param_of(DDP_DTYPE_F32, 50), param_of(DDP_DTYPE_F64, 25),
                                       param_of(DDP_DTYPE_F32, 50), param_of(DDP_DTYPE_F64, 25)};
    const int expected[] = {0, 2, -1, 1, 3, -1, 4, -1, 5, -1};

    check_vector(params, 6, (const size_t[]){400, 400}, expected);
}

CT_TEST(assignment, multi_limit_single_dtype)
{
    const struct ddp_param params[] = {param_of(DDP_DTYPE_F32, 10), param_of(DDP_DTYPE_F32, 10),
                                       param_of(DDP_DTYPE_F32, 10), param_of(DDP_DTYPE_F32, 10)};
    const int expected[] = {0, -1, 1, 2, -1, 3, -1};

    check_vector(params, 4, (const size_t[]){40, 80}, expected);
}

CT_TEST(assignment, multi_limit_multi_dtype)
{
    const struct ddp_param params[] = {param_of(DDP_DTYPE_F32, 50), param_of(DDP_DTYPE_F64, 25),
                                       param_of(DDP_DTYPE_F32, 50), param_of(DDP_DTYPE_F64, 25),
                                       param_of(DDP_DTYPE_F32, 50), param_of(DDP_DTYPE_F64, 25)};
    const int expected[] = {0, -1, 1, -1, 2, 4, -1, 3, 5, -1};

    check_vector(params, 6, (const size_t[]){200, 400}, expected);
}

/* In the order of a walk buckets come as they fill, and those that never do by their last one. */
CT_TEST(assignment, follows_a_walk)
{
    const struct ddp_param params[] = {param_of(DDP_DTYPE_F32, 10), param_of(DDP_DTYPE_F16, 1),
                                       param_of(DDP_DTYPE_F32, 10), param_of(DDP_DTYPE_F64, 1),
                                       param_of(DDP_DTYPE_F32, 10)};
    const int32_t walk[] = {4, 3, 2, 1, 0};
    const int32_t expected[] = {4, 2, 3, 1, 0}, expected_sizes[] = {2, 1, 1, 1};
    int32_t order[5], sizes[5];
    size_t bucket_count = 0;

    CT_REQUIRE_OK(ddp_bucket_assign(ddp_mem_system(), params, 5, walk, (const size_t[]){80, 80},
                                    order, sizes, &bucket_count));
    CT_CHECK_EQ_U64(bucket_count, 4);
    CT_CHECK_BYTES(order, expected, sizeof(expected));
    CT_CHECK_BYTES(sizes, expected_sizes, sizeof(expected_sizes));
}

/* One bucket a type, forwards inside and the last type first, until buckets are rebuilt; with
 * find_unused_parameters they never are, and caps count at once. */
CT_TEST(assignment, first_layout)
{
    const struct ddp_param params[] = {param_of(DDP_DTYPE_F32, 10), param_of(DDP_DTYPE_F16, 10),
                                       param_of(DDP_DTYPE_F32, 10), param_of(DDP_DTYPE_F16, 10)};
    struct ddp_config config = {.bucket_order = DDP_BUCKET_ORDER_PYTORCH,
                                .bucket_cap_bytes = 1,
                                .first_bucket_cap_bytes = 1};
    struct ddp_layout layout;

    CT_REQUIRE_OK(ddp_layout_create(ddp_mem_system(), params, 4, &config, &layout));
    CT_CHECK_EQ_U64(layout.bucket_count, 2);
    CT_CHECK_EQ_U64(layout.buckets[0].dtype, DDP_DTYPE_F16);
    CT_CHECK_EQ_U64(layout.order[0], 1);
    CT_CHECK_EQ_U64(layout.order[1], 3);
    CT_CHECK_EQ_U64(layout.offset_of[3], 10);
    CT_CHECK_EQ_U64(layout.buckets[1].size_bytes, 80);
    ddp_layout_destroy(ddp_mem_system(), &layout);
    config.find_unused_parameters = true;
    CT_REQUIRE_OK(ddp_layout_create(ddp_mem_system(), params, 4, &config, &layout));
    CT_CHECK_EQ_U64(layout.bucket_count, 4);
    for (size_t i = 0; i < 4; i++) {
        CT_CHECK_EQ_U64(layout.bucket_of[i], 3 - i);
    }
    ddp_layout_destroy(ddp_mem_system(), &layout);
}

/* What a damaged message may hold is refused, and nothing is kept of it. */
CT_TEST(assignment, refuses_lists_that_cannot_be)
{
    const struct ddp_param params[] = {param_of(DDP_DTYPE_F32, 1), param_of(DDP_DTYPE_F32, 1),
                                       param_of(DDP_DTYPE_F16, 1)};
    const struct {
        int32_t order[3], sizes[3];
        size_t bucket_count;
        ddp_status status;
    } rows[] = {
        {{1, 0, 2}, {2, 1, 0}, 2, DDP_OK},
        {{0, 0, 2}, {2, 1, 0}, 2, DDP_E_INVALID},  /* a parameter twice */
        {{0, 3, 2}, {2, 1, 0}, 2, DDP_E_INVALID},  /* none of that number */
        {{0, -1, 2}, {2, 1, 0}, 2, DDP_E_INVALID}, /* the same */
        {{0, 2, 1}, {2, 1, 0}, 2, DDP_E_INVALID},  /* two types */
        {{0, 1, 2}, {2, 0, 1}, 3, DDP_E_INVALID},  /* an empty bucket */
        {{0, 1, 2}, {2, -1, 2}, 3, DDP_E_INVALID}, /* less than empty */
        {{0, 1, 2}, {1, 1, 0}, 2, DDP_E_INVALID},  /* a parameter is missing */
        {{0, 1, 2}, {2, 2, 0}, 2, DDP_E_INVALID},  /* more than there are */
        {{0, 1, 2}, {1, 1, 1}, 4, DDP_E_INVALID},  /* more buckets than parameters */
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct ddp_layout layout;
        const ddp_status status = ddp_layout_adopt(ddp_mem_system(), params, 3, rows[i].order,
                                                   rows[i].sizes, rows[i].bucket_count, &layout);

        CT_CHECK_STATUS(status, rows[i].status);
        ddp_layout_destroy(ddp_mem_system(), &layout);
    }
}
