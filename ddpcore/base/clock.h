/* Clocks: monotonic (real) or virtual (simulator). Nothing below the drivers reads any other. */
#ifndef DDPCORE_BASE_CLOCK_H
#define DDPCORE_BASE_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DDP_NS_PER_US      UINT64_C(1000)
#define DDP_NS_PER_MS      UINT64_C(1000000)
#define DDP_NS_PER_S       UINT64_C(1000000000)
#define DDP_DEADLINE_NEVER UINT64_MAX

struct ddp_clock {
    /* Nanoseconds since an arbitrary start; never goes back. */
    uint64_t (*now_ns)(struct ddp_clock *clock);
};

/* CLOCK_MONOTONIC. Static storage. */
struct ddp_clock *ddp_clock_monotonic(void);

/* A clock that moves only when told to. */
struct ddp_clock_virtual {
    struct ddp_clock base;
    uint64_t time_ns;
};
void ddp_clock_virtual_init(struct ddp_clock_virtual *clock, uint64_t start_ns);
/* Move to at_ns if that is later. */
void ddp_clock_virtual_advance_to(struct ddp_clock_virtual *clock, uint64_t at_ns);

uint64_t ddp_clock_now_ns(struct ddp_clock *clock);
/* now + timeout, saturating; a timeout of 0 means never. */
uint64_t ddp_clock_deadline_ns(struct ddp_clock *clock, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif
#endif
