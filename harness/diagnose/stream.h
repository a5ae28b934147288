/* The calls of a member as numbers, and what their past foretells. */
#ifndef HARNESS_DIAGNOSE_STREAM_H
#define HARNESS_DIAGNOSE_STREAM_H

#include "harness/diagnose/answer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A member's calls as numbers: equal numbers are calls that may meet. */
struct harness_diag_stream {
    const struct harness_diag_member *member;
    uint64_t *sign;
    size_t count;
    int64_t first_seq;
};

/* by_stack: calls from other lines are other calls. False: some call has no stack, or memory is
 * out. */
bool harness_diag_stream_make(struct harness_diag_evidence *evidence,
                              const struct harness_diag_member *member, bool by_stack,
                              struct harness_diag_stream *out);
bool harness_diag_stream_has(const struct harness_diag_stream *stream, int64_t seq);
/* It has seq. */
uint64_t harness_diag_stream_at(const struct harness_diag_stream *stream, int64_t seq);
/* What followed, each time before, where the same calls had led up to: 0 if that is not told. */
uint64_t harness_diag_foretell(const uint64_t *signs, size_t count);
/* The same with one more call behind the past. */
uint64_t harness_diag_foretell_behind(struct harness_diag_evidence *evidence, const uint64_t *signs,
                                      size_t count, uint64_t one_more);

#ifdef __cplusplus
}
#endif
#endif
