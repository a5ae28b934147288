/* expect.findings: each thing that an entry states decides, and nothing may be left over. */
#include <string.h>

#include "harness/judge/judge.h"
#include "harness/plan/plan.h"
#include "tests/ct.h"

static const char *const names[] = {"fc0.weight", "fc0.bias"};

/* A crash of rank 1 in step 5 and a lost value of rank 2 in step 3, both found and both stated. */
struct fixture {
    struct ddp_mem_pool *pool;
    struct harness_plan plan;
    struct harness_judge_facts facts;
    struct harness_findings findings;
    struct harness_judgement judgement;
    struct harness_expect_finding items[2];
    const char *params[1];
};

static void setup(struct fixture *f)
{
    struct harness_finding crash;
    struct harness_finding lost;
    struct ddp_mem *mem;

    memset(f, 0, sizeof *f);
    CT_CHECK_OK(ddp_mem_pool_create(&f->pool));
    mem = ddp_mem_pool_mem(f->pool);
    harness_findings_init(&f->findings, mem);
    harness_finding_init(&crash, mem, HARNESS_VERDICT_CRASH_SIGNALED, HARNESS_ORACLE_MONITOR,
                         HARNESS_MODE_PROVABLE);
    harness_rank_set_add(&crash.culprits, 1);
    crash.step = 5;
    crash.phase = DDP_PHASE_BACKWARD;
    crash.op.is_set = true;
    crash.op.bucket = 1;
    crash.op.seq = 21;
    harness_finding_add_param(&crash, 1);
    harness_findings_add(&f->findings, &crash);
    harness_finding_init(&lost, mem, HARNESS_VERDICT_VALUE_LOST, HARNESS_ORACLE_REDUCTION,
                         HARNESS_MODE_BITWISE);
    harness_rank_set_add(&lost.culprits, 2);
    lost.step = 3;
    harness_findings_add(&f->findings, &lost);

    f->facts.param_names = names;
    f->facts.param_count = 2;
    f->facts.survivor_latency_ns = -1;
    f->facts.restored_from_step = -1;
    f->params[0] = "fc0.bias";
    f->items[0] = (struct harness_expect_finding){
        .verdict = HARNESS_VERDICT_CRASH_SIGNALED,
        .culprit = {.ranks = crash.culprits},
        .op = {.is_set = true, .bucket = 1, .seq = 21, .params = {f->params, 1}},
        .step = 5,
        .phase = DDP_PHASE_BACKWARD};
    f->items[1] = (struct harness_expect_finding){.verdict = HARNESS_VERDICT_VALUE_LOST,
                                                  .culprit = {.ranks = lost.culprits},
                                                  .step = 3,
                                                  .phase = -1,
                                                  .oracle = HARNESS_ORACLE_REDUCTION,
                                                  .mode = HARNESS_MODE_BITWISE};
    f->plan.job.ranks = 4;
    f->plan.expect.verdict = HARNESS_VERDICT_CRASH_SIGNALED;
    f->plan.expect.findings.items = f->items;
    f->plan.expect.findings.count = 2;
}

/* Judges, and forgets the fixture. */
static void expect_outcome(struct fixture *f, enum harness_outcome outcome, const char *reason)
{
    harness_judge(&f->plan, &f->findings, &f->facts, &f->judgement);
    if (f->judgement.outcome != outcome || strstr(f->judgement.reason, reason) == NULL) {
        CT_FAIL("%s: \"%s\" lacks \"%s\"", harness_outcome_name(f->judgement.outcome),
                f->judgement.reason, reason);
    }
    ddp_mem_pool_destroy(f->pool);
}

CT_TEST(expect, findings_are_all_there_and_nothing_else)
{
    struct fixture f;

    setup(&f);
    expect_outcome(&f, HARNESS_OUTCOME_PASS, "");
    setup(&f);
    f.plan.expect.findings.count = 1;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "also found VALUE.LOST (rank 2)");
    setup(&f);
    f.findings.count = 1;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "not found: VALUE.LOST of rank 2 in step 3");
}

CT_TEST(expect, all_that_an_entry_states_decides)
{
    struct fixture f;

    setup(&f);
    f.items[1].step = 4;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "not found: VALUE.LOST of rank 2 in step 4");
    setup(&f);
    f.items[1].culprit.is_all = true;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "not found: VALUE.LOST of rank 0,1,2,3");
    setup(&f);
    f.items[1].oracle = HARNESS_ORACLE_GRADIENT;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "not found: VALUE.LOST");
    setup(&f);
    f.items[1].mode = HARNESS_MODE_BOUND;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "not found: VALUE.LOST");
    setup(&f);
    f.items[1].verdict = HARNESS_VERDICT_VALUE_DUPLICATED;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "not found: VALUE.DUPLICATED");
    setup(&f);
    f.items[0].phase = DDP_PHASE_FORWARD;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "not found: CRASH.SIGNALED of rank 1");
    setup(&f);
    f.items[0].op.bucket = 2;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "of rank 1 in step 5, bucket 2");
    setup(&f);
    f.items[0].op.seq = 20;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "not found: CRASH.SIGNALED");
    setup(&f);
    f.params[0] = "fc0.weight";
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "not found: CRASH.SIGNALED");
    setup(&f);
    f.items[0].op.params.count = 0;
    expect_outcome(&f, HARNESS_OUTCOME_FAIL, "not found: CRASH.SIGNALED");
}
