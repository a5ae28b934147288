/* Which rank uses which parameter in which step: only branchy's branches and moe's experts are left
 * unused by some. */
#include <string.h>

#include "harness/grammar/job.h"

/* branchy: trunk.weight, trunk.bias and trunk.scale, then branches a and b, then head; moe: trunk
 * and router, then experts, then head. Each layer is a weight and a bias. */
enum { BRANCH_A = 3, BRANCH_B = 5, BRANCH_END = 7, EXPERTS = 4, HEAD_PARAMS = 2 };

static enum harness_grammar_use use_if(bool is_used)
{
    return is_used ? HARNESS_GRAMMAR_USED : HARNESS_GRAMMAR_UNUSED;
}

enum harness_grammar_use harness_grammar_use(const struct harness_grammar_job *job, uint32_t rank,
                                             int64_t step, int64_t param)
{
    const struct harness_job *plan = job->job;
    const bool is_a = param < BRANCH_B;

    if (strcmp(plan->model, "moe") == 0) { /* the router's choice is another one for each batch */
        return param < EXPERTS || param >= (int64_t)job->param_count - HEAD_PARAMS
                   ? HARNESS_GRAMMAR_USED
                   : HARNESS_GRAMMAR_UNSURE;
    }
    if (strcmp(plan->model, "branchy") != 0 || param < BRANCH_A || param >= BRANCH_END) {
        return HARNESS_GRAMMAR_USED;
    }
    switch (plan->branch) {
    case REF_BRANCH_BOTH:
        return HARNESS_GRAMMAR_USED;
    case REF_BRANCH_ONLY_A:
        return use_if(is_a);
    case REF_BRANCH_RANK_SKIPS:
        return use_if(is_a || rank != plan->skip_rank);
    case REF_BRANCH_BY_RANK:
        return use_if(is_a == (rank % 2 == 0));
    case REF_BRANCH_BY_STEP:
        return step < 0 ? HARNESS_GRAMMAR_UNSURE : use_if(is_a == (step % 2 == 0));
    case REF_BRANCH_BY_DATA:
    case REF_BRANCH_RANK_USES_NONE:
    case REF_BRANCH_RULE_COUNT:
        break;
    }
    return HARNESS_GRAMMAR_UNSURE;
}

enum harness_grammar_use harness_grammar_use_of_any(const struct harness_grammar_job *job,
                                                    int64_t step, int64_t param)
{
    uint32_t used = 0;
    uint32_t unused = 0;
    bool is_sure = false;

    for (uint32_t rank = 0; rank < job->job->ranks; rank++) {
        const enum harness_grammar_use use = harness_grammar_use(job, rank, step, param);

        used += use == HARNESS_GRAMMAR_USED;
        unused += use == HARNESS_GRAMMAR_UNUSED;
        /* One that is lost uses nothing any more. */
        is_sure =
            is_sure || (use == HARNESS_GRAMMAR_USED && job->job->on_loss == HARNESS_ON_LOSS_END &&
                        harness_grammar_full_steps(job->job, rank) > step);
    }
    if (used == job->job->ranks || is_sure) {
        return HARNESS_GRAMMAR_USED;
    }
    return unused == job->job->ranks ? HARNESS_GRAMMAR_UNUSED : HARNESS_GRAMMAR_UNSURE;
}
