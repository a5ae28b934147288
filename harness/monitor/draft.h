/* Drafting a finding: its place, operation, culprits and victims, and its sentence. Internal to
 * harness/monitor. */
#ifndef HARNESS_MONITOR_DRAFT_H
#define HARNESS_MONITOR_DRAFT_H

#include "harness/monitor/monitor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All that an analysis reads. */
struct harness_view {
    const struct harness_plan *plan;
    const struct harness_program *program;
    const struct harness_cut *cut;
    struct ddp_mem *mem; /* of the findings' sets */
};

/* The step that a rank is in, as its page has it; -1 before its first batch, where the page has 0.
 */
int32_t harness_draft_step(const struct harness_cut *cut, uint32_t rank);
/* A finding about `rank`: step, micro-batch and phase from its page, victims = waiting ranks. */
void harness_draft_begin(const struct harness_view *view, enum harness_verdict verdict,
                         enum harness_mode mode, uint32_t rank, struct harness_finding *out);
/* The planned operation of seq, with its bucket's parameters; nothing if seq is not planned. */
void harness_draft_set_planned(const struct harness_view *view, uint64_t seq,
                               struct harness_finding *finding);
/* The operation that `rank` posted last. */
void harness_draft_set_posted(const struct harness_view *view, uint32_t rank,
                              struct harness_finding *finding);
/* Append to the sentence. What does not fit is cut off. */
void harness_draft_add(struct harness_finding *finding, const char *format, ...) DDP_PRINTF(2, 3);
/* "rank 1", "ranks 0, 2 and 3". */
void harness_draft_add_ranks(struct harness_finding *finding, const struct harness_rank_set *set);
/* " of 100 f32, sum": shows differences between operations of the same bucket. */
void harness_draft_add_signature(struct harness_finding *finding, struct ddp_event_op op,
                                 uint64_t elem_count);
/* " in step 5, backward". */
void harness_draft_add_place(struct harness_finding *finding);
/* "all_reduce seq 12 (bucket 1: fc1.bias, fc1.weight)". */
void harness_draft_add_op(const struct harness_view *view, struct harness_finding *finding);
/* ", in the code of ./mine.so", if the rank is. */
void harness_draft_add_plugin(const struct harness_view *view, uint32_t rank,
                              struct harness_finding *finding);
/* "; rank 0 waits", if a rank does. */
void harness_draft_add_victims(struct harness_finding *finding);

#ifdef __cplusplus
}
#endif
#endif
