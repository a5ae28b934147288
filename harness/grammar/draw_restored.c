/* Faults and the run that starts from a checkpoint: it goes on behind one that a fault has ended,
 * or meets a fault of its own, or both. */
#include "harness/grammar/answer.h"
#include "harness/grammar/site.h"

/* The rank ends, or stands still, and so does the job; what it was saved from is right. */
static bool is_ended_by(const struct harness_fault *fault)
{
    switch (fault->action.kind) {
    case HARNESS_ACTION_KILL:
    case HARNESS_ACTION_ABORT:
    case HARNESS_ACTION_EXIT:
    case HARNESS_ACTION_HANG:
    case HARNESS_ACTION_FAIL:
        return true;
    case HARNESS_ACTION_STOP:
        return fault->action.stop_ms == 0;
    default:
        return false;
    }
}

/* Operations, and hits of a whole run, have other numbers there. */
static void move(struct harness_fault *fault)
{
    fault->at.run = HARNESS_RUN_RESTORE;
    fault->at.seq = -1;
    if (fault->point == DDP_FAULT_POINT_STEP_BEGIN && fault->at.step < 0) {
        fault->at.step = (int64_t)fault->at.hit - 1;
        fault->at.hit = 1;
    }
}

/* Now and then while it loads the checkpoint, as far as that is known of the action. */
static void move_to_load(struct harness_draw *draw, struct harness_fault *fault)
{
    const bool is_fitting = is_ended_by(fault) || fault->action.kind == HARNESS_ACTION_NONE ||
                            fault->action.kind == HARNESS_ACTION_DELAY ||
                            fault->action.kind == HARNESS_ACTION_SKIP;

    if (is_fitting && harness_draw_chance(draw, 15)) {
        const uint32_t rank = fault->at.rank;

        fault->point = DDP_FAULT_POINT_CHECKPOINT_LOAD;
        fault->at = harness_draw_anywhere();
        fault->at.run = HARNESS_RUN_RESTORE;
        fault->at.rank = rank;
    }
}

/* The plan's one fault into the restore run of a whole one, where it has steps left. */
static bool move_fault(struct harness_draw *draw, const struct harness_grammar_job *job)
{
    const uint32_t steps = draw->plan->job.steps;
    const uint32_t from = steps - steps % draw->plan->job.checkpoint_every;
    struct harness_answer answers[HARNESS_ANSWERS_MAX];
    struct harness_fault moved = draw->plan->faults[0];

    move(&moved);
    move_to_load(draw, &moved);
    if (from == steps || harness_grammar_place(job, moved.point) == HARNESS_GRAMMAR_AT_CHECKPOINT) {
        return false; /* it saves none any more */
    }
    if (moved.at.step >= 0) {
        moved.at.step = (int64_t)harness_draw_between(draw, from, steps - 1);
    }
    if (!harness_grammar_is_there(job, moved.point, &moved.at) ||
        harness_model_answers(job, &moved, answers) == 0) {
        return false;
    }
    draw->plan->faults[0] = moved;
    return true;
}

/* Another fault, in the restore run of a job that the first one ended. */
static void add_fault(struct harness_draw *draw, const struct harness_grammar_job *job)
{
    struct harness_plan *plan = draw->plan;
    const uint32_t first_step = (uint32_t)plan->faults[0].at.step + 1;
    struct harness_fault *faults = harness_draw_array(draw, 2, sizeof *faults);
    struct harness_draw_site site = {.draw = draw,
                                     .job = job,
                                     .fault = faults + 1,
                                     .first_step = first_step,
                                     .last_step = plan->job.steps - 1,
                                     .is_last = true};

    if (faults == NULL || first_step >= plan->job.steps) {
        return; /* draw->status says so; or all that is left may be done */
    }
    faults[0] = plan->faults[0];
    plan->faults = faults;
    if (harness_draw_fault(&site)) {
        move(&faults[1]);
        plan->fault_count = 2;
    }
}

/* Where the first run was in step `step`, rank 0 has ended the second last step before it; and
 * steps are left, even if it went on to the end. */
static bool is_saved_before(const struct harness_job *job, int64_t step)
{
    return step > (int64_t)job->checkpoint_every &&
           (step + 1 < (int64_t)job->steps || job->steps % job->checkpoint_every != 0);
}

void grammar_AT_run(struct harness_draw *draw)
{
    struct harness_plan *plan = draw->plan;
    const struct harness_job *plain = &plan->job;
    const bool is_moved = harness_draw_chance(draw, 50);
    struct harness_grammar_job job;

    /* What is kept beside the model, and buckets that change, are not asked for. */
    if (plan->fault_count != 1 || plain->checkpoint_every == 0 ||
        !harness_grammar_is_plain(plain) || plain->bucket_order != HARNESS_BUCKET_ORDER_REVERSE) {
        return;
    }
    draw->status = harness_grammar_job_open(draw->mem, plan, &job, NULL);
    if (draw->status != DDP_OK) {
        return;
    }
    if (is_moved) {
        plan->restore.is_set = move_fault(draw, &job);
    } else if (is_ended_by(&plan->faults[0]) && is_saved_before(plain, plan->faults[0].at.step) &&
               harness_grammar_place(&job, plan->faults[0].point) !=
                   HARNESS_GRAMMAR_AT_CHECKPOINT) {
        plan->restore.is_set = true;
        if (harness_draw_chance(draw, 60)) {
            add_fault(draw, &job);
        }
    }
    if (plan->restore.is_set && harness_model_refusal(plan) != HARNESS_VERDICT_NONE) {
        plan->restore.prefix = HARNESS_PREFIX_AUTO;
    }
    if (is_moved || plan->fault_count > 1) {
        plan->restore.ranks = 0;
    }
}
