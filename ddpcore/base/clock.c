/* CLOCK_MONOTONIC and the virtual clock. */
#include "ddpcore/base/clock.h"

#include <time.h>

#include "ddpcore/base/status.h"

static uint64_t monotonic_now_ns(struct ddp_clock *clock)
{
    struct timespec now;

    (void)clock;
    DDP_ASSERT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
    return (uint64_t)now.tv_sec * DDP_NS_PER_S + (uint64_t)now.tv_nsec;
}

struct ddp_clock *ddp_clock_monotonic(void)
{
    static struct ddp_clock monotonic = {monotonic_now_ns};

    return &monotonic;
}

static uint64_t virtual_now_ns(struct ddp_clock *clock)
{
    return ((struct ddp_clock_virtual *)clock)->time_ns;
}

void ddp_clock_virtual_init(struct ddp_clock_virtual *clock, uint64_t start_ns)
{
    clock->base.now_ns = virtual_now_ns;
    clock->time_ns = start_ns;
}

void ddp_clock_virtual_advance_to(struct ddp_clock_virtual *clock, uint64_t at_ns)
{
    if (at_ns > clock->time_ns) {
        clock->time_ns = at_ns;
    }
}

uint64_t ddp_clock_now_ns(struct ddp_clock *clock)
{
    return clock->now_ns(clock);
}

uint64_t ddp_clock_deadline_ns(struct ddp_clock *clock, uint64_t timeout_ns)
{
    uint64_t deadline_ns;

    if (timeout_ns == 0 || __builtin_add_overflow(clock->now_ns(clock), timeout_ns, &deadline_ns)) {
        return DDP_DEADLINE_NEVER;
    }
    return deadline_ns;
}
