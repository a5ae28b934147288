/* A stand-in for NCCL, for tests only. Nothing it does is a GPU result.
 *
 * States and failures of the stand-in. Non-blocking communicators let one thread be all ranks;
 * every communicator has its own card unless a test says otherwise. */
#include <string.h>

#include "tests/ct.h"
#include "tests/standin/nccl/cases.h"
#include "tests/standin/nccl/hooks.h"
#include "tests/standin/nccl/world.h"

CT_TEST(nccl_standin_failures, missing_rank_leaves_init_in_progress)
{
    struct standin_id id;
    struct standin_config config = world_config(0);
    struct standin_comm *comm = NULL;
    float value = 1;
    int count = 0;
    CT_CHECK_EQ_I64(ddp_nccl_standin_script("bus_id=unique"), STANDIN_SUCCESS);
    CT_REQUIRE(ncclGetUniqueId(&id) == STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclCommInitRankConfig(&comm, 2, id, 0, &config), STANDIN_IN_PROGRESS);
    CT_REQUIRE(comm != NULL);
    CT_CHECK_EQ_I64(ncclCommCount(comm, &count), STANDIN_INVALID_ARGUMENT);
    CT_CHECK_EQ_I64(ncclAllReduce(&value, &value, 1, STANDIN_FLOAT32, STANDIN_SUM, comm, NULL),
                    STANDIN_INVALID_ARGUMENT);
    CT_CHECK(world_error_has("before the previous operation returned ncclSuccess"));
    CT_CHECK_EQ_I64(ncclCommAbort(comm), STANDIN_SUCCESS);
    CT_CHECK_EQ_U64(ddp_nccl_standin_comm_count(), 0);
}

CT_TEST(nccl_standin_failures, refuses_one_card_twice)
{
    struct world world;
    world_start(&world, 2, "bus_id=device");
    CT_CHECK_EQ_I64(case_await(world.comm[0]), STANDIN_INVALID_USAGE);
    CT_CHECK_EQ_I64(case_await(world.comm[1]), STANDIN_INVALID_USAGE);
    CT_CHECK(world_error_has("Duplicate GPU detected : rank"));
    world_abort(&world);
}

CT_TEST(nccl_standin_failures, peers_see_an_abort_as_remote_error)
{
    struct world world;
    int exclude[1] = {1};
    struct standin_comm *child = NULL;
    world_init(&world, 2, "bus_id=unique");
    CT_CHECK_EQ_I64(case_await(world.comm[0]), STANDIN_SUCCESS);
    CT_CHECK(world_all_reduce(&world, 0) != STANDIN_INVALID_ARGUMENT);
    CT_CHECK_EQ_I64(case_await(world.comm[0]), STANDIN_SUCCESS);
    CT_CHECK_EQ_U64(ddp_nccl_standin_pending(world.comm[0]), 1);
    CT_CHECK_EQ_I64(ncclCommAbort(world.comm[1]), STANDIN_SUCCESS);
    world.comm[1] = NULL;
    int state = STANDIN_SUCCESS;
    while (state == STANDIN_SUCCESS) {
        CT_CHECK_EQ_I64(ncclCommGetAsyncError(world.comm[0], &state), STANDIN_SUCCESS);
    }
    CT_CHECK_EQ_I64(state, STANDIN_REMOTE_ERROR);
    CT_CHECK(world_error_has("Connection closed by remote peer"));
    CT_CHECK_EQ_U64(ddp_nccl_standin_pending(world.comm[0]), 1);
    CT_CHECK_EQ_I64(world_all_reduce(&world, 0), STANDIN_REMOTE_ERROR);
    /* The proxy's error stays, so that the communicator cannot be shrunk. */
    CT_CHECK_EQ_I64(ncclCommShrink(world.comm[0], exclude, 1, &child, NULL, STANDIN_SHRINK_ABORT),
                    STANDIN_REMOTE_ERROR);
    CT_CHECK_EQ_U64(ddp_nccl_standin_pending(world.comm[0]), 0);
    world_abort(&world);
}

CT_TEST(nccl_standin_failures, shrinks_after_an_error_if_told_to)
{
    struct world world;
    int exclude[1] = {1};
    struct standin_comm *child = NULL;
    world_init(&world, 2, "bus_id=unique;async_after_op=2:remote_error;shrink_after_error=ok");
    for (int i = 0; i < 2; i++) {
        CT_CHECK(world_all_reduce(&world, i) != STANDIN_INVALID_ARGUMENT);
    }
    int state = STANDIN_SUCCESS;
    while (state == STANDIN_SUCCESS || state == STANDIN_IN_PROGRESS) {
        CT_CHECK_EQ_I64(ncclCommGetAsyncError(world.comm[0], &state), STANDIN_SUCCESS);
    }
    CT_CHECK_EQ_I64(state, STANDIN_REMOTE_ERROR);
    CT_CHECK_EQ_I64(ncclCommShrink(world.comm[0], exclude, 1, &child, NULL, STANDIN_SHRINK_ABORT),
                    STANDIN_SUCCESS);
    /* The parent's state cannot tell when: it goes from in progress back to the proxy's error. */
    CT_CHECK_EQ_I64(case_await(world.comm[0]), STANDIN_REMOTE_ERROR);
    CT_REQUIRE(child != NULL);
    CT_CHECK_EQ_I64(ncclCommAbort(child), STANDIN_SUCCESS);
    world_abort(&world);
}

CT_TEST(nccl_standin_failures, first_collective_waits_for_its_neighbours)
{
    struct world world;
    world_start(&world, 2, "bus_id=unique");
    CT_CHECK_EQ_I64(case_await(world.comm[0]), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(case_await(world.comm[1]), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(world_all_reduce(&world, 0), STANDIN_IN_PROGRESS);
    CT_CHECK_EQ_U64(ddp_nccl_standin_pending(world.comm[0]), 0);
    CT_CHECK_EQ_I64(ncclCommAbort(world.comm[1]), STANDIN_SUCCESS);
    world.comm[1] = NULL;
    CT_CHECK_EQ_I64(case_await(world.comm[0]), STANDIN_REMOTE_ERROR);
    world_abort(&world);
}

static void revoke_all(struct world *world, int count)
{
    for (int i = 0; i < count; i++) {
        int result = ncclCommRevoke(world->comm[i], 0);
        CT_CHECK(result == STANDIN_SUCCESS || result == STANDIN_IN_PROGRESS);
        CT_CHECK_EQ_I64(case_await(world->comm[i]), STANDIN_SUCCESS);
        CT_CHECK_EQ_U64(ddp_nccl_standin_pending(world->comm[i]), 0);
    }
}

static void shrink_all(struct world *world, int excluded, int flags, struct world *children)
{
    memset(children, 0, sizeof *children);
    for (int i = 0; i < world->count; i++) {
        int exclude[1] = {excluded};
        if (i != excluded) {
            CT_CHECK_EQ_I64(ncclCommShrink(world->comm[i], exclude, 1,
                                           &children->comm[children->count], NULL, flags),
                            STANDIN_SUCCESS);
            children->count++;
        }
    }
    for (int i = 0; i < world->count; i++) {
        if (i != excluded) {
            CT_CHECK_EQ_I64(case_await(world->comm[i]), STANDIN_SUCCESS);
        }
    }
    for (int i = 0; i < children->count; i++) {
        int rank = -1;
        CT_CHECK(children->comm[i] != NULL);
        CT_CHECK_EQ_I64(ncclCommUserRank(children->comm[i], &rank), STANDIN_SUCCESS);
        CT_CHECK_EQ_I64(rank, i);
    }
}

static void children_abort(struct world *children)
{
    for (int i = 0; i < children->count; i++) {
        CT_CHECK_EQ_I64(ncclCommAbort(children->comm[i]), STANDIN_SUCCESS);
    }
}

CT_TEST(nccl_standin_failures, revoked_communicator_can_be_shrunk)
{
    struct world world, children;
    world_init(&world, 3, "bus_id=unique");
    for (int i = 0; i < 2; i++) {
        CT_CHECK(world_all_reduce(&world, i) != STANDIN_INVALID_ARGUMENT);
        CT_CHECK_EQ_I64(case_await(world.comm[i]), STANDIN_SUCCESS);
        CT_CHECK_EQ_U64(ddp_nccl_standin_pending(world.comm[i]), 1);
    }
    CT_CHECK_EQ_I64(ncclCommRevoke(world.comm[0], 1), STANDIN_INVALID_ARGUMENT);
    revoke_all(&world, 2);
    CT_CHECK_EQ_I64(ncclCommRevoke(world.comm[0], 0), STANDIN_INVALID_ARGUMENT);
    CT_CHECK_EQ_I64(world_all_reduce(&world, 0), STANDIN_INVALID_USAGE);
    CT_CHECK(world_error_has("AllReduce: communicator was revoked"));
    shrink_all(&world, 2, 0, &children);
    world_warm_up(&children);
    children_abort(&children);
    CT_CHECK_EQ_I64(ncclCommFinalize(world.comm[0]), STANDIN_INVALID_ARGUMENT);
    world_abort(&world);
}

CT_TEST(nccl_standin_failures, shrink_may_abort_what_is_outstanding)
{
    struct world world, children;
    world_init(&world, 4, "bus_id=unique");
    for (int i = 0; i < 3; i++) {
        CT_CHECK(world_all_reduce(&world, i) != STANDIN_INVALID_ARGUMENT);
        CT_CHECK_EQ_I64(case_await(world.comm[i]), STANDIN_SUCCESS);
    }
    shrink_all(&world, 3, STANDIN_SHRINK_ABORT, &children);
    world_warm_up(&children);
    children_abort(&children);
    world_abort(&world);
}

CT_TEST(nccl_standin_failures, exclude_list_is_checked_and_sorted)
{
    struct world world;
    int exclude[3] = {3, 1, 2};
    struct standin_comm *child = NULL;
    world_init(&world, 4, "bus_id=unique");
    CT_CHECK_EQ_I64(ncclCommShrink(world.comm[0], exclude, 0, &child, NULL, 0),
                    STANDIN_INVALID_ARGUMENT);
    CT_CHECK_EQ_I64(ncclCommShrink(world.comm[2], exclude, 3, &child, NULL, 0),
                    STANDIN_INVALID_ARGUMENT);
    CT_CHECK(exclude[0] == 1 && exclude[1] == 2 && exclude[2] == 3);
    CT_CHECK(child == NULL);
    CT_CHECK_EQ_I64(ncclCommShrink(world.comm[0], exclude, 3, &child, NULL, 0), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(case_await(world.comm[0]), STANDIN_SUCCESS);
    CT_REQUIRE(child != NULL);
    CT_CHECK_EQ_I64(ncclCommAbort(child), STANDIN_SUCCESS);
    world_abort(&world);
}

CT_TEST(nccl_standin_failures, splits_by_color_and_key)
{
    static const int colors[4] = {0, 1, 0, STANDIN_NO_COLOR};
    struct world world;
    struct standin_comm *child[4] = {NULL, NULL, NULL, NULL};
    int rank = -1, count = -1;
    world_init(&world, 4, "bus_id=unique");
    for (int i = 0; i < 4; i++) {
        CT_CHECK_EQ_I64(ncclCommSplit(world.comm[i], colors[i], -i, &child[i], NULL),
                        STANDIN_SUCCESS);
    }
    for (int i = 0; i < 4; i++) {
        CT_CHECK_EQ_I64(case_await(world.comm[i]), STANDIN_SUCCESS);
    }
    CT_REQUIRE(child[0] != NULL && child[1] != NULL && child[2] != NULL && child[3] == NULL);
    CT_CHECK_EQ_I64(ncclCommUserRank(child[2], &rank), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclCommCount(child[1], &count), STANDIN_SUCCESS);
    CT_CHECK(rank == 0 && count == 1);
    CT_CHECK_EQ_I64(ncclCommUserRank(child[0], &rank), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(ncclCommCount(child[0], &count), STANDIN_SUCCESS);
    CT_CHECK(rank == 1 && count == 2);
    for (int i = 0; i < 3; i++) {
        CT_CHECK_EQ_I64(ncclCommAbort(child[i]), STANDIN_SUCCESS);
    }
    world_abort(&world);
}

static void start_transfer(struct world *world, size_t send_count, size_t recv_count)
{
    int result = ncclSend(world->data[0], send_count, STANDIN_FLOAT32, 1, world->comm[0], NULL);
    CT_CHECK(result == STANDIN_SUCCESS || result == STANDIN_IN_PROGRESS);
    /* May already have seen what comes. */
    result = ncclRecv(world->data[1], recv_count, STANDIN_FLOAT32, 0, world->comm[1], NULL);
    CT_CHECK(result != STANDIN_INVALID_ARGUMENT);
    CT_CHECK_EQ_I64(case_await(world->comm[0]), STANDIN_SUCCESS);
    (void)case_await(world->comm[1]);
}

CT_TEST(nccl_standin_failures, only_a_longer_message_is_noticed)
{
    struct world world;
    int state = STANDIN_SUCCESS;
    world_init(&world, 2, "bus_id=unique");
    world.data[0][4] = 4;
    world.data[1][5] = 5;
    start_transfer(&world, 5, 10);
    CT_CHECK(case_await_idle(world.comm[1]));
    CT_CHECK(world.data[1][4] == 4 && world.data[1][5] == 5);
    start_transfer(&world, 10, 5);
    while (state == STANDIN_SUCCESS) {
        CT_CHECK_EQ_I64(ncclCommGetAsyncError(world.comm[1], &state), STANDIN_SUCCESS);
    }
    CT_CHECK_EQ_I64(state, STANDIN_INVALID_USAGE);
    CT_CHECK(world_error_has("message truncated : receiving 40 bytes instead of 20"));
    world_abort(&world);
}

CT_TEST(nccl_standin_failures, counts_that_differ_are_noticed_where_more_arrives)
{
    struct world world;
    int state = STANDIN_SUCCESS;
    world_init(&world, 2, "bus_id=unique");
    CT_CHECK(world_all_reduce(&world, 0) != STANDIN_INVALID_ARGUMENT);
    (void)ncclAllReduce(world.data[1], world.data[1], 10, STANDIN_FLOAT32, STANDIN_SUM,
                        world.comm[1], NULL);
    while (state == STANDIN_SUCCESS || state == STANDIN_IN_PROGRESS) {
        CT_CHECK_EQ_I64(ncclCommGetAsyncError(world.comm[1], &state), STANDIN_SUCCESS);
    }
    CT_CHECK_EQ_I64(state, STANDIN_INVALID_USAGE);
    CT_CHECK_EQ_I64(ncclCommGetAsyncError(world.comm[0], &state), STANDIN_SUCCESS);
    CT_CHECK_EQ_I64(state, STANDIN_SUCCESS);
    CT_CHECK_EQ_U64(ddp_nccl_standin_pending(world.comm[0]), 1);
    world_abort(&world);
}

CT_TEST(nccl_standin_failures, empty_collectives_are_local)
{
    struct world world;
    world_init(&world, 2, "bus_id=unique");
    CT_CHECK_EQ_I64(ncclAllReduce(NULL, NULL, 0, STANDIN_FLOAT32, STANDIN_SUM, world.comm[0], NULL),
                    STANDIN_SUCCESS);
    CT_CHECK_EQ_U64(ddp_nccl_standin_pending(world.comm[0]), 0);
    world_abort(&world);
}

CT_TEST(nccl_standin_failures, group_of_nonblocking_calls_is_polled)
{
    struct world world;
    float out[2] = {0, 0};
    world_init(&world, 2, "bus_id=unique");
    world.data[0][0] = 5;
    world.data[1][0] = 6;
    CT_CHECK_EQ_I64(ncclGroupStart(), STANDIN_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CT_CHECK_EQ_I64(ncclSend(world.data[i], 1, STANDIN_FLOAT32, 1 - i, world.comm[i], NULL),
                        STANDIN_SUCCESS);
        CT_CHECK_EQ_I64(ncclRecv(&out[i], 1, STANDIN_FLOAT32, 1 - i, world.comm[i], NULL),
                        STANDIN_SUCCESS);
        CT_CHECK_EQ_I64(ncclSend(NULL, 0, STANDIN_FLOAT32, 1 - i, world.comm[i], NULL),
                        STANDIN_SUCCESS);
        CT_CHECK_EQ_I64(ncclRecv(NULL, 0, STANDIN_FLOAT32, 1 - i, world.comm[i], NULL),
                        STANDIN_SUCCESS);
    }
    CT_CHECK_EQ_I64(ncclGroupEnd(), STANDIN_IN_PROGRESS);
    for (int i = 0; i < 2; i++) {
        CT_CHECK_EQ_I64(case_finish(world.comm[i], case_await(world.comm[i])), STANDIN_SUCCESS);
    }
    CT_CHECK(out[0] == 6 && out[1] == 5);
    world_abort(&world);
}

CT_TEST(nccl_standin_failures, fp8_is_moved_but_not_reduced)
{
    struct world world;
    unsigned char value = 7, out = 0;
    world_init(&world, 1, NULL);
    CT_CHECK_EQ_I64(case_finish(world.comm[0], ncclAllGather(&value, &out, 1, STANDIN_FLOAT8_E4M3,
                                                             world.comm[0], NULL)),
                    STANDIN_SUCCESS);
    CT_CHECK_EQ_U64(out, 7);
    CT_CHECK_EQ_I64(
        ncclAllReduce(&value, &out, 1, STANDIN_FLOAT8_E5M2, STANDIN_SUM, world.comm[0], NULL),
        STANDIN_INVALID_ARGUMENT);
    CT_CHECK(world_error_has("FP8 reduction support begins with sm90"));
    world_abort(&world);
}
