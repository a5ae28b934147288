/* Purpose: an expectation that this job can never meet is refused.
 * Idea: what a right job does by itself is known: it uses what it has, and nobody dies, stands
 * still or computes something else. So a scenario that expects that has forgotten its fault, or a
 * key of its job. A canary expects what is wrong on purpose, and a guest does what it likes. */
#include <stdio.h>

#include "harness/cell/stage.h"

/* What is expected of one finding, and where that is said. */
struct expected {
    enum harness_verdict verdict;
    int32_t phase;
    enum harness_oracle_id oracle;
    char section[40];
};

static bool is_any_fault(const struct harness_plan *plan)
{
    for (uint32_t i = 0; i < plan->fault_count; i++) {
        if (plan->faults[i].action.kind != HARNESS_ACTION_NONE) {
            return true;
        }
    }
    return false;
}

/* Parameters without a gradient, data that end and training that diverges need no fault. */
static bool is_of_faults_alone(enum harness_verdict verdict)
{
    switch (harness_verdict_family(verdict)) {
    case HARNESS_FAMILY_CRASH:
    case HARNESS_FAMILY_HANG:
        return true;
    case HARNESS_FAMILY_VALUE:
        return verdict != HARNESS_VERDICT_VALUE_NONFINITE;
    default:
        return false;
    }
}

/* Somebody else's collectives may be wrong by themselves. */
static bool is_right_by_itself(const struct harness_plan *plan)
{
    return !is_any_fault(plan) && plan->job.collective.engine == HARNESS_ENGINE_SCHEDULE &&
           plan->job.collective.plugin == NULL;
}

static void set_key(const struct expected *expected, const char *name,
                    char out_key[HARNESS_BLAMED_KEY_BYTES])
{
    (void)snprintf(out_key, HARNESS_BLAMED_KEY_BYTES, "%s.%s", expected->section, name);
}

static ddp_status check_verdict(const struct harness_plan *plan, const struct expected *expected,
                                char out_key[HARNESS_BLAMED_KEY_BYTES], struct ddp_err *err)
{
    const enum harness_family family = harness_verdict_family(expected->verdict);
    const char *name = harness_verdict_name(expected->verdict);

    set_key(expected, "verdict", out_key);
    if (is_of_faults_alone(expected->verdict) && is_right_by_itself(plan)) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "%s is never found without a fault: give the job one that does "
                           "something, or expect NONE",
                           name);
    }
    if (family == HARNESS_FAMILY_SLOW && plan->job.slow_after_ms == 0) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "%s is judged where the job says what is slow: set job.slow_after_ms",
                           name);
    }
    if (family == HARNESS_FAMILY_CHECKPOINT && plan->job.checkpoint_every == 0) {
        return ddp_err_set(err, DDP_E_INVALID,
                           "%s is never found in a job without checkpoints: set "
                           "job.checkpoint_every",
                           name);
    }
    return DDP_OK;
}

/* What a job must have before its ranks are ever in the phase; NULL: it has that. */
static const char *phase_lacks(const struct harness_job *job, int32_t phase)
{
    switch (phase) {
    case DDP_PHASE_CHECKPOINT:
        return job->checkpoint_every == 0 ? "checkpoints: set job.checkpoint_every" : NULL;
    case DDP_PHASE_JOIN:
        return !job->join.is_set ? "join: set job.join" : NULL;
    case DDP_PHASE_RECOVERY:
        return job->on_loss != HARNESS_ON_LOSS_CONTINUE
                   ? "ranks that go on after a loss: set job.on_loss"
                   : NULL;
    default:
        return NULL;
    }
}

static ddp_status check_one(const struct harness_plan *plan, const struct expected *expected,
                            char out_key[HARNESS_BLAMED_KEY_BYTES], struct ddp_err *err)
{
    const char *lack = phase_lacks(&plan->job, expected->phase);

    DDP_TRY(check_verdict(plan, expected, out_key, err));
    set_key(expected, "phase", out_key);
    if (lack != NULL) {
        return ddp_err_set(err, DDP_E_INVALID, "no rank is ever in phase %s of a job without %s",
                           ddp_phase_name((enum ddp_phase)expected->phase), lack);
    }
    set_key(expected, "oracle", out_key);
    if (expected->oracle != HARNESS_ORACLE_NONE && expected->verdict != HARNESS_VERDICT_NONE &&
        !harness_oracle_can_give(expected->oracle, expected->verdict)) {
        return ddp_err_set(err, DDP_E_INVALID, "oracle %s never gives %s; it gives: %s",
                           harness_oracle_name(expected->oracle),
                           harness_verdict_name(expected->verdict),
                           harness_oracle_gives(expected->oracle));
    }
    return DDP_OK;
}

ddp_status harness_stage_check_possible(const struct harness_plan *plan,
                                        char out_key[HARNESS_BLAMED_KEY_BYTES], struct ddp_err *err)
{
    const struct harness_expect *expect = &plan->expect;
    const struct expected whole = {expect->verdict, expect->phase, expect->oracle, "expect"};

    if (plan->canary.is_set) {
        return DDP_OK;
    }
    DDP_TRY(check_one(plan, &whole, out_key, err));
    for (size_t i = 0; i < expect->findings.count; i++) {
        const struct harness_expect_finding *finding = &expect->findings.items[i];
        struct expected one = {finding->verdict, finding->phase, finding->oracle, ""};

        (void)snprintf(one.section, sizeof one.section, "expect.findings.%zu", i);
        DDP_TRY(check_one(plan, &one, out_key, err));
    }
    return DDP_OK;
}
