/* Parts of the proof; not for oracles, which use schedule_set.h. */
#ifndef HARNESS_SUMS_SCHEDULE_PROVE_H
#define HARNESS_SUMS_SCHEDULE_PROVE_H

#include "harness/sums/schedule_set.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number that stands for a rank's contribution in a sum of contributions. */
uint64_t harness_schedule_weight(uint32_t rank);

/* Finds an order in which the steps of a complete set can run, or where it is stuck; nothing if
 * members are missing. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedule_set_order(struct harness_schedule_set *set);

/* Any two steps that touch a common element, at least one writing it, must be ordered by
 * dependencies. *out_is_safe false: text (char[size_bytes]) names the two, place the later. A send
 * counts as reading until a step that depends on it runs: its range is lent. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedule_order_check(const struct harness_schedule *schedule,
                                                     struct ddp_mem *mem, bool *out_is_safe,
                                                     struct harness_step_place *place, char *text,
                                                     size_t size_bytes);

/* In an ordered set, no rank may end its last step before every rank has begun. *out_is_barrier
 * false: text (char[size_bytes]) names two ranks for which that is not so, place the first of them.
 * Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_schedule_barrier_check(const struct harness_schedule_set *set,
                                                       bool *out_is_barrier,
                                                       struct harness_step_place *place, char *text,
                                                       size_t size_bytes);

/* Every number of `held` is one of `holder` too. */
bool harness_schedule_holds(enum ddp_dtype holder, enum ddp_dtype held);

/* In an ordered set both ends of a message are of one round; no step waits for one of a later
 * round; what came in a round leaves in a later one; each round up to the last one has a message;
 * and steps between buffers run as soon as they can, or in the round that first needs them.
 * *out_is_right false: text (char[size_bytes]) says what is not so, place where. Errors: E_NOMEM.
 */
DDP_MUST_USE ddp_status harness_schedule_rounds_check(const struct harness_schedule_set *set,
                                                      bool *out_is_right,
                                                      struct harness_step_place *place, char *text,
                                                      size_t size_bytes);

#ifdef __cplusplus
}
#endif
#endif
