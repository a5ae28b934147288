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
struct harness_order_boundary {
    uint64_t allocation, offset;
};

/* All accesses are known beforehand, and with them the boundaries at which memory is ever cut. A
 * piece of memory runs from one cut to the next; a boundary becomes a cut when the first access
 * that begins or ends there is entered. */
struct harness_ranges {
    struct ddp_mem *mem;
    uint32_t stream_count;
    struct harness_order_boundary *boundaries; /* sorted, each once */
    size_t boundary_count;
    uint64_t *cuts[11];   /* bit sets: cuts[0] of boundaries, cuts[k + 1] of words of cuts[k] */
    uint32_t level_count; /* of cuts */
    uint32_t *last_write; /* [boundary] of the piece that begins there: access + 1, 0 = none */
    uint32_t *last_read;  /* [boundary][stream] since that write */
};

/* Takes over boundaries, unsorted, which lie in mem; also on failure. */
DDP_MUST_USE ddp_status harness_ranges_init(struct harness_ranges *ranges, struct ddp_mem *mem,
                                            struct harness_order_boundary *boundaries,
                                            size_t boundary_count, uint32_t stream_count);
void harness_ranges_fini(struct harness_ranges *ranges);

/* One access to [first, end) of an allocation; first < end, both among the boundaries. */
struct harness_touch {
    uint64_t allocation, first, end;
    uint32_t access, stream;
    bool is_write;
    /* A diagnostic read is compared with earlier accesses and not entered: it ends before the host
     * goes on, so no later access has to be ordered after it. */
    bool is_diagnostic;
};
/* Enter an access. is_conflict is called for earlier accesses to the same bytes, if either writes:
 * for the last write to each piece, and, if this access writes, for the last read of each stream
 * since. Still earlier accesses are ordered before those. Returns the first for which is_conflict
 * returns true, + 1, or 0. */
uint32_t harness_ranges_touch(struct harness_ranges *ranges, const struct harness_touch *touch,
                              bool (*is_conflict)(void *context, uint32_t earlier), void *context);

#ifdef __cplusplus
}
#endif
#endif
