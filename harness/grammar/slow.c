/* Who is late: what a pause comes to in a job that says what slow is. */
#include "harness/grammar/answers.h"

/* The phase in which a rank loses the time of a pause at a point; NONE: none that others are
 * compared in, or one of several. */
static enum harness_verdict verdict_at(enum ddp_fault_point point)
{
    switch (point) {
    case DDP_FAULT_POINT_DATA_NEXT:
    case DDP_FAULT_POINT_DATA_BATCH:
    case DDP_FAULT_POINT_DATA_TRANSFORM:
        return HARNESS_VERDICT_SLOW_DATA;
    case DDP_FAULT_POINT_FORWARD_LAYER:
    case DDP_FAULT_POINT_FORWARD_WRAPPER:
    case DDP_FAULT_POINT_LOSS:
    case DDP_FAULT_POINT_GRAD_READY:
    case DDP_FAULT_POINT_BUCKET_COPY:
    case DDP_FAULT_POINT_BUCKET_FILL:
    case DDP_FAULT_POINT_BUCKET_LAUNCH:
        return HARNESS_VERDICT_SLOW_COMPUTE;
    case DDP_FAULT_POINT_OPTIMIZER_PRE:
    case DDP_FAULT_POINT_OPTIMIZER_STATE:
    case DDP_FAULT_POINT_PARAM_UPDATED:
        return HARNESS_VERDICT_SLOW_OPTIMIZER;
    case DDP_FAULT_POINT_CHECKPOINT_KEY:
    case DDP_FAULT_POINT_CHECKPOINT_WRITE:
    case DDP_FAULT_POINT_CHECKPOINT_FSYNC:
    case DDP_FAULT_POINT_CHECKPOINT_RENAME:
        return HARNESS_VERDICT_SLOW_CHECKPOINT;
    default:
        return HARNESS_VERDICT_NONE;
    }
}

/* The rank comes to the point in each step, or whenever there is a checkpoint. */
static bool is_in_each_step(const struct harness_answers *answers)
{
    const struct harness_trigger *at = &answers->fault->at;

    return at->times == 0 && answers->step < 0 &&
           harness_grammar_is_there(answers->job, answers->fault->point, at);
}

/* The first step that is judged, which is the second one of a run, and in which the rank is late;
 * the job's number of steps: none. */
static int64_t first_late(const struct harness_answers *answers, enum harness_verdict verdict,
                          bool is_each)
{
    const struct harness_job *job = answers->job->job;
    int64_t step = 1;

    if (!is_each) {
        return answers->step >= 1 ? answers->step : job->steps;
    }
    while (verdict == HARNESS_VERDICT_SLOW_CHECKPOINT && step < (int64_t)job->steps &&
           (step + 1) % job->checkpoint_every != 0) {
        step++;
    }
    return step;
}

void harness_answers_pause(struct harness_answers *answers, uint64_t pause_ms)
{
    const struct harness_fault *fault = answers->fault;
    const struct harness_job *job = answers->job->job;
    const uint64_t limit_ms = job->slow_after_ms;
    const enum harness_verdict verdict = verdict_at(fault->point);
    const bool is_each = is_in_each_step(answers);
    int64_t step;

    if (limit_ms == 0 || job->ranks == 1 || answers->place == HARNESS_GRAMMAR_AT_START ||
        (pause_ms < limit_ms && fault->at.times == 1)) {
        harness_answers_add_at(answers, HARNESS_VERDICT_NONE, -1, -1);
        return;
    }
    /* In virtual time a rank's own work takes next to none. Which step a rank is in that goes on
     * without others, or after them, is another question. */
    if (pause_ms <= limit_ms + 1 || job->join.is_set || job->on_loss != HARNESS_ON_LOSS_END ||
        verdict == HARNESS_VERDICT_NONE || harness_plan_run_of(fault) != HARNESS_RUN_FIRST ||
        (answers->step < 0 && !is_each)) {
        return;
    }
    step = first_late(answers, verdict, is_each);
    if (step < (int64_t)job->steps) {
        harness_answers_add_at(answers, verdict, step, -1);
    } else {
        harness_answers_add_at(answers, HARNESS_VERDICT_NONE, -1, -1);
    }
}
