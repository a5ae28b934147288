/* What a run must have recorded before a checker's silence means that all is right. Every checker
 * compares only what is there; so what is missing, doubled or contradicts itself is found here, and
 * makes the run INCONCLUSIVE. */
#ifndef HARNESS_EVIDENCE_EVIDENCE_H
#define HARNESS_EVIDENCE_EVIDENCE_H

#include "harness/emulation/emulation.h"
#include "harness/trace/part.h"

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

/* Of ranks that went on after a loss, all that they recorded of that. */
void harness_evidence_roll(const struct harness_trace *trace, const struct harness_parting *parting,
                           struct harness_gap *out);

/* How a rank that has the plan's model laid its parameters out in buckets. */
enum harness_placement {
    HARNESS_PLACEMENT_PLANNED,
    HARNESS_PLACEMENT_OTHER, /* another one, whole: each parameter has one place, places have no
                              * gaps
                              */
    HARNESS_PLACEMENT_BROKEN /* none */
};
/* out_entry: of PLANNED and a rank that recorded nothing NULL, else the first event bucket.param
 * that is not the plan's. */
enum harness_placement harness_evidence_placement(const struct harness_emulation *emulation,
                                                  uint32_t rank,
                                                  const struct ddp_event_entry **out_entry);
/* The rank recorded what became of a buffer of this number, or of a later one: it has it. */
bool harness_evidence_has_buffer(const struct harness_emulation *emulation, uint32_t rank,
                                 uint64_t buffer);
/* The list of new buckets that a rank received, as event bucket.rebuilt; NULL: none. */
const struct ddp_event_entry *harness_evidence_rebuilt(const struct harness_emulation *emulation,
                                                       uint32_t rank);

/* diagnosis.c: what the monitor says of a rank's operation is not what the rank recorded: one of
 * them is wrong, and neither counts. */
bool harness_evidence_is_refuted(const struct harness_emulation *emulation,
                                 const struct harness_finding *finding);

#ifdef __cplusplus
}
#endif
#endif
