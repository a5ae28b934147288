/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * Turns: two ranks in one thread, and nothing that goes on by itself. */
#include <string.h>

#include "tests/ct.h"
#include "tests/standin/nccl/cases.h"
#include "tests/standin/nccl/hooks.h"
#include "tests/standin/nccl/world.h"

#define TURNS 100

static int state_of(struct world *world, int rank)
{
    int state = STANDIN_SUCCESS;
    CT_CHECK_EQ_I64(ncclCommGetAsyncError(world->comm[rank], &state), STANDIN_SUCCESS);
    return state;
}

static void take_turns(void)
{
    for (int i = 0; i < TURNS; i++) {
        ddp_nccl_standin_turn();
    }
}

static void check_log(const char *const *lines, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        const char *line = ddp_nccl_standin_call(i);
        CT_CHECK_STR(line != NULL ? line : "", lines[i]);
    }
    CT_CHECK(ddp_nccl_standin_call(count) == NULL);
}

CT_TEST(nccl_standin_turns, nothing_goes_on_between_turns)
{
    static const char *const lines[] = {"0: ncclCommInitRankConfig 0 2",
                                        "1: ncclCommInitRankConfig 1 2",
                                        "0: ncclAllReduce 300 0",
                                        "1: ncclAllReduce 300 0",
                                        "0: ncclCommAbort",
                                        "1: ncclCommAbort"};
    struct world world;
    ddp_nccl_standin_turns(true);
    uint64_t asked = ddp_nccl_standin_asked();
    world_start(&world, 2, "bus_id=unique");
    for (int i = 0; i < TURNS; i++) {
        CT_CHECK_EQ_I64(state_of(&world, 0), STANDIN_IN_PROGRESS);
    }
    CT_CHECK(ddp_nccl_standin_asked() >= asked + TURNS);
    take_turns();
    CT_CHECK_EQ_I64(state_of(&world, 0), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(state_of(&world, 1), STANDIN_SUCCESS);
    /* Rank 0 cannot launch without rank 1, whatever time passes. */
    world.data[0][7] = 2;
    world.data[1][7] = 3;
    CT_CHECK_EQ_I64(world_all_reduce(&world, 0), STANDIN_IN_PROGRESS);
    take_turns();
    CT_CHECK_EQ_I64(state_of(&world, 0), STANDIN_IN_PROGRESS);
    CT_CHECK_EQ_I64(world_all_reduce(&world, 1), STANDIN_IN_PROGRESS);
    CT_CHECK(world.data[0][7] == 2);
    take_turns();
    CT_CHECK_EQ_I64(state_of(&world, 0), STANDIN_SUCCESS);
    CT_CHECK_EQ_U64(ddp_nccl_standin_pending(world.comm[0]), 0);
    CT_CHECK(world.data[0][7] == 5 && world.data[1][7] == 5);
    world_abort(&world);
    check_log(lines, 6);
    ddp_nccl_standin_turns(false);
}
