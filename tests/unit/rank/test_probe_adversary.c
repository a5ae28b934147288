/* All-reduces made to mislead the prober. What it measures must be how they add, for every element;
 * else nothing may be said to be measured, or the two rounds must differ. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/rank/probe_sums.h"
#include "tests/unit/rank/probe_world.h"

enum { MEMBERS = 5, ELEMS = 4099 };

static const struct harness_probe_request requests[] = {
    {ELEMS, DDP_DTYPE_F32}, {ELEMS, DDP_DTYPE_BF16}, {ELEMS, DDP_DTYPE_F16}};
enum { REQUESTS = sizeof requests / sizeof requests[0] };

static void probe_twice(struct probe_rank *rank)
{
    CT_CHECK_OK(probe_round(rank, HARNESS_PROBE_FIRST, requests, REQUESTS));
    CT_CHECK_OK(probe_round(rank, HARNESS_PROBE_LAST, requests, REQUESTS));
}

/* A chain over the elements [first, end) that begins at a member and goes up or down. */
static void add_up(const struct ddp_coll_args *args, void *const *input, void *const *output,
                   size_t first, size_t end, uint32_t begin, bool is_down)
{
    const size_t elem_bytes = ddp_dtype_size_bytes(args->dtype);
    struct ddp_coll_args part = *args;
    void *part_input[MEMBERS];
    void *part_output[MEMBERS];

    part.elem_count = end - first;
    for (uint32_t k = 0; k < MEMBERS; k++) {
        uint32_t member = (begin + (is_down ? MEMBERS - k : k)) % MEMBERS;

        part_input[k] = (char *)input[member] + first * elem_bytes;
        part_output[k] = (char *)output[k] + first * elem_bytes;
    }
    probe_sum_ordered(&part, part_input, part_output, MEMBERS);
}

/* An order of its own for every element, with no period. */
static void sum_by_element(struct probe_world *world, uint64_t call,
                           const struct ddp_coll_args *args, void *const *input,
                           void *const *output)
{
    uint32_t state = 12345;

    (void)world;
    (void)call;
    for (size_t i = 0; i < args->elem_count; i++) {
        state = state * 1664525u + 1013904223u;
        add_up(args, input, output, i, i + 1, (state >> 16) % MEMBERS, (state >> 30 & 1u) != 0);
    }
}

/* Chunks of growing odd sizes, the order one member on in each. */
static void sum_by_chunk(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                         void *const *input, void *const *output)
{
    size_t first = 0;

    (void)world;
    (void)call;
    for (uint32_t chunk = 0; first < args->elem_count; chunk++) {
        size_t end = first + 2 * (size_t)chunk + 1;

        end = end < args->elem_count ? end : args->elem_count;
        add_up(args, input, output, first, end, chunk % MEMBERS, false);
        first = end;
    }
}

static uint64_t period; /* of sum_by_call, in calls */

static void sum_by_call(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                        void *const *input, void *const *output)
{
    (void)world;
    add_up(args, input, output, 0, args->elem_count, 0, call / period % 2 != 0);
}

/* Only the last element is added up differently. */
static void sum_but_last(struct probe_world *world, uint64_t call, const struct ddp_coll_args *args,
                         void *const *input, void *const *output)
{
    (void)world;
    (void)call;
    add_up(args, input, output, 0, args->elem_count - 1, 0, false);
    add_up(args, input, output, args->elem_count - 1, args->elem_count, 2, false);
}

/* Whether the judge foretells the bits of a sum of random values. */
static bool is_predicted(struct probe_world *world, const struct harness_probe_request *request,
                         const struct harness_tree_map *map)
{
    const size_t size_bytes = request->elem_count * ddp_dtype_size_bytes(request->dtype);
    const struct ddp_coll_args args = {
        .redop = DDP_REDOP_SUM, .dtype = request->dtype, .elem_count = request->elem_count};
    struct ddp_mem *mem = ddp_mem_pool_mem(world->pool);
    void *input[MEMBERS];
    void *output[MEMBERS];
    void *expected[MEMBERS];

    for (uint32_t r = 0; r < MEMBERS; r++) {
        input[r] = ddp_mem_array(mem, size_bytes, 1);
        output[r] = ddp_mem_array(mem, size_bytes, 1);
        expected[r] = ddp_mem_array(mem, size_bytes, 1);
        probe_fill_random(request, r, input[r]);
    }
    world->config.sum(world, 0, &args, input, output);
    return harness_tree_run(map, input, expected) == DDP_OK &&
           memcmp(output[0], expected[0], size_bytes) == 0;
}

static void expect_measured(probe_sum sum)
{
    const struct probe_config config = {
        .count = MEMBERS, .program = probe_twice, .sum = sum, .seed = 5};
    struct probe_world world;

    CT_REQUIRE(probe_world_run(&world, &config));
    for (size_t i = 0; i < REQUESTS; i++) {
        struct harness_tree_map first;
        struct harness_tree_map last;

        CT_REQUIRE(probe_read_trees(&world, &requests[i], HARNESS_PROBE_FIRST, &first));
        CT_REQUIRE(probe_read_trees(&world, &requests[i], HARNESS_PROBE_LAST, &last));
        CT_CHECK(first.is_measured && last.is_measured && first.range_count > 1);
        CT_CHECK_EQ_U64(harness_tree_compare(&first, &last), ELEMS);
        CT_CHECK(is_predicted(&world, &requests[i], &first));
    }
    probe_world_close(&world);
}

CT_TEST(probe_adversary, every_element_has_its_own_order)
{
    expect_measured(sum_by_element);
}

CT_TEST(probe_adversary, orders_rotate_by_chunk)
{
    expect_measured(sum_by_chunk);
}

CT_TEST(probe_adversary, one_element_is_another)
{
    expect_measured(sum_but_last);
}

static const struct harness_probe_request few[] = {{7, DDP_DTYPE_F32}};

static void probe_few_twice(struct probe_rank *rank)
{
    CT_CHECK_OK(probe_round(rank, HARNESS_PROBE_FIRST, few, 1));
    CT_CHECK_OK(probe_round(rank, HARNESS_PROBE_LAST, few, 1));
}

static bool is_one_of_two(const struct harness_tree_map *map)
{
    char text[64];

    harness_tree_print(map, 0, text, sizeof text);
    return map->range_count == 1 &&
           (strcmp(text, "((((0 1) 2) 3) 4)") == 0 || strcmp(text, "((((0 4) 3) 2) 1)") == 0);
}

/* Two orders by turns, of any period: what both rounds say alike is one of the two. */
CT_TEST(probe_adversary, two_orders_by_turns)
{
    size_t alike = 0;

    for (period = 1; period <= 40; period++) {
        const struct probe_config config = {
            .count = MEMBERS, .program = probe_few_twice, .sum = sum_by_call, .seed = 5};
        struct probe_world world;
        struct harness_tree_map first;
        struct harness_tree_map last;

        CT_REQUIRE(probe_world_run(&world, &config));
        CT_REQUIRE(probe_read_trees(&world, few, HARNESS_PROBE_FIRST, &first));
        CT_REQUIRE(probe_read_trees(&world, few, HARNESS_PROBE_LAST, &last));
        if (harness_tree_is_known(&first, NULL, 0) && harness_tree_is_known(&last, NULL, 0) &&
            harness_tree_compare(&first, &last) == first.elem_count) {
            CT_CHECK(is_one_of_two(&first));
            alike++;
        }
        probe_world_close(&world);
    }
    CT_CHECK(alike < 10);
}
