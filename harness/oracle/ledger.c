/* Purpose: every rank trained on the samples that the sampler's rules give it.
 * Idea: batches that break the rules were found while emulating (emulation/batch.c). */
#include <stdio.h>

#include "harness/oracle/subject.h"
#include "harness/trace/taken.h"

/* Under join a rank that leaves a step out looks like one whose data ended: the others go on
 * without it. Only the sampler's rules tell that it had more: a batch comes out of its turn, or
 * none does where there were more. */
static void check_left_out(const struct harness_emulation *e, uint32_t rank,
                           struct harness_findings *out)
{
    const uint64_t micro_batches = e->input->job->micro_batches;
    const uint64_t first = (uint64_t)e->input->restored_step * micro_batches;
    const uint64_t due = harness_emulation_due(e, rank);
    const uint64_t planned = e->input->plan->job.steps * micro_batches;
    const uint64_t missing = harness_taken_in_turn(&e->index, rank, first, micro_batches);
    struct harness_finding finding;
    size_t count = 0;
    bool is_ended = harness_taken_ended(&e->index, rank) != NULL;

    (void)harness_index_list(&e->index, rank, DDP_EVENT_DATA_BATCH, &count);
    if (first + count == missing && (!is_ended || e->next_own[rank] >= due || missing >= planned)) {
        return;
    }
    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_DATA_MISSING, HARNESS_ORACLE_LEDGER,
                         HARNESS_MODE_LEDGER);
    harness_rank_set_add(&finding.culprits, rank);
    finding.step = (int32_t)(missing / micro_batches);
    (void)snprintf(finding.text, sizeof(finding.text),
                   "rank %u trained on %zu of its %llu batches%s; the first one missing is in step "
                   "%d",
                   rank, count, (unsigned long long)(due > first ? due - first : 0),
                   is_ended ? "" : " until the job ended", finding.step);
    harness_findings_add(out, &finding);
}

static bool is_alike(const struct harness_batch_difference *a,
                     const struct harness_batch_difference *b)
{
    return a->verdict == b->verdict && a->step == b->step && a->micro == b->micro &&
           a->last_step == b->last_step;
}

/* A wrong batch, with those of all other ranks that are wrong in the same way at the same time. */
static void report(const struct harness_emulation *e, size_t number, struct harness_findings *out)
{
    const struct harness_batch_difference *batch = &e->batches[number];
    struct harness_finding finding;
    char more[64] = "";
    size_t used;

    for (size_t i = 0; i < number; i++) {
        if (is_alike(&e->batches[i], batch)) {
            return; /* said with that one */
        }
    }
    harness_finding_init(&finding, out->mem, batch->verdict, HARNESS_ORACLE_LEDGER,
                         HARNESS_MODE_LEDGER);
    for (size_t i = number; i < e->batch_count; i++) {
        if (is_alike(&e->batches[i], batch)) {
            harness_rank_set_add(&finding.culprits, e->batches[i].rank);
        }
    }
    finding.step = (int32_t)batch->step;
    finding.micro = (int32_t)batch->micro;
    if (batch->last_step > batch->step) {
        (void)snprintf(more, sizeof(more), ", and so on until step %u", batch->last_step);
    }
    used = (size_t)snprintf(finding.text, sizeof(finding.text), "%s%s", batch->text, more);
    if (harness_rank_set_count(&finding.culprits) > 1 && used < sizeof(finding.text)) {
        (void)snprintf(finding.text + used, sizeof(finding.text) - used,
                       "; likewise on %u other ranks",
                       harness_rank_set_count(&finding.culprits) - 1);
    }
    harness_findings_add(out, &finding);
}

ddp_status harness_check_ledger(const struct harness_emulation *e, struct harness_findings *out,
                                struct ddp_err *err)
{
    for (size_t i = 0; i < e->batch_count; i++) {
        report(e, i, out);
    }
    for (uint32_t r = 0; e->input->plan->job.join.is_set && r < e->world; r++) {
        check_left_out(e, r, out);
    }
    return harness_check_evaluations(e, out, err);
}
