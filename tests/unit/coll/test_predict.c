/* What the prover's trees say of a sum, bit for bit, beside what the core computes: every algorithm
 * that adds, run by the executor and the device's arithmetic in the simulator's transport, in fp32
 * and in both floats of 16 bits. More than a million elements. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ddpcore/base/prng.h"
#include "harness/coll/coll.h"
#include "harness/sums/arith.h"
#include "harness/sums/schedule_sums.h"
#include "tests/ct.h"
#include "tests/unit/collective/coll_world.h"

enum { WORLD_MAX = 7, COUNT = 2003, SEGMENT_BYTES = 1000, RANKS = 300 };

static const uint32_t worlds[] = {2, 3, 5, 7};
static uint64_t compared; /* elements, by all tests of this process */

/* Magnitudes from 2^-8 to 2^7 of either sign, so that sums round and cancel, and none overflows. */
static float draw(struct ddp_prng *prng, uint64_t at)
{
    uint64_t bits = ddp_prng_at(prng, at);
    float fraction = 1.0f + (float)(bits & 0x7fffff) / 8388608.0f;
    int exponent = (int)(bits >> 32 & 15) - 8;

    return ldexpf((bits >> 40 & 1) != 0 ? -fraction : fraction, exponent);
}

static void store(void *data, size_t at, enum ddp_dtype dtype, float value)
{
    if (dtype == DDP_DTYPE_F32) {
        ((float *)data)[at] = value;
    } else if (dtype == DDP_DTYPE_F16) {
        ((uint16_t *)data)[at] = harness_arith_f16_encode(value);
    } else {
        ((uint16_t *)data)[at] = harness_arith_bf16_encode(value);
    }
}

struct buffers {
    float input[WORLD_MAX][WORLD_MAX * COUNT], output[WORLD_MAX][WORLD_MAX * COUNT];
    float predicted[WORLD_MAX * COUNT];
};

/* What the ranks compute. */
static void run(const struct ddp_algorithm *algorithm, const struct harness_coll_case *test,
                struct buffers *buffers)
{
    struct coll_world_options options = {.segment_bytes = SEGMENT_BYTES};
    struct coll_world world;

    if (algorithm->kind == DDP_COLL_ALL_REDUCE) {
        options.algorithm = algorithm->id;
    } else {
        options.other = algorithm;
    }
    CT_REQUIRE(coll_world_open(&world, test->world, &options));
    for (uint32_t rank = 0; rank < test->world; rank++) {
        world.ranks[rank].work.args = (struct ddp_coll_args){.kind = algorithm->kind,
                                                             .dtype = test->dtype,
                                                             .root = test->root,
                                                             .elem_count = test->elem_count,
                                                             .input = buffers->input[rank],
                                                             .output = buffers->output[rank]};
        CT_CHECK_OK(coll_world_post(&world, rank));
    }
    CT_CHECK(coll_world_run(&world));
    coll_world_close(&world);
}

/* An element by itself: its values lie twice in a row, at other places than in the inputs. */
static void apply_one(const struct harness_schedule_sums *sums, uint32_t rank, size_t elem,
                      size_t at, const struct buffers *buffers, size_t elem_bytes)
{
    const char *expected = (const char *)buffers->output[rank] + elem * elem_bytes;
    char values[WORLD_MAX][2 * sizeof(float)];
    char sum[2 * sizeof(float)];
    void *input[WORLD_MAX];

    for (uint32_t r = 0; r < sums->size; r++) {
        const char *value = (const char *)buffers->input[r] + at * elem_bytes;

        memcpy(values[r], value, elem_bytes);
        memcpy(values[r] + elem_bytes, value, elem_bytes);
        input[r] = values[r];
    }
    CT_REQUIRE_OK(harness_schedule_sums_apply(sums, rank, elem, input, 2, sum));
    CT_CHECK_BYTES(sum, expected, elem_bytes);
    CT_CHECK_BYTES(sum + elem_bytes, expected, elem_bytes);
}

static void compare(const struct ddp_algorithm *algorithm, const struct harness_coll_case *test,
                    const struct harness_schedule_set *set, struct buffers *buffers)
{
    size_t elem_bytes = ddp_dtype_size_bytes(test->dtype);
    struct harness_schedule_sums sums;
    void *input[WORLD_MAX];

    for (uint32_t rank = 0; rank < test->world; rank++) {
        input[rank] = buffers->input[rank];
    }
    CT_REQUIRE_OK(harness_schedule_sums_make(set, set->mem, &sums));
    for (uint32_t rank = 0; rank < test->world; rank++) {
        size_t count = harness_schedule_output(set->member[rank]).elem_count;

        CT_REQUIRE_OK(harness_schedule_sums_predict(&sums, rank, input, buffers->predicted));
        if (memcmp(buffers->predicted, buffers->output[rank], count * elem_bytes) != 0) {
            CT_FAIL("%s, %u ranks, %s: rank %u computes other bits than its trees", algorithm->name,
                    test->world, ddp_dtype_name(test->dtype), rank);
        }
        for (size_t i = 0; i < count; i++) {
            size_t at = algorithm->kind == DDP_COLL_REDUCE_SCATTER ? rank * count + i : i;

            apply_one(&sums, rank, i, at, buffers, elem_bytes);
        }
        compared += count;
    }
    harness_schedule_sums_fini(&sums, set);
}

static void check_case(const struct ddp_algorithm *algorithm, struct harness_coll_source *source,
                       const struct harness_coll_case *test)
{
    static struct buffers buffers;
    struct ddp_prng prng = ddp_prng_make(test->world, "test/predict");
    size_t in_count = test->elem_count * ddp_coll_input_blocks(algorithm->kind, test->world);
    struct harness_schedules schedules;
    struct ddp_mem_pool *pool = NULL;
    struct ddp_err err = {""};
    uint32_t rank = 0;

    memset(&buffers, 0x5a, sizeof buffers);
    for (uint32_t r = 0; r < test->world; r++) {
        for (size_t i = 0; i < in_count; i++) {
            store(buffers.input[r], i, test->dtype, draw(&prng, r * in_count + i));
        }
    }
    run(algorithm, test, &buffers);
    CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
    harness_schedules_init(&schedules, ddp_mem_pool_mem(pool));
    CT_REQUIRE_OK(harness_coll_emit(source, test, &schedules, &rank, &err));
    compare(algorithm, test, &schedules.sets[0], &buffers);
    ddp_mem_pool_destroy(pool);
}

static void check_algorithm(enum ddp_coll_kind kind, enum ddp_algorithm_id id)
{
    const struct ddp_algorithm *algorithm = ddp_algorithm_find(kind, id);
    struct harness_coll_source *source = NULL;
    struct ddp_err err = {""};

    if (!ddp_coll_kind_is_sum(kind)) {
        return;
    }
    CT_REQUIRE_OK(harness_coll_builtin_open(ddp_algorithm_name(id), &source, &err));
    for (size_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++) {
        for (size_t t = 0; t < HARNESS_COLL_TYPES; t++) {
            const struct harness_coll_case test = {
                .world = worlds[w],
                .elem_count = COUNT,
                .segment_elem_count = SEGMENT_BYTES / ddp_dtype_size_bytes(harness_coll_type(t)),
                .root = ddp_coll_kind_has_root(kind) ? worlds[w] - 1 : 0,
                .dtype = harness_coll_type(t)};

            check_case(algorithm, source, &test);
        }
    }
    harness_coll_source_close(source);
}

#define CHECK(id, kind) check_algorithm(DDP_COLL_##kind, DDP_ALGORITHM_##id);
CT_TEST(coll_predict, every_algorithm_that_adds)
{
#define X(id, kind, name, emit, segment_bytes, meaning) CHECK(id, kind)
#include "ddpcore/schedule/algorithm.def"
#undef X
    if (compared < 1000000) {
        CT_FAIL("only %llu elements were compared", (unsigned long long)compared);
    }
}

/* Ones of 300 ranks in bf16, where 256 + 1 is 256: a sum that is rounded after each addition is far
 * from one that is rounded once. The bound tells, and holds. */
CT_TEST(coll_predict, bound_holds)
{
    static const char *const names[] = {"linear", "two_shot_f32"};
    static uint16_t data[RANKS][1];
    double bound[2] = {0, 0};
    double error[2] = {0, 0};
    const struct harness_coll_case test = {
        .world = RANKS, .elem_count = 1, .dtype = DDP_DTYPE_BF16};

    for (int n = 0; n < 2; n++) {
        struct harness_coll_source *source = NULL;
        struct harness_schedules schedules;
        struct harness_schedule_sums sums;
        struct ddp_mem_pool *pool = NULL;
        struct ddp_err err = {""};
        uint16_t output = 0;
        uint32_t rank = 0;
        double exact = 0;
        void *input[RANKS];

        for (uint32_t r = 0; r < RANKS; r++) {
            data[r][0] = harness_arith_bf16_encode(1.0f);
            input[r] = data[r];
            exact += 1.0;
        }
        CT_REQUIRE_OK(harness_coll_builtin_open(names[n], &source, &err));
        CT_REQUIRE_OK(ddp_mem_pool_create(&pool));
        harness_schedules_init(&schedules, ddp_mem_pool_mem(pool));
        CT_REQUIRE_OK(harness_coll_emit(source, &test, &schedules, &rank, &err));
        CT_REQUIRE_OK(
            harness_schedule_sums_make(&schedules.sets[0], ddp_mem_pool_mem(pool), &sums));
        CT_REQUIRE_OK(harness_schedule_sums_predict(&sums, 0, input, &output));
        CT_REQUIRE_OK(harness_schedule_sums_bound(&sums, &bound[n]));
        error[n] = fabs((double)harness_arith_bf16_decode(output) - exact) / exact;
        CT_CHECK(error[n] <= bound[n]);
        ddp_mem_pool_destroy(pool);
        harness_coll_source_close(source);
    }
    CT_CHECK(fabs(bound[0] - expm1((RANKS - 1) * log1p(1.0 / 256))) < 1e-12);
    CT_CHECK(bound[1] < 1.01 / 256);
    CT_CHECK(error[0] > bound[1]);
}
