/* Purpose: the buffers that are handed out are those that their owner's passes give, bit for bit.
 * Idea: the owner's hash before each broadcast against the emulation's. A replica that got other
 * values than the owner sent is not looked at here: that is the broadcast's finding. A statistic
 * that has once drifted stays so, and is reported once. */
#include <stdio.h>

#include "harness/oracle/subject.h"

/* A gradient of the rank was wrong in a step before this one, and so what its passes gave may be.
 */
static bool had_wrong_gradient(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    for (size_t i = 0; i < e->compare.count; i++) {
        const struct harness_difference *item = &e->compare.items[i];

        if (item->stage == HARNESS_STAGE_GRADIENT && item->step < step &&
            harness_rank_set_has(&item->ranks, rank)) {
            return true;
        }
    }
    return false;
}

/* Everything that the owner's statistics depend on was as it should be in all steps before: it took
 * part in each of their passes, with batches that are known, and its gradients were right. Else
 * what was wrong there is a finding already, and the statistics follow from it. */
static bool is_clear(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    for (uint32_t s = e->start_step; s < step; s++) {
        size_t count = 0;

        (void)harness_index_in_step(&e->index, rank, DDP_EVENT_LOSS, s, &count);
        if (count != e->input->job->micro_batches ||
            harness_emulation_took(e, rank, s) != HARNESS_TOOK_OWN) {
            return false;
        }
    }
    return !had_wrong_gradient(e, rank, step);
}

static void report(const struct harness_emulation *e, uint32_t rank, uint32_t step, size_t buffer,
                   struct harness_findings *out)
{
    struct harness_finding finding;

    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_CORRUPTED,
                         HARNESS_ORACLE_BUFFERS, HARNESS_MODE_BITWISE);
    harness_rank_set_add(&finding.culprits, rank);
    finding.step = (int32_t)step;
    finding.phase = DDP_PHASE_BUFFER;
    (void)snprintf(finding.text, sizeof(finding.text),
                   "the buffer %.90s that rank %u hands out in step %u is not what its passes gave",
                   e->buffers.items[buffer].name, rank, step);
    harness_findings_add(out, &finding);
}

/* The first buffer that the step's owner handed out and that is not the emulation's; none: the
 * number of buffers. */
static size_t find_drift(const struct harness_emulation *e, uint32_t step)
{
    const size_t k = step - e->start_step;
    size_t count = 0;
    const struct harness_trace_event *const *list = harness_index_in_step(
        &e->index, e->expected.buffer_owner[k], DDP_EVENT_BUFFER_SYNCED, step, &count);

    for (size_t i = 0; i < count && i < e->buffers.count; i++) {
        const uint64_t expected = e->expected.buffer_hash[k * e->buffers.count + i];

        if (list[i]->entry.arg[0] == i && expected != 0 && list[i]->entry.arg[1] != expected) {
            return i;
        }
    }
    return e->buffers.count;
}

/* Its step; end_step: all were the emulation's. */
static uint32_t first_drift(const struct harness_emulation *e)
{
    uint32_t step = e->start_step;

    while (step < e->end_step && find_drift(e, step) == e->buffers.count) {
        step++;
    }
    return step;
}

bool harness_buffers_are_known(const struct harness_emulation *e, uint32_t rank)
{
    return first_drift(e) == e->end_step && !had_wrong_gradient(e, rank, e->end_step);
}

ddp_status harness_check_buffers(const struct harness_emulation *e, struct harness_findings *out,
                                 struct ddp_err *err)
{
    const uint32_t step = e->buffers.count > 0 ? first_drift(e) : e->end_step;

    (void)err;
    if (step < e->end_step) {
        const uint32_t owner = e->expected.buffer_owner[step - e->start_step];

        if (harness_survivors_know_buffers(e) && is_clear(e, owner, step)) {
            report(e, owner, step, find_drift(e, step), out);
        }
    }
    return DDP_OK;
}
