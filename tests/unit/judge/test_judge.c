/* The judge: one passing case, then one change at a time, each of which must fail and be named. */
#include <string.h>

#include "harness/judge/judge.h"
#include "harness/plan/plan.h"
#include "tests/ct.h"

static const char *const names[] = {"fc0.weight", "fc0.bias", "fc1.weight", "fc1.bias"};

/* A crash of rank 1 in bucket 1 of step 5, expected and found. */
struct fixture {
    struct ddp_mem_pool *pool;
    struct harness_plan plan;
    struct harness_fault fault;
    const char *params[2];
    uint32_t fired[1];
    struct harness_judge_facts facts;
    struct harness_findings findings;
    struct harness_judgement judgement;
};

static void make_crash(struct ddp_mem *mem, struct harness_finding *finding)
{
    harness_finding_init(finding, mem, HARNESS_VERDICT_CRASH_SIGNALED, HARNESS_ORACLE_MONITOR,
                         HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&finding->culprits, 1);
    finding->op.is_set = true;
    finding->op.bucket = 1;
    finding->op.seq = 21;
    harness_finding_add_param(finding, 3);
    harness_finding_add_param(finding, 2);
    finding->step = 5;
    finding->phase = DDP_PHASE_BACKWARD;
}

static void setup(struct fixture *f)
{
    struct harness_finding finding;

    memset(f, 0, sizeof *f);
    f->fault.at.rank = 1;
    f->fault.at.times = 1;
    f->fault.point = DDP_FAULT_POINT_COLLECTIVE_ENQUEUE;
    f->fault.action.kind = HARNESS_ACTION_KILL;
    f->plan.job.ranks = 4;
    f->plan.faults = &f->fault;
    f->plan.fault_count = 1;
    f->params[0] = "fc1.bias";
    f->params[1] = "fc1.weight";
    f->plan.expect.verdict = HARNESS_VERDICT_CRASH_SIGNALED;
    f->plan.expect.culprit.is_injected = true;
    f->plan.expect.op.is_set = true;
    f->plan.expect.op.bucket = 1;
    f->plan.expect.op.seq = -1;
    f->plan.expect.op.params.items = f->params;
    f->plan.expect.op.params.count = 2;
    f->plan.expect.step = 5;
    f->plan.expect.phase = DDP_PHASE_BACKWARD;
    f->plan.expect.oracle = HARNESS_ORACLE_MONITOR;
    f->plan.expect.mode = HARNESS_MODE_PROVABLE;
    f->plan.expect.survivors.is_set = true;
    f->plan.expect.survivors.status = DDP_E_PEER_DIED;
    f->plan.expect.survivors.within_ms = 250;
    f->plan.expect.restore.is_set = true;
    f->plan.expect.restore.from_step = 4;
    f->plan.expect.restore.equals_uninterrupted = true;
    f->plan.forbid.accuse_others = true;
    f->plan.forbid.is_leak[HARNESS_LEAK_PROCESS] = true;
    f->plan.forbid.is_leak[HARNESS_LEAK_SHM] = true;
    f->plan.forbid.is_leak[HARNESS_LEAK_FD] = true;
    f->fired[0] = 1;
    f->facts.param_names = names;
    f->facts.param_count = 4;
    f->facts.fired_count = f->fired;
    f->facts.is_survivor_checked = true;
    f->facts.is_survivor_status_met = true;
    f->facts.survivor_latency_ns = 1000000;
    f->facts.is_time_enforced = true;
    f->facts.leak_text = "process 123";
    f->facts.is_restore_run = true;
    f->facts.restored_from_step = 4;
    f->facts.is_restore_equal = true;
    f->facts.restore_text = "";
    CT_CHECK_OK(ddp_mem_pool_create(&f->pool));
    harness_findings_init(&f->findings, ddp_mem_pool_mem(f->pool));
    make_crash(f->findings.mem, &finding);
    harness_findings_add(&f->findings, &finding);
}

static void set_canary(struct fixture *f, enum harness_verdict verdict)
{
    f->plan.canary.is_set = true;
    f->plan.canary.outcome = HARNESS_OUTCOME_FAIL;
    f->plan.canary.verdict = verdict;
}

static void expect_outcome(struct fixture *f, enum harness_outcome outcome, const char *reason)
{
    harness_judge(&f->plan, &f->findings, &f->facts, &f->judgement);
    if (f->judgement.outcome != outcome || strstr(f->judgement.reason, reason) == NULL) {
        CT_FAIL("%s (%s), expected %s with \"%s\"", harness_outcome_name(f->judgement.outcome),
                f->judgement.reason, harness_outcome_name(outcome), reason);
    }
    ddp_mem_pool_destroy(f->pool);
}

static void add(struct fixture *f, enum harness_verdict verdict, enum harness_oracle_id oracle,
                enum harness_mode mode, uint32_t culprit, int32_t step)
{
    struct harness_finding finding;

    harness_finding_init(&finding, f->findings.mem, verdict, oracle, mode);
    harness_rank_set_add(&finding.culprits, culprit);
    finding.step = step;
    harness_findings_add(&f->findings, &finding);
}

/* The expected crash, found with the right attribution, passes. */
CT_TEST(judge, passes_what_is_expected)
{
    struct fixture f;

    setup(&f);
    expect_outcome(&f, HARNESS_OUTCOME_PASS, "");
    CT_CHECK_EQ_U64(f.judgement.verdict, HARNESS_VERDICT_CRASH_SIGNALED);
}

/* A fault that never fired proves nothing; but what else is found then is the job's own failure. */
CT_TEST(judge, unfired_fault_is_inconclusive)
{
    struct fixture f;

    setup(&f);
    f.fired[0] = 0;
    f.facts.unable = &(const char *){"no such data"}; /* then that is the reason */
    expect_outcome(&f, HARNESS_OUTCOME_INCONCLUSIVE, "could do nothing to it: no such data");
    setup(&f);
    f.fired[0] = 0;
    f.findings.count = 0;
    expect_outcome(&f, HARNESS_OUTCOME_INCONCLUSIVE, "never fired");
    for (uint32_t i = 0; i < 2; i++) { /* another verdict; the expected one, also of rank 2 */
        setup(&f);
        f.fired[0] = 0;
        f.plan.expect.verdict = i == 0 ? HARNESS_VERDICT_CRASH_EXITED : f.plan.expect.verdict;
        harness_rank_set_add(&f.findings.items[0].culprits, 1 + i);
        expect_outcome(&f, HARNESS_OUTCOME_FAIL, "never fired");
    }
}

/* A fault that fired more often than planned is the harness's own error. */
CT_TEST(judge, overfired_fault_is_an_error)
{
    struct fixture f;

    setup(&f);
    f.fired[0] = 2;
    expect_outcome(&f, HARNESS_OUTCOME_ERROR, "fired 2 times");
}

/* Lost evidence is INCONCLUSIVE, lost memory an ERROR: never a PASS. */
CT_TEST(judge, lost_evidence)
{
    struct fixture f;

    setup(&f);
    f.findings.is_evidence_lost = true;
    expect_outcome(&f, HARNESS_OUTCOME_INCONCLUSIVE, "evidence was lost");
    setup(&f);
    f.findings.is_failed = true;
    expect_outcome(&f, HARNESS_OUTCOME_ERROR, "out of memory");
}

/* Nothing found where something was expected, and another verdict than the expected one. */
CT_TEST(judge, wrong_verdict)
{
    struct fixture f;

    setup(&f);
    f.findings.count = 0;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "verdict NONE, expected CRASH.SIGNALED");
    setup(&f);
    f.findings.items[0].verdict = HARNESS_VERDICT_HANG_HOST;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "verdict HANG.HOST");
    setup(&f);
    f.plan.expect.verdict = HARNESS_VERDICT_NONE;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "expected NONE");
}

/* Culprits must be exactly the expected ranks. */
CT_TEST(judge, wrong_culprit)
{
    struct fixture f;

    setup(&f);
    memset(&f.findings.items[0].culprits, 0, sizeof f.findings.items[0].culprits);
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "culprit none, expected 1");
    setup(&f);
    harness_rank_set_add(&f.findings.items[0].culprits, 2);
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "culprit 1,2, expected 1");
}

/* Each stated part of the attribution is compared. */
CT_TEST(judge, wrong_attribution)
{
    struct fixture f;

    setup(&f);
    f.findings.items[0].op.bucket = 2;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "bucket 2");
    setup(&f);
    f.findings.items[0].params.count = 1;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "1 of 2 expected parameters");
    setup(&f);
    f.findings.items[0].params.count = 1;
    harness_finding_add_param(&f.findings.items[0], 0);
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "parameter fc0.weight was named");
    setup(&f);
    f.findings.items[0].step = 4;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "step 4, expected 5");
    setup(&f);
    f.findings.items[0].phase = DDP_PHASE_FORWARD;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "phase forward");
    setup(&f);
    f.findings.items[0].mode = HARNESS_MODE_BUDGET;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "mode budget");
    setup(&f);
    f.findings.items[0].oracle = HARNESS_ORACLE_LIVENESS;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "oracle liveness");
    setup(&f);
    f.plan.expect.op.seq = 20;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "operation 21");
}

/* A victim's hang follows from the crash; a wrong value in an earlier step does not. */
CT_TEST(judge, consequences_are_explained)
{
    struct fixture f;

    setup(&f);
    add(&f, HARNESS_VERDICT_HANG_NOT_JOINED, HARNESS_ORACLE_LIVENESS, HARNESS_MODE_BUDGET, 1, 5);
    expect_outcome(&f, HARNESS_OUTCOME_PASS, "");
    setup(&f);
    add(&f, HARNESS_VERDICT_VALUE_LOST, HARNESS_ORACLE_REDUCTION, HARNESS_MODE_BITWISE, 2, 3);
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "also found VALUE.LOST (rank 2)");
    setup(&f);
    add(&f, HARNESS_VERDICT_HANG_NOT_JOINED, HARNESS_ORACLE_MONITOR, HARNESS_MODE_BUDGET, 3, 2);
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "also found HANG.NOT_JOINED");
}

/* Work without an order explains wrong values of its step, on whatever rank, and a device's those
 * of later ones; a hang or a mismatch needs a cause of its own. */
CT_TEST(judge, a_race_explains_values_only)
{
    static const struct {
        enum harness_verdict verdict;
        int32_t step;
        enum harness_device device;
        enum harness_outcome outcome;
        const char *reason;
    } cases[] = {
        {HARNESS_VERDICT_VALUE_DIVERGED, 3, HARNESS_DEVICE_CPU, HARNESS_OUTCOME_PASS, ""},
        {HARNESS_VERDICT_VALUE_CORRUPTED, 4, HARNESS_DEVICE_CPU, HARNESS_OUTCOME_FAIL,
         "also found VALUE.CORRUPTED"},
        {HARNESS_VERDICT_VALUE_CORRUPTED, 4, HARNESS_DEVICE_CUDA, HARNESS_OUTCOME_PASS, ""},
        {HARNESS_VERDICT_VALUE_CORRUPTED, 2, HARNESS_DEVICE_CUDA, HARNESS_OUTCOME_FAIL,
         "also found VALUE.CORRUPTED"},
        {HARNESS_VERDICT_HANG_NOT_JOINED, 3, HARNESS_DEVICE_CPU, HARNESS_OUTCOME_FAIL,
         "also found HANG.NOT_JOINED"},
        {HARNESS_VERDICT_MISMATCH_COUNT, 3, HARNESS_DEVICE_CPU, HARNESS_OUTCOME_FAIL,
         "also found MISMATCH.COUNT"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;

        setup(&f);
        f.findings.count = 0;
        f.plan.job.device = cases[i].device;
        f.plan.expect.verdict = HARNESS_VERDICT_USAGE_UNORDERED;
        memset(&f.plan.expect.op, 0, sizeof f.plan.expect.op);
        f.plan.expect.step = 3;
        f.plan.expect.phase = -1;
        f.plan.expect.oracle = HARNESS_ORACLE_HAPPENS_BEFORE;
        f.plan.expect.mode = HARNESS_MODE_PROVABLE;
        add(&f, HARNESS_VERDICT_USAGE_UNORDERED, HARNESS_ORACLE_HAPPENS_BEFORE,
            HARNESS_MODE_PROVABLE, 1, 3);
        add(&f, cases[i].verdict, HARNESS_ORACLE_REDUCTION, HARNESS_MODE_BITWISE, 1, cases[i].step);
        expect_outcome(&f, cases[i].outcome, cases[i].reason);
    }
}

/* PyTorch's semantics: an unused parameter is reported one step after its gradients were used. */
CT_TEST(judge, an_unfinished_pass_explains_a_race)
{
    for (int32_t said = 4; said < 6; said++) {
        struct fixture f;

        setup(&f);
        f.findings.count = 0;
        memset(&f.plan.expect.op, 0, sizeof f.plan.expect.op);
        f.plan.expect.verdict = HARNESS_VERDICT_USAGE_UNUSED_PARAMETER;
        f.plan.expect.step = said;
        f.plan.expect.phase = -1;
        f.plan.expect.oracle = HARNESS_ORACLE_NONE;
        f.plan.expect.mode = HARNESS_MODE_NONE;
        add(&f, HARNESS_VERDICT_USAGE_UNORDERED, HARNESS_ORACLE_HAPPENS_BEFORE,
            HARNESS_MODE_PROVABLE, 1, 3);
        add(&f, HARNESS_VERDICT_USAGE_UNUSED_PARAMETER, HARNESS_ORACLE_USAGE, HARNESS_MODE_STATUS,
            1, said);
        expect_outcome(&f, said == 4 ? HARNESS_OUTCOME_PASS : HARNESS_OUTCOME_FAIL,
                       said == 4 ? "" : "USAGE.UNORDERED");
    }
}

/* The replicas that differ are those that hold the wrong sum; a contribution that is lost before
 * the sum is missing on all of them alike. */
CT_TEST(judge, replicas_follow_from_sums_not_from_inputs)
{
    static const struct {
        enum harness_stage stage;
        enum harness_outcome outcome;
        const char *reason;
    } cases[] = {
        {HARNESS_STAGE_OUTPUT, HARNESS_OUTCOME_PASS, ""},
        {HARNESS_STAGE_INPUT, HARNESS_OUTCOME_FAIL, "also found VALUE.DIVERGED (rank 1)"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture f;

        setup(&f);
        f.findings.count = 0;
        f.plan.expect.verdict = HARNESS_VERDICT_VALUE_LOST;
        memset(&f.plan.expect.op, 0, sizeof f.plan.expect.op);
        f.plan.expect.step = -1;
        f.plan.expect.phase = -1;
        f.plan.expect.oracle = HARNESS_ORACLE_NONE;
        f.plan.expect.mode = HARNESS_MODE_NONE;
        add(&f, HARNESS_VERDICT_VALUE_DIVERGED, HARNESS_ORACLE_REPLICAS, HARNESS_MODE_BITWISE, 1,
            3);
        add(&f, HARNESS_VERDICT_VALUE_LOST, HARNESS_ORACLE_REDUCTION, HARNESS_MODE_BITWISE, 1, 3);
        for (size_t k = 0; k < 2; k++) {
            harness_finding_add_param(&f.findings.items[k], 2);
        }
        f.findings.items[1].stage = (int32_t)cases[i].stage;
        expect_outcome(&f, cases[i].outcome, cases[i].reason);
    }
}

/* Allowed companions do not fail a run, and do not excuse others. */
CT_TEST(judge, also_allows_only_what_it_names)
{
    for (int is_other = 0; is_other < 2; is_other++) {
        struct fixture f;

        setup(&f);
        f.plan.expect.also.items[0] = HARNESS_VERDICT_VALUE_LOST;
        f.plan.expect.also.count = 1;
        add(&f, is_other ? HARNESS_VERDICT_VALUE_SHIFTED : HARNESS_VERDICT_VALUE_LOST,
            HARNESS_ORACLE_REDUCTION, HARNESS_MODE_BITWISE, 2, 3);
        expect_outcome(&f, is_other ? HARNESS_OUTCOME_FAIL : HARNESS_OUTCOME_PASS,
                       is_other ? "also found VALUE.SHIFTED" : "");
    }
}

/* The end of the monitor's process is ddprove's own affair, unless nothing else was found: then
 * nobody knows what it missed. */
CT_TEST(judge, the_monitors_end_counts_alone)
{
    struct harness_finding finding;
    struct fixture f;

    setup(&f);
    harness_finding_init(&finding, f.findings.mem, HARNESS_VERDICT_HANG_DETECTOR,
                         HARNESS_ORACLE_LAUNCHER, HARNESS_MODE_PROVABLE);
    harness_findings_add(&f.findings, &finding);
    expect_outcome(&f, HARNESS_OUTCOME_PASS, "");
    setup(&f);
    f.findings.items[0].verdict = HARNESS_VERDICT_HANG_DETECTOR;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "HANG.DETECTOR, expected CRASH.SIGNALED");
}

/* A second finding of the same verdict that blames somebody else is an accusation. */
CT_TEST(judge, accusing_others_is_forbidden)
{
    struct fixture f;

    setup(&f);
    add(&f, HARNESS_VERDICT_CRASH_SIGNALED, HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE, 3, 5);
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "rank 3 was accused of CRASH.SIGNALED");
}

/* A second finding of the expected verdict and culprit stands where none is expected. */
CT_TEST(judge, a_second_one_elsewhere_is_unexpected)
{
    for (int32_t step = 5; step <= 6; step++) {
        struct fixture f;

        setup(&f);
        memset(&f.plan.expect.op, 0, sizeof f.plan.expect.op);
        add(&f, HARNESS_VERDICT_CRASH_SIGNALED, HARNESS_ORACLE_MONITOR, HARNESS_MODE_PROVABLE, 1,
            step);
        expect_outcome(&f, step == 5 ? HARNESS_OUTCOME_PASS : HARNESS_OUTCOME_FAIL,
                       step == 5 ? "" : "also found CRASH.SIGNALED (rank 1)");
    }
}

/* Survivors: status, latency; who ended before the fault is in time. */
CT_TEST(judge, survivors)
{
    struct fixture f;

    setup(&f);
    f.facts.is_survivor_status_met = false;
    f.facts.survivor_status = DDP_E_TIMEOUT;
    f.facts.survivor_rank = 2;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "survivor rank 2 did not end, expected PEER_DIED");
    setup(&f);
    f.facts.is_survivor_status_met = false;
    f.facts.is_survivor_ended = true;
    f.facts.survivor_status = DDP_E_TIMEOUT;
    f.facts.survivor_rank = 2;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "survivor rank 2 ended with TIMEOUT");
    setup(&f);
    f.facts.survivor_latency_ns = 251000000;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "slowest survivor");
    setup(&f);
    f.facts.survivor_latency_ns = -1;
    expect_outcome(&f, HARNESS_OUTCOME_PASS, "");
    setup(&f);
    f.facts.survivor_latency_ns = 251000000;
    f.facts.is_time_enforced = false;
    expect_outcome(&f, HARNESS_OUTCOME_PASS, "");
}

/* Restore: it must have run, from the right step, and ended equal; a refusal must be expected. */
CT_TEST(judge, restore)
{
    struct fixture f;

    setup(&f);
    f.facts.is_restore_run = false;
    expect_outcome(&f, HARNESS_OUTCOME_ERROR, "no restore run");
    setup(&f);
    f.facts.restored_from_step = 2;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "restored from step 2");
    setup(&f);
    f.facts.is_restore_equal = false;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "differs from an uninterrupted");
    setup(&f);
    f.facts.restore_verdict = HARNESS_VERDICT_CHECKPOINT_KEYS;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "restoring gave CHECKPOINT.KEYS");
    setup(&f);
    f.plan.expect.restore.refused = HARNESS_VERDICT_CHECKPOINT_KEYS;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "expected CHECKPOINT.KEYS");
    for (int i = 0; i < 2; i++) {
        setup(&f);
        f.plan.expect.restore.refused = HARNESS_VERDICT_CHECKPOINT_KEYS;
        f.facts.restore_verdict = HARNESS_VERDICT_CHECKPOINT_KEYS;
        f.facts.restore_other = HARNESS_VERDICT_CRASH_SIGNALED;
        f.facts.restore_other_text = "rank 2 ended";
        f.facts.is_damage_loaded = i == 1;
        expect_outcome(&f, HARNESS_OUTCOME_FAIL, i == 1 ? "nothing was refused" : "rank 2 ended");
    }
}

/* Each kind of leak fails a run that forbids it. */
CT_TEST(judge, leaks)
{
    struct fixture f;
    bool *const leaks[] = {&f.facts.is_leak_process, &f.facts.is_leak_shm, &f.facts.is_leak_fd};

    for (size_t i = 0; i < sizeof leaks / sizeof leaks[0]; i++) {
        setup(&f);
        *leaks[i] = true;
        expect_outcome(&f, HARNESS_OUTCOME_FAIL, "left behind: process 123");
    }
}

/* A canary passes only on exactly the stated outcome and verdict; an ERROR stays one. */
CT_TEST(judge, canary)
{
    struct fixture f;

    setup(&f);
    f.plan.expect.verdict = HARNESS_VERDICT_NONE;
    set_canary(&f, HARNESS_VERDICT_CRASH_SIGNALED);
    expect_outcome(&f, HARNESS_OUTCOME_PASS, "");
    setup(&f);
    set_canary(&f, HARNESS_VERDICT_NONE);
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "canary returned PASS");
    setup(&f);
    f.plan.expect.verdict = HARNESS_VERDICT_NONE;
    set_canary(&f, HARNESS_VERDICT_VALUE_LOST);
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "stated FAIL VALUE.LOST");
    setup(&f);
    f.findings.is_failed = true;
    set_canary(&f, HARNESS_VERDICT_NONE);
    expect_outcome(&f, HARNESS_OUTCOME_ERROR, "canary");
}
