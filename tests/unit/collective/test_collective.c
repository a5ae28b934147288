/* Collectives on the loop net: right values, bit for bit, for every algorithm, world, count and
 * dtype. */
#include <string.h>

#include "ddpcore/schedule/schedule.h"
#include "tests/ct.h"
#include "tests/unit/collective/coll_world.h"

static const uint32_t worlds[] = {1, 2, 3, 4, 7, 8};

/* Small integers, exact in every dtype, so that every tree gives the same bits. */
static unsigned small(uint32_t rank, size_t index, enum ddp_redop op)
{
    if (op == DDP_REDOP_PROD) {
        return rank < 3 ? 1 + (unsigned)((index + rank) % 2) : 1;
    }
    return (unsigned)((index * 5 + rank * 3) % 8);
}

static void store_value(void *data, size_t index, enum ddp_dtype dtype, unsigned value)
{
    switch (dtype) {
    case DDP_DTYPE_F32:
        ((float *)data)[index] = (float)value;
        break;
    case DDP_DTYPE_F16:
        ((uint16_t *)data)[index] = ddp_f16_from_f32((float)value);
        break;
    case DDP_DTYPE_BF16:
        ((uint16_t *)data)[index] = ddp_bf16_from_f32((float)value);
        break;
    case DDP_DTYPE_F64:
        ((double *)data)[index] = (double)value;
        break;
    case DDP_DTYPE_I32:
        ((int32_t *)data)[index] = (int32_t)value;
        break;
    case DDP_DTYPE_I64:
        ((int64_t *)data)[index] = (int64_t)value;
        break;
    default:
        ((uint8_t *)data)[index] = (uint8_t)value;
        break;
    }
}

static unsigned expected_value(uint32_t world, size_t index, enum ddp_redop op)
{
    unsigned result = small(0, index, op);

    for (uint32_t rank = 1; rank < world; rank++) {
        unsigned value = small(rank, index, op);

        switch (op) {
        case DDP_REDOP_SUM:
            result += value;
            break;
        case DDP_REDOP_PROD:
            result *= value;
            break;
        case DDP_REDOP_MAX:
            result = value > result ? value : result;
            break;
        default:
            result = value < result ? value : result;
            break;
        }
    }
    return result;
}

struct reduce_case {
    enum ddp_dtype dtype;
    enum ddp_redop op;
    size_t count;
    bool is_in_place;
};

static void check_all_reduce(struct coll_world *world, const struct reduce_case *test)
{
    size_t size_bytes = test->count * ddp_dtype_size_bytes(test->dtype);
    uint8_t expected[8 * 1000];
    uint8_t before[8 * 1000];

    for (uint32_t rank = 0; rank < world->count; rank++) {
        struct ddp_coll_args *args = &world->ranks[rank].work.args;

        args->kind = DDP_COLL_ALL_REDUCE;
        args->redop = test->op;
        args->dtype = test->dtype;
        args->elem_count = test->count;
        args->output = coll_world_alloc(world, rank, size_bytes);
        args->input = test->is_in_place ? args->output : coll_world_alloc(world, rank, size_bytes);
        for (size_t i = 0; i < test->count; i++) {
            store_value((void *)(uintptr_t)args->input, i, test->dtype, small(rank, i, test->op));
        }
        CT_CHECK_OK(coll_world_post(world, rank));
    }
    CT_CHECK(coll_world_run(world));
    for (size_t i = 0; i < test->count; i++) {
        store_value(expected, i, test->dtype, expected_value(world->count, i, test->op));
    }
    for (uint32_t rank = 0; rank < world->count; rank++) {
        struct coll_rank *who = &world->ranks[rank];

        CT_CHECK_OK(who->work.status);
        CT_CHECK_BYTES(who->work.args.output, expected, size_bytes);
        if (!test->is_in_place) {
            for (size_t i = 0; i < test->count; i++) {
                store_value(before, i, test->dtype, small(rank, i, test->op));
            }
            CT_CHECK_BYTES(who->work.args.input, before, size_bytes);
            who->coll->ops->free(who->coll, DDP_SPACE_DEVICE,
                                 (void *)(uintptr_t)who->work.args.input);
        }
        who->coll->ops->free(who->coll, DDP_SPACE_DEVICE, who->work.args.output);
    }
}

static void check_counts(struct coll_world *world, enum ddp_dtype dtype)
{
    const size_t counts[] = {0, 1, 2, world->count - 1, world->count, world->count + 1, 17, 1000};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        for (uint32_t op = 0; op < DDP_REDOP_COUNT; op++) {
            struct reduce_case test = {dtype, (enum ddp_redop)op, counts[i], (i + op) % 2 == 0};

            check_all_reduce(world, &test);
        }
    }
}

static void check_algorithm(enum ddp_algorithm_id algorithm)
{
    for (size_t w = 0; w < sizeof(worlds) / sizeof(worlds[0]); w++) {
        struct coll_world_options options = {
            .algorithm = algorithm, .segment_bytes = 256, .is_checked = true};
        struct coll_world world;

        if (!coll_world_open(&world, worlds[w], &options)) {
            return;
        }
        for (uint32_t dtype = 0; dtype < DDP_DTYPE_COUNT; dtype++) {
            check_counts(&world, (enum ddp_dtype)dtype);
        }
        coll_world_close(&world);
    }
}

/* All-reduce, exact data: every dtype, operation, count and world, in place and not. */
CT_TEST(collective, every_all_reduce)
{
    coll_each_all_reduce(check_algorithm);
}

/* A value whose sums round differently in every order. */
static float rough(uint32_t rank, size_t index)
{
    return 1.0f / (float)(1 + (index * 7 + rank * 13) % 101) * (rank % 2 == 0 ? 1.0f : 1.0e3f);
}

/* Ring: chunk c starts at rank c and meets ranks c+1, c+2, ... in turn. */
static float ring_sum(uint32_t world, uint32_t chunk, size_t index)
{
    float sum = rough(chunk, index);

    for (uint32_t i = 1; i < world; i++) {
        sum = rough((chunk + i) % world, index) + sum;
    }
    return sum;
}

/* Recursive doubling over a power of two: neighbours first, then pairs of pairs. */
static float doubling_sum(uint32_t first, uint32_t count, size_t index)
{
    return count == 1 ? rough(first, index)
                      : doubling_sum(first, count / 2, index) +
                            doubling_sum(first + count / 2, count / 2, index);
}

static void check_tree(enum ddp_algorithm_id algorithm, uint32_t world_size)
{
    enum { COUNT = 37 };
    struct coll_world_options options = {.algorithm = algorithm, .segment_bytes = 16};
    struct coll_world world;
    float data[COLL_RANKS_MAX][COUNT];

    CT_REQUIRE(coll_world_open(&world, world_size, &options));
    for (uint32_t rank = 0; rank < world_size; rank++) {
        struct ddp_coll_args *args = &world.ranks[rank].work.args;

        for (size_t i = 0; i < COUNT; i++) {
            data[rank][i] = rough(rank, i);
        }
        args->elem_count = COUNT;
        args->input = data[rank];
        args->output = data[rank];
        CT_CHECK_OK(coll_world_post(&world, rank));
    }
    CT_CHECK(coll_world_run(&world));
    for (size_t i = 0; i < COUNT; i++) {
        /* the first COUNT % world chunks are one element longer */
        size_t base = COUNT / world_size;
        size_t longer = COUNT % world_size;
        size_t chunk =
            i < longer * (base + 1) ? i / (base + 1) : longer + (i - longer * (base + 1)) / base;
        float expected = algorithm == DDP_ALGORITHM_RING ? ring_sum(world_size, (uint32_t)chunk, i)
                                                         : doubling_sum(0, world_size, i);

        for (uint32_t rank = 0; rank < world_size; rank++) {
            CT_CHECK_BYTES(&data[rank][i], &expected, sizeof(expected));
        }
    }
    coll_world_close(&world);
}

/* All-reduce, rounding data: every rank gets the bits of the algorithm's own tree. */
CT_TEST(collective, bits_follow_the_tree)
{
    check_tree(DDP_ALGORITHM_RING, 2);
    check_tree(DDP_ALGORITHM_RING, 3);
    check_tree(DDP_ALGORITHM_RING, 8);
    check_tree(DDP_ALGORITHM_RECURSIVE_DOUBLING, 2);
    check_tree(DDP_ALGORITHM_RECURSIVE_DOUBLING, 4);
    check_tree(DDP_ALGORITHM_RECURSIVE_DOUBLING, 8);
}

/* Worlds that are no power of two: all ranks still agree on every bit. */
CT_TEST(collective, folded_ranks_agree)
{
    enum { COUNT = 50 };
    struct coll_world_options options = {.algorithm = DDP_ALGORITHM_RECURSIVE_DOUBLING};
    struct coll_world world;
    float data[7][COUNT];

    CT_REQUIRE(coll_world_open(&world, 7, &options));
    for (uint32_t rank = 0; rank < 7; rank++) {
        struct ddp_coll_args *args = &world.ranks[rank].work.args;

        for (size_t i = 0; i < COUNT; i++) {
            data[rank][i] = rough(rank, i);
        }
        args->elem_count = COUNT;
        args->input = data[rank];
        args->output = data[rank];
        CT_CHECK_OK(coll_world_post(&world, rank));
    }
    CT_CHECK(coll_world_run(&world));
    for (uint32_t rank = 1; rank < 7; rank++) {
        CT_CHECK_BYTES(data[rank], data[0], sizeof(data[0]));
    }
    coll_world_close(&world);
}

static void check_broadcast(struct coll_world *world, uint32_t root, size_t count, bool is_in_place)
{
    int32_t input[1000];
    int32_t output[COLL_RANKS_MAX][1000];

    for (size_t i = 0; i < count; i++) {
        input[i] = (int32_t)(i * 3 + root);
    }
    for (uint32_t rank = 0; rank < world->count; rank++) {
        struct ddp_coll_args *args = &world->ranks[rank].work.args;

        memset(output[rank], 0xee, sizeof(output[rank]));
        args->kind = DDP_COLL_BROADCAST;
        args->dtype = DDP_DTYPE_I32;
        args->root = root;
        args->elem_count = count;
        args->output = output[rank];
        args->input = is_in_place ? output[rank] : input;
        if (is_in_place && rank == root) {
            memcpy(output[rank], input, count * sizeof(int32_t));
        }
        CT_CHECK_OK(coll_world_post(world, rank));
    }
    CT_CHECK(coll_world_run(world));
    for (uint32_t rank = 0; rank < world->count; rank++) {
        CT_CHECK_OK(world->ranks[rank].work.status);
        CT_CHECK_BYTES(output[rank], input, count * sizeof(int32_t));
    }
}

/* Broadcast from every root. */
CT_TEST(collective, broadcast)
{
    static const size_t counts[] = {0, 1, 17, 1000};

    for (size_t w = 0; w < sizeof(worlds) / sizeof(worlds[0]); w++) {
        struct coll_world_options options = {.segment_bytes = 128, .is_checked = true};
        struct coll_world world;

        CT_REQUIRE(coll_world_open(&world, worlds[w], &options));
        for (uint32_t root = 0; root < worlds[w]; root++) {
            for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
                check_broadcast(&world, root, counts[i], i % 2 == 0);
            }
        }
        coll_world_close(&world);
    }
}

static void check_all_gather(struct coll_world *world, size_t count, int in_place)
{
    static int64_t output[COLL_RANKS_MAX][COLL_RANKS_MAX * 100];
    static int64_t input[COLL_RANKS_MAX][100];

    for (uint32_t rank = 0; rank < world->count; rank++) {
        struct ddp_coll_args *args = &world->ranks[rank].work.args;
        int64_t *own = in_place > 0 ? &output[rank][rank * count] : input[rank];

        memset(output[rank], 0xee, sizeof(output[rank]));
        for (size_t i = 0; i < count; i++) {
            own[i] = (int64_t)(rank * 1000 + i);
        }
        memset(args, 0, sizeof(*args));
        args->kind = DDP_COLL_ALL_GATHER;
        args->dtype = DDP_DTYPE_I64;
        args->elem_count = count;
        args->output = output[rank];
        args->input = in_place == 2 ? output[rank] : own;
        CT_CHECK_OK(coll_world_post(world, rank));
    }
    CT_CHECK(coll_world_run(world));
    for (uint32_t rank = 0; rank < world->count; rank++) {
        CT_CHECK_OK(world->ranks[rank].work.status);
        for (size_t i = 0; i < count * world->count; i++) {
            CT_CHECK_EQ_I64(output[rank][i], (int64_t)(i / count * 1000 + i % count));
        }
    }
}

/* All-gather, from a buffer of its own and in place in both spellings. */
CT_TEST(collective, all_gather)
{
    static const size_t counts[] = {0, 1, 2, 17, 100};

    for (size_t w = 0; w < sizeof(worlds) / sizeof(worlds[0]); w++) {
        struct coll_world_options options = {.segment_bytes = 64, .is_checked = true};
        struct coll_world world;

        CT_REQUIRE(coll_world_open(&world, worlds[w], &options));
        for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
            for (int in_place = 0; in_place < 3; in_place++) {
                check_all_gather(&world, counts[i], in_place);
            }
        }
        coll_world_close(&world);
    }
}

/* No rank leaves a barrier before all ranks have entered it. */
CT_TEST(collective, barrier_waits_for_all)
{
    for (size_t w = 0; w < sizeof(worlds) / sizeof(worlds[0]); w++) {
        struct coll_world_options options = {.is_checked = true};
        struct coll_world world;
        bool is_done = false;

        CT_REQUIRE(coll_world_open(&world, worlds[w], &options));
        for (uint32_t rank = 0; rank < worlds[w]; rank++) {
            world.ranks[rank].work.args.kind = DDP_COLL_BARRIER;
            world.ranks[rank].work.args.dtype = DDP_DTYPE_U8;
        }
        for (uint32_t rank = 0; rank + 1 < worlds[w]; rank++) {
            CT_CHECK_OK(coll_world_post(&world, rank));
        }
        while (coll_world_step(&world, &is_done) && !is_done) {
        }
        for (uint32_t rank = 0; rank + 1 < worlds[w]; rank++) {
            CT_CHECK_STATUS(world.ranks[rank].work.status, DDP_PENDING);
        }
        CT_CHECK_OK(coll_world_post(&world, worlds[w] - 1));
        CT_CHECK(coll_world_run(&world));
        coll_world_close(&world);
    }
}

/* Several works may be queued; they run in order, and polling the last one drives them all. */
CT_TEST(collective, queue)
{
    struct coll_world_options options = {.is_checked = true};
    struct coll_world world;
    struct ddp_coll_work works[3][4];
    float data[3][4][10];
    bool is_done = false;

    CT_REQUIRE(coll_world_open(&world, 3, &options));
    for (uint32_t rank = 0; rank < 3; rank++) {
        memset(works[rank], 0, sizeof(works[rank]));
        for (uint32_t i = 0; i < 4; i++) {
            for (int j = 0; j < 10; j++) {
                data[rank][i][j] = (float)i;
            }
            works[rank][i].args.elem_count = 10;
            works[rank][i].args.input = data[rank][i];
            works[rank][i].args.output = data[rank][i];
            works[rank][i].seq = i + 1;
            CT_CHECK_OK(world.ranks[rank].coll->ops->post(world.ranks[rank].coll, &works[rank][i]));
        }
    }
    for (int turn = 0; turn < 1000 && !is_done; turn++) {
        bool ignored;

        is_done = true;
        for (uint32_t rank = 0; rank < 3; rank++) {
            is_done &= world.ranks[rank].coll->ops->poll(world.ranks[rank].coll, &works[rank][3]) ==
                       DDP_OK;
        }
        (void)coll_world_step(&world, &ignored);
        ddp_clock_virtual_advance_to(&world.clock, world.clock.time_ns + 1000);
    }
    for (uint32_t rank = 0; rank < 3; rank++) {
        for (uint32_t i = 0; i < 4; i++) {
            CT_CHECK_OK(works[rank][i].status);
            CT_CHECK(data[rank][i][7] == 3.0f * (float)i);
        }
    }
    coll_world_close(&world);
}

struct count_observer {
    struct ddp_schedule_observer base;
    uint32_t used;
    size_t steps;
};

static ddp_status count_used(struct ddp_schedule_observer *observer,
                             const struct ddp_schedule *schedule)
{
    struct count_observer *counter = (struct count_observer *)observer;

    counter->used++;
    counter->steps += schedule->step_count;
    return DDP_OK;
}

static void check_steady_state(enum ddp_algorithm_id algorithm)
{
    struct count_observer observer = {{count_used}, 0, 0};
    struct coll_world_options options = {.algorithm = algorithm, .observer = &observer.base};
    struct coll_world world;
    float data[4][100] = {{0}};
    uint64_t allocs[4];

    CT_REQUIRE(coll_world_open(&world, 4, &options));
    for (int i = 0; i < 10; i++) {
        for (uint32_t rank = 0; rank < 4; rank++) {
            struct coll_rank *who = &world.ranks[rank];

            who->work.args.elem_count = 100;
            who->work.args.input = data[rank];
            who->work.args.output = data[rank];
            CT_CHECK_OK(coll_world_post(&world, rank));
        }
        CT_CHECK(coll_world_run(&world));
        for (uint32_t rank = 0; rank < 4; rank++) {
            uint64_t now = ddp_mem_pool_alloc_count(world.ranks[rank].pool);

            CT_CHECK(i == 0 || now == allocs[rank]);
            allocs[rank] = now;
        }
    }
    CT_CHECK_EQ_U64(observer.used, 4);
    CT_CHECK(observer.steps > 0);
    coll_world_close(&world);
}

/* A repeated collective neither emits its schedule again nor allocates. */
CT_TEST(collective, steady_state_allocates_nothing)
{
    coll_each_all_reduce(check_steady_state);
}

/* The cache of compiled schedules is bounded, however many counts are used. */
CT_TEST(collective, cache_is_bounded)
{
    static float data[2][1000];
    struct coll_world_options options = {.algorithm = DDP_ALGORITHM_RECURSIVE_DOUBLING};
    struct coll_world world;
    size_t blocks[2] = {0, 0};

    CT_REQUIRE(coll_world_open(&world, 2, &options));
    for (size_t count = 1; count <= 1000; count++) {
        for (uint32_t rank = 0; rank < 2; rank++) {
            world.ranks[rank].work.args.elem_count = count;
            world.ranks[rank].work.args.input = data[rank];
            world.ranks[rank].work.args.output = data[rank];
            CT_CHECK_OK(coll_world_post(&world, rank));
        }
        CT_CHECK(coll_world_run(&world));
        if (count == 500 || count == 1000) {
            blocks[count / 500 - 1] = ddp_mem_pool_block_count(world.ranks[0].pool);
        }
    }
    CT_CHECK_EQ_U64(blocks[1], blocks[0]);
    coll_world_close(&world);
}
