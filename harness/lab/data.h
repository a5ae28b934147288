/* The numbers that ranks put in, and what may come out. Internal. */
#ifndef HARNESS_LAB_DATA_H
#define HARNESS_LAB_DATA_H

#include "harness/coll/coll.h"
#include "harness/lab/shared.h"

/* A rank's input: elem_count numbers. Their exponents are so far apart that almost every order of
 * additions gives other bits, and no number is lost in the rounding of a sum. */
void harness_lab_fill(uint32_t rank, float *out, size_t elem_count);

/* The algorithm, and the longest message, of calls of that size. NONE: a plug-in's. */
struct ddp_coll_choice harness_lab_choice(const struct harness_lab_request *request,
                                          size_t elem_count);

/* What the schedules of a call are asked for. */
struct harness_coll_case harness_lab_case(const struct harness_lab_request *request,
                                          size_t elem_count, bool is_in_place);

/* Writes what every rank's output of elem_count must be, bit for bit: from the schedules, by the
 * judge's arithmetic. Errors: E_INVALID: the schedules cannot be used; E_NOMEM; others. */
DDP_MUST_USE ddp_status harness_lab_expect(struct harness_lab_shared *shared,
                                           struct harness_coll_source *source, size_t elem_count,
                                           bool is_in_place, struct ddp_err *err);

/* Elements of a rank's output that are wrong: others than the expected bits, or if these are not
 * known, farther from the exact sum than any order of additions can be. *out_first: the first one
 * of them. */
uint64_t harness_lab_count_wrong(struct harness_lab_shared *shared, uint32_t rank,
                                 const float *output, size_t elem_count, size_t *out_first);

#endif
