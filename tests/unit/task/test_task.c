/* Tasks: one stack for those that never wait, exchanges in the middle, refusals, clean ends. */
#include <string.h>

#include "harness/task/task.h"
#include "tests/ct.h"

enum { RANKS = 4 };

struct world {
    struct ddp_mem_pool *pool;
    struct ddp_mem *mem;
    struct harness_task_stacks *stacks;
    struct ddp_err err;
    double value[RANKS], deviation[RANKS];
    uint32_t begun_count, ended_count;
    ddp_status seen[RANKS]; /* what the exchange returned */
};

static bool open_world(struct world *world)
{
    memset(world, 0, sizeof(*world));
    if (ddp_mem_pool_create(&world->pool) != DDP_OK) {
        return false;
    }
    world->mem = ddp_mem_pool_mem(world->pool);
    return harness_task_stacks_create(world->mem, &world->stacks) == DDP_OK;
}

/* Nothing may be left behind, however the group ended. */
static void close_world(struct world *world)
{
    harness_task_stacks_destroy(world->stacks);
    CT_CHECK_EQ_U64(ddp_mem_pool_block_count(world->pool), 0);
    ddp_mem_pool_destroy(world->pool);
}

static ddp_status run(struct world *world,
                      ddp_status (*code)(void *context, uint32_t index, struct harness_task *task))
{
    const struct harness_task_group group = {.task_count = RANKS, .context = world, .run = code};

    return harness_task_group_run(&group, world->stacks, &world->err);
}

static ddp_status never_wait(void *context, uint32_t index, struct harness_task *task)
{
    struct world *world = context;

    (void)task;
    CT_CHECK_EQ_U64(world->begun_count, index);
    world->begun_count++;
    return DDP_OK;
}

/* Tasks that never wait run one after another on one stack, which later groups use again. */
CT_TEST(task, one_stack_is_enough_for_those_that_never_wait)
{
    struct world world;

    CT_REQUIRE(open_world(&world));
    for (int round = 0; round < 3; round++) {
        world.begun_count = 0;
        CT_CHECK_OK(run(&world, never_wait));
        CT_CHECK_EQ_U64(world.begun_count, RANKS);
    }
    CT_CHECK_EQ_U64(harness_task_stacks_count(world.stacks), 1);
    close_world(&world);
}

/* Mean of all values, then the mean of all squared distances to it: two exchanges, the second of
 * which depends on the first. */
static ddp_status find_deviation(void *context, uint32_t index, struct harness_task *task)
{
    struct world *world = context;
    double all[RANKS];
    double mean = 0.0;
    double square = 0.0;
    double distance;

    world->begun_count++;
    DDP_TRY(harness_task_gather(task, "mean", 0, &world->value[index], sizeof(double), all));
    CT_CHECK_EQ_U64(world->begun_count, RANKS);
    for (int i = 0; i < RANKS; i++) {
        mean += all[i] / RANKS;
    }
    distance = (world->value[index] - mean) * (world->value[index] - mean);
    DDP_TRY(harness_task_gather(task, "square", 7, &distance, sizeof(distance), all));
    for (int i = 0; i < RANKS; i++) {
        square += all[i] / RANKS;
    }
    world->deviation[index] = square;
    world->ended_count++;
    return DDP_OK;
}

/* 1, 3, 5, 7: mean 4, squares 9, 1, 1, 9, their mean 5. All of it is exact. */
CT_TEST(task, a_mean_in_the_middle_is_the_hand_computed_one)
{
    struct world world;

    CT_REQUIRE(open_world(&world));
    for (int i = 0; i < RANKS; i++) {
        world.value[i] = 2.0 * i + 1.0;
    }
    CT_CHECK_OK(run(&world, find_deviation));
    for (int i = 0; i < RANKS; i++) {
        CT_CHECK(world.deviation[i] == 5.0);
    }
    CT_CHECK_EQ_U64(world.ended_count, RANKS);
    CT_CHECK_EQ_U64(harness_task_stacks_count(world.stacks), RANKS);
    close_world(&world);
}

/* Holds memory across its wait, as a rank in the middle of a pass does. */
static ddp_status wait_at(struct world *world, uint32_t index, struct harness_task *task,
                          const char *name, uint64_t tag, size_t bytes)
{
    char *held = ddp_mem_array(world->mem, RANKS, 8);

    CT_CHECK(held != NULL);
    world->seen[index] = harness_task_gather(task, name, tag, held, bytes, held);
    /* A group that has failed does not wait again. */
    if (world->seen[index] != DDP_OK) {
        CT_CHECK_STATUS(harness_task_gather(task, "again", 0, held, 1, held), world->seen[index]);
    }
    ddp_mem_free(world->mem, held);
    return world->seen[index];
}

static ddp_status wait_at_other_name(void *context, uint32_t index, struct harness_task *task)
{
    return wait_at(context, index, task, index == 2 ? "variance" : "mean", 3, 2);
}

static ddp_status wait_at_other_tag(void *context, uint32_t index, struct harness_task *task)
{
    return wait_at(context, index, task, "mean", index == 2 ? 4 : 3, 2);
}

static ddp_status wait_with_other_size(void *context, uint32_t index, struct harness_task *task)
{
    return wait_at(context, index, task, "mean", 3, index == 2 ? 1 : 2);
}

static ddp_status leave_early(void *context, uint32_t index, struct harness_task *task)
{
    return index == 2 ? DDP_OK : wait_at(context, index, task, "mean", 3, 2);
}

static void check_refused(ddp_status (*code)(void *context, uint32_t index,
                                             struct harness_task *task),
                          const char *text)
{
    struct world world;

    CT_REQUIRE(open_world(&world));
    CT_CHECK_STATUS(run(&world, code), DDP_E_MISMATCH);
    CT_CHECK_STR(world.err.text, text);
    for (int i = 0; i < RANKS; i++) {
        CT_CHECK(world.seen[i] == DDP_E_MISMATCH || (i == 2 && code == leave_early));
    }
    close_world(&world);
}

CT_TEST(task, exchanges_that_differ_are_refused)
{
    check_refused(wait_at_other_name,
                  "task 0 waits at exchange mean 3 (2 bytes), task 2 at variance 3 (2 bytes)");
    check_refused(wait_at_other_tag,
                  "task 0 waits at exchange mean 3 (2 bytes), task 2 at mean 4 (2 bytes)");
    check_refused(wait_with_other_size,
                  "task 0 waits at exchange mean 3 (2 bytes), task 2 at mean 3 (1 bytes)");
}

CT_TEST(task, an_end_while_others_wait_is_refused)
{
    check_refused(leave_early, "task 0 waits at exchange mean 3, and task 2 has ended");
}

static ddp_status fail_third(void *context, uint32_t index, struct harness_task *task)
{
    struct world *world = context;

    world->begun_count++;
    return index == 2 ? DDP_E_IO : wait_at(world, index, task, "mean", 3, 2);
}

/* The error of one task reaches those that wait, and those that have not begun never begin. */
CT_TEST(task, an_error_ends_the_group)
{
    struct world world;

    CT_REQUIRE(open_world(&world));
    CT_CHECK_STATUS(run(&world, fail_third), DDP_E_IO);
    CT_CHECK_EQ_U64(world.begun_count, 3);
    CT_CHECK_STATUS(world.seen[0], DDP_E_IO);
    CT_CHECK_STATUS(world.seen[1], DDP_E_IO);
    close_world(&world);
}

/* After a refusal the same stacks serve the next group. */
CT_TEST(task, stacks_survive_a_refusal)
{
    struct world world;

    CT_REQUIRE(open_world(&world));
    CT_CHECK_STATUS(run(&world, leave_early), DDP_E_MISMATCH);
    for (int i = 0; i < RANKS; i++) {
        world.value[i] = i;
    }
    CT_CHECK_OK(run(&world, find_deviation));
    CT_CHECK(world.deviation[3] == 1.25);
    close_world(&world);
}
