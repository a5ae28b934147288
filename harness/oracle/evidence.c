/* Purpose: what the other oracles rely on was recorded in full.
 * Idea: they compare only what is there. What has to be there is worked out in harness/evidence. */
#include "harness/evidence/evidence.h"

#include <stdio.h>

#include "harness/oracle/subject.h"

ddp_status harness_check_evidence(const struct harness_emulation *e, struct harness_findings *out,
                                  struct ddp_err *err)
{
    bool is_clean = out->count == 0 && e->input->trace->diagnoses.count == 0;
    struct harness_gap gap;
    ddp_status status = harness_evidence_check(e, is_clean, &gap);

    if (status != DDP_OK) {
        return ddp_err_set(err, status, "no memory to check the evidence");
    }
    if (gap.is_set && !out->is_evidence_lost) {
        out->is_evidence_lost = true;
        (void)snprintf(out->lost_text, sizeof(out->lost_text), "%s", gap.text);
    }
    return DDP_OK;
}
