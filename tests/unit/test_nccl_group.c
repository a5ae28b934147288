/* Joining a group over NCCL, and leaving it when others do not. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/nccl_world.h"

static void check_text(const struct nccl_world *world, uint32_t rank, const char *text)
{
    if (strstr(world->ranks[rank].err.text, text) == NULL) {
        CT_FAIL("\"%s\" does not say \"%s\"", world->ranks[rank].err.text, text);
    }
}

CT_TEST(nccl_group, id_that_cannot_be_made_ends_all)
{
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;

    nccl_world_begin(&world, 3, &options);
    world.fake.id_result = DDP_NCCL_SYSTEM_ERROR;
    world.fake.last_error = "Call to socket failed";
    CT_CHECK_STATUS(nccl_world_join(&world, 0), DDP_E_SYSTEM);
    check_text(&world, 0,
               "NCCL group world: ncclGetUniqueId: unhandled system error (Call to socket failed)");
    /* Nobody would ever set the key, and there is no deadline. */
    CT_CHECK_STATUS(nccl_world_join(&world, 1), DDP_E_REVOKED);
    check_text(&world, 1, "while the id was shared");
    CT_CHECK_STATUS(nccl_world_join(&world, 2), DDP_E_REVOKED);
    nccl_world_close(&world);
}

CT_TEST(nccl_group, members_that_never_come)
{
    const struct nccl_world_options options = {.is_checked = true, .init_timeout_ns = 1000000};
    struct nccl_world world;

    nccl_world_begin(&world, 2, &options);
    CT_CHECK_STATUS(nccl_world_join(&world, 1), DDP_E_TIMEOUT);
    check_text(&world, 1, "the deadline passed, while the id was shared");
    nccl_world_close(&world);

    nccl_world_begin(&world, 2, &options);
    world.fake.init_after = DDP_NCCL_IN_PROGRESS;
    CT_CHECK_STATUS(nccl_world_join(&world, 0), DDP_E_TIMEOUT);
    check_text(&world, 0, "not all members have connected in time");
    nccl_world_close(&world);
    CT_CHECK_EQ_I64(world.fake.comms[0].aborts, 1);
}

CT_TEST(nccl_group, refusal_to_connect_ends_all)
{
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;

    nccl_world_begin(&world, 2, &options);
    world.fake.is_init_null = true;
    world.fake.init_result = DDP_NCCL_CUDA_ERROR;
    world.fake.last_error = "no driver";
    CT_CHECK_STATUS(nccl_world_join(&world, 0), DDP_E_DEVICE);
    check_text(&world, 0, "ncclCommInitRankConfig: unhandled cuda error (no driver)");
    world.fake.is_init_null = false;
    world.fake.init_result = DDP_NCCL_IN_PROGRESS;
    world.fake.init_after = DDP_NCCL_IN_PROGRESS;
    CT_CHECK_STATUS(nccl_world_join(&world, 1), DDP_E_REVOKED);
    nccl_world_close(&world);
    CT_CHECK_EQ_U64(world.fake.comm_count, 1);
    CT_CHECK_EQ_I64(world.fake.comms[0].aborts, 1);
}

CT_TEST(nccl_group, member_that_dies_while_others_connect)
{
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;

    nccl_world_begin(&world, 2, &options);
    world.fake.init_after = DDP_NCCL_IN_PROGRESS;
    ddp_loop_net_kill(world.net, 1);
    CT_CHECK_STATUS(nccl_world_join(&world, 0), DDP_E_PEER_DIED);
    nccl_world_close(&world);
    CT_CHECK_EQ_I64(world.fake.comms[0].aborts, 1);
}

CT_TEST(nccl_group, unknown_algorithm)
{
    const struct nccl_world_options options = {.algorithm = "tree_of_life"};
    struct nccl_world world;

    nccl_world_begin(&world, 1, &options);
    CT_CHECK_STATUS(nccl_world_join(&world, 0), DDP_E_NOT_FOUND);
    check_text(&world, 0, "ring");
    nccl_world_close(&world);
    CT_CHECK_EQ_U64(world.fake.comm_count, 0);
}

/* Wherever memory runs out, nothing is left behind. */
CT_TEST(nccl_group, memory_may_run_out_anywhere)
{
    const struct nccl_world_options options = {.is_checked = true, .algorithm = "ring"};
    bool has_failed = true;

    for (uint64_t allocations = 0; has_failed; allocations++) {
        struct nccl_world world;

        CT_REQUIRE(allocations < 1000);
        nccl_world_begin(&world, 1, &options);
        ddp_mem_pool_fail_after(world.ranks[0].pool, allocations, -1);
        has_failed = nccl_world_join(&world, 0) != DDP_OK;
        if (has_failed) {
            CT_CHECK_STATUS(world.ranks[0].created, DDP_E_NOMEM);
        }
        nccl_world_close(&world);
    }
}

/* The others are gone before this member ends: there is nobody to flush to. */
CT_TEST(nccl_group, finalize_ends_with_a_death)
{
    const struct nccl_world_options options = {.is_checked = true};
    struct nccl_world world;

    CT_REQUIRE(nccl_world_open(&world, 2, &options));
    world.fake.comms[0].after = DDP_NCCL_IN_PROGRESS;
    nccl_world_kill(&world, 1);
    nccl_world_close(&world);
    CT_CHECK_EQ_I64(world.fake.comms[0].finalizes, 1);
    CT_CHECK_EQ_I64(world.fake.comms[0].aborts, 1);
    CT_CHECK_EQ_I64(world.fake.comms[0].destroys, 0);
}
