/* Fibers: switching, deep stacks, and being dropped where they stand. */
#include <string.h>

#include "harness/task/fiber.h"
#include "tests/ct.h"

#define STACK_BYTES ((size_t)256 * 1024)

struct counter {
    struct harness_fiber *fiber;
    int value, rounds;
};

static void count_up(void *context)
{
    struct counter *counter = context;
    char local[512];

    for (int i = 0; i < counter->rounds; i++) {
        memset(local, i, sizeof local);
        counter->value++;
        harness_fiber_yield(counter->fiber);
        /* The locals of a suspended fiber are its own. */
        if (local[0] != (char)i || local[511] != (char)i) {
            counter->value = -1000;
        }
    }
}

/* Two fibers advance in turns, each keeps its locals, both end. */
CT_TEST(fiber, take_turns)
{
    struct counter a = {.rounds = 3}, b = {.rounds = 3};

    CT_REQUIRE_OK(harness_fiber_create(STACK_BYTES, count_up, &a, &a.fiber));
    CT_REQUIRE_OK(harness_fiber_create(STACK_BYTES, count_up, &b, &b.fiber));
    for (int i = 1; i <= 3; i++) {
        harness_fiber_resume(a.fiber);
        CT_CHECK(a.value == i && b.value == i - 1);
        harness_fiber_resume(b.fiber);
        CT_CHECK(a.value == i && b.value == i);
    }
    CT_CHECK(!harness_fiber_is_done(a.fiber));
    harness_fiber_resume(a.fiber);
    harness_fiber_resume(b.fiber);
    CT_CHECK(harness_fiber_is_done(a.fiber) && harness_fiber_is_done(b.fiber));
    harness_fiber_destroy(a.fiber);
    harness_fiber_destroy(b.fiber);
}

static int use_stack(int depth)
{
    volatile char frame[1024];

    for (size_t i = 0; i < sizeof frame; i++) {
        frame[i] = (char)depth;
    }
    return depth == 0 ? frame[17] : use_stack(depth - 1) + (frame[17] == (char)depth ? 0 : 1);
}

static void go_deep(void *context)
{
    int *result = context;

    *result = use_stack(100);
}

/* A hundred frames of a kilobyte fit. */
CT_TEST(fiber, has_a_deep_stack)
{
    struct harness_fiber *fiber;
    int result = -1;

    CT_REQUIRE_OK(harness_fiber_create(STACK_BYTES * 2, go_deep, &result, &fiber));
    harness_fiber_resume(fiber);
    CT_CHECK(harness_fiber_is_done(fiber) && result == 0);
    harness_fiber_destroy(fiber);
}

/* A fiber dropped in mid-run frees its stack, and a new one in its place works. */
CT_TEST(fiber, can_be_dropped_anywhere)
{
    for (int i = 0; i < 50; i++) {
        struct counter counter = {.rounds = 1000};

        CT_REQUIRE_OK(harness_fiber_create(STACK_BYTES, count_up, &counter, &counter.fiber));
        harness_fiber_resume(counter.fiber);
        harness_fiber_resume(counter.fiber);
        CT_CHECK_EQ_I64(counter.value, 2);
        harness_fiber_destroy(counter.fiber);
    }
}

/* A fiber that never ran can be dropped too. */
CT_TEST(fiber, can_be_dropped_before_it_runs)
{
    struct counter counter = {.rounds = 1};

    CT_REQUIRE_OK(harness_fiber_create(STACK_BYTES, count_up, &counter, &counter.fiber));
    harness_fiber_destroy(counter.fiber);
    CT_CHECK_EQ_I64(counter.value, 0);
}
