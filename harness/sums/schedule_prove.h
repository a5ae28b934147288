/* Parts of the proof; not for oracles, which use schedule_set.h. */
#ifndef HARNESS_SUMS_SCHEDULE_PROVE_H
#define HARNESS_SUMS_SCHEDULE_PROVE_H

#include "harness/sums/schedule_set.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A rank's contribution in a sum of contributions. */
uint64_t harness_schedule_weight(uint32_t rank);

/* Any two moves that touch a common element, at least one writing it, must be ordered by
 * dependencies (or be receives from one peer, which are taken in order). *out_is_safe false: text
 * names the two. A send counts as reading until whoever depends on it runs: its range is lent. */
DDP_MUST_USE ddp_status harness_schedule_order_check(const struct harness_schedule *schedule,
                                                     struct ddp_mem *mem, bool *out_is_safe,
                                                     char *text, size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
