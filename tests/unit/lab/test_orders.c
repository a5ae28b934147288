/* Orders in which messages arrive, and messages that do not. */
#include <string.h>

#include "ddpcore/schedule/algorithm.h"
#include "ddpcore/schedule/schedule.h"
#include "harness/lab/orders.h"
#include "tests/ct.h"

static struct harness_orders_result try_all(struct harness_orders_config config)
{
    struct harness_orders_result result;
    struct ddp_err err = {""};

    CT_CHECK_OK(harness_orders_all(&config, &result, &err));
    return result;
}

/* Of two ranks, one message each way at a time: orders can be counted. */
CT_TEST(orders, small_worlds_are_exhausted)
{
    struct harness_orders_result result = try_all((struct harness_orders_config){
        .algorithm = DDP_ALGORITHM_RING, .world = 2, .elem_count = 4, .runs_max = 1000});

    CT_CHECK_STR(result.wrong, "");
    CT_CHECK(result.is_exhaustive);
    CT_CHECK(result.run_count > 1 && result.run_count < 100);
    result = try_all((struct harness_orders_config){
        .algorithm = DDP_ALGORITHM_LINEAR, .world = 2, .elem_count = 4, .runs_max = 1000});
    CT_CHECK_STR(result.wrong, "");
    CT_CHECK(result.is_exhaustive && result.run_count == 1); /* there and back */
}

/* Adds what comes in the order in which it comes: right, and other bits each time. */
static ddp_status emit_unordered(struct ddp_schedule_emitter *emitter,
                                 struct ddp_schedule *schedule, struct ddp_err *err)
{
    (void)emitter;
    (void)err;
    ddp_algorithm_find(DDP_COLL_ALL_REDUCE, DDP_ALGORITHM_LINEAR)->emit(schedule);
    for (size_t i = 0; i < schedule->step_count; i++) {
        struct ddp_step *step = &schedule->steps[i];

        if (step->kind == DDP_STEP_RECV_REDUCE && step->peer > 1) {
            step->dep_count = 1; /* after the copy of the input alone */
            step->dep[0] = 0;
        }
    }
    return schedule->status;
}

CT_TEST(orders, a_missing_dependency_shows)
{
    struct ddp_schedule_emitter emitter = {emit_unordered};
    struct harness_orders_result result = try_all((struct harness_orders_config){
        .emitter = &emitter, .world = 4, .elem_count = 64, .runs_max = 1000});

    if (strstr(result.wrong, "has other bits than in the first") == NULL) {
        CT_FAIL("%llu orders show nothing but \"%s\"", (unsigned long long)result.run_count,
                result.wrong);
    }
}

/* It waits for a message that nobody sends. */
static ddp_status emit_stuck(struct ddp_schedule_emitter *emitter, struct ddp_schedule *schedule,
                             struct ddp_err *err)
{
    (void)emitter;
    (void)err;
    ddp_algorithm_find(DDP_COLL_ALL_REDUCE, DDP_ALGORITHM_LINEAR)->emit(schedule);
    if (schedule->params.rank == 1) {
        schedule->step_count--;
        for (size_t i = 0; i < schedule->step_count; i++) {
            schedule->steps[i].peer = 2;
        }
    }
    return schedule->status;
}

CT_TEST(orders, a_hang_is_said)
{
    struct ddp_schedule_emitter emitter = {emit_stuck};
    struct harness_orders_result result = try_all((struct harness_orders_config){
        .emitter = &emitter, .world = 3, .elem_count = 4, .runs_max = 10});

    CT_CHECK(result.wrong[0] != '\0');
}

/* What the core cannot notice is found by the same search, so that it is able to find something. */
CT_TEST(orders, changed_messages_are_found)
{
    struct harness_orders_config config = {
        .algorithm = DDP_ALGORITHM_RING, .world = 3, .elem_count = 12, .runs_max = 1};
    struct harness_orders_result result;
    struct ddp_err err = {""};

    CT_REQUIRE_OK(harness_orders_spoiled(&config, &result, &err));
    CT_CHECK_STR(result.wrong, "");
    CT_CHECK(result.run_count > 3 * 12);
    config.is_flipping = true;
    CT_REQUIRE_OK(harness_orders_spoiled(&config, &result, &err));
    if (strstr(result.wrong, "is changed, and rank") == NULL) {
        CT_FAIL("\"%s\" is all that shows", result.wrong);
    }
}

/* Each rank dies before each message; a transport that says nothing of it leaves others waiting. */
CT_TEST(orders, deaths_are_told)
{
    struct harness_orders_config config = {
        .algorithm = DDP_ALGORITHM_RING, .world = 3, .elem_count = 7, .runs_max = 1};
    struct harness_orders_result result;
    struct ddp_err err = {""};

    CT_CHECK_OK(harness_orders_killed(&config, &result, &err));
    CT_CHECK_STR(result.wrong, "");
    CT_CHECK_EQ_U64(result.run_count, 1 + 3 * (12 + 1));
    config.is_deaf = true;
    CT_CHECK_OK(harness_orders_killed(&config, &result, &err));
    CT_CHECK(strstr(result.wrong, "rank 0 dies before message 0, and rank") != NULL);
    CT_CHECK(strstr(result.wrong, "waits for ever") != NULL);
}
