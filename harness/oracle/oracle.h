/* Oracles: was it right? Checkers over (plan, program, trace, run folder) with their own
 * arithmetic; they link the reference, never the DDP core. */
#ifndef HARNESS_ORACLE_ORACLE_H
#define HARNESS_ORACLE_ORACLE_H

#include "harness/emulation/emulation.h"
#include "harness/trace/part.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Emulate the run and let every oracle judge it. out_wanted (may be NULL; initialised): hashes of
 * tensors that would let more be judged, or described; if one was missing so that a later step
 * could not be judged, evidence counts as lost. */
DDP_MUST_USE ddp_status harness_oracle_check_all(const struct harness_emulation_input *input,
                                                 struct harness_findings *out,
                                                 struct harness_hashes *out_wanted,
                                                 struct ddp_err *err);

/* Of ranks that went on after a loss: who goes on, and from where, as they announced it. trace: the
 * whole one; settle_ns: how long ranks were to wait for others. */
void harness_survivors_check_roll(const struct harness_trace *trace,
                                  const struct harness_parting *parting, uint64_t settle_ns,
                                  struct harness_findings *out);

#ifdef __cplusplus
}
#endif
#endif
