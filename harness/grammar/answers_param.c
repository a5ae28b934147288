/* What becomes of a job when a parameter's gradient does not come, is not copied into its bucket,
 * or is altered there: by whether the rank uses the parameter, and whether others do. */
#include "harness/grammar/answers.h"

/* Only the last micro-batch of a step reduces. */
static bool is_reduced(const struct harness_answers *answers)
{
    const uint32_t micro_batches = answers->job->job->micro_batches;

    return micro_batches == 1 || answers->fault->at.micro == (int64_t)micro_batches - 1;
}

static enum harness_grammar_use own_use(const struct harness_answers *answers)
{
    return harness_grammar_use(answers->job, answers->fault->at.rank, answers->step,
                               answers->fault->at.param);
}

/* No bucket is complete without it, whoever uses it: the rank refuses the end of the pass, or, as
 * PyTorch does, the next pass; what it posts in between is in the place of the bucket. */
static void leave_unready(struct harness_answers *answers)
{
    const struct harness_trigger *at = &answers->fault->at;
    const struct harness_job *job = answers->job->job;

    if (!is_reduced(answers)) {
        return;
    }
    if (job->semantics == HARNESS_SEMANTICS_STRICT) {
        harness_answers_add(answers, HARNESS_VERDICT_USAGE_UNUSED_PARAMETER);
        return;
    }
    if (answers->step + 1 < (int64_t)harness_grammar_full_steps(job, at->rank)) {
        if (job->ranks == 1) { /* nobody else refuses what comes in its place: both are found */
            return;
        }
        harness_answers_add_at(answers, HARNESS_VERDICT_USAGE_UNUSED_PARAMETER, answers->step + 1,
                               -1);
    }
    harness_answers_add_at(answers, HARNESS_VERDICT_MISMATCH_MISSING, answers->step,
                           harness_program_bucket_of(&answers->job->program, (int32_t)answers->step,
                                                     (uint32_t)at->param));
}

/* There stays the average of the step before, in a bucket that was the same then; of the gradient
 * of which no element is zero. */
static void leave_uncopied(struct harness_answers *answers)
{
    const struct harness_trigger *at = &answers->fault->at;
    const struct harness_job *job = answers->job->job;
    const struct harness_bucket *bucket = harness_answers_bucket_of(answers, at->param);

    if (at->param + 1 == (int64_t)answers->job->param_count &&
        harness_answers_is_sure(answers, bucket) &&
        answers->job->params[at->param].elem_count >= 4 && job->samples != 1 &&
        !job->gradient_as_bucket_view && is_reduced(answers) && answers->step >= 1 &&
        (job->bucket_order == HARNESS_BUCKET_ORDER_REVERSE ||
         answers->job->program.rebuilt_step < answers->step)) {
        harness_answers_add_at(answers, HARNESS_VERDICT_VALUE_STALE, answers->step,
                               harness_program_bucket_of(&answers->job->program,
                                                         (int32_t)answers->step,
                                                         (uint32_t)at->param));
    }
}

void harness_answers_skip_param(struct harness_answers *answers)
{
    if (answers->fault->point == DDP_FAULT_POINT_BUCKET_COPY) {
        leave_uncopied(answers);
    } else {
        leave_unready(answers);
    }
}

/* What a rank does not use it contributes as zeros: what scales them does nothing. */
void harness_answers_corrupt_fill(struct harness_answers *answers)
{
    const struct harness_trigger *at = &answers->fault->at;
    const enum harness_corrupt_kind kind = answers->fault->action.corrupt;
    const struct harness_bucket *bucket = harness_answers_bucket_of(answers, at->param);
    const enum harness_grammar_use use = own_use(answers);
    const int64_t index = harness_program_bucket_of(&answers->job->program, (int32_t)answers->step,
                                                    (uint32_t)at->param);

    if (kind == HARNESS_CORRUPT_NAN) {
        harness_answers_add_at(answers, HARNESS_VERDICT_VALUE_NONFINITE, answers->step, index);
    } else if (bucket->elem_count >= 4 &&
               (kind == HARNESS_CORRUPT_SET ||
                (kind == HARNESS_CORRUPT_FLIP && use == HARNESS_GRAMMAR_USED))) {
        harness_answers_add_at(answers, HARNESS_VERDICT_VALUE_CORRUPTED, answers->step, index);
        if (!harness_answers_is_sure(answers, bucket)) { /* the others may be zero */
            harness_answers_add_at(answers, HARNESS_VERDICT_VALUE_SCALED, answers->step, index);
        }
    }
}
