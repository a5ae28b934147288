/* Who used which bytes last. Internal to the happens-before checker. */
#ifndef HARNESS_ORDER_RANGE_H
#define HARNESS_ORDER_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddpcore/base/mem.h"
#include "ddpcore/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where some access begins or ends. */
struct harness_place {
    uint64_t allocation, offset;
};

/* All accesses are known beforehand, so the places where memory is ever cut are, too. A piece runs
 * from one cut in force to the next; cuts come into force as accesses need them. */
struct harness_ranges {
    struct ddp_mem *mem;
    uint32_t stream_count;
    struct harness_place *places; /* sorted, each once */
    size_t place_count;
    uint64_t *cuts[11];   /* bit sets: cuts[0] of places, cuts[k + 1] of words of cuts[k] */
    uint32_t level_count; /* of cuts */
    uint32_t *last_write; /* [place] of the piece that begins there: access + 1, 0 = none */
    uint32_t *last_read;  /* [place][stream] since that write */
};

/* Takes over places, unsorted, which lie in mem; also on failure. */
DDP_MUST_USE ddp_status harness_ranges_init(struct harness_ranges *ranges, struct ddp_mem *mem,
                                            struct harness_place *places, size_t place_count,
                                            uint32_t stream_count);
void harness_ranges_fini(struct harness_ranges *ranges);

/* One access to [first, end) of an allocation; first < end, both among the places. */
struct harness_touch {
    uint64_t allocation, first, end;
    uint32_t access, stream;
    bool is_write;
    /* A diagnostic read: asked about, but not entered. The host waits for it at once, so nothing
     * later has to be ordered after it. */
    bool is_diagnostic;
};
/* Enter it, and ask is_conflict about earlier accesses to the same bytes of which it or they write:
 * the last write to each piece, and, if it writes, the last read of each stream since. Accesses
 * before those need not be asked about if those are in order. Returns the first for which
 * is_conflict says true, + 1, or 0. */
uint32_t harness_ranges_touch(struct harness_ranges *ranges, const struct harness_touch *touch,
                              bool (*is_conflict)(void *context, uint32_t earlier), void *context);

#ifdef __cplusplus
}
#endif
#endif
