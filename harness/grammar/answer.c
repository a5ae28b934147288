/* What a fault does to a job, from how data-parallel training works. */
#include "harness/grammar/answer.h"

#include <string.h>

/* Answers in the making. */
struct answers {
    const struct harness_grammar_job *job;
    const struct harness_fault *fault;
    enum harness_grammar_place place;
    int64_t step; /* in which the fault fires; -1: in none */
    struct harness_answer *out;
    size_t count;
};

static void add(struct answers *answers, enum harness_verdict verdict)
{
    DDP_ASSERT(answers->count < HARNESS_ANSWERS_MAX);
    answers->out[answers->count++] =
        (struct harness_answer){.verdict = verdict, .step = answers->step, .bucket = -1};
}

static void add_at(struct answers *answers, enum harness_verdict verdict, int64_t step,
                   int64_t bucket)
{
    add(answers, verdict);
    answers->out[answers->count - 1].step = step;
    answers->out[answers->count - 1].bucket = bucket;
}

/* In the fault's step. */
static const struct harness_bucket *bucket_at(const struct answers *answers, uint64_t index)
{
    return harness_program_bucket(&answers->job->program, (int32_t)answers->step, index);
}

static const struct harness_bucket *bucket_of_param(const struct answers *answers, int64_t param)
{
    return bucket_at(answers, harness_program_bucket_of(&answers->job->program,
                                                        (int32_t)answers->step, (uint32_t)param));
}

/* Dataset `dyadic`: a regression whose errors, and so gradients, may all be exactly zero. */
static bool is_regression(const struct answers *answers)
{
    return strcmp(answers->job->job->data, "dyadic") == 0;
}

/* The gradient of the last layer's bias under cross-entropy is the softmax less the label's one: no
 * element of it is zero, whatever the data. Elsewhere (gpt has no such bias) a whole gradient may
 * be zero, and then what would scale or drop it does nothing. */
static bool has_sure_gradient(const struct answers *answers, const struct harness_bucket *bucket)
{
    if (is_regression(answers) || strcmp(answers->job->job->model, "gpt") == 0) {
        return false;
    }
    for (uint32_t i = 0; i < bucket->param_count; i++) {
        if (bucket->params[i] == answers->job->param_count - 1) {
            return true;
        }
    }
    return false;
}

/* A bucket's contribution, before it is summed. */
static void corrupt_contribution(struct answers *answers)
{
    const struct harness_action *action = &answers->fault->action;
    int64_t index = answers->fault->at.bucket;
    const struct harness_bucket *bucket = bucket_at(answers, (uint64_t)index);
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
    case HARNESS_CORRUPT_KIND_COUNT:
        return;
    }
    /* Of few elements, any change of one is a factor, or a shift, of all. */
    if (bucket->elem_count < 4 && verdict != HARNESS_VERDICT_VALUE_NONFINITE) {
        return;
    }
    if (!is_whole || has_sure_gradient(answers, bucket)) {
        add_at(answers, verdict, answers->step, index);
    }
    /* If all other elements are zero, one element's change is a factor of all. */
    if (verdict == HARNESS_VERDICT_VALUE_CORRUPTED && !has_sure_gradient(answers, bucket)) {
        add_at(answers, HARNESS_VERDICT_VALUE_SCALED, answers->step, index);
    }
}

/* A parameter's gradient as it becomes ready. One micro-batch's may drown in those that follow. */
static void corrupt_gradient(struct answers *answers)
{
    const struct harness_fault *fault = &answers->fault[0];
    const struct harness_job *job = answers->job->job;
    const struct harness_bucket *bucket = bucket_of_param(answers, fault->at.param);
    bool is_last = job->micro_batches == 1 || fault->at.micro == (int64_t)job->micro_batches - 1;

    if (fault->action.corrupt == HARNESS_CORRUPT_NAN) {
        add(answers, HARNESS_VERDICT_VALUE_NONFINITE);
    } else if (bucket != NULL && is_last && answers->job->params[fault->at.param].elem_count >= 4 &&
               (fault->action.corrupt == HARNESS_CORRUPT_FLIP ||
                fault->action.corrupt == HARNESS_CORRUPT_SET)) {
        add(answers, HARNESS_VERDICT_VALUE_CORRUPTED);
        if (fault->at.param + 1 < (int64_t)answers->job->param_count ||
            !has_sure_gradient(answers, bucket)) {
            add(answers, HARNESS_VERDICT_VALUE_SCALED); /* the others may be zero */
        }
    }
}

/* One rank's copy of the sum. Parameters that no rank uses are not copied back. */
static void corrupt_sum(struct answers *answers)
{
    enum harness_corrupt_kind kind = answers->fault->action.corrupt;

    if (!answers->job->uses_all) {
        return;
    }
    if (kind == HARNESS_CORRUPT_NAN) {
        add(answers, HARNESS_VERDICT_VALUE_NONFINITE);
    } else if ((kind == HARNESS_CORRUPT_FLIP || kind == HARNESS_CORRUPT_SET) &&
               bucket_at(answers, (uint64_t)answers->fault->at.bucket)->elem_count >= 4) {
        add(answers, HARNESS_VERDICT_VALUE_CORRUPTED);
        if (answers->fault->action.count > 1) { /* of a parameter that has no other elements */
            add(answers, HARNESS_VERDICT_VALUE_SCALED);
        }
    }
}

/* A replica is another one than the others are; one alone is wrong, but differs from none. */
static void add_diverged(struct answers *answers)
{
    add(answers, answers->job->job->ranks > 1 ? HARNESS_VERDICT_VALUE_DIVERGED
                                              : HARNESS_VERDICT_VALUE_CORRUPTED);
}

/* A parameter after its update: the rank's replica is another one from then on. */
static void corrupt_param(struct answers *answers)
{
    enum harness_corrupt_kind kind = answers->fault->action.corrupt;

    if (kind == HARNESS_CORRUPT_NAN) {
        add(answers, HARNESS_VERDICT_VALUE_NONFINITE);
        add_diverged(answers);
    } else if (kind == HARNESS_CORRUPT_FLIP || kind == HARNESS_CORRUPT_SET) {
        add_diverged(answers);
    }
}

/* The state before the update: what is small may drown in it, and a factor of 0 forgets it. */
static void corrupt_state(struct answers *answers)
{
    const struct harness_optimizer *optimizer = &answers->job->job->optimizer;
    enum harness_corrupt_kind kind = answers->fault->action.corrupt;
    bool is_sgd = optimizer->kind == HARNESS_OPTIMIZER_SGD;
    bool is_kept = is_sgd || (optimizer->beta1 > 0 && optimizer->beta2 > 0);

    if (is_sgd && answers->step == 0) {
        return; /* the first update sets the momentum, whatever was there */
    }
    if (kind == HARNESS_CORRUPT_NAN || (kind == HARNESS_CORRUPT_SET && is_kept)) {
        add_diverged(answers);
    }
    if (kind == HARNESS_CORRUPT_NAN) {
        add(answers, HARNESS_VERDICT_VALUE_NONFINITE);
    }
}

static void corrupt(struct answers *answers)
{
    switch (answers->fault->point) {
    case DDP_FAULT_POINT_MODEL_BUILD:
        add(answers, HARNESS_VERDICT_MISMATCH_MODEL);
        /* PyTorch's constructor compares sizes only as it hands out the parameters. */
        if (answers->job->job->semantics == HARNESS_SEMANTICS_PYTORCH) {
            add(answers, HARNESS_VERDICT_MISMATCH_COUNT);
        }
        break;
    case DDP_FAULT_POINT_CONFIG: /* under strict semantics, as buffers */
    case DDP_FAULT_POINT_MODEL_BUFFERS:
        add(answers, HARNESS_VERDICT_MISMATCH_MODEL);
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
    default: /* carries no data that is drawn */
        break;
    }
}

/* Another argument than the others'. */
static void argue(struct answers *answers)
{
    static const enum harness_verdict verdicts[HARNESS_ARG_FIELD_COUNT] = {
        [HARNESS_ARG_KIND] = HARNESS_VERDICT_MISMATCH_OP,
        [HARNESS_ARG_COUNT] = HARNESS_VERDICT_MISMATCH_COUNT,
        [HARNESS_ARG_DTYPE] = HARNESS_VERDICT_MISMATCH_DTYPE,
        [HARNESS_ARG_REDOP] = HARNESS_VERDICT_MISMATCH_REDUCTION,
        [HARNESS_ARG_ROOT] = HARNESS_VERDICT_MISMATCH_ROOT,
        [HARNESS_ARG_INDEX] = HARNESS_VERDICT_MISMATCH_BUCKET,
    };

    const struct harness_action *action = &answers->fault->action;
    int64_t bucket = answers->fault->at.bucket;

    if (action->arg != HARNESS_ARG_INDEX) {
        add_at(answers, verdicts[action->arg], answers->step, bucket);
        return;
    }
    add(answers, HARNESS_VERDICT_MISMATCH_BUCKET);
    /* The next bucket's turn, if they are of one size, looks as if this one were left out; whoever
     * refuses it at once does not see that it comes again. */
    if (bucket_at(answers, (uint64_t)bucket)->elem_count ==
        bucket_at(answers, action->arg_value)->elem_count) {
        add(answers, HARNESS_VERDICT_MISMATCH_MISSING);
    }
}

/* The micro-batch, counted from the first step, of a fault that is placed in one. */
static uint64_t pass_of(const struct answers *answers)
{
    const struct harness_trigger *at = &answers->fault->at;
    uint64_t micro = at->micro >= 0 ? (uint64_t)at->micro : at->hit - 1;

    return (uint64_t)answers->step * answers->job->job->micro_batches + micro;
}

/* What a rank has of a sum, and a checkpoint. */
static void skip_result(struct answers *answers)
{
    const struct harness_job *job = answers->job->job;

    switch (answers->fault->point) {
    case DDP_FAULT_POINT_COLLECTIVE_ENQUEUE: /* the rank has only its own, and sends none; if all
                                              * had the same, the sum would be scaled */
        if (harness_grammar_is_summed(job, answers->fault->at.rank, answers->step) &&
            (job->samples == 0 || job->samples >= job->ranks) &&
            has_sure_gradient(answers, bucket_at(answers, (uint64_t)answers->fault->at.bucket))) {
            add_at(answers, HARNESS_VERDICT_VALUE_LOST, answers->step, answers->fault->at.bucket);
            /* Or others wait for ever, where no later message of the rank is taken for it. */
            add(answers, HARNESS_VERDICT_MISMATCH_MISSING);
        }
        break;
    case DDP_FAULT_POINT_BUCKET_UNFLATTEN: /* what was there before, or the rank's own */
        if (job->ranks > 1 && !job->gradient_as_bucket_view && answers->job->uses_all &&
            harness_grammar_is_even(job) && /* else it may be the rank's own alone, and a factor */
            has_sure_gradient(answers, bucket_at(answers, (uint64_t)answers->fault->at.bucket))) {
            add_at(answers, HARNESS_VERDICT_VALUE_STALE, answers->step, answers->fault->at.bucket);
        }
        break;
    case DDP_FAULT_POINT_CHECKPOINT_KEY:
        add_at(answers, HARNESS_VERDICT_CHECKPOINT_STALE, -1, -1);
        break;
    case DDP_FAULT_POINT_CHECKPOINT_RENAME: /* the one before it stays, if there is one; or the next
                                             * one takes its place */
        if ((uint64_t)answers->step + 1 + job->checkpoint_every >
            harness_grammar_full_steps(job, 0)) {
            add_at(answers,
                   (uint64_t)answers->step + 1 > job->checkpoint_every
                       ? HARNESS_VERDICT_CHECKPOINT_STALE
                       : HARNESS_VERDICT_CHECKPOINT_TORN,
                   -1, -1);
        } else {
            add_at(answers, HARNESS_VERDICT_NONE, -1, -1);
        }
        break;
    default:
        break;
    }
}

static bool is_drift_due(const struct answers *answers)
{
    const uint32_t every = answers->job->job->drift_every;

    return every > 0 && (answers->step + 1) % every == 0;
}

static void skip(struct answers *answers)
{
    const struct harness_job *job = answers->job->job;

    switch (answers->fault->point) {
    case DDP_FAULT_POINT_OPTIMIZER_PRE:
        if (!is_regression(answers)) { /* else the update may be one that changes nothing */
            add_diverged(answers);
        }
        break;
    case DDP_FAULT_POINT_OPTIMIZER_CLIP: /* a norm that always binds */
        if (!is_regression(answers) && job->optimizer.clip_norm < 0.1) {
            add_diverged(answers);
        }
        break;
    case DDP_FAULT_POINT_STEP_BEGIN:
        if (!job->join.is_set) {
            add(answers, HARNESS_VERDICT_MISMATCH_MISSING);
        } else { /* the others go on without it, as if its data had ended */
            add(answers, HARNESS_VERDICT_DATA_MISSING);
        }
        break;
    case DDP_FAULT_POINT_LOSS:
        /* Only the last micro-batch reduces. */
        if (answers->fault->at.micro == (int64_t)job->micro_batches - 1) {
            add(answers, HARNESS_VERDICT_MISMATCH_MISSING);
            /* Nobody may look for drift in the middle of a pass. */
            if (is_drift_due(answers)) {
                add(answers, HARNESS_VERDICT_CRASH_EXITED);
            }
        }
        break;
    case DDP_FAULT_POINT_BUCKET_LAUNCH:
    case DDP_FAULT_POINT_COLLECTIVE_PRE:
        add_at(answers, HARNESS_VERDICT_MISMATCH_MISSING, answers->step, answers->fault->at.bucket);
        break;
    case DDP_FAULT_POINT_BUFFER_SYNC:
        add(answers, HARNESS_VERDICT_MISMATCH_MISSING);
        break;
    case DDP_FAULT_POINT_DATA_NEXT:
        if (job->shard_sizes != NULL) { /* else the same samples may come in another epoch */
            add(answers, HARNESS_VERDICT_DATA_MISSING);
        }
        /* Of the rank's last one nothing is seen but that it ends early. */
        if (job->shard_sizes != NULL && !job->join.is_set &&
            pass_of(answers) + 1 == harness_grammar_passes(job, answers->fault->at.rank)) {
            add(answers, HARNESS_VERDICT_MISMATCH_MISSING);
        }
        break;
    case DDP_FAULT_POINT_COLLECTIVE_WAIT:
        /* Else it may not be used; and hooks wait once more. */
        if (job->ranks > 1 && answers->job->uses_all && job->hook == HARNESS_HOOK_NONE) {
            add_at(answers, HARNESS_VERDICT_USAGE_UNORDERED, answers->step,
                   answers->fault->at.bucket);
        }
        break;
    default:
        skip_result(answers);
        break;
    }
}

/* What comes next is done twice: a batch that is taken again is the next one, which may be one
 * that the rank's data, or its steps, have no more. */
static void repeat(struct answers *answers)
{
    const struct harness_job *job = answers->job->job;
    uint64_t next = pass_of(answers) + 1;

    if (answers->fault->point != DDP_FAULT_POINT_DATA_NEXT) {
        add(answers, HARNESS_VERDICT_MISMATCH_EXTRA);
    } else if (job->shard_sizes != NULL && next < (uint64_t)job->steps * job->micro_batches) {
        add_at(answers, HARNESS_VERDICT_DATA_DUPLICATED, (int64_t)(next / job->micro_batches), -1);
    }
}

/* Silence: whoever waits for the rank shows where it is missed. */
static void hang(struct answers *answers)
{
    if (answers->place == HARNESS_GRAMMAR_AT_START) {
        add(answers, HARNESS_VERDICT_HANG_INIT);
        return;
    }
    if (answers->fault->point == DDP_FAULT_POINT_DATA_NEXT ||
        answers->fault->point == DDP_FAULT_POINT_DATA_BATCH ||
        answers->fault->point == DDP_FAULT_POINT_DATA_TRANSFORM) {
        add(answers, HARNESS_VERDICT_HANG_DATA);
        return;
    }
    /* A step begins with its data. */
    if (answers->fault->point == DDP_FAULT_POINT_STEP_BEGIN) {
        add(answers, HARNESS_VERDICT_HANG_DATA);
        add(answers, HARNESS_VERDICT_HANG_NOT_JOINED);
        return;
    }
    /* One rank alone keeps nobody waiting, and one that posted its part is only silent. */
    if (answers->job->job->ranks > 1) {
        add(answers, HARNESS_VERDICT_HANG_NOT_JOINED);
    }
    add(answers, HARNESS_VERDICT_HANG_HOST);
    /* Behind the step's last operation it is the next one that the others miss. */
    if (answers->job->job->ranks > 1) {
        add_at(answers, HARNESS_VERDICT_HANG_NOT_JOINED, answers->step + 1, -1);
        add_at(answers, HARNESS_VERDICT_HANG_TEARDOWN, -1, -1);
    }
}

static void act(struct answers *answers)
{
    const struct harness_action *action = &answers->fault->action;

    switch (action->kind) {
    case HARNESS_ACTION_NONE:
    case HARNESS_ACTION_DELAY: /* shorter than any budget */
        add_at(answers, HARNESS_VERDICT_NONE, -1, -1);
        break;
    case HARNESS_ACTION_KILL:
    case HARNESS_ACTION_ABORT:
        add(answers, HARNESS_VERDICT_CRASH_SIGNALED);
        break;
    case HARNESS_ACTION_EXIT:
        add(answers, action->exit_code == 0 ? HARNESS_VERDICT_CRASH_FINISHED_EARLY
                                            : HARNESS_VERDICT_CRASH_EXITED);
        break;
    case HARNESS_ACTION_FAIL:
        add(answers, answers->fault->point == DDP_FAULT_POINT_RENDEZVOUS_CONNECT
                         ? HARNESS_VERDICT_LAUNCH_CONNECT
                         : HARNESS_VERDICT_CRASH_EXITED);
        break;
    case HARNESS_ACTION_STOP:
        if (action->stop_ms > 0) {
            add_at(answers, HARNESS_VERDICT_NONE, -1, -1);
        } else {
            add(answers, HARNESS_VERDICT_HANG_STOPPED);
        }
        break;
    case HARNESS_ACTION_HANG:
        hang(answers);
        break;
    case HARNESS_ACTION_SKIP:
        skip(answers);
        break;
    case HARNESS_ACTION_DUP:
        repeat(answers);
        break;
    case HARNESS_ACTION_ENV: /* none that is drawn fits */
        add_at(answers, HARNESS_VERDICT_LAUNCH_ENVIRONMENT, -1, -1);
        break;
    case HARNESS_ACTION_IO:
        add(answers, harness_grammar_verdict_of_errno(action->io.error));
        break;
    case HARNESS_ACTION_LEAK_MEMORY:
    case HARNESS_ACTION_LEAK_FILE:
        add_at(answers, HARNESS_VERDICT_RESOURCE_LEAK, -1, -1);
        break;
    case HARNESS_ACTION_NO_MEMORY: /* as soon as the rank needs some, whatever it is at then */
        add_at(answers, HARNESS_VERDICT_RESOURCE_HOST_MEMORY, -1, -1);
        break;
    case HARNESS_ACTION_CORRUPT:
        corrupt(answers);
        break;
    case HARNESS_ACTION_ARG:
        argue(answers);
        break;
    default: /* unknown here: no answer, so that it is not drawn */
        break;
    }
}

size_t harness_model_answers(const struct harness_grammar_job *job,
                             const struct harness_fault *fault,
                             struct harness_answer out[HARNESS_ANSWERS_MAX])
{
    struct answers answers = {.job = job,
                              .fault = fault,
                              .place = harness_grammar_place(job, fault->point),
                              .step = fault->at.step,
                              .out = out};

    if (answers.place == HARNESS_GRAMMAR_NOWHERE || !harness_grammar_is_answered(job, fault)) {
        return 0;
    }
    if (answers.step < 0 && fault->point == DDP_FAULT_POINT_STEP_BEGIN) {
        answers.step = (int64_t)fault->at.hit - 1;
    }
    act(&answers);
    return answers.count;
}
