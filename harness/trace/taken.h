/* How many batches a rank took, as it recorded them. Under join only the run can know: what the
 * others post, and what is averaged, goes by what each rank had, not by what it should have had. */
#ifndef HARNESS_TRACE_TAKEN_H
#define HARNESS_TRACE_TAKEN_H

#include "harness/trace/index.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where the rank said, under join, that its data had ended; NULL: it did not. */
const struct harness_trace_event *harness_taken_ended(const struct harness_index *index,
                                                      uint32_t rank);
/* The first micro-batch that the rank did not take in its turn. first: the one that the trace
 * begins with. */
uint64_t harness_taken_in_turn(const struct harness_index *index, uint32_t rank, uint64_t first,
                               uint64_t micro_batches);
/* Micro-batches that the rank takes in all. due: what it should take. Once it said that its data
 * had ended, it is what it recorded; until then it is still to take what is due. A rank that left
 * a step out and went on is in another step than the others; for it, it is what is due, too. */
uint64_t harness_taken_count(const struct harness_index *index, uint32_t rank, uint64_t first,
                             uint64_t micro_batches, uint64_t due);

#ifdef __cplusplus
}
#endif
#endif
