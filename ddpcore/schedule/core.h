/* The core of a world of any size: its largest power of two p <= n members, for algorithms that
 * pair ranks at distances 1, 2, 4, ... Of the first 2(n - p) ranks the even ones stand outside,
 * each behind the next rank, which is inside; members are numbered in the order of their ranks. */
#ifndef DDPCORE_SCHEDULE_CORE_H
#define DDPCORE_SCHEDULE_CORE_H

#include "ddpcore/schedule/emit.h"

#define DDP_CORE_NONE UINT32_MAX

struct ddp_core {
    uint32_t size;   /* p */
    uint32_t levels; /* log2(p) */
    uint32_t extra;  /* n - p */
    uint32_t index;  /* of this rank; DDP_CORE_NONE: it stands outside */
};

static inline struct ddp_core ddp_core_of(uint32_t world, uint32_t rank)
{
    struct ddp_core core = {1, 0, 0, 0};

    DDP_ASSERT(rank < world);
    while (core.size <= world / 2) {
        core.size *= 2;
        core.levels++;
    }
    core.extra = world - core.size;
    DDP_ASSERT(core.extra < core.size && core.size == 1u << core.levels);
    core.index = rank >= 2 * core.extra ? rank - core.extra
                 : rank % 2 == 1        ? rank / 2
                                        : DDP_CORE_NONE;
    return core;
}

/* Inside, messages begin in round 1, after those from outside; in round 0 if nobody stands there.
 */
static inline uint32_t ddp_core_first_round(const struct ddp_core *core)
{
    return core->extra > 0 ? 1 : 0;
}

/* The rank of member `index`. */
static inline uint32_t ddp_core_rank(const struct ddp_core *core, uint32_t index)
{
    DDP_ASSERT(index < core->size);
    return index < core->extra ? 2 * index + 1 : index + core->extra;
}

/* The rank that stands behind one inside, or DDP_CORE_NONE. */
static inline uint32_t ddp_core_outside(const struct ddp_core *core, uint32_t rank)
{
    DDP_ASSERT(rank >= 2 * core->extra || rank % 2 == 1);
    return rank < 2 * core->extra ? rank - 1 : DDP_CORE_NONE;
}

/* The lowest rank that members from `index` on stand for: a member stands for itself and for the
 * rank behind it, just before its own. index == core->size: the number of ranks. */
static inline uint32_t ddp_core_first_block(const struct ddp_core *core, uint32_t index)
{
    DDP_ASSERT(index <= core->size);
    return index < core->extra ? 2 * index : index + core->extra;
}

#endif
