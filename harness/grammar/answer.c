/* What a fault does to a job, from how data-parallel training works. */
#include "harness/grammar/answers.h"

/* Another argument than the others'. */
static void argue(struct harness_answers *answers)
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
        harness_answers_add_at(answers, verdicts[action->arg], answers->step, bucket);
        return;
    }
    harness_answers_add(answers, HARNESS_VERDICT_MISMATCH_BUCKET);
    /* The next bucket's turn, if they are of one size, looks as if this one were left out; whoever
     * refuses it at once does not see that it comes again. */
    if (harness_answers_bucket(answers, (uint64_t)bucket)->elem_count ==
        harness_answers_bucket(answers, action->arg_value)->elem_count) {
        harness_answers_add(answers, HARNESS_VERDICT_MISMATCH_MISSING);
    }
}

/* The micro-batch, counted from the first step, of a fault that is placed in one. */
static uint64_t pass_of(const struct harness_answers *answers)
{
    const struct harness_trigger *at = &answers->fault->at;
    uint64_t micro = at->micro >= 0 ? (uint64_t)at->micro : at->hit - 1;

    return (uint64_t)answers->step * answers->job->job->micro_batches + micro;
}

/* Ranks have samples that no other one has in that step. With fewer some take the same, and their
 * gradients may be alike. */
static bool has_own_samples(const struct harness_job *job)
{
    uint64_t batch = 0;

    for (uint32_t rank = 0; rank < job->ranks; rank++) {
        batch += job->batch_per_rank[rank];
    }
    return job->samples == 0 || job->samples >= batch;
}

/* What a rank has of a sum, and a checkpoint. */
static void skip_result(struct harness_answers *answers)
{
    const struct harness_job *job = answers->job->job;

    switch (answers->fault->point) {
    case DDP_FAULT_POINT_COLLECTIVE_ENQUEUE: /* the rank has only its own, and sends none; if all
                                              * had the same, the sum would be scaled */
        if (harness_grammar_is_summed(job, answers->fault->at.rank, answers->step) &&
            (job->samples == 0 || job->samples >= job->ranks) &&
            harness_answers_is_sure(
                answers, harness_answers_bucket(answers, (uint64_t)answers->fault->at.bucket))) {
            harness_answers_add_at(answers, HARNESS_VERDICT_VALUE_LOST, answers->step,
                                   answers->fault->at.bucket);
            /* Or others wait for ever, where no later message of the rank is taken for it. */
            harness_answers_add(answers, HARNESS_VERDICT_MISMATCH_MISSING);
        }
        break;
    case DDP_FAULT_POINT_BUCKET_UNFLATTEN: /* what was there before, or the rank's own */
        if (job->ranks > 1 && has_own_samples(job) && !job->gradient_as_bucket_view &&
            harness_grammar_is_even(job) && /* else it may be the rank's own alone, and a factor */
            harness_answers_is_sure(
                answers, harness_answers_bucket(answers, (uint64_t)answers->fault->at.bucket))) {
            harness_answers_add_at(answers, HARNESS_VERDICT_VALUE_STALE, answers->step,
                                   answers->fault->at.bucket);
            /* Beside what the rank has of its own there are zeros of what it did not use. */
            if (!answers->job->uses_all) {
                harness_answers_add_at(answers, HARNESS_VERDICT_VALUE_CORRUPTED, answers->step,
                                       answers->fault->at.bucket);
            }
        }
        break;
    case DDP_FAULT_POINT_CHECKPOINT_KEY:
        harness_answers_add_at(answers, HARNESS_VERDICT_CHECKPOINT_STALE, -1, -1);
        break;
    case DDP_FAULT_POINT_CHECKPOINT_RENAME: /* the one before it stays, if there is one; or the next
                                             * one takes its place */
        if ((uint64_t)answers->step + 1 + job->checkpoint_every >
            harness_grammar_full_steps(job, 0)) {
            harness_answers_add_at(answers,
                                   (uint64_t)answers->step + 1 > job->checkpoint_every
                                       ? HARNESS_VERDICT_CHECKPOINT_STALE
                                       : HARNESS_VERDICT_CHECKPOINT_TORN,
                                   -1, -1);
        } else {
            harness_answers_add_at(answers, HARNESS_VERDICT_NONE, -1, -1);
        }
        break;
    default:
        break;
    }
}

static bool is_drift_due(const struct harness_answers *answers)
{
    const uint32_t every = answers->job->job->drift_every;

    return every > 0 && (answers->step + 1) % every == 0;
}

/* Only the last micro-batch reduces; and nobody may ask for the hook's state before that. */
static void skip_loss(struct harness_answers *answers)
{
    const struct harness_job *job = answers->job->job;

    if (answers->fault->at.micro == (int64_t)job->micro_batches - 1 &&
        !harness_program_is_hook_gathered(job, (uint64_t)answers->step + 1)) {
        harness_answers_add(answers, HARNESS_VERDICT_MISMATCH_MISSING);
        /* Nobody may look for drift in the middle of a pass. */
        if (is_drift_due(answers)) {
            harness_answers_add(answers, HARNESS_VERDICT_CRASH_EXITED);
        }
    }
}

static void skip(struct harness_answers *answers)
{
    const struct harness_job *job = answers->job->job;

    switch (answers->fault->point) {
    case DDP_FAULT_POINT_OPTIMIZER_PRE:
        if (!harness_answers_is_regression(
                answers)) { /* else the update may be one that changes nothing */
            harness_answers_add_diverged(answers);
        }
        break;
    case DDP_FAULT_POINT_STEP_BEGIN:
        if (!job->join.is_set) {
            harness_answers_add(answers, HARNESS_VERDICT_MISMATCH_MISSING);
        } else { /* the others go on without it, as if its data had ended */
            harness_answers_add(answers, HARNESS_VERDICT_DATA_MISSING);
        }
        break;
    case DDP_FAULT_POINT_LOSS:
        skip_loss(answers);
        break;
    case DDP_FAULT_POINT_BUCKET_LAUNCH:
    case DDP_FAULT_POINT_COLLECTIVE_PRE:
        harness_answers_add_at(answers, HARNESS_VERDICT_MISMATCH_MISSING, answers->step,
                               answers->fault->at.bucket);
        break;
    case DDP_FAULT_POINT_BUFFER_SYNC:
        harness_answers_add(answers, HARNESS_VERDICT_MISMATCH_MISSING);
        break;
    case DDP_FAULT_POINT_DATA_NEXT:
        if (job->shard_sizes != NULL) { /* else the same samples may come in another epoch */
            harness_answers_add(answers, HARNESS_VERDICT_DATA_MISSING);
        }
        /* Of the rank's last one nothing is seen but that it ends early. */
        if (job->shard_sizes != NULL && !job->join.is_set &&
            pass_of(answers) + 1 == harness_grammar_passes(job, answers->fault->at.rank)) {
            harness_answers_add(answers, HARNESS_VERDICT_MISMATCH_MISSING);
        }
        break;
    case DDP_FAULT_POINT_GRAD_READY:
    case DDP_FAULT_POINT_BUCKET_COPY:
    case DDP_FAULT_POINT_BUCKET_FILL:
        harness_answers_skip_param(answers);
        break;
    case DDP_FAULT_POINT_COLLECTIVE_WAIT:
        /* Else it may not be used; and hooks wait once more. */
        if (job->ranks > 1 && harness_answers_is_any_used(answers) &&
            job->hook == HARNESS_HOOK_NONE) {
            harness_answers_add_at(answers, HARNESS_VERDICT_USAGE_UNORDERED, answers->step,
                                   answers->fault->at.bucket);
        }
        break;
    case DDP_FAULT_POINT_CHECKPOINT_LOAD: /* it trains from the beginning, beside others */
        if (job->ranks > 2) {
            harness_answers_add(answers, HARNESS_VERDICT_CHECKPOINT_STATE);
        }
        break;
    default:
        skip_result(answers);
        break;
    }
}

/* What comes next is done twice: a batch that is taken again is the next one, which may be one
 * that the rank's data, or its steps, have no more. */
static void repeat(struct harness_answers *answers)
{
    const struct harness_job *job = answers->job->job;
    uint64_t next = pass_of(answers) + 1;

    if (answers->fault->point != DDP_FAULT_POINT_DATA_NEXT) {
        harness_answers_add(answers, HARNESS_VERDICT_MISMATCH_EXTRA);
    } else if (job->shard_sizes != NULL && next < (uint64_t)job->steps * job->micro_batches) {
        harness_answers_add_at(answers, HARNESS_VERDICT_DATA_DUPLICATED,
                               (int64_t)(next / job->micro_batches), -1);
    }
}

/* Silence: whoever waits for the rank shows where it is missed. */
static void hang(struct harness_answers *answers)
{
    if (answers->place == HARNESS_GRAMMAR_AT_START) {
        harness_answers_add(answers, HARNESS_VERDICT_HANG_INIT);
        return;
    }
    if (answers->fault->point == DDP_FAULT_POINT_DATA_NEXT ||
        answers->fault->point == DDP_FAULT_POINT_DATA_BATCH ||
        answers->fault->point == DDP_FAULT_POINT_DATA_TRANSFORM) {
        harness_answers_add(answers, HARNESS_VERDICT_HANG_DATA);
        return;
    }
    /* A step begins with its data. */
    if (answers->fault->point == DDP_FAULT_POINT_STEP_BEGIN) {
        harness_answers_add(answers, HARNESS_VERDICT_HANG_DATA);
        harness_answers_add(answers, HARNESS_VERDICT_HANG_NOT_JOINED);
        return;
    }
    /* One rank alone keeps nobody waiting, and one that posted its part is only silent. */
    if (answers->job->job->ranks > 1) {
        harness_answers_add(answers, HARNESS_VERDICT_HANG_NOT_JOINED);
    }
    harness_answers_add(answers, HARNESS_VERDICT_HANG_HOST);
    /* Behind the step's last operation it is the next one that the others miss. */
    if (answers->job->job->ranks > 1) {
        harness_answers_add_at(answers, HARNESS_VERDICT_HANG_NOT_JOINED, answers->step + 1, -1);
        harness_answers_add_at(answers, HARNESS_VERDICT_HANG_TEARDOWN, -1, -1);
    }
}

static void act(struct harness_answers *answers)
{
    const struct harness_action *action = &answers->fault->action;

    switch (action->kind) {
    case HARNESS_ACTION_NONE:
        harness_answers_add_at(answers, HARNESS_VERDICT_NONE, -1, -1);
        break;
    case HARNESS_ACTION_DELAY: /* shorter than any budget */
        harness_answers_pause(answers, action->delay_ms);
        break;
    case HARNESS_ACTION_KILL:
    case HARNESS_ACTION_ABORT:
        harness_answers_add(answers, HARNESS_VERDICT_CRASH_SIGNALED);
        break;
    case HARNESS_ACTION_EXIT:
        harness_answers_add(answers, action->exit_code == 0 ? HARNESS_VERDICT_CRASH_FINISHED_EARLY
                                                            : HARNESS_VERDICT_CRASH_EXITED);
        break;
    case HARNESS_ACTION_FAIL:
        harness_answers_add(answers, answers->fault->point == DDP_FAULT_POINT_RENDEZVOUS_CONNECT
                                         ? HARNESS_VERDICT_LAUNCH_CONNECT
                                         : HARNESS_VERDICT_CRASH_EXITED);
        break;
    case HARNESS_ACTION_STOP:
        if (action->stop_ms > 0) {
            harness_answers_pause(answers, action->stop_ms);
        } else {
            harness_answers_add(answers, HARNESS_VERDICT_HANG_STOPPED);
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
        harness_answers_add_at(answers, HARNESS_VERDICT_LAUNCH_ENVIRONMENT, -1, -1);
        break;
    case HARNESS_ACTION_IO:
        harness_answers_add(answers, harness_grammar_verdict_of_errno(action->io.error));
        break;
    case HARNESS_ACTION_LEAK_MEMORY:
    case HARNESS_ACTION_LEAK_FILE:
        harness_answers_add_at(answers, HARNESS_VERDICT_RESOURCE_LEAK, -1, -1);
        break;
    case HARNESS_ACTION_NO_MEMORY: /* as soon as the rank needs some, whatever it is at then */
        harness_answers_add_at(answers, HARNESS_VERDICT_RESOURCE_HOST_MEMORY, -1, -1);
        break;
    case HARNESS_ACTION_CORRUPT:
        if (answers->fault->point == DDP_FAULT_POINT_BUCKET_FILL) {
            harness_answers_corrupt_fill(answers);
        } else {
            harness_answers_corrupt(answers);
        }
        break;
    case HARNESS_ACTION_ARG:
        argue(answers);
        break;
    default: /* unknown here: no answer, so that it is not drawn */
        break;
    }
}

/* A plan that nobody drew may leave open where its fault fires. What ends or delays a rank does so
 * anywhere; what it does to data and operations depends on which they are. */
static bool is_placed(const struct harness_answers *answers)
{
    const struct harness_trigger *at = &answers->fault->at;
    const enum harness_action_kind kind = answers->fault->action.kind;

    if (kind != HARNESS_ACTION_CORRUPT && kind != HARNESS_ACTION_ARG &&
        kind != HARNESS_ACTION_SKIP && kind != HARNESS_ACTION_DUP) {
        return true;
    }
    switch (answers->place) {
    case HARNESS_GRAMMAR_AT_BUCKET:
        return answers->step >= 0 && at->bucket >= 0 &&
               harness_answers_bucket(answers, (uint64_t)at->bucket) != NULL;
    case HARNESS_GRAMMAR_AT_PARAM:
        return answers->step >= 0 && at->param >= 0 &&
               (uint64_t)at->param < answers->job->param_count;
    case HARNESS_GRAMMAR_AT_STEP:
    case HARNESS_GRAMMAR_AT_PASS:
    case HARNESS_GRAMMAR_AT_LAYER:
    case HARNESS_GRAMMAR_AT_CHECKPOINT:
        return answers->step >= 0;
    default:
        return true;
    }
}

size_t harness_model_answers(const struct harness_grammar_job *job,
                             const struct harness_fault *fault,
                             struct harness_answer out[HARNESS_ANSWERS_MAX])
{
    struct harness_answers answers = {.job = job,
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
    if (!is_placed(&answers)) {
        return 0;
    }
    act(&answers);
    return answers.count;
}
