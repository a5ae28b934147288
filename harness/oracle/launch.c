/* Purpose: every rank was told who it is, in a world of the job's size.
 * Idea: each rank records what the variables of its launcher say, and the launcher knows better.
 * Ranks whose variables say nothing report that themselves (usage.c). */
#include <stdio.h>

#include "harness/oracle/subject.h"

ddp_status harness_check_launch(const struct harness_emulation *e, struct harness_findings *out,
                                struct ddp_err *err)
{
    (void)err;
    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *told =
            harness_index_list(&e->index, r, DDP_EVENT_RANK_TOLD, &count);
        struct harness_finding finding;

        if (count == 0 || (told[0]->entry.arg[0] == r && told[0]->entry.arg[1] == e->world)) {
            continue;
        }
        harness_finding_init(&finding, out->mem, HARNESS_VERDICT_LAUNCH_ENVIRONMENT,
                             HARNESS_ORACLE_LAUNCH, HARNESS_MODE_PROVABLE);
        harness_rank_set_add(&finding.culprits, r);
        finding.phase = told[0]->entry.phase;
        (void)snprintf(finding.text, sizeof(finding.text),
                       "rank %u of %u was told that it is rank %llu of %llu", r, e->world,
                       (unsigned long long)told[0]->entry.arg[0],
                       (unsigned long long)told[0]->entry.arg[1]);
        harness_findings_add(out, &finding);
    }
    return DDP_OK;
}
