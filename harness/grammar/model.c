/* The answers of a plan: that of its job, then of its faults. */
#include "harness/grammar/model.h"

#include <string.h>

static struct harness_expect *add(struct harness_model *model, struct ddp_mem *mem,
                                  enum harness_verdict verdict)
{
    struct harness_expect *answer;

    DDP_ASSERT(model->accepted_count < HARNESS_MODEL_ANSWERS_MAX);
    answer = &model->accepted[model->accepted_count++];
    memset(answer, 0, sizeof *answer);
    answer->verdict = verdict;
    answer->culprit.is_stated = true;
    answer->culprit.ranks = harness_rank_set_in(mem);
    answer->step = -1;
    answer->phase = -1;
    return answer;
}

/* A restore run goes on from the last checkpoint, and ends as a run that was never interrupted. */
static void add_restore(const struct harness_plan *plan, struct harness_expect *answer)
{
    const struct harness_job *job = &plan->job;

    if (!plan->restore.is_set) {
        return;
    }
    answer->restore.is_set = true;
    answer->restore.from_step = job->steps - job->steps % job->checkpoint_every;
    answer->restore.equals_uninterrupted = true;
}

ddp_status harness_model_of(const struct harness_plan *plan, struct ddp_mem *mem,
                            struct harness_model *out, struct ddp_err *err)
{
    (void)err;
    memset(out, 0, sizeof *out);
    add_restore(plan, add(out, mem, HARNESS_VERDICT_NONE));
    return DDP_OK;
}
