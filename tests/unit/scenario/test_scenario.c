/* Parsing one scenario: the design's example, every default, every action, printing and back. */
#include <signal.h>

#include "tests/unit/scenario/scenario_testing.h"

/* The example of the design page, verbatim. */
static const char example[] =
    "# A rank is killed inside the second bucket's all-reduce; survivors must say so, and the last "
    "checkpoint must restore.\n"
    "id: crash.sigkill_in_allreduce     # file: scenarios/crash/sigkill_in_allreduce.yaml\n"
    "covers: [C1]                       # rows of the catalog\n"
    "job: {ranks: 4, steps: 8, model: mlp, data: digits, batch_per_rank: 16, bucket_cap_kb: 64, "
    "bucket_order: reverse, optimizer: {kind: adamw, lr: 1e-3}, find_unused_parameters: false, "
    "checkpoint_every: 2, seed: 7, semantics: strict}\n"
    "faults:\n"
    "  - at: {rank: 1, step: 5, phase: backward, bucket: 1}\n"
    "    point: collective/enqueue\n"
    "    do: {kill: SIGKILL}\n"
    "expect:\n"
    "  verdict: CRASH.SIGNALED\n"
    "  culprit: injected\n"
    "  op: {bucket: 1, params: [fc1.bias, fc1.weight]}\n"
    "  survivors: {status: PEER_DIED, within_ms: 250}\n"
    "  restore: {from_step: 4, equals: uninterrupted}\n"
    "forbid: {accuse: others, leaks: [process, shm, fd]}\n"
    "matrix: {faults.0.at.rank: [first, middle, last], job.ranks: [2, 3, 4]}\n";

static void check_example_plan(const struct harness_plan *plan)
{
    CT_CHECK_STR(plan->id, "crash.sigkill_in_allreduce");
    CT_CHECK_STR(plan->covers.items[0], "C1");
    CT_CHECK_EQ_U64(plan->job.steps, 8);
    CT_CHECK_EQ_U64(plan->job.bucket_cap_bytes, 64 * 1024);
    CT_CHECK_EQ_U64(plan->job.first_bucket_cap_bytes, 0);
    CT_CHECK_EQ_U64(plan->job.optimizer.kind, HARNESS_OPTIMIZER_ADAMW);
    CT_CHECK(plan->job.optimizer.lr == 1e-3);
    CT_CHECK(plan->job.optimizer.weight_decay == 1e-2);
    CT_CHECK_EQ_U64(plan->job.seed, 7);
    CT_CHECK_EQ_I64(plan->faults[0].at.step, 5);
    CT_CHECK_EQ_I64(plan->faults[0].at.bucket, 1);
    CT_CHECK_EQ_I64(plan->faults[0].at.phase, DDP_PHASE_BACKWARD);
    CT_CHECK_EQ_I64(plan->faults[0].at.micro, -1);
    CT_CHECK_EQ_U64(plan->faults[0].point, DDP_FAULT_POINT_COLLECTIVE_ENQUEUE);
    CT_CHECK_EQ_U64(plan->faults[0].action.kind, HARNESS_ACTION_KILL);
    CT_CHECK_EQ_I64(plan->faults[0].action.signal, SIGKILL);
    CT_CHECK_EQ_U64(plan->expect.verdict, HARNESS_VERDICT_CRASH_SIGNALED);
    CT_CHECK(plan->expect.culprit.is_injected);
    CT_CHECK_EQ_U64(plan->expect.op.params.count, 2);
    CT_CHECK_STR(plan->expect.op.params.items[1], "fc1.weight");
    CT_CHECK_EQ_I64(plan->expect.survivors.status, DDP_E_PEER_DIED);
    CT_CHECK_EQ_U64(plan->expect.survivors.within_ms, 250);
    CT_CHECK(plan->expect.restore.is_set && plan->expect.restore.equals_uninterrupted);
    CT_CHECK_EQ_I64(plan->expect.restore.from_step, 4);
    CT_CHECK(plan->restore.is_set && plan->restore.is_wrapped);
    CT_CHECK_EQ_U64(plan->restore.prefix, HARNESS_PREFIX_AUTO);
}

/* The design's example parses as it stands, and its matrix gives eight different cells. */
CT_TEST(scenario, parses_the_designs_example)
{
    /* rank first, middle, last of 2, 3 and 4: with 2 ranks middle and last are both 1. */
    static const uint32_t ranks[] = {2, 3, 4, 2, 3, 4, 3, 4};
    static const uint32_t culprits[] = {0, 0, 0, 1, 1, 2, 2, 3};
    struct harness_scenario scenario;
    struct ddp_err err = {{0}};
    ddp_status status = harness_scenario_parse(example, sizeof(example) - 1,
                                               "scenarios/crash/sigkill_in_allreduce.yaml", NULL, 0,
                                               &scenario, &err);

    CT_CHECK_STR(err.text, "");
    CT_REQUIRE_OK(status);
    CT_REQUIRE(scenario.plan_count == 8);
    for (size_t i = 0; i < scenario.plan_count; i++) {
        check_example_plan(&scenario.plans[i]);
        CT_CHECK_EQ_U64(scenario.plans[i].job.ranks, ranks[i]);
        CT_CHECK_EQ_U64(scenario.plans[i].faults[0].at.rank, culprits[i]);
    }
    CT_CHECK_STR(scenario.plans[3].cell, "faults.0.at.rank=middle,job.ranks=2");
    CT_CHECK_STR(scenario.plans[0].purpose,
                 "A rank is killed inside the second bucket's all-reduce; survivors must say so, "
                 "and the last checkpoint must restore.");
    harness_scenario_fini(&scenario);
}

static void check_job_defaults(const struct harness_job *job)
{
    CT_CHECK_EQ_U64(job->micro_batches, 1);
    CT_CHECK_EQ_U64(job->branch, REF_BRANCH_BOTH);
    CT_CHECK_EQ_U64(job->skip_rank, 0);
    CT_CHECK_EQ_U64(job->widths.count, 0);
    CT_CHECK_STR(job->data, "digits");
    CT_CHECK_EQ_U64(job->samples, 0);
    CT_CHECK_EQ_U64(job->features, 0);
    CT_CHECK_EQ_U64(job->batch_per_rank[0], 8);
    CT_CHECK_EQ_U64(job->batch_per_rank[1], 8);
    CT_CHECK(job->shard_sizes == NULL);
    CT_CHECK(job->is_shuffled);
    CT_CHECK_EQ_U64(job->optimizer.kind, HARNESS_OPTIMIZER_SGD);
    CT_CHECK(job->optimizer.lr == 1e-3 && job->optimizer.momentum == 0.0);
    CT_CHECK(job->optimizer.dampening == 0.0);
    CT_CHECK(job->optimizer.weight_decay == 0.0 && !job->optimizer.nesterov);
    CT_CHECK_EQ_U64(job->bucket_cap_bytes, 0);
    CT_CHECK_EQ_U64(job->first_bucket_cap_bytes, 0);
    CT_CHECK_EQ_U64(job->bucket_order, HARNESS_BUCKET_ORDER_REVERSE);
    CT_CHECK_EQ_U64(job->gradient_scale, HARNESS_GRADIENT_SCALE_PRE);
    CT_CHECK(!job->find_unused_parameters && job->broadcast_buffers);
    CT_CHECK_EQ_U64(job->checkpoint_every, 0);
    CT_CHECK(job->is_checkpoint_wrapped);
    CT_CHECK_EQ_U64(job->seed, 1);
    CT_CHECK_EQ_U64(job->semantics, HARNESS_SEMANTICS_STRICT);
    CT_CHECK_EQ_U64(job->collective.engine, HARNESS_ENGINE_SCHEDULE);
    CT_CHECK_EQ_U64(job->collective.algorithm, DDP_ALGORITHM_RING);
    CT_CHECK_EQ_U64(job->device, HARNESS_DEVICE_CPU);
    CT_CHECK_EQ_U64(job->timeout_ns, UINT64_C(10000000000));
    CT_CHECK(!job->join.is_set && job->join.divide_by_initial_world_size);
    CT_CHECK(!job->join.throw_on_early_termination);
    for (unsigned i = 0; i < DDP_PHASE_COUNT; i++) {
        CT_CHECK_EQ_U64(job->phase_budget_ms[i], ddp_phase_budget_ms((enum ddp_phase)i));
    }
}

/* A scenario that says only what it must gets every documented default. */
CT_TEST(scenario, fills_in_defaults)
{
    struct harness_scenario scenario;
    const struct harness_plan *plan;

    CT_REQUIRE_OK(scenario_parse(SCENARIO_SMALL, NULL, 0, &scenario, NULL));
    CT_REQUIRE(scenario.plan_count == 1);
    plan = &scenario.plans[0];
    CT_CHECK_STR(plan->cell, "");
    CT_CHECK_STR(plan->purpose, "Nothing goes wrong.");
    CT_CHECK_EQ_U64(plan->covers.count, 0);
    CT_CHECK(plan->is_driver[HARNESS_DRIVER_SIM] && plan->is_driver[HARNESS_DRIVER_PROC]);
    check_job_defaults(&plan->job);
    CT_CHECK_EQ_U64(plan->fault_count, 0);
    CT_CHECK(!plan->restore.is_set && !plan->expect.restore.is_set && !plan->canary.is_set);
    CT_CHECK(!plan->expect.culprit.is_injected && !plan->expect.culprit.is_all);
    CT_CHECK(harness_rank_set_is_empty(&plan->expect.culprit.ranks));
    CT_CHECK(!plan->expect.op.is_set && !plan->expect.survivors.is_set);
    CT_CHECK_EQ_I64(plan->expect.step, -1);
    CT_CHECK_EQ_I64(plan->expect.phase, -1);
    CT_CHECK(plan->expect.oracle == HARNESS_ORACLE_NONE && plan->expect.mode == HARNESS_MODE_NONE);
    CT_CHECK(plan->forbid.accuse_others && plan->forbid.is_leak[HARNESS_LEAK_PROCESS] &&
             plan->forbid.is_leak[HARNESS_LEAK_SHM]);
    CT_CHECK(plan->forbid.is_leak[HARNESS_LEAK_FD]);
    harness_scenario_fini(&scenario);
}

/* Contexts of ranks that share a card are made one after the other. */
CT_TEST(scenario, waits_longer_for_cards)
{
    static const char *const cuda[] = {"job.device=cuda", "job.collective=nccl",
                                       "job.ranks_per_gpu=8", "job.phase_budget_ms={init: 700}"};
    struct harness_scenario scenario;

    CT_REQUIRE_OK(scenario_parse(SCENARIO_SMALL, cuda, 3, &scenario, NULL));
    CT_CHECK_EQ_U64(scenario.plans[0].job.phase_budget_ms[DDP_PHASE_INIT], 30000);
    CT_CHECK_EQ_U64(scenario.plans[0].job.phase_budget_ms[DDP_PHASE_FORWARD],
                    ddp_phase_budget_ms(DDP_PHASE_FORWARD));
    harness_scenario_fini(&scenario);
    CT_REQUIRE_OK(scenario_parse(SCENARIO_SMALL, cuda, 4, &scenario, NULL));
    CT_CHECK_EQ_U64(scenario.plans[0].job.phase_budget_ms[DDP_PHASE_INIT], 700);
    harness_scenario_fini(&scenario);
}

/* The defaults of an optimizer are those of its kind. */
CT_TEST(scenario, takes_optimizer_defaults_by_kind)
{
    static const char *const sets[] = {"job.optimizer.kind=adamw"};
    struct harness_scenario scenario;
    const struct harness_job *job;

    CT_REQUIRE_OK(scenario_parse(SCENARIO_SMALL, sets, 1, &scenario, NULL));
    job = &scenario.plans[0].job;
    CT_CHECK(job->optimizer.lr == 1e-3 && job->optimizer.beta1 == 0.9);
    CT_CHECK(job->optimizer.beta2 == 0.999 && job->optimizer.eps == 1e-8);
    CT_CHECK(job->optimizer.weight_decay == 1e-2 && job->optimizer.momentum == 0.0);
    harness_scenario_fini(&scenario);
}

/* Parse text, print the plan, parse that, print again: nothing may change. */
static void check_round_trip(const char *text, const char *const *sets, size_t set_count)
{
    struct harness_scenario first;
    struct harness_scenario second;
    struct ddp_text printed;
    struct ddp_text again;
    struct ddp_err err = {{0}};

    if (scenario_parse(text, sets, set_count, &first, &err) != DDP_OK) {
        CT_FAIL("%s: %s", set_count > 0 ? sets[0] : "no override", err.text);
        return;
    }
    for (size_t i = 0; i < first.plan_count; i++) {
        ddp_text_init(&printed, ddp_mem_system());
        ddp_text_init(&again, ddp_mem_system());
        harness_plan_print(&first.plans[i], &printed);
        if (scenario_parse(ddp_text_str(&printed), NULL, 0, &second, &err) != DDP_OK) {
            CT_FAIL("%s\n%s", err.text, ddp_text_str(&printed));
        } else {
            CT_CHECK_EQ_U64(second.plan_count, 1);
            harness_plan_print(&second.plans[0], &again);
            CT_CHECK_STR(ddp_text_str(&again), ddp_text_str(&printed));
            harness_scenario_fini(&second);
        }
        ddp_text_fini(&printed);
        ddp_text_fini(&again);
    }
    harness_scenario_fini(&first);
}

/* Base of the round trips: one fault and a checkpoint, so that every override fits. */
static const char rich[] =
    "# Round trips.\n"
    "id: control.rich\n"
    "job: {ranks: 4, steps: 8, model: mlp, batch_per_rank: [8, 4, 2, 1], checkpoint_every: 2}\n"
    "faults: [{at: {rank: 1}, point: collective/pre, do: {none: true}}]\n"
    "expect: {verdict: NONE}\n";

/* Every key, set to something that is not its default. */
static const char *const not_defaults[] = {
    "title=\"a: title, with # signs\"",
    "covers=[C1, K12]",
    "drivers=[proc]",
    "job.micro_batches=3",
    "job.branch=by_rank",
    "job.skip_rank=2",
    "job.widths=[64, 32, 10]",
    "job.data=synthetic",
    "job.samples=100",
    "job.features=64",
    "job.batch_per_rank=3",
    "job.shard_sizes=[5, 0, 7, 8]",
    "job.shuffle=false",
    "job.optimizer={kind: sgd, lr: 0.1, momentum: 0.9, nesterov: true, weight_decay: 0.3}",
    "job.optimizer={kind: sgd, dampening: -0.25, momentum: 0.1}",
    "job.optimizer={kind: adamw, beta1: 0.8, beta2: 0.91, eps: 1e-7}",
    "job.bucket_cap_kb=0.5",
    "job.first_bucket_cap_kb=3.25",
    "job.gradient_scale=post",
    "job.find_unused_parameters=true",
    "job.broadcast_buffers=false",
    "job.checkpoint_wrapped=false",
    "job.seed=18446744073709551615",
    "job.semantics=pytorch",
    "job.collective=recursive_doubling",
    "job.timeout_ms=0",
    "job.join={}",
    "job.join={divide_by_initial_world_size: false}",
    "job.join={throw_on_early_termination: true}",
    "job.phase_budget_ms={data: 7, end: 1}",
    "faults.0.at={rank: last, step: 7, micro: 0, phase: reduce, bucket: 2, param: 3, layer: 1}",
    "faults.0.at={rank: 0, seq: 9, hit: 2, times: 0}",
    "faults.0.do={kill: SIGSEGV}",
    "faults.0.do={exit: 0}",
    "faults.0.do={exit: 255}",
    "faults.0.do={abort: true}",
    "faults.0.do={stop: forever}",
    "faults.0.do={stop: 30}",
    "faults.0.do={delay: 20}",
    "faults.0.do={hang: true}",
    "faults.0.do={skip: true}",
    "faults.0.do={dup: true}",
    "faults.0.do={fail: true}",
    "faults.0.do={arg: count, value: 10}",
    "faults.0.do={arg: kind, value: broadcast}",
    "faults.0.do={arg: dtype, value: bf16}",
    "faults.0.do={arg: redop, value: max}",
    "faults.0.do={arg: root, value: 3}",
    "faults.0.do={arg: index, value: 1}",
    "restore={}",
    "restore={into: bare, prefix: pytorch, skip_optimizer_state: true, ranks: 2}",
    "restore={edit: drop_key, key: fc0.bias}",
    "restore={edit: extra_key, key: \"5\"}",
    "restore={edit: flip_byte, key: module.fc0.weight}",
    "restore={edit: truncate}",
    "restore={edit: head, bytes: 7}",
    "restore={edit: header_size, bytes: 100}",
    "restore={edit: header, find: '\"F32\"', put: '\"F16\"'}",
    "expect.also=[HANG.STOPPED, HANG.DATA]",
    "expect.culprit=injected",
    "expect.culprit=all",
    "expect.culprit=[first, 2, last]",
    "expect.op={seq: 4}",
    "expect.op={bucket: 0, params: [\"true\", \"1e3\", \"a b\", \"~\"]}",
    "expect.step=3",
    "expect.phase=optimizer",
    "expect.oracle=gradient",
    "expect.mode=bitwise",
    "expect.survivors={status: TIMEOUT}",
    "expect.restore={}",
    "expect.restore={from_step: 8, equals: uninterrupted}",
    "expect.restore={refused: CHECKPOINT.PREFIX}",
    "forbid={accuse: none}",
    "forbid={leaks: []}",
    "forbid={leaks: [shm]}",
    "canary={outcome: INCONCLUSIVE}",
    "canary={outcome: FAIL, verdict: VALUE.LOST}"};

/* Whatever a key is set to survives printing and parsing. */
CT_TEST(scenario, prints_what_it_parsed)
{

    check_round_trip(rich, NULL, 0);
    check_round_trip(SCENARIO_SMALL, NULL, 0);
    check_round_trip(example, NULL, 0);
    for (size_t i = 0; i < sizeof(not_defaults) / sizeof(not_defaults[0]); i++) {
        check_round_trip(rich, &not_defaults[i], 1);
    }
}

/* Every corruption survives printing and parsing, with what it needs. */
CT_TEST(scenario, prints_corruptions)
{
    static const char *const actions[] = {
        "faults.0.do={corrupt: zero}",
        "faults.0.do={corrupt: double}",
        "faults.0.do={corrupt: half}",
        "faults.0.do={corrupt: scale, value: -0.1}",
        "faults.0.do={corrupt: shift}",
        "faults.0.do={corrupt: shift, value: -3}",
        "faults.0.do={corrupt: nan, elem: 12}",
        "faults.0.do={corrupt: flip, elem: 3, bit: 31}",
        "faults.0.do={corrupt: set, value: 3.4028234663852886e38, elem: 1}",
        "faults.0.do={corrupt: set, value: -.inf}"};

    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        const char *sets[] = {"faults.0.point=bucket/launch", actions[i]};

        check_round_trip(rich, sets, 2);
    }
}

/* Values reach the plan's fields, not only the printer. */
CT_TEST(scenario, fills_in_what_is_given)
{
    static const char *const sets[] = {"faults.0.at={rank: middle, hit: 3, times: 0}",
                                       "faults.0.do={arg: redop, value: max}",
                                       "job.collective=recursive_doubling",
                                       "job.first_bucket_cap_kb=0.5",
                                       "job.phase_budget_ms={forward: 77}",
                                       "expect={verdict: NONE, culprit: [last]}",
                                       "forbid={leaks: [fd]}"};
    struct harness_scenario scenario;
    const struct harness_plan *plan;
    struct harness_rank_set injected;

    CT_REQUIRE_OK(scenario_parse(rich, sets, sizeof(sets) / sizeof(sets[0]), &scenario, NULL));
    plan = &scenario.plans[0];
    CT_CHECK_EQ_U64(plan->faults[0].at.rank, 2);
    CT_CHECK_EQ_U64(plan->faults[0].at.hit, 3);
    CT_CHECK_EQ_U64(plan->faults[0].at.times, 0);
    CT_CHECK_EQ_U64(plan->faults[0].action.arg, HARNESS_ARG_REDOP);
    CT_CHECK_EQ_U64(plan->faults[0].action.arg_value, DDP_REDOP_MAX);
    CT_CHECK_EQ_U64(plan->job.collective.algorithm, DDP_ALGORITHM_RECURSIVE_DOUBLING);
    CT_CHECK_EQ_U64(plan->job.first_bucket_cap_bytes, 512);
    CT_CHECK_EQ_U64(plan->job.phase_budget_ms[DDP_PHASE_FORWARD], 77);
    CT_CHECK_EQ_U64(plan->job.batch_per_rank[3], 1);
    CT_CHECK(harness_rank_set_has(&plan->expect.culprit.ranks, 3));
    CT_CHECK_EQ_U64(harness_rank_set_count(&plan->expect.culprit.ranks), 1);
    CT_CHECK(plan->forbid.accuse_others && plan->forbid.is_leak[HARNESS_LEAK_FD] &&
             !plan->forbid.is_leak[HARNESS_LEAK_SHM]);
    injected = harness_rank_set_in(ddp_mem_pool_mem(plan->pool));
    harness_plan_injected(plan, HARNESS_RUN_FIRST, &injected);
    CT_CHECK(harness_rank_set_has(&injected, 2));
    harness_scenario_fini(&scenario);
}

/* A culprit that is not stated is the injected one, unless nothing shall be found. */
CT_TEST(scenario, assumes_the_injected_culprit)
{
    static const char *const sets[] = {"expect.verdict=HANG.HOST"};
    struct harness_scenario scenario;

    CT_REQUIRE_OK(scenario_parse(rich, sets, 1, &scenario, NULL));
    CT_CHECK(scenario.plans[0].expect.culprit.is_injected);
    harness_scenario_fini(&scenario);
    CT_REQUIRE_OK(scenario_parse(rich, NULL, 0, &scenario, NULL));
    CT_CHECK(!scenario.plans[0].expect.culprit.is_injected);
    harness_scenario_fini(&scenario);
}

/* The head comment may have several lines, blank ones and Windows line ends. */
CT_TEST(scenario, joins_the_head_comment)
{
    static const char text[] = "\r\n# Two\r\n#\r\n  ## lines. \r\n\r\n"
                               "id: a.b\r\n# not this one\r\n"
                               "job: {ranks: 1, steps: 1, model: mlp, batch_per_rank: 1}\r\n"
                               "expect: {verdict: NONE}\r\n";
    struct harness_scenario scenario;

    CT_REQUIRE_OK(scenario_parse(text, NULL, 0, &scenario, NULL));
    CT_CHECK_STR(scenario.plans[0].purpose, "Two lines.");
    harness_scenario_fini(&scenario);
}

/* A resolved plan in a run folder keeps the id of its scenario. */
CT_TEST(scenario, accepts_a_plan_of_a_run)
{
    struct harness_scenario scenario;

    CT_REQUIRE_OK(harness_scenario_parse(SCENARIO_SMALL, strlen(SCENARIO_SMALL),
                                         "runs/today/control.small/plan.yaml", NULL, 0, &scenario,
                                         NULL));
    harness_scenario_fini(&scenario);
}
