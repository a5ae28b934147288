/* The proc driver with real processes: how ranks end, and what is reported. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/proc/proc_job.h"

enum { RANKS = 4 };

static void check_culprit(const struct harness_finding *finding, uint32_t rank)
{
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 1);
    CT_CHECK(harness_rank_set_has(&finding->culprits, rank));
}

/* Milliseconds from the firing of the first fault to the run's first diagnosis. */
static double latency_ms(const struct proc_test *test)
{
    uint32_t count;
    uint64_t fired_ns = harness_trace_fired_ns(&test->job.trace, 0, &count);

    return fired_ns == 0 || test->job.trace.diagnoses.count == 0
               ? -1.0
               : (double)(int64_t)(test->job.trace.diagnosis_time_ns[0] - fired_ns) / 1e6;
}

/* A healthy job ends by itself, without a finding, and leaves nothing behind. */
CT_TEST(proc, runs_a_healthy_job)
{
    struct proc_test test;

    proc_test_init(&test, RANKS);
    CT_CHECK_OK(proc_test_run(&test));
    CT_CHECK_STR(test.job.err.text, "");
    CT_CHECK_EQ_U64(test.job.trace.diagnoses.count, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        CT_CHECK_EQ_U64(test.job.trace.ends[r].how, HARNESS_END_EXITED);
        CT_CHECK_EQ_I64(test.job.trace.ends[r].code, 0);
        CT_CHECK_STATUS(sim_job_status(&test.job, r), DDP_OK);
        CT_CHECK_EQ_U64(sim_job_param_hash(&test.job, r), sim_job_param_hash(&test.job, 0));
    }
    proc_test_check_clean(&test);
    proc_test_fini(&test);
}

/* Real processes compute the very bits of the simulated ones. */
CT_TEST(proc, equals_the_simulator)
{
    struct proc_test test;
    struct sim_job sim;

    proc_test_init(&test, RANKS);
    sim_job_init(&sim, RANKS);
    CT_CHECK_OK(proc_test_run(&test));
    CT_CHECK_OK(sim_job_run(&sim));
    CT_CHECK(sim_job_param_hash(&sim, 0) != 0);
    CT_CHECK_EQ_U64(sim_job_param_hash(&test.job, 1), sim_job_param_hash(&sim, 1));
    sim_job_fini(&sim);
    proc_test_fini(&test);
}

/* The monitor process left a wait snapshot of this culprit. */
static void check_pictured(const struct proc_test *test, uint32_t rank, const char *state)
{
    const char *graph = ddp_text_str(&test->job.trace.graph);
    char line[64];

    (void)snprintf(line, sizeof(line), "\nr%u (culprit) %s", rank, state);
    if (strstr(graph, line) == NULL) {
        CT_FAIL("no \"%s\" in\n%s", line, graph);
    }
}

/* A rank killed inside a collective is named within milliseconds, with the collective's bucket;
 * the others end by themselves with PEER_DIED. */
CT_TEST(proc, names_a_killed_rank)
{
    for (uint32_t rank = 0; rank < RANKS; rank += RANKS - 1) {
        struct proc_test test;
        const struct harness_finding *finding;

        proc_test_init(&test, RANKS);
        sim_job_fault(&test.job, rank, DDP_FAULT_POINT_COLLECTIVE_ENQUEUE, HARNESS_ACTION_KILL)
            ->at.step = 2;
        CT_CHECK_OK(proc_test_run(&test));
        finding = proc_test_only(&test, HARNESS_VERDICT_CRASH_SIGNALED);
        CT_REQUIRE(finding != NULL);
        check_culprit(finding, rank);
        CT_CHECK_EQ_I64(finding->step, 2);
        CT_CHECK_EQ_I64(finding->op.bucket, 0);
        CT_CHECK(latency_ms(&test) >= 0 && latency_ms(&test) < 1000);
        for (uint32_t r = 0; r < RANKS; r++) {
            CT_CHECK_EQ_U64(test.job.trace.ends[r].how,
                            r == rank ? HARNESS_END_SIGNALED : HARNESS_END_EXITED);
            CT_CHECK_STATUS(sim_job_status(&test.job, r),
                            r == rank ? DDP_PENDING : DDP_E_PEER_DIED);
        }
        check_pictured(&test, rank, "ended by signal 9 (SIGKILL), ");
        proc_test_check_clean(&test);
        proc_test_fini(&test);
    }
}

/* Two ranks that die are named together. (At birth: later, one may hear of the other's death first
 * and end in good order.) */
CT_TEST(proc, names_two_killed_ranks)
{
    struct proc_test test;
    const struct harness_finding *finding;

    proc_test_init(&test, RANKS);
    sim_job_fault(&test.job, 1, DDP_FAULT_POINT_LAUNCH_SPAWN, HARNESS_ACTION_KILL);
    sim_job_fault(&test.job, 3, DDP_FAULT_POINT_LAUNCH_SPAWN, HARNESS_ACTION_KILL);
    CT_CHECK_OK(proc_test_run(&test));
    finding = proc_test_only(&test, HARNESS_VERDICT_CRASH_SIGNALED);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 2);
    CT_CHECK(harness_rank_set_has(&finding->culprits, 1));
    CT_CHECK(harness_rank_set_has(&finding->culprits, 3));
    proc_test_fini(&test);
}

/* A rank that dies before rendezvous is named, and the others do not wait for their time-out. */
CT_TEST(proc, names_a_rank_killed_at_birth)
{
    struct proc_test test;
    const struct harness_finding *finding;

    proc_test_init(&test, RANKS);
    sim_job_fault(&test.job, 0, DDP_FAULT_POINT_LAUNCH_SPAWN, HARNESS_ACTION_KILL);
    CT_CHECK_OK(proc_test_run(&test));
    finding = proc_test_only(&test, HARNESS_VERDICT_CRASH_SIGNALED);
    CT_REQUIRE(finding != NULL);
    check_culprit(finding, 0);
    CT_CHECK_EQ_I64(finding->phase, DDP_PHASE_SPAWN);
    for (uint32_t r = 1; r < RANKS; r++) {
        CT_CHECK_STATUS(sim_job_status(&test.job, r), DDP_E_PEER_DIED);
    }
    proc_test_check_clean(&test);
    proc_test_fini(&test);
}

/* A rank stopped for ever is named as stopped, although no time-out has passed, and is reaped. */
CT_TEST(proc, names_a_stopped_rank)
{
    struct proc_test test;
    const struct harness_finding *finding;

    proc_test_init(&test, RANKS);
    test.job.config.linger_ns = 50 * DDP_NS_PER_MS;
    sim_job_fault(&test.job, 2, DDP_FAULT_POINT_FORWARD_LAYER, HARNESS_ACTION_STOP)->at.step = 1;
    CT_CHECK_OK(proc_test_run(&test));
    finding = proc_test_only(&test, HARNESS_VERDICT_HANG_STOPPED);
    CT_REQUIRE(finding != NULL);
    check_culprit(finding, 2);
    CT_CHECK_EQ_I64(finding->step, 1);
    CT_CHECK_EQ_I64(finding->phase, DDP_PHASE_FORWARD);
    CT_CHECK_EQ_U64(test.job.trace.ends[2].how, HARNESS_END_REAPED);
    CT_CHECK(test.job.trace.ends[2].is_stopped);
    CT_CHECK(!test.job.trace.ends[1].is_stopped);
    proc_test_check_clean(&test);
    proc_test_fini(&test);
}

/* A stop of 50 ms that ends is no hang. */
CT_TEST(proc, forgives_a_short_stop)
{
    struct proc_test test;

    proc_test_init(&test, RANKS);
    sim_job_fault(&test.job, 1, DDP_FAULT_POINT_FORWARD_LAYER, HARNESS_ACTION_STOP)->at.step = 1;
    test.job.faults[0].action.stop_ms = 50;
    CT_CHECK_OK(proc_test_run(&test));
    CT_CHECK_EQ_U64(test.job.trace.diagnoses.count, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        CT_CHECK_STATUS(sim_job_status(&test.job, r), DDP_OK);
    }
    CT_CHECK(test.job.trace.end_ns - test.job.trace.start_ns > 50 * DDP_NS_PER_MS);
    proc_test_check_clean(&test);
    proc_test_fini(&test);
}

/* exit(0) before the work is done is finished early. */
CT_TEST(proc, names_a_rank_that_finished_early)
{
    struct proc_test test;
    const struct harness_finding *finding;

    proc_test_init(&test, RANKS);
    sim_job_fault(&test.job, 3, DDP_FAULT_POINT_STEP_BEGIN, HARNESS_ACTION_EXIT)->at.step = 2;
    CT_CHECK_OK(proc_test_run(&test));
    finding = proc_test_only(&test, HARNESS_VERDICT_CRASH_FINISHED_EARLY);
    CT_REQUIRE(finding != NULL);
    check_culprit(finding, 3);
    CT_CHECK_EQ_U64(test.job.trace.ends[3].how, HARNESS_END_EXITED);
    proc_test_check_clean(&test);
    proc_test_fini(&test);
}

/* A rank that never comes back from fetching data is named after that phase's budget. */
CT_TEST(proc, names_a_rank_stuck_in_data)
{
    struct proc_test test;
    const struct harness_finding *finding;

    proc_test_init(&test, RANKS);
    test.job.config.linger_ns = 50 * DDP_NS_PER_MS;
    test.job.plan.job.phase_budget_ms[DDP_PHASE_DATA] = 300;
    sim_job_fault(&test.job, 1, DDP_FAULT_POINT_DATA_NEXT, HARNESS_ACTION_HANG)->at.step = 1;
    CT_CHECK_OK(proc_test_run(&test));
    finding = proc_test_only(&test, HARNESS_VERDICT_HANG_DATA);
    CT_REQUIRE(finding != NULL);
    check_culprit(finding, 1);
    CT_CHECK_EQ_U64(finding->mode, HARNESS_MODE_BUDGET);
    CT_CHECK_EQ_I64(finding->step, 1);
    CT_CHECK(latency_ms(&test) >= 300);
    CT_CHECK_EQ_U64(test.job.trace.ends[1].how, HARNESS_END_REAPED);
    proc_test_check_clean(&test);
    proc_test_fini(&test);
}

/* A rank that never joins the group is named after its phase's budget, and not those who wait for
 * it to attach. */
CT_TEST(proc, names_a_rank_stuck_before_its_group)
{
    struct proc_test test;
    const struct harness_finding *finding;

    proc_test_init(&test, RANKS);
    test.job.config.linger_ns = 50 * DDP_NS_PER_MS;
    test.job.plan.job.phase_budget_ms[DDP_PHASE_INIT] = 400;
    test.job.plan.job.phase_budget_ms[DDP_PHASE_RENDEZVOUS] = 400;
    sim_job_fault(&test.job, 2, DDP_FAULT_POINT_COMM_INIT, HARNESS_ACTION_HANG);
    CT_CHECK_OK(proc_test_run(&test));
    finding = proc_test_only(&test, HARNESS_VERDICT_HANG_INIT);
    CT_REQUIRE(finding != NULL);
    check_culprit(finding, 2);
    CT_CHECK_EQ_U64(test.job.trace.ends[2].how, HARNESS_END_REAPED);
    proc_test_check_clean(&test);
    proc_test_fini(&test);
}
