/* Purpose: a run in which nothing was found proves what the plan wanted proven.
 * Idea: without a finding every rank must have taken all of its steps, and each must have been
 * predicted to its end; then the tables of step.c and rank.c say what has to be there. */
#include "harness/evidence/internal.h"

/* Optimizer steps after which a rank's data, or the plan, ends; counted from the first of all. */
static uint64_t due_steps(const struct harness_emulation *e, uint32_t rank)
{
    return harness_emulation_due(e, rank) / e->input->job->micro_batches;
}

/* Every rank took all steps that it had data for, and there was one. */
static void check_taken(const struct harness_emulation *e, struct harness_gap *out)
{
    uint64_t most = 0;

    for (uint32_t r = 0; r < e->world; r++) {
        const struct harness_trace_event *end = harness_index_end(&e->index, r);
        uint64_t own = due_steps(e, r);
        uint64_t due = own > e->input->restored_step ? own : e->input->restored_step;

        most = due > most ? due : most;
        if (end == NULL || !harness_index_is_ended_ok(&e->index, r)) {
            harness_gap_set(out, "nothing was found, and rank %u did not end well", r);
        } else if (end->entry.arg[1] != due) {
            harness_gap_set(out, "rank %u completed %llu of %llu steps", r,
                            (unsigned long long)end->entry.arg[1], (unsigned long long)due);
        }
    }
    if (e->input->start != NULL) {
        return; /* what was before the loss is proven: a new group may have no step left to do */
    }
    if (most <= e->input->restored_step && e->input->restored_step > 0) {
        harness_gap_set(out,
                        "nothing was proven: the checkpoint is of step %u, after which no rank "
                        "has a step",
                        e->input->restored_step);
    } else if (most == 0) {
        harness_gap_set(out, "nothing was proven: no rank took an optimizer step, as none has data "
                             "for one");
    }
}

/* Every step was predicted to its end, so that all checkers compared something. */
static void check_predicted(const struct harness_emulation *e, struct harness_gap *out)
{
    uint64_t most = 0;

    for (uint32_t r = 0; r < e->world; r++) {
        most = due_steps(e, r) > most ? due_steps(e, r) : most;
    }
    if (e->end_step < most) {
        harness_gap_set(out, "steps %u to %llu were not recorded", e->end_step,
                        (unsigned long long)most - 1);
    }
    for (uint32_t step = e->start_step; step < e->end_step && step < most; step++) {
        if (e->expected.predicted[step - e->start_step] < HARNESS_PREDICTED_UPDATE) {
            harness_gap_set(
                out, "nothing was found in step %u, and what it should give is not known", step);
        }
    }
}

/* Up to which step no fault acted on any rank. Without one, what was found may concern any step. */
static int32_t undisturbed_end(const struct harness_emulation *e)
{
    int32_t end = INT32_MAX;

    for (uint32_t r = 0; r < e->world; r++) {
        size_t count = 0;
        const struct harness_trace_event *const *list =
            harness_index_list(&e->index, r, DDP_EVENT_FAULT_FIRED, &count);

        for (size_t i = 0; i < count; i++) {
            int32_t step = harness_program_step_of(e->input->program, list[i]->entry.phase,
                                                   list[i]->entry.step);

            end = step < end ? step : end;
        }
    }
    return end == INT32_MAX ? INT32_MIN : end;
}

ddp_status harness_evidence_check(const struct harness_emulation *e, bool is_clean,
                                  struct harness_gap *out)
{
    *out = (struct harness_gap){.is_set = false};
    DDP_TRY(harness_evidence_ranks(e, out));
    DDP_TRY(harness_evidence_agreement(e, out));
    harness_evidence_diagnoses(e, out);
    if (is_clean) {
        check_taken(e, out);
        check_predicted(e, out);
        for (uint32_t r = 0; e->input->plan->job.join.is_set && r < e->world; r++) {
            harness_evidence_join(e, r, out);
        }
    }
    harness_evidence_collectives(e, is_clean ? INT32_MAX : undisturbed_end(e), out);
    return out->is_set ? DDP_OK : harness_evidence_steps(e, is_clean, out);
}
