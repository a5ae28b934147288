/* Answers in the making; and what altered data do to a job: gradients, sums, parameters, what ranks
 * are configured with. */
#include "harness/grammar/answers.h"

#include <string.h>

void harness_answers_add(struct harness_answers *answers, enum harness_verdict verdict)
{
    DDP_ASSERT(answers->count < HARNESS_ANSWERS_MAX);
    answers->out[answers->count++] =
        (struct harness_answer){.verdict = verdict, .step = answers->step, .bucket = -1};
}

void harness_answers_add_at(struct harness_answers *answers, enum harness_verdict verdict,
                            int64_t step, int64_t bucket)
{
    harness_answers_add(answers, verdict);
    answers->out[answers->count - 1].step = step;
    answers->out[answers->count - 1].bucket = bucket;
}

/* In the fault's step. */
const struct harness_bucket *harness_answers_bucket(const struct harness_answers *answers,
                                                    uint64_t index)
{
    return harness_program_bucket(&answers->job->program, (int32_t)answers->step, index);
}

const struct harness_bucket *harness_answers_bucket_of(const struct harness_answers *answers,
                                                       int64_t param)
{
    return harness_answers_bucket(
        answers,
        harness_program_bucket_of(&answers->job->program, (int32_t)answers->step, (uint32_t)param));
}

/* Dataset `dyadic`: a regression whose errors, and so gradients, may all be exactly zero. */
bool harness_answers_is_regression(const struct harness_answers *answers)
{
    return strcmp(answers->job->job->data, "dyadic") == 0;
}

/* The gradient of the last layer's bias under cross-entropy is the softmax less the label's one: no
 * element of it is zero, whatever the data. Elsewhere (gpt has no such bias) a whole gradient may
 * be zero, and then what would scale or drop it does nothing. */
bool harness_answers_is_sure(const struct harness_answers *answers,
                             const struct harness_bucket *bucket)
{
    if (harness_answers_is_regression(answers) || strcmp(answers->job->job->model, "gpt") == 0) {
        return false;
    }
    for (uint32_t i = 0; i < bucket->param_count; i++) {
        if (bucket->params[i] == answers->job->param_count - 1) {
            return true;
        }
    }
    return false;
}

/* A replica is another one than the others are; one alone is wrong, but differs from none. */
void harness_answers_add_diverged(struct harness_answers *answers)
{
    harness_answers_add(answers, answers->job->job->ranks > 1 ? HARNESS_VERDICT_VALUE_DIVERGED
                                                              : HARNESS_VERDICT_VALUE_CORRUPTED);
}

static bool is_rounding(enum harness_corrupt_kind kind)
{
    return kind == HARNESS_CORRUPT_ROUND_BF16 || kind == HARNESS_CORRUPT_ROUND_F16 ||
           kind == HARNESS_CORRUPT_ROUND_TF32;
}

/* Many elements of the bucket have more bits than any narrower format: sums of exponentials, that
 * were never held in one. */
static bool is_fine(const struct harness_answers *answers, const struct harness_bucket *bucket)
{
    enum { PLENTY = 8 };
    const struct harness_job *job = answers->job->job;
    const size_t last = answers->job->params[answers->job->param_count - 1].elem_count;

    return harness_answers_is_sure(answers, bucket) && last >= PLENTY &&
           bucket->dtype == DDP_DTYPE_F32 && !job->mixed_precision.is_set &&
           job->hook == HARNESS_HOOK_NONE;
}

bool harness_answers_is_used(const struct harness_answers *answers)
{
    const struct harness_action *action = &answers->fault->action;
    const struct harness_bucket *bucket =
        harness_answers_bucket(answers, (uint64_t)answers->fault->at.bucket);

    for (uint64_t i = 0; i < action->count; i++) {
        const uint64_t elem = action->elem + i * action->stride;
        uint32_t place = 0;

        while (place + 1 < bucket->param_count && bucket->offsets[place + 1] <= elem) {
            place++;
        }
        if (harness_grammar_use_of_any(answers->job, answers->step, bucket->params[place]) !=
            HARNESS_GRAMMAR_USED) {
            return false;
        }
    }
    return true;
}

bool harness_answers_is_any_used(const struct harness_answers *answers)
{
    const struct harness_bucket *bucket =
        harness_answers_bucket(answers, (uint64_t)answers->fault->at.bucket);

    for (uint32_t i = 0; i < bucket->param_count; i++) {
        if (harness_grammar_use_of_any(answers->job, answers->step, bucket->params[i]) ==
            HARNESS_GRAMMAR_USED) {
            return true;
        }
    }
    return false;
}

/* A bucket's contribution, before it is summed. */
static void corrupt_contribution(struct harness_answers *answers)
{
    const struct harness_action *action = &answers->fault->action;
    int64_t index = answers->fault->at.bucket;
    const struct harness_bucket *bucket = harness_answers_bucket(answers, (uint64_t)index);
    enum harness_verdict verdict = HARNESS_VERDICT_NONE;
    bool is_whole = true;

    switch (action->corrupt) {
    case HARNESS_CORRUPT_ZERO:
        verdict = HARNESS_VERDICT_VALUE_LOST;
        break;
    case HARNESS_CORRUPT_DOUBLE:
        verdict = HARNESS_VERDICT_VALUE_DUPLICATED;
        break;
    case HARNESS_CORRUPT_HALF:
    case HARNESS_CORRUPT_SCALE:
        verdict = HARNESS_VERDICT_VALUE_SCALED;
        break;
    case HARNESS_CORRUPT_SHIFT:
        verdict = HARNESS_VERDICT_VALUE_SHIFTED;
        break;
    case HARNESS_CORRUPT_NAN:
        verdict = HARNESS_VERDICT_VALUE_NONFINITE;
        is_whole = false;
        break;
    case HARNESS_CORRUPT_FLIP:
    case HARNESS_CORRUPT_SET:
        verdict = HARNESS_VERDICT_VALUE_CORRUPTED;
        is_whole = false;
        break;
    case HARNESS_CORRUPT_ROUND_BF16:
    case HARNESS_CORRUPT_ROUND_F16:
    case HARNESS_CORRUPT_ROUND_TF32:
        if (is_fine(answers, bucket)) {
            harness_answers_add_at(answers, HARNESS_VERDICT_VALUE_PRECISION, answers->step, index);
        }
        return;
    case HARNESS_CORRUPT_KIND_COUNT:
        return;
    }
    /* Of few elements, any change of one is a factor, or a shift, of all. */
    if (bucket->elem_count < 4 && verdict != HARNESS_VERDICT_VALUE_NONFINITE) {
        return;
    }
    if (!is_whole || harness_answers_is_sure(answers, bucket)) {
        harness_answers_add_at(answers, verdict, answers->step, index);
    }
    /* If all other elements are zero, one element's change is a factor of all. */
    if (verdict == HARNESS_VERDICT_VALUE_CORRUPTED && !harness_answers_is_sure(answers, bucket)) {
        harness_answers_add_at(answers, HARNESS_VERDICT_VALUE_SCALED, answers->step, index);
    }
}

/* A parameter's gradient as it becomes ready. One micro-batch's may drown in those that follow. */
static void corrupt_gradient(struct harness_answers *answers)
{
    const struct harness_fault *fault = &answers->fault[0];
    const struct harness_job *job = answers->job->job;
    const struct harness_bucket *bucket = harness_answers_bucket_of(answers, fault->at.param);
    bool is_last = job->micro_batches == 1 || fault->at.micro == (int64_t)job->micro_batches - 1;

    if (fault->action.corrupt == HARNESS_CORRUPT_NAN) {
        harness_answers_add(answers, HARNESS_VERDICT_VALUE_NONFINITE);
    } else if (bucket != NULL && is_last && answers->job->params[fault->at.param].elem_count >= 4 &&
               (fault->action.corrupt == HARNESS_CORRUPT_FLIP ||
                fault->action.corrupt == HARNESS_CORRUPT_SET)) {
        harness_answers_add(answers, HARNESS_VERDICT_VALUE_CORRUPTED);
        if (fault->at.param + 1 < (int64_t)answers->job->param_count ||
            !harness_answers_is_sure(answers, bucket)) {
            harness_answers_add(answers, HARNESS_VERDICT_VALUE_SCALED); /* the others may be zero */
        }
    }
}

/* One rank's copy of the sum. Parameters that no rank uses are not copied back. */
static void corrupt_sum(struct harness_answers *answers)
{
    enum harness_corrupt_kind kind = answers->fault->action.corrupt;

    if (!harness_answers_is_used(answers)) {
        return;
    }
    if (kind == HARNESS_CORRUPT_NAN) {
        harness_answers_add(answers, HARNESS_VERDICT_VALUE_NONFINITE);
    } else if (is_rounding(kind) &&
               is_fine(answers,
                       harness_answers_bucket(answers, (uint64_t)answers->fault->at.bucket))) {
        harness_answers_add(answers, HARNESS_VERDICT_VALUE_PRECISION);
    } else if ((kind == HARNESS_CORRUPT_FLIP || kind == HARNESS_CORRUPT_SET) &&
               harness_answers_bucket(answers, (uint64_t)answers->fault->at.bucket)->elem_count >=
                   4) {
        harness_answers_add(answers, HARNESS_VERDICT_VALUE_CORRUPTED);
        if (answers->fault->action.count > 1) { /* of a parameter that has no other elements */
            harness_answers_add(answers, HARNESS_VERDICT_VALUE_SCALED);
        }
    }
}

/* A parameter after its update: the rank's replica is another one from then on. */
static void corrupt_param(struct harness_answers *answers)
{
    enum harness_corrupt_kind kind = answers->fault->action.corrupt;

    if (kind == HARNESS_CORRUPT_NAN) {
        harness_answers_add(answers, HARNESS_VERDICT_VALUE_NONFINITE);
        harness_answers_add_diverged(answers);
    } else if (kind == HARNESS_CORRUPT_FLIP || kind == HARNESS_CORRUPT_SET) {
        harness_answers_add_diverged(answers);
    }
}

/* The state before the update: what is small may drown in it, and a factor of 0 forgets it. */
static void corrupt_state(struct harness_answers *answers)
{
    const struct harness_optimizer *optimizer = &answers->job->job->optimizer;
    enum harness_corrupt_kind kind = answers->fault->action.corrupt;
    bool is_sgd = optimizer->kind == HARNESS_OPTIMIZER_SGD;
    bool is_kept = is_sgd || (optimizer->beta1 > 0 && optimizer->beta2 > 0);

    if (is_sgd && answers->step == 0) {
        return; /* the first update sets the momentum, whatever was there */
    }
    if (kind == HARNESS_CORRUPT_NAN || (kind == HARNESS_CORRUPT_SET && is_kept)) {
        harness_answers_add_diverged(answers);
    }
    if (kind == HARNESS_CORRUPT_NAN) {
        harness_answers_add(answers, HARNESS_VERDICT_VALUE_NONFINITE);
    }
}

/* A buffer after a pass. Before the last one it may yet be replaced by what is handed out. */
static void corrupt_buffer(struct harness_answers *answers)
{
    const struct harness_fault *fault = &answers->fault[0];
    const bool is_last = fault->at.micro + 1 == (int64_t)answers->job->job->micro_batches;
    enum harness_corrupt_kind kind = fault->action.corrupt;

    if (is_last && (kind == HARNESS_CORRUPT_NAN || kind == HARNESS_CORRUPT_SET ||
                    kind == HARNESS_CORRUPT_FLIP)) {
        harness_answers_add(answers, HARNESS_VERDICT_VALUE_CORRUPTED);
    }
}

void harness_answers_corrupt(struct harness_answers *answers)
{
    switch (answers->fault->point) {
    case DDP_FAULT_POINT_MODEL_BUILD:
        harness_answers_add(answers, HARNESS_VERDICT_MISMATCH_MODEL);
        /* PyTorch's constructor compares sizes only as it hands out the parameters. */
        if (answers->job->job->semantics == HARNESS_SEMANTICS_PYTORCH) {
            harness_answers_add(answers, HARNESS_VERDICT_MISMATCH_COUNT);
        }
        break;
    case DDP_FAULT_POINT_CONFIG: /* under strict semantics, as buffers */
    case DDP_FAULT_POINT_MODEL_BUFFERS:
        harness_answers_add(answers, HARNESS_VERDICT_MISMATCH_MODEL);
        break;
    case DDP_FAULT_POINT_BUCKET_LAUNCH:
        corrupt_contribution(answers);
        break;
    case DDP_FAULT_POINT_GRAD_READY:
        corrupt_gradient(answers);
        break;
    case DDP_FAULT_POINT_COLLECTIVE_POST:
    case DDP_FAULT_POINT_BUCKET_UNFLATTEN:
        corrupt_sum(answers);
        break;
    case DDP_FAULT_POINT_PARAM_UPDATED:
        corrupt_param(answers);
        break;
    case DDP_FAULT_POINT_OPTIMIZER_STATE:
        corrupt_state(answers);
        break;
    case DDP_FAULT_POINT_BUFFER_UPDATED:
        corrupt_buffer(answers);
        break;
    default: /* carries no data that is drawn */
        break;
    }
}
