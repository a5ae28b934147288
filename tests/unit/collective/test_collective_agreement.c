/* Agreement: collectives that move nothing but their signatures. */
#include "tests/ct.h"
#include "tests/unit/collective/coll_world.h"

#define COUNT 100u

static float input[COLL_RANKS_MAX][COUNT], output[COLL_RANKS_MAX][COUNT * COLL_RANKS_MAX];

static void prepare(struct coll_world *world, enum ddp_coll_kind kind)
{
    for (uint32_t rank = 0; rank < world->count; rank++) {
        struct ddp_coll_args *args = &world->ranks[rank].work.args;

        args->kind = kind;
        args->elem_count = COUNT;
        args->input = input[rank];
        args->output = output[rank];
        for (uint32_t i = 0; i < COUNT; i++) {
            input[rank][i] = (float)rank;
            output[rank][i] = -1.0f;
        }
    }
}

CT_TEST(collective_agreement, of_every_kind_moves_no_data)
{
    const struct coll_world_options options = {.is_agreement = true};

    for (uint32_t count = 1; count <= 5; count++) {
        struct coll_world world;

        CT_REQUIRE(coll_world_open(&world, count, &options));
        for (int kind = 0; kind < DDP_COLL_KIND_COUNT; kind++) {
            prepare(&world, (enum ddp_coll_kind)kind);
            for (uint32_t rank = 0; rank < count; rank++) {
                CT_CHECK_OK(coll_world_post(&world, rank));
            }
            CT_CHECK(coll_world_run(&world));
            for (uint32_t rank = 0; rank < count; rank++) {
                CT_CHECK_OK(world.ranks[rank].work.status);
                CT_CHECK(output[rank][0] == -1.0f && output[rank][COUNT - 1] == -1.0f);
            }
        }
        coll_world_close(&world);
    }
}

/* No member is done before the last one has posted. */
CT_TEST(collective_agreement, waits_for_every_member)
{
    const struct coll_world_options options = {.is_agreement = true};
    struct coll_world world;
    bool is_done = false;

    CT_REQUIRE(coll_world_open(&world, 3, &options));
    prepare(&world, DDP_COLL_ALL_REDUCE);
    CT_CHECK_OK(coll_world_post(&world, 0));
    CT_CHECK_OK(coll_world_post(&world, 2));
    while (coll_world_step(&world, &is_done)) {
    }
    CT_CHECK_STATUS(world.ranks[0].work.status, DDP_PENDING);
    CT_CHECK_STATUS(world.ranks[2].work.status, DDP_PENDING);
    CT_CHECK_OK(coll_world_post(&world, 1));
    CT_CHECK(coll_world_run(&world));
    CT_CHECK_OK(world.ranks[0].work.status);
    coll_world_close(&world);
}

CT_TEST(collective_agreement, fails_on_any_difference)
{
    const struct coll_world_options options = {.is_agreement = true};

    for (int what = 0; what < 5; what++) {
        struct coll_world world;
        struct ddp_coll_args *args = &world.ranks[2].work.args;

        CT_REQUIRE(coll_world_open(&world, 3, &options));
        prepare(&world, DDP_COLL_ALL_REDUCE);
        args->elem_count -= what == 0 ? 1 : 0;
        args->dtype = what == 1 ? DDP_DTYPE_I32 : args->dtype;
        args->redop = what == 2 ? DDP_REDOP_MAX : args->redop;
        args->index = what == 3 ? 7 : args->index;
        args->kind = what == 4 ? DDP_COLL_BARRIER : args->kind;
        for (uint32_t rank = 0; rank < 3; rank++) {
            CT_CHECK_OK(coll_world_post(&world, rank));
        }
        CT_CHECK(coll_world_run(&world));
        for (uint32_t rank = 0; rank < 3; rank++) {
            ddp_status status = world.ranks[rank].work.status;

            CT_CHECK(status == DDP_E_MISMATCH || status == DDP_E_REVOKED);
        }
        coll_world_close(&world);
    }
}
