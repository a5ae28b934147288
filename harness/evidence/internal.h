/* What the parts of the evidence check share. Internal. */
#ifndef HARNESS_EVIDENCE_INTERNAL_H
#define HARNESS_EVIDENCE_INTERNAL_H

#include "harness/evidence/evidence.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keeps the first one. */
void harness_gap_set(struct harness_gap *gap, const char *format, ...) DDP_PRINTF(2, 3);

/* A fault that does something acted on the rank in this step. */
bool harness_evidence_is_disturbed(const struct harness_emulation *e, uint32_t rank, uint32_t step);

/* step.c: each whole step of each rank. */
DDP_MUST_USE ddp_status harness_evidence_steps(const struct harness_emulation *e, bool is_clean,
                                               struct harness_gap *out);
/* rank.c: begin and end, pairs of posted and completed collectives. */
DDP_MUST_USE ddp_status harness_evidence_ranks(const struct harness_emulation *e,
                                               struct harness_gap *out);
/* order.c: steps and phases. Errors: E_NOMEM. */
DDP_MUST_USE ddp_status harness_evidence_order(const struct harness_emulation *e,
                                               struct harness_gap *out);
/* agree.c: what is recorded in two places. Errors: E_NOMEM, E_IO. */
DDP_MUST_USE ddp_status harness_evidence_agreement(const struct harness_emulation *e,
                                                   struct harness_gap *out);
/* diagnosis.c: the operations, times and places that diagnoses name. */
void harness_evidence_diagnoses(const struct harness_emulation *e, struct harness_gap *out);
/* subject.c: of each parameter and each pass, once. */
void harness_evidence_subjects(const struct harness_emulation *e, uint32_t rank,
                               struct harness_gap *out);
/* collective.c: what join has handed out */
void harness_evidence_joined(const struct harness_emulation *e, uint32_t rank,
                             struct harness_gap *out);
/* Those of steps before end_step; join's events, of runs in which nothing was found
 */
void harness_evidence_collectives(const struct harness_emulation *e, int32_t end_step,
                                  struct harness_gap *out);
void harness_evidence_join(const struct harness_emulation *e, uint32_t rank,
                           struct harness_gap *out);

#ifdef __cplusplus
}
#endif
#endif
