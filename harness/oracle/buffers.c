/* Purpose: the buffers of each rank are those that its passes give, bit for bit, and so are those
 * that are handed out.
 * Idea: the hashes that a rank has after a step, and the owner's before each broadcast, against the
 * emulation's. A replica that got other values than the owner sent is not looked at here: that is
 * the broadcast's finding. A rank's own are judged wherever it began the step with the right ones
 * and its losses are right, so that all else that its passes give is, too. A statistic that has
 * once drifted stays so, and is reported once. */
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

/* --- what a rank's own passes left ------------------------------------------------------------ */

/* What the rank should have after the step; 0: not known. */
static uint64_t passed(const struct harness_emulation *e, uint32_t rank, uint32_t step,
                       size_t buffer)
{
    const size_t k = step - e->start_step;

    return e->expected.passed_hash[(k * e->world + rank) * e->buffers.count + buffer];
}

/* All that the rank's passes gave beside its buffers is right. In the first step that takes the
 * gradients, too, since a model that differs from the start may have the losses of the right one:
 * normalizations take scales away. Later steps are emulated from what ranks had. */
static bool has_right_passes(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    const bool is_first = step == e->start_step;
    size_t count = 0;

    (void)harness_index_in_step(&e->index, rank, DDP_EVENT_LOSS, step, &count);
    if (count != e->input->job->micro_batches ||
        harness_emulation_took(e, rank, step) != HARNESS_TOOK_OWN) {
        return false;
    }
    for (size_t i = 0; i < e->compare.count; i++) {
        const struct harness_difference *item = &e->compare.items[i];

        if (item->stage == HARNESS_STAGE_GRADIENT && item->step == step &&
            (is_first || item->first.is_loss) && harness_rank_set_has(&item->ranks, rank)) {
            return false;
        }
    }
    return true;
}

/* The rank came to its last pass of the step with what the emulation has there. Without broadcasts
 * that is what it had after the step before, and so on to the beginning. */
static bool began_right(const struct harness_emulation *e, uint32_t rank, uint32_t step,
                        size_t buffer)
{
    const size_t k = step - e->start_step;
    bool is_right = true;

    if (e->input->plan->job.broadcast_buffers) {
        const uint64_t handed = e->expected.buffer_hash[k * e->buffers.count + buffer];

        return handed != 0 &&
               harness_subject_hash(e, rank, DDP_EVENT_BUFFER_SYNCED, step, buffer) == handed;
    }
    for (uint32_t s = e->start_step; s < step && is_right; s++) {
        const uint64_t expected = passed(e, rank, s, buffer);

        is_right = expected != 0 && has_right_passes(e, rank, s) &&
                   harness_subject_hash(e, rank, DDP_EVENT_BUFFER_UPDATED, s, buffer) == expected;
    }
    return is_right;
}

/* The first buffer that the rank's passes of the step should have left otherwise; none: the number
 * of buffers. */
static size_t find_other(const struct harness_emulation *e, uint32_t rank, uint32_t step)
{
    for (size_t b = 0; has_right_passes(e, rank, step) && b < e->buffers.count; b++) {
        const uint64_t expected = passed(e, rank, step, b);
        const uint64_t got = harness_subject_hash(e, rank, DDP_EVENT_BUFFER_UPDATED, step, b);

        if (expected != 0 && got != 0 && got != expected && began_right(e, rank, step, b)) {
            return b;
        }
    }
    return e->buffers.count;
}

/* In a step before `end`. */
static bool has_other(const struct harness_emulation *e, uint32_t rank, uint32_t end)
{
    for (uint32_t step = e->start_step; step < end; step++) {
        if (find_other(e, rank, step) < e->buffers.count) {
            return true;
        }
    }
    return false;
}

static void check_passed(const struct harness_emulation *e, uint32_t step,
                         struct harness_findings *out)
{
    struct harness_finding finding;
    size_t first = e->buffers.count;
    char ranks[96];

    harness_finding_init(&finding, out->mem, HARNESS_VERDICT_VALUE_CORRUPTED,
                         HARNESS_ORACLE_BUFFERS, HARNESS_MODE_BITWISE);
    for (uint32_t r = 0; r < e->world; r++) {
        const size_t b = find_other(e, r, step);

        if (b < e->buffers.count) {
            harness_rank_set_add(&finding.culprits, r);
            first = b < first ? b : first;
        }
    }
    if (first == e->buffers.count) {
        return;
    }
    finding.step = (int32_t)step;
    finding.phase = DDP_PHASE_FORWARD;
    (void)snprintf(finding.text, sizeof(finding.text),
                   "the buffer %.90s after step %u is not what the passes gave: %s",
                   e->buffers.items[first].name, step,
                   harness_subject_ranks_text(&finding.culprits, ranks, sizeof(ranks)));
    harness_findings_add(out, &finding);
}

/* --- what is handed out ----------------------------------------------------------------------- */

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
    return first_drift(e) == e->end_step && !had_wrong_gradient(e, rank, e->end_step) &&
           !has_other(e, rank, e->end_step);
}

ddp_status harness_check_buffers(const struct harness_emulation *e, struct harness_findings *out,
                                 struct ddp_err *err)
{
    const uint32_t step = e->buffers.count > 0 ? first_drift(e) : e->end_step;

    (void)err;
    for (uint32_t s = e->start_step; harness_survivors_know_buffers(e) && s < e->end_step; s++) {
        check_passed(e, s, out);
    }
    if (step < e->end_step) {
        const uint32_t owner = e->expected.buffer_owner[step - e->start_step];

        /* What its passes left otherwise is handed out so. */
        if (harness_survivors_know_buffers(e) && is_clear(e, owner, step) &&
            !has_other(e, owner, step)) {
            report(e, owner, step, find_drift(e, step), out);
        }
    }
    return DDP_OK;
}
