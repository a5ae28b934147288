/* Oracles: was it right? Checkers over (plan, program, trace, run folder) with their own
 * arithmetic; they link the reference, never the DDP core. */
#ifndef HARNESS_ORACLE_ORACLE_H
#define HARNESS_ORACLE_ORACLE_H

#include "harness/emulation/emulation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Emulate the run and let every oracle judge it. */
DDP_MUST_USE ddp_status harness_oracle_check_all(const struct harness_emulation_input *input,
                                                 struct harness_findings *out, struct ddp_err *err);

/* First (step, bucket) at which a rank's gradient or bucket differs from the emulation, for the
 * payload run; false if none differs. The findings meant are those of the oracles "gradient" and
 * "reduction" with that step and bucket. */
bool harness_oracle_first_difference(const struct harness_findings *findings, uint32_t *out_step,
                                     uint32_t *out_bucket);
/* Describe a difference from payloads kept under run_dir/payload: replaces the verdict of the
 * finding (VALUE.CORRUPTED) by what it is (LOST, DUPLICATED, SCALED, SHIFTED, STALE, NONFINITE,
 * single flip), with the ranks, the parameter and the elements. */
DDP_MUST_USE ddp_status harness_oracle_describe(const struct harness_emulation_input *input,
                                                struct harness_finding *finding,
                                                struct ddp_err *err);

#ifdef __cplusplus
}
#endif
#endif
