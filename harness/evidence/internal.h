/* What the parts of the evidence check share. Internal. */
#ifndef HARNESS_EVIDENCE_INTERNAL_H
#define HARNESS_EVIDENCE_INTERNAL_H

#include "harness/evidence/evidence.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keeps the first one. */
void harness_gap_set(struct harness_gap *gap, const char *format, ...) DDP_PRINTF(2, 3);

/* step.c: each whole step of each rank. */
DDP_MUST_USE ddp_status harness_evidence_steps(const struct harness_emulation *e,
                                               struct harness_gap *out);
/* rank.c: begin and end, phases, pairs of posted and completed collectives. */
DDP_MUST_USE ddp_status harness_evidence_ranks(const struct harness_emulation *e, bool is_clean,
                                               struct harness_gap *out);

#ifdef __cplusplus
}
#endif
#endif
