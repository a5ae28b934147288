/* The prober at its limits: types and members it does not reach, members that stay away, a store
 * that a rank hosts. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/rank/probe_sums.h"
#include "tests/unit/rank/probe_world.h"

static const struct harness_probe_request one_request[] = {{40, DDP_DTYPE_F32}};

static const struct harness_probe_request far_requests[] = {
    {8, DDP_DTYPE_F16}, {8, DDP_DTYPE_I32}, {8, DDP_DTYPE_BF16}, {8, DDP_DTYPE_BF16}, {0, 0}};

static void probe_far(struct probe_rank *rank)
{
    CT_CHECK_OK(probe_round(rank, HARNESS_PROBE_FIRST, far_requests, 5));
}

/* What is out of reach says so; the rest of the same round is measured, each request once. */
CT_TEST(probe, limits_are_said)
{
    const struct probe_config config = {
        .count = 17, .program = probe_far, .sum = probe_sum_chain, .seed = 1};
    struct probe_world world;
    struct harness_tree_map map;

    CT_REQUIRE(probe_world_run(&world, &config));
    CT_REQUIRE(probe_read_trees(&world, &far_requests[0], HARNESS_PROBE_FIRST, &map));
    CT_CHECK(!map.is_measured && map.verdict == HARNESS_VERDICT_NONE);
    CT_CHECK_STR(map.text, "f16 is measured up to 16 members");
    CT_REQUIRE(probe_read_trees(&world, &far_requests[1], HARNESS_PROBE_FIRST, &map));
    CT_CHECK_STR(map.text, "i32 is not measured");
    CT_REQUIRE(probe_read_trees(&world, &far_requests[2], HARNESS_PROBE_FIRST, &map));
    CT_CHECK(map.is_measured);
    CT_CHECK_EQ_U64(world.call, 17 * 16 / 2 + 4 * 15);
    probe_world_close(&world);
}

/* Units of as many members as a type allows are still told apart from M, in a wide chain too. */
static void check_largest(uint32_t count, const struct harness_probe_request *request)
{
    const struct probe_config config = {
        .count = count, .program = probe_far, .sum = probe_sum_wide_chain, .seed = 1};
    struct probe_world world;
    struct harness_tree_map map;
    char text[800];

    CT_REQUIRE(probe_world_run(&world, &config));
    CT_REQUIRE(probe_read_trees(&world, request, HARNESS_PROBE_FIRST, &map));
    CT_CHECK_STR(map.text, "");
    CT_REQUIRE(map.is_measured);
    harness_tree_print(&map, 0, text, sizeof(text));
    CT_CHECK(strncmp(text, "([[[[[", 6) == 0);
    CT_CHECK_EQ_U64(map.op_count, 2 * (size_t)count - 1);
    probe_world_close(&world);
}

CT_TEST(probe, bf16_is_measured_up_to_64_members)
{
    check_largest(64, &far_requests[2]);
}

CT_TEST(probe, f16_is_measured_up_to_16_members)
{
    check_largest(16, &far_requests[0]);
}

static void stay_away(struct probe_rank *rank)
{
    if (rank->rank == 1) {
        /* Comes to the meeting, and posts nothing. */
        CT_CHECK_OK(ddp_store_barrier(&rank->env, rank->store, "probe/world/first/0/begin", 3,
                                      DDP_DEADLINE_NEVER));
        return;
    }
    CT_CHECK_STATUS(probe_round(rank, HARNESS_PROBE_FIRST, one_request, 1), DDP_E_TIMEOUT);
    CT_CHECK(rank->world->is_revoked);
    CT_CHECK(rank->env.faults == &rank->hook);
}

/* A member that does not take part ends the round in time, and nothing is left behind. */
CT_TEST(probe, absent_member_times_out)
{
    const struct probe_config config = {
        .count = 3, .program = stay_away, .sum = probe_sum_chain, .seed = 2};
    struct probe_world world;

    CT_REQUIRE(probe_world_run(&world, &config));
    probe_world_close(&world);
}

static void die(struct probe_rank *rank)
{
    struct ddp_event_entry entry = {0};

    if (rank->rank == 1) {
        CT_CHECK_OK(ddp_store_barrier(&rank->env, rank->store, "probe/world/first/0/begin", 3,
                                      DDP_DEADLINE_NEVER));
        probe_world_die(rank);
        return;
    }
    CT_CHECK_STATUS(probe_round(rank, HARNESS_PROBE_FIRST, one_request, 1), DDP_E_PEER_DIED);
    CT_CHECK_EQ_U64(rank->world->revocation.detail, 1);
    CT_CHECK_OK(ddp_ring_read(rank->recorder.ring, PROBE_RING_COUNT,
                              rank->recorder.page->event_count, &entry));
    CT_CHECK_EQ_U64(entry.event, DDP_EVENT_REVOKE);
    CT_CHECK_EQ_U64(entry.arg[3], 1);
}

/* A member that dies meanwhile is named to all, and on record. */
CT_TEST(probe, dead_member_is_named)
{
    const struct probe_config config = {
        .count = 3, .program = die, .sum = probe_sum_chain, .seed = 2};
    struct probe_world world;

    CT_REQUIRE(probe_world_run(&world, &config));
    CT_CHECK(world.is_revoked);
    probe_world_close(&world);
}

static void probe_twice(struct probe_rank *rank)
{
    CT_CHECK_OK(probe_round(rank, HARNESS_PROBE_FIRST, one_request, 1));
    CT_CHECK_OK(probe_round(rank, HARNESS_PROBE_LAST, one_request, 1));
}

/* A rank that hosts the store serves nobody from inside a collective: none is entered before all
 * have been served. */
CT_TEST(probe, hosted_store_serves_all)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        const struct probe_config config = {.count = 4,
                                            .program = probe_twice,
                                            .sum = probe_sum_chain,
                                            .is_hosted = true,
                                            .seed = seed};
        struct probe_world world;

        CT_REQUIRE(probe_world_run(&world, &config));
        CT_CHECK_EQ_U64(world.call, 28);
        probe_world_close(&world);
    }
}
