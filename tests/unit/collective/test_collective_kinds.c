/* Kinds that no part of the DDP core posts, and the all-gathers: every algorithm on the loop net,
 * from buffers of its own and in place, with what must be left behind, and nothing else. */
#include <string.h>

#include "ddpcore/schedule/schedule.h"
#include "tests/ct.h"
#include "tests/unit/collective/coll_world.h"

enum { WORLD_MAX = 8, COUNT_MAX = 40, GUARD = 3, MARK = -77 };

static const uint32_t worlds[] = {1, 2, 3, 4, 5, 7, 8};
static const size_t counts[] = {0, 1, 2, 7, COUNT_MAX};

struct buffers {
    int32_t input[WORLD_MAX][WORLD_MAX * COUNT_MAX + GUARD];
    int32_t output[WORLD_MAX][WORLD_MAX * COUNT_MAX + GUARD];
};

/* Different for each rank and element. */
static int32_t value_of(uint32_t rank, size_t elem)
{
    return (int32_t)(rank * 1000 + elem * 3 + 1);
}

static int32_t sum_of(uint32_t world, size_t elem)
{
    int32_t sum = 0;

    for (uint32_t rank = 0; rank < world; rank++) {
        sum += value_of(rank, elem);
    }
    return sum;
}

/* By what the kind means, not by how it is done. */
static int32_t expected(const struct ddp_coll_args *args, uint32_t world, uint32_t rank,
                        size_t elem)
{
    size_t own = rank * args->elem_count;

    switch (args->kind) {
    case DDP_COLL_REDUCE_SCATTER:
        return sum_of(world, own + elem);
    case DDP_COLL_ALL_TO_ALL:
        return value_of((uint32_t)(elem / args->elem_count), own + elem % args->elem_count);
    case DDP_COLL_ALL_GATHER:
        return value_of((uint32_t)(elem / args->elem_count), elem % args->elem_count);
    default:
        return sum_of(world, elem);
    }
}

static size_t output_elems(const struct ddp_coll_args *args, uint32_t world, uint32_t rank)
{
    switch (args->kind) {
    case DDP_COLL_ALL_TO_ALL:
    case DDP_COLL_ALL_GATHER:
        return world * args->elem_count;
    case DDP_COLL_REDUCE:
        return rank == args->root ? args->elem_count : 0;
    default:
        return args->elem_count;
    }
}

static size_t input_elems(const struct ddp_coll_args *args, uint32_t world)
{
    bool is_cut = args->kind == DDP_COLL_REDUCE_SCATTER || args->kind == DDP_COLL_ALL_TO_ALL;

    return args->elem_count * (is_cut ? world : 1);
}

static void fill(struct buffers *buffers, uint32_t world, size_t input_count)
{
    for (uint32_t rank = 0; rank < world; rank++) {
        for (size_t i = 0; i < WORLD_MAX * COUNT_MAX + GUARD; i++) {
            buffers->input[rank][i] = i < input_count ? value_of(rank, i) : MARK;
            buffers->output[rank][i] = MARK;
        }
    }
}

/* Where the output lies in place. */
static int32_t *place_of(struct buffers *buffers, const struct ddp_coll_args *args, uint32_t rank)
{
    size_t first = args->kind == DDP_COLL_REDUCE_SCATTER ? rank * args->elem_count : 0;

    return &buffers->input[rank][first];
}

static void check_rank(struct buffers *buffers, const struct ddp_coll_args *args, uint32_t world,
                       uint32_t rank)
{
    const int32_t *output = args->output;
    const int32_t *input = args->input;
    size_t count = output_elems(args, world, rank);

    for (size_t i = 0; i < count; i++) {
        CT_CHECK_EQ_I64(output[i], expected(args, world, rank, i));
    }
    for (size_t i = 0; i < input_elems(args, world) + GUARD; i++) {
        bool is_output =
            output != buffers->output[rank] && &input[i] >= output && &input[i] < output + count;

        if (!is_output) {
            CT_CHECK_EQ_I64(input[i], i < input_elems(args, world) ? value_of(rank, i) : MARK);
        }
    }
    for (size_t i = count; output == buffers->output[rank] && i < count + GUARD; i++) {
        CT_CHECK_EQ_I64(output[i], MARK);
    }
}

static void check_one(struct coll_world *world, enum ddp_coll_kind kind, size_t count,
                      uint32_t root, bool is_in_place)
{
    static struct buffers buffers;

    for (uint32_t rank = 0; rank < world->count; rank++) {
        struct ddp_coll_args *args = &world->ranks[rank].work.args;

        *args = (struct ddp_coll_args){
            .kind = kind, .dtype = DDP_DTYPE_I32, .root = root, .elem_count = count};
        args->input = buffers.input[rank];
        args->output = is_in_place ? place_of(&buffers, args, rank) : buffers.output[rank];
    }
    fill(&buffers, world->count, input_elems(&world->ranks[0].work.args, world->count));
    for (uint32_t rank = 0; rank < world->count; rank++) {
        CT_CHECK_OK(coll_world_post(world, rank));
    }
    CT_CHECK(coll_world_run(world));
    for (uint32_t rank = 0; rank < world->count; rank++) {
        CT_CHECK_OK(world->ranks[rank].work.status);
        check_rank(&buffers, &world->ranks[rank].work.args, world->count, rank);
    }
}

static void check_world(const struct ddp_algorithm *algorithm, uint32_t size, bool is_observed)
{
    const struct coll_world_options options = {
        .other = algorithm, .segment_bytes = 20, .is_checked = true, .is_observed = is_observed};
    struct coll_world world;
    uint32_t root_count = ddp_coll_kind_has_root(algorithm->kind) ? size : 1;
    /* An all-gather has a test of its own for what is in place. */
    int ways = algorithm->kind == DDP_COLL_ALL_GATHER ? 1 : 2;

    CT_REQUIRE(coll_world_open(&world, size, &options));
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        for (uint32_t root = 0; root < root_count; root++) {
            for (int way = 0; way < ways; way++) {
                check_one(&world, algorithm->kind, counts[c], root, way == 1);
            }
        }
    }
    coll_world_close(&world);
}

static void check_algorithm(enum ddp_coll_kind kind, enum ddp_algorithm_id id)
{
    const struct ddp_algorithm *algorithm = ddp_algorithm_find(kind, id);

    CT_REQUIRE(algorithm != NULL);
    if (kind == DDP_COLL_ALL_REDUCE || kind == DDP_COLL_BROADCAST || kind == DDP_COLL_BARRIER) {
        return; /* tests of their own */
    }
    for (size_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++) {
        check_world(algorithm, worlds[w], w % 2 == 1);
    }
}

#define X(id, kind, name, emit, segment_bytes, meaning)       \
    CT_TEST(collective_kinds, id)                             \
    {                                                         \
        check_algorithm(DDP_COLL_##kind, DDP_ALGORITHM_##id); \
    }
#include "ddpcore/schedule/algorithm.def"
#undef X

/* --- nodes ------------------------------------------------------------------------------------ */

/* Messages that leave a node. */
struct crossing {
    struct ddp_schedule_observer base;
    const size_t *node_of_rank;
    unsigned count;
};

static ddp_status count_crossings(struct ddp_schedule_observer *observer,
                                  const struct ddp_schedule *schedule)
{
    struct crossing *crossing = (struct crossing *)observer;

    for (size_t i = 0; i < schedule->step_count; i++) {
        const struct ddp_step *step = &schedule->steps[i];

        crossing->count +=
            step->kind == DDP_STEP_SEND &&
            crossing->node_of_rank[schedule->params.rank] != crossing->node_of_rank[step->peer];
    }
    return DDP_OK;
}

/* Nodes reach the algorithm: a node's sum leaves it once, and the result comes back once. */
CT_TEST(collective_kinds, nodes)
{
    static const size_t nodes[5] = {1, 0, 1, 0, 0};
    static float data[5][4];
    struct crossing crossing = {{count_crossings}, nodes, 0};

    for (int is_known = 0; is_known < 2; is_known++) {
        const struct coll_world_options options = {.algorithm = DDP_ALGORITHM_HIERARCHICAL,
                                                   .node_of_rank = is_known == 1 ? nodes : NULL,
                                                   .observer = &crossing.base};
        struct coll_world world;

        crossing.count = 0;
        CT_REQUIRE(coll_world_open(&world, 5, &options));
        for (uint32_t rank = 0; rank < 5; rank++) {
            data[rank][0] = (float)rank;
            world.ranks[rank].work.args = (struct ddp_coll_args){
                .dtype = DDP_DTYPE_F32, .elem_count = 1, .input = data[rank], .output = data[rank]};
            CT_CHECK_OK(coll_world_post(&world, rank));
        }
        CT_CHECK(coll_world_run(&world));
        CT_CHECK(data[4][0] == 10.0f);
        CT_CHECK(is_known == 1 ? crossing.count == 2 : crossing.count > 2);
        coll_world_close(&world);
    }
}
