/* What a run must have recorded before a checker's silence means that all is right. Every checker
 * compares only what is there; so what is missing, doubled or contradicts itself is found here, and
 * makes the run INCONCLUSIVE. */
#ifndef HARNESS_EVIDENCE_EVIDENCE_H
#define HARNESS_EVIDENCE_EVIDENCE_H

#include "harness/emulation/emulation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first thing that is missing. */
struct harness_gap {
    bool is_set;
    char text[256];
};

/* is_clean: no checker found anything, so that every rank must have done all that the plan says.
 * Otherwise only what the ranks have demonstrably been through must be there: whole steps on which
 * no fault acted. */
DDP_MUST_USE ddp_status harness_evidence_check(const struct harness_emulation *emulation,
                                               bool is_clean, struct harness_gap *out);

#ifdef __cplusplus
}
#endif
#endif
