/* Every oracle passes the right run and names verdict, rank, bucket, parameter and step of each
 * damage done to it. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/oracle/oracle_job.h"

static void check_clean(struct oracle_job *job)
{
    CT_CHECK_EQ_U64(job->findings.count, 0);
    for (size_t i = 0; i < job->findings.count; i++) {
        CT_FAIL("%s %s: %s", harness_oracle_name(job->findings.items[i].oracle),
                harness_verdict_name(job->findings.items[i].verdict), job->findings.items[i].text);
    }
    CT_CHECK_STR(job->findings.is_evidence_lost ? job->findings.lost_text : "", "");
}

/* Verdict, one culprit and step of the only finding of an oracle. */
static struct harness_finding *check_finding(struct oracle_job *job, enum harness_oracle_id oracle,
                                             enum harness_verdict verdict, uint32_t culprit,
                                             int32_t step)
{
    struct harness_finding *finding = oracle_job_finding(job, oracle);

    if (finding == NULL) {
        CT_FAIL("%s has no finding, or several, of %zu", harness_oracle_name(oracle),
                job->findings.count);
        return NULL;
    }
    CT_CHECK_STR(harness_verdict_name(finding->verdict), harness_verdict_name(verdict));
    CT_CHECK(harness_rank_set_has(&finding->culprits, culprit));
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 1);
    CT_CHECK_EQ_I64(finding->step, step);
    return finding;
}

#define OPEN_AND_RUN(job, is_adamw)                \
    CT_REQUIRE(oracle_job_open(&job, (is_adamw))); \
    CT_REQUIRE(oracle_job_run(&job))

/* A right run with SGD and momentum has no finding: the emulation meets every bit. */
CT_TEST(oracle, right_run_with_sgd_is_clean)
{
    struct oracle_job job;

    OPEN_AND_RUN(job, false);
    CT_CHECK(job.program.first.count >= 2);
    CT_REQUIRE(oracle_job_check(&job));
    check_clean(&job);
    oracle_job_close(&job);
}

/* So has one with AdamW. */
CT_TEST(oracle, right_run_with_adamw_is_clean)
{
    struct oracle_job job;

    OPEN_AND_RUN(job, true);
    CT_REQUIRE(oracle_job_check(&job));
    check_clean(&job);
    oracle_job_close(&job);
}

/* Unequal batches shift the average from the global mean by their weights, which is no error. */
CT_TEST(oracle, unequal_batches_stay_within_the_bound)
{
    struct oracle_job job;

    CT_REQUIRE(oracle_job_open(&job, false));
    job.batch_rows[1] = 7;
    CT_REQUIRE(oracle_job_run(&job));
    CT_REQUIRE(oracle_job_check(&job));
    check_clean(&job);
    oracle_job_close(&job);
}

static size_t bucket_of(const struct oracle_job *job, uint32_t param)
{
    for (size_t b = 0; b < job->program.first.count; b++) {
        for (uint32_t i = 0; i < job->program.first.items[b].param_count; i++) {
            if (job->program.first.items[b].params[i] == param) {
                return b;
            }
        }
    }
    return SIZE_MAX;
}

/* A rank whose local gradient differs is named with the parameter; its bucket is no second error.
 */
CT_TEST(oracle, wrong_gradient_names_rank_and_parameter)
{
    struct oracle_job job;
    struct harness_finding *finding;

    OPEN_AND_RUN(job, false);
    oracle_job_event(&job, 1, DDP_EVENT_GRAD_READY, 2, 1)->arg[1] ^= 1;
    oracle_job_event(&job, 1, DDP_EVENT_COLL_POST, 2, bucket_of(&job, 1))->arg[4] ^= 1;
    CT_REQUIRE(oracle_job_check(&job));
    finding = check_finding(&job, HARNESS_ORACLE_GRADIENT, HARNESS_VERDICT_VALUE_CORRUPTED, 1, 2);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(job.findings.count, 1);
    CT_CHECK_EQ_U64(finding->params.count, 1);
    CT_CHECK_EQ_U64(harness_list_at(&finding->params, 0), 1);
    CT_CHECK(job.findings.is_evidence_lost); /* no tensor has that hash */
    oracle_job_close(&job);
}

/* A loss that is not finite is said to be so. */
CT_TEST(oracle, nan_loss_is_nonfinite)
{
    struct oracle_job job;

    OPEN_AND_RUN(job, false);
    for (size_t i = 0; i < job.trace.event_count; i++) {
        struct harness_trace_event *event = &job.trace.events[i];

        if (event->rank == 0 && event->entry.event == DDP_EVENT_LOSS && event->entry.step == 1) {
            event->entry.arg[0] = 0x7fc00000u;
        }
    }
    CT_REQUIRE(oracle_job_check(&job));
    CT_CHECK(check_finding(&job, HARNESS_ORACLE_GRADIENT, HARNESS_VERDICT_VALUE_NONFINITE, 0, 1) !=
             NULL);
    oracle_job_close(&job);
}

static void zero_input(uint32_t rank, uint32_t step, size_t bucket, float *data, size_t count)
{
    if (rank == 1 && step == 2 && bucket == 1) {
        memset(data, 0, count * sizeof(float));
    }
}

static void flip_output(uint32_t rank, uint32_t step, size_t bucket, float *data, size_t count)
{
    uint32_t bits;

    (void)count;
    if (rank == 1 && step == 1 && bucket == 0) {
        memcpy(&bits, &data[3], sizeof(bits));
        bits ^= UINT32_C(1) << 12;
        memcpy(&data[3], &bits, sizeof(bits));
    }
}

static void nudge_param(uint32_t rank, uint32_t step, size_t param, float *data, size_t count)
{
    (void)count;
    if (rank == 1 && step == 1 && param == 2) {
        data[5] = nextafterf(data[5], 1e9f);
    }
}

/* A contribution lost at the bucket's input is one finding: rank, bucket, step; the replay's
 * payloads say that it was lost. */
CT_TEST(oracle, lost_contribution_is_found_and_described)
{
    struct oracle_job job;
    struct harness_finding *finding;

    CT_REQUIRE(oracle_job_open(&job, true));
    job.hook.input = zero_input;
    job.is_keeping = true;
    CT_REQUIRE(oracle_job_run(&job));
    CT_REQUIRE(oracle_job_check(&job));
    CT_CHECK_EQ_U64(job.findings.count, 1);
    CT_CHECK(!job.findings.is_evidence_lost);
    finding = check_finding(&job, HARNESS_ORACLE_REDUCTION, HARNESS_VERDICT_VALUE_LOST, 1, 2);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_I64(finding->op.bucket, 1);
    CT_CHECK_EQ_U64(finding->params.count, job.program.first.items[1].param_count);
    oracle_job_close(&job);
}

/* A bit flipped in one rank's output names that rank, parameter, element and bit. */
CT_TEST(oracle, flipped_output_is_described_to_the_bit)
{
    struct oracle_job job;
    struct harness_finding *finding;

    CT_REQUIRE(oracle_job_open(&job, false));
    job.hook.output = flip_output;
    job.is_keeping = true;
    CT_REQUIRE(oracle_job_run(&job));
    CT_REQUIRE(oracle_job_check(&job));
    finding = check_finding(&job, HARNESS_ORACLE_REDUCTION, HARNESS_VERDICT_VALUE_CORRUPTED, 1, 1);
    CT_REQUIRE(finding != NULL);
    CT_CHECK(oracle_job_finding(&job, HARNESS_ORACLE_UPDATE) == NULL);
    CT_CHECK(strstr(finding->text, "bit 12 of element 3 flipped") != NULL);
    CT_CHECK_EQ_U64(finding->params.count, 1);
    oracle_job_close(&job);
}

/* A parameter that differs on one rank after the update is divergence, blamed on that rank by both
 * the emulation and the replicas. */
CT_TEST(oracle, diverged_parameter_names_the_rank)
{
    struct oracle_job job;
    struct harness_finding *finding;

    CT_REQUIRE(oracle_job_open(&job, true));
    job.hook.updated = nudge_param;
    CT_REQUIRE(oracle_job_run(&job));
    CT_REQUIRE(oracle_job_check(&job));
    finding = check_finding(&job, HARNESS_ORACLE_UPDATE, HARNESS_VERDICT_VALUE_DIVERGED, 1, 1);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(harness_list_at(&finding->params, 0), 2);
    finding = check_finding(&job, HARNESS_ORACLE_REPLICAS, HARNESS_VERDICT_VALUE_DIVERGED, 1, 1);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(harness_list_at(&finding->params, 0), 2);
    CT_CHECK(oracle_job_finding(&job, HARNESS_ORACLE_GRADIENT) == NULL);
    oracle_job_close(&job);
}

/* An update that left no record although the rank went on is reported as left out. */
CT_TEST(oracle, missing_update_is_found)
{
    struct oracle_job job;

    OPEN_AND_RUN(job, false);
    for (size_t i = 0; i < job.trace.event_count; i++) {
        struct harness_trace_event *event = &job.trace.events[i];

        if (event->rank == 0 && event->entry.event == DDP_EVENT_PARAM_UPDATED &&
            event->entry.step == 2) {
            event->entry.event = DDP_EVENT_PHASE;
        }
    }
    CT_REQUIRE(oracle_job_check(&job));
    CT_CHECK(check_finding(&job, HARNESS_ORACLE_UPDATE, HARNESS_VERDICT_VALUE_DIVERGED, 0, 2) !=
             NULL);
    oracle_job_close(&job);
}

/* A rank that used another rank's batch is a matter of the ledger, not of its gradient. */
CT_TEST(oracle, foreign_batch_is_the_ledgers_finding)
{
    struct oracle_job job;
    struct harness_finding *finding;
    size_t k = 0;

    OPEN_AND_RUN(job, false);
    for (size_t i = 0; i < job.trace.event_count; i++) {
        struct harness_trace_event *event = &job.trace.events[i];

        if (event->rank == 1 && event->entry.event == DDP_EVENT_DATA_SAMPLE &&
            event->entry.step == 1 && k++ == 0) {
            event->entry.arg[0] += 1;
        }
    }
    oracle_job_event(&job, 1, DDP_EVENT_GRAD_READY, 1, 0)->arg[1] ^= 1;
    CT_REQUIRE(oracle_job_check(&job));
    CT_CHECK_EQ_U64(job.findings.count, 1);
    finding = oracle_job_finding(&job, HARNESS_ORACLE_LEDGER);
    CT_REQUIRE(finding != NULL);
    CT_CHECK(finding->verdict == HARNESS_VERDICT_DATA_MISSING ||
             finding->verdict == HARNESS_VERDICT_DATA_DUPLICATED);
    CT_CHECK(harness_rank_set_has(&finding->culprits, 1));
    CT_CHECK_EQ_I64(finding->step, 1);
    oracle_job_close(&job);
}

/* The right samples in another order are called so. */
CT_TEST(oracle, reordered_samples_are_called_so)
{
    struct oracle_job job;
    struct ddp_event_entry *first = NULL;

    OPEN_AND_RUN(job, false);
    for (size_t i = 0; i < job.trace.event_count; i++) {
        struct harness_trace_event *event = &job.trace.events[i];

        if (event->rank != 0 || event->entry.event != DDP_EVENT_DATA_SAMPLE ||
            event->entry.step != 3) {
            continue;
        }
        if (first != NULL) {
            uint64_t id = first->arg[0];

            first->arg[0] = event->entry.arg[0];
            event->entry.arg[0] = id;
            break;
        }
        first = &event->entry;
    }
    CT_REQUIRE(oracle_job_check(&job));
    CT_CHECK(check_finding(&job, HARNESS_ORACLE_LEDGER, HARNESS_VERDICT_DATA_ORDER, 0, 3) != NULL);
    oracle_job_close(&job);
}

/* A posted count that is not the planned one names rank, operation and step. */
CT_TEST(oracle, wrong_count_is_a_mismatch)
{
    struct oracle_job job;
    struct harness_finding *finding;

    OPEN_AND_RUN(job, false);
    oracle_job_event(&job, 0, DDP_EVENT_COLL_POST, 2, 1)->arg[2] = 3;
    CT_REQUIRE(oracle_job_check(&job));
    finding = check_finding(&job, HARNESS_ORACLE_PROGRAM, HARNESS_VERDICT_MISMATCH_COUNT, 0, 2);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_I64(finding->op.bucket, 1);
    oracle_job_close(&job);
}

/* A rank that was reaped without any diagnosis is not let off; with one it is excused. */
CT_TEST(oracle, reaped_rank_needs_a_diagnosis)
{
    struct oracle_job job;
    struct harness_finding diagnosis;

    OPEN_AND_RUN(job, false);
    job.trace.ends[1].how = HARNESS_END_REAPED;
    job.trace.ends[1].code = SIGKILL;
    job.trace.event_count--; /* its end is the last event of all */
    job.trace.ends[1].event_count--;
    CT_REQUIRE(oracle_job_check(&job));
    CT_CHECK(check_finding(&job, HARNESS_ORACLE_LIVENESS, HARNESS_VERDICT_HANG_HOST, 1, -1) !=
             NULL);
    harness_finding_init(&diagnosis, job.mem, HARNESS_VERDICT_HANG_HOST, HARNESS_ORACLE_MONITOR,
                         HARNESS_MODE_BUDGET);
    CT_CHECK_OK(harness_trace_add_diagnosis(&job.trace, 1, &diagnosis));
    job.findings.count = 0;
    CT_REQUIRE(oracle_job_check(&job));
    check_clean(&job);
    oracle_job_close(&job);
}

/* Unused parameters are blamed on the ranks that reports name, with those that they named. */
CT_TEST(oracle, unused_parameter_names_rank_and_parameters)
{
    struct oracle_job job;
    struct harness_finding *finding;
    const uint64_t named[5] = {2, (uint64_t)DDP_E_UNUSED_PARAMETER, 0, 0, 0};
    const uint64_t other[5] = {1, (uint64_t)DDP_E_READY_TWICE, 0, 0, 0};
    const uint64_t error[5] = {(uint32_t)DDP_E_UNUSED_PARAMETER, 1, (uint32_t)DDP_E_REVOKED, 2, 0};

    OPEN_AND_RUN(job, false);
    oracle_job_add_event(&job, 1, DDP_EVENT_PARAM_ERROR, ORACLE_JOB_STEPS, named);
    oracle_job_add_event(&job, 1, DDP_EVENT_PARAM_ERROR, ORACLE_JOB_STEPS, other);
    oracle_job_add_event(&job, 0, DDP_EVENT_RANK_ERROR, ORACLE_JOB_STEPS, error);
    CT_REQUIRE(oracle_job_check(&job));
    finding = check_finding(&job, HARNESS_ORACLE_USAGE, HARNESS_VERDICT_USAGE_UNUSED_PARAMETER, 1,
                            ORACLE_JOB_STEPS);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(finding->params.count, 1);
    CT_CHECK_EQ_U64(harness_list_at(&finding->params, 0), 2);
    CT_CHECK(strstr(finding->text, "confirms 0 of 1") != NULL);
    oracle_job_close(&job);
}

/* Whoever is told of the error may say so first, a step earlier: it is in the step of the rank that
 * it names. */
CT_TEST(oracle, error_is_of_the_step_of_the_rank_that_it_names)
{
    struct oracle_job job;
    const uint64_t told[5] = {(uint32_t)DDP_E_READY_TWICE, 1, (uint32_t)DDP_E_REVOKED, 2, 0};
    const uint64_t own[5] = {(uint32_t)DDP_E_READY_TWICE, 1, (uint32_t)DDP_E_READY_TWICE, 2, 0};

    OPEN_AND_RUN(job, false);
    oracle_job_add_event(&job, 0, DDP_EVENT_RANK_ERROR, ORACLE_JOB_STEPS, told);
    oracle_job_add_event(&job, 1, DDP_EVENT_RANK_ERROR, ORACLE_JOB_STEPS + 1, own);
    CT_REQUIRE(oracle_job_check(&job));
    CT_CHECK(check_finding(&job, HARNESS_ORACLE_USAGE, HARNESS_VERDICT_USAGE_READY_TWICE, 1,
                           ORACLE_JOB_STEPS + 1) != NULL);
    oracle_job_close(&job);
}

/* A peer's death and a revocation are what victims say: no finding. */
CT_TEST(oracle, victims_statuses_are_no_findings)
{
    struct oracle_job job;
    const uint64_t error[5] = {(uint32_t)DDP_E_PEER_DIED, 1, (uint32_t)DDP_E_PEER_DIED, 1, 0};

    const uint64_t death[5] = {1};

    OPEN_AND_RUN(job, false);
    oracle_job_add_event(&job, 0, DDP_EVENT_PEER_DIED, ORACLE_JOB_STEPS, death);
    oracle_job_add_event(&job, 0, DDP_EVENT_RANK_ERROR, ORACLE_JOB_STEPS, error);
    CT_REQUIRE(oracle_job_check(&job));
    check_clean(&job);
    oracle_job_close(&job);
}

/* As of a run that began there. */
static void drop_batches_before(struct harness_trace *trace, uint32_t step)
{
    size_t kept = 0;

    for (size_t i = 0; i < trace->event_count; i++) {
        const struct ddp_event_entry *entry = &trace->events[i].entry;

        if ((entry->event != DDP_EVENT_DATA_BATCH && entry->event != DDP_EVENT_DATA_SAMPLE) ||
            entry->step >= step) {
            trace->events[kept++] = trace->events[i];
        }
    }
    trace->event_count = kept;
}

/* A difference after a restart is state that was not restored, and only that. */
CT_TEST(oracle, difference_after_restart_is_checkpoint_state)
{
    struct oracle_job job;
    struct harness_finding *finding;

    OPEN_AND_RUN(job, true);
    job.input.restored_step = 2;
    job.input.first_trace = &job.trace;
    job.plan.job.start_step = 2;
    drop_batches_before(&job.trace, 2);
    oracle_job_event(&job, 0, DDP_EVENT_OPTIMIZER_STATE, 2, 1)->arg[1] ^= 1;
    oracle_job_event(&job, 1, DDP_EVENT_OPTIMIZER_STATE, 2, 1)->arg[1] ^= 1;
    CT_REQUIRE(oracle_job_check(&job));
    CT_CHECK_EQ_U64(job.findings.count, 1);
    finding = oracle_job_finding(&job, HARNESS_ORACLE_RESTORE);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_STR(harness_verdict_name(finding->verdict), "CHECKPOINT.STATE");
    CT_CHECK_EQ_I64(finding->step, 2);
    CT_CHECK_EQ_U64(harness_list_at(&finding->params, 0), 1);
    oracle_job_close(&job);
}

/* Without the schedules a reduced bucket cannot be judged, and that is said. */
CT_TEST(oracle, missing_schedules_are_lost_evidence)
{
    struct oracle_job job;

    OPEN_AND_RUN(job, false);
    job.input.run_dir = NULL;
    CT_REQUIRE(oracle_job_check(&job));
    CT_CHECK(job.findings.is_evidence_lost);
    oracle_job_close(&job);
}

/* A schedule that loses a contribution is refused by proof, and what it computes lies outside the
 * bound around the global batch's mean, although every rank did what the schedule says. */
CT_TEST(oracle, losing_schedule_is_proven_and_out_of_bounds)
{
    struct oracle_job job;
    struct harness_finding *finding;

    OPEN_AND_RUN(job, false);
    for (size_t b = 0; b < job.program.first.count; b++) {
        size_t count = job.program.first.items[b].elem_count;
        char path[256];
        FILE *file;

        (void)snprintf(path, sizeof(path), "%s/schedules/n%zu.r0.txt", job.run_dir, count);
        file = fopen(path, "w");
        CT_REQUIRE(file != NULL);
        (void)fprintf(file,
                      "schedule 1 kind=all_reduce algorithm=ring rank=0 size=2 count=%zu "
                      "dtype=f32 root=0 in_place=1\n"
                      "0 round=0 recv peer=1 dst=out:0+%zu deps=\n"
                      "1 round=1 send peer=1 src=out:0+%zu deps=0\nend\n",
                      count, count, count);
        (void)fclose(file);
    }
    CT_REQUIRE(oracle_job_check(&job));
    finding = oracle_job_finding(&job, HARNESS_ORACLE_GLOBAL_BATCH);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_U64(finding->mode, HARNESS_MODE_BOUND);
    CT_CHECK_EQ_I64(finding->step, 0);
    CT_CHECK_STR(harness_verdict_name(job.findings.items[0].verdict), "VALUE.LOST");
    CT_CHECK_EQ_U64(job.findings.items[0].oracle, HARNESS_ORACLE_SCHEDULE);
    oracle_job_close(&job);
}

/* A checkpoint that was said to be saved and is not there, or is cut short, is torn. */
CT_TEST(oracle, absent_or_short_checkpoint_is_torn)
{
    struct oracle_job job;
    struct harness_finding *finding;
    const uint64_t save[5] = {4, 1, 100, 0, 0};
    char path[256];
    FILE *file;

    OPEN_AND_RUN(job, false);
    oracle_job_add_event(&job, 0, DDP_EVENT_CHECKPOINT_SAVED, ORACLE_JOB_STEPS, save);
    CT_REQUIRE(oracle_job_check(&job));
    finding = oracle_job_finding(&job, HARNESS_ORACLE_CHECKPOINT);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_STR(harness_verdict_name(finding->verdict), "CHECKPOINT.TORN");
    (void)snprintf(path, sizeof(path), "%s/checkpoint.safetensors", job.run_dir);
    file = fopen(path, "w");
    CT_REQUIRE(file != NULL);
    CT_CHECK_EQ_U64(fwrite("\x40\0\0\0\0\0\0\0{", 1, 9, file), 9);
    (void)fclose(file);
    job.findings.count = 0;
    CT_REQUIRE(oracle_job_check(&job));
    finding = oracle_job_finding(&job, HARNESS_ORACLE_CHECKPOINT);
    CT_REQUIRE(finding != NULL);
    CT_CHECK_STR(harness_verdict_name(finding->verdict), "CHECKPOINT.TORN");
    oracle_job_close(&job);
}
