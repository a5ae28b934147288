/* Purpose: every rank trained on the samples that the sampler's rules give it.
 * Idea: the first batch that breaks the rules was found while emulating (emulation/batch.c). */
#include <stdio.h>

#include "harness/oracle/subject.h"

/* Under join a rank that leaves a step out looks like one whose data ended: the others go on
 * without it. Only the sampler's rules tell that it had more data. */
static void check_ended(const struct harness_emulation *e, uint32_t rank,
                        struct harness_findings *out)
{
    const struct ref_job *job = e->input->job;
    uint64_t last = e->input->plan->job.steps;
    uint64_t due = harness_emulation_batch_count(e, rank);
    uint64_t first = (uint64_t)e->input->restored_step * job->micro_batches;
    struct harness_finding finding;
    size_t count = 0;
    const struct harness_trace_event *const *list =
        harness_index_list(&e->index, rank, DDP_EVENT_DATA_BATCH, &count);
    uint64_t got = 0;

    due = due < last * job->micro_batches ? due : last * job->micro_batches;
    due = due > first ? due - first : 0;
    if (!harness_index_is_ended_ok(&e->index, rank) || count >= due) {
        return;
    }
    while (got < count &&
           list[got]->entry.step * (uint64_t)job->micro_batches + list[got]->entry.micro ==
               first + got) {
        got++;
    }
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_DATA_MISSING, HARNESS_ORACLE_LEDGER,
                         HARNESS_MODE_LEDGER);
    harness_rank_set_add(&finding.culprits, rank);
    finding.step = (int32_t)((first + got) / job->micro_batches);
    (void)snprintf(
        finding.text, sizeof(finding.text),
        "rank %u trained on %zu of its %llu batches; the first one missing is in step %d", rank,
        count, (unsigned long long)due, finding.step);
    harness_findings_add(out, &finding);
}

ddp_status harness_check_ledger(const struct harness_emulation *e, struct harness_findings *out,
                                struct ddp_err *err)
{
    struct harness_difference difference;
    struct harness_finding finding;

    (void)err;
    harness_compare_first(e, HARNESS_STAGE_DATA, &difference);
    if (!difference.is_set) {
        for (uint32_t r = 0; e->input->plan->job.join.is_set && r < e->world; r++) {
            check_ended(e, r, out);
        }
        return DDP_OK;
    }
    harness_finding_init(&finding, out->mem, e->batch.verdict, HARNESS_ORACLE_LEDGER,
                         HARNESS_MODE_LEDGER);
    harness_rank_set_add(&finding.culprits, e->batch.rank);
    finding.step = (int32_t)e->batch.step;
    finding.micro = (int32_t)e->batch.micro;
    (void)snprintf(finding.text, sizeof(finding.text), "%s", e->batch.text);
    harness_findings_add(out, &finding);
    return DDP_OK;
}
