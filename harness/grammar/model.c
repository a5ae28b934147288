/* The answers of a plan: that of its job, then of its faults. */
#include "harness/grammar/model.h"

#include <string.h>

#include "harness/grammar/answer.h"

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

/* A restore run goes on from the last checkpoint, and ends as a run that was never interrupted,
 * unless it must refuse what it is given, or a fault is found in it. Which checkpoint is the last
 * one of a run that was ended early depends on how far rank 0 was. */
static void add_restore(const struct harness_plan *plan, bool is_whole, enum harness_verdict found,
                        struct harness_expect *answer)
{
    const struct harness_job *job = &plan->job;

    if (!plan->restore.is_set) {
        return;
    }
    answer->restore.is_set = true;
    answer->restore.refused = found != HARNESS_VERDICT_NONE ? found : harness_model_refusal(plan);
    answer->restore.from_step = -1;
    if (answer->restore.refused != HARNESS_VERDICT_NONE) {
        return;
    }
    if (is_whole) {
        answer->restore.from_step = job->steps - job->steps % job->checkpoint_every;
    }
    answer->restore.equals_uninterrupted = true;
}

/* Name the rank, step and bucket that an answer has. */
static void locate(struct harness_expect *answer, const struct harness_fault *fault,
                   const struct harness_answer *right)
{
    if (right->verdict == HARNESS_VERDICT_NONE) {
        return;
    }
    harness_rank_set_add(&answer->culprit.ranks, fault->at.rank);
    answer->step = right->step;
    if (right->bucket >= 0) {
        answer->op = (struct harness_expect_op){.is_set = true, .bucket = right->bucket, .seq = -1};
    }
}

static void locate_finding(struct harness_expect_finding *finding, struct ddp_mem *mem,
                           const struct harness_fault *fault, const struct harness_answer *right)
{
    struct harness_expect whole = {.step = -1, .phase = -1};

    whole.culprit.is_stated = true;
    whole.culprit.ranks = harness_rank_set_in(mem);
    locate(&whole, fault, right);
    *finding = (struct harness_expect_finding){.verdict = right->verdict,
                                               .culprit = whole.culprit,
                                               .op = whole.op,
                                               .step = whole.step,
                                               .phase = -1};
}

/* The answers of several faults: of each one of its own, in all combinations. */
struct combination {
    const struct harness_plan *plan;
    struct harness_answer answers[8][HARNESS_ANSWERS_MAX];
    size_t counts[8], chosen[8];
};

/* The next combination; false behind the last. */
static bool advance(struct combination *all)
{
    for (uint32_t i = 0; i < all->plan->fault_count; i++) {
        if (++all->chosen[i] < all->counts[i]) {
            return true;
        }
        all->chosen[i] = 0;
    }
    return false;
}

/* The first run shows the fault, as it was chosen. */
static bool is_found_first(const struct combination *all, uint32_t fault)
{
    return all->answers[fault][all->chosen[fault]].verdict != HARNESS_VERDICT_NONE &&
           harness_plan_run_of(&all->plan->faults[fault]) == HARNESS_RUN_FIRST;
}

/* What is found in the restore run, of at most one fault. */
static enum harness_verdict found_restored(const struct combination *all, bool *out_is_whole)
{
    enum harness_verdict found = HARNESS_VERDICT_NONE;

    *out_is_whole = true;
    for (uint32_t i = 0; i < all->plan->fault_count; i++) {
        if (harness_plan_run_of(&all->plan->faults[i]) == HARNESS_RUN_RESTORE) {
            DDP_ASSERT(found == HARNESS_VERDICT_NONE);
            found = all->answers[i][all->chosen[i]].verdict;
        } else {
            *out_is_whole = false;
        }
    }
    return found;
}

static ddp_status add_combination(const struct combination *all, struct ddp_mem *mem,
                                  struct harness_model *out)
{
    const struct harness_answer *first = NULL;
    struct harness_expect *answer;
    enum harness_verdict restored;
    bool is_whole = false;
    size_t count = 0;

    for (uint32_t i = 0; i < all->plan->fault_count; i++) {
        const struct harness_answer *right = &all->answers[i][all->chosen[i]];

        if (is_found_first(all, i)) {
            first = first == NULL ? right : first;
            count++;
        }
    }
    answer = add(out, mem, first != NULL ? first->verdict : HARNESS_VERDICT_NONE);
    restored = found_restored(all, &is_whole);
    add_restore(all->plan, is_whole, restored, answer);
    if (count > 1) {
        answer->culprit = (struct harness_culprit){.is_stated = false};
        answer->findings.items = ddp_mem_array(mem, count, sizeof *answer->findings.items);
        if (answer->findings.items == NULL) {
            return DDP_E_NOMEM;
        }
    }
    for (uint32_t i = 0; i < all->plan->fault_count; i++) {
        const struct harness_answer *right = &all->answers[i][all->chosen[i]];

        if (!is_found_first(all, i)) {
            continue;
        }
        if (count == 1) {
            locate(answer, &all->plan->faults[i], right);
        } else {
            locate_finding(&answer->findings.items[answer->findings.count++], mem,
                           &all->plan->faults[i], right);
        }
    }
    return DDP_OK;
}

/* In a restore run, a rank with another model refuses what it is given, before anybody compares
 * models; and where all ranks are one, what it has may be of a checkpoint that was not loaded. */
static size_t restore_answers(uint32_t ranks, struct harness_answer *answers, size_t count)
{
    bool is_value = false;
    bool is_model = false;

    for (size_t i = 0; i < count; i++) {
        is_model = is_model || answers[i].verdict == HARNESS_VERDICT_MISMATCH_MODEL;
        is_value = is_value || (ranks == 1 &&
                                harness_verdict_family(answers[i].verdict) == HARNESS_FAMILY_VALUE);
    }
    if ((is_value || is_model) && count < HARNESS_ANSWERS_MAX) {
        answers[count++] = (struct harness_answer){
            is_value ? HARNESS_VERDICT_CHECKPOINT_STATE : HARNESS_VERDICT_CHECKPOINT_DTYPE, -1, -1};
    }
    return count;
}

ddp_status harness_model_of(const struct harness_plan *plan, struct ddp_mem *mem,
                            struct harness_model *out, struct ddp_err *err)
{
    struct combination all = {.plan = plan};
    struct harness_grammar_job job;

    memset(out, 0, sizeof *out);
    if (plan->fault_count == 0) {
        add_restore(plan, true, HARNESS_VERDICT_NONE, add(out, mem, HARNESS_VERDICT_NONE));
        return DDP_OK;
    }
    if (plan->fault_count > sizeof all.counts / sizeof all.counts[0]) {
        return ddp_err_set(err, DDP_E_UNSUPPORTED, "the model knows of at most 8 faults");
    }
    DDP_TRY(harness_grammar_job_open(mem, plan, &job, err));
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        all.counts[i] = harness_model_answers(&job, &plan->faults[i], all.answers[i]);
        if (all.counts[i] == 0) {
            return ddp_err_set(err, DDP_E_UNSUPPORTED, "the model has no answer to fault %u", i);
        }
        if (harness_plan_run_of(&plan->faults[i]) == HARNESS_RUN_RESTORE) {
            all.counts[i] = restore_answers(plan->job.ranks, all.answers[i], all.counts[i]);
        }
    }
    do {
        DDP_TRY(add_combination(&all, mem, out));
    } while (out->accepted_count < HARNESS_MODEL_ANSWERS_MAX && advance(&all));
    return DDP_OK;
}
