/* Clocks and deadlines. */
#include "ddpcore/base/clock.h"
#include "tests/ct.h"

/* The real clock never goes back. */
CT_TEST(clock, monotonic_does_not_go_back)
{
    struct ddp_clock *clock = ddp_clock_monotonic();
    uint64_t last = ddp_clock_now_ns(clock);

    for (int i = 0; i < 1000; i++) {
        uint64_t now = ddp_clock_now_ns(clock);

        CT_REQUIRE(now >= last);
        last = now;
    }
}

/* A virtual clock moves only forward and only when told to. */
CT_TEST(clock, virtual_moves_when_told)
{
    struct ddp_clock_virtual clock;

    ddp_clock_virtual_init(&clock, 100);
    CT_CHECK_EQ_U64(ddp_clock_now_ns(&clock.base), 100);
    ddp_clock_virtual_advance_to(&clock, 90);
    CT_CHECK_EQ_U64(ddp_clock_now_ns(&clock.base), 100);
    ddp_clock_virtual_advance_to(&clock, 150);
    CT_CHECK_EQ_U64(ddp_clock_now_ns(&clock.base), 150);
}

/* A deadline is now + timeout, saturates, and a timeout of 0 means never. */
CT_TEST(clock, deadlines_saturate)
{
    struct ddp_clock_virtual clock;

    ddp_clock_virtual_init(&clock, 100);
    CT_CHECK_EQ_U64(ddp_clock_deadline_ns(&clock.base, 5), 105);
    CT_CHECK_EQ_U64(ddp_clock_deadline_ns(&clock.base, 0), DDP_DEADLINE_NEVER);
    CT_CHECK_EQ_U64(ddp_clock_deadline_ns(&clock.base, UINT64_MAX - 50), DDP_DEADLINE_NEVER);
}
