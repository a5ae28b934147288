/* The happens-before oracle among the others: what it adds to a job's findings, and when it stays
 * silent. Device work is added to the record of a job that is right. */
#include <stdio.h>
#include <string.h>

#include "ddpcore/seam/access.h"
#include "harness/judge/judge.h"
#include "tests/ct.h"
#include "tests/unit/oracle/oracle_job.h"

enum { COMPUTE = 0, COMM = 1, READY = 0, REDUCED = 1, BUCKET = 5 };

static void add(struct oracle_job *job, uint32_t rank, enum ddp_event event, uint64_t a0,
                uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4)
{
    const uint64_t arg[5] = {a0, a1, a2, a3, a4};

    oracle_job_add_event(job, rank, event, ORACLE_JOB_STEPS, arg);
}

/* A reduction of bucket 1 whose all-reduce waits for the gradients, or does not. */
static void add_reduction(struct oracle_job *job, uint32_t rank, bool is_waiting)
{
    add(job, rank, DDP_EVENT_DEVICE_NAME, DDP_RANGE_BUCKET, 1, BUCKET, 0, 64);
    add(job, rank, DDP_EVENT_DEVICE_ACCESS, COMPUTE, BUCKET, 0, 64, DDP_ACCESS_WRITE);
    add(job, rank, DDP_EVENT_EVENT_RECORD, READY, COMPUTE, 0, 0, 0);
    if (is_waiting) {
        add(job, rank, DDP_EVENT_EVENT_WAIT, READY, COMM, 0, 0, 0);
    }
    add(job, rank, DDP_EVENT_DEVICE_ACCESS, COMM, BUCKET, 0, 64, DDP_ACCESS_COLL_READ);
    add(job, rank, DDP_EVENT_DEVICE_ACCESS, COMM, BUCKET, 0, 64, DDP_ACCESS_COLL_WRITE);
}

static bool open_and_run(struct oracle_job *job)
{
    return oracle_job_open(job, false) && oracle_job_run(job);
}

/* Work in order adds nothing to a right job. */
CT_TEST(oracle_order, ordered_work_is_clean)
{
    struct oracle_job job;

    CT_REQUIRE(open_and_run(&job));
    add(&job, 0, DDP_EVENT_DEVICE_ACCESS, COMPUTE, BUCKET, 0, 64, DDP_ACCESS_WRITE);
    CT_REQUIRE(oracle_job_check(&job));
    CT_CHECK_EQ_U64(job.findings.count, 0);
    CT_CHECK(!job.findings.is_evidence_lost);
    oracle_job_close(&job);
}

/* One rank's missing wait blames that rank; the same on both is one finding about both. */
CT_TEST(oracle_order, a_missing_wait_blames_its_ranks)
{
    for (int both = 0; both < 2; both++) {
        struct oracle_job job;
        struct harness_finding *finding;

        CT_REQUIRE(open_and_run(&job));
        add_reduction(&job, 0, both == 0);
        add_reduction(&job, 1, false);
        CT_REQUIRE(oracle_job_check(&job));
        finding = oracle_job_finding(&job, HARNESS_ORACLE_HAPPENS_BEFORE);
        CT_REQUIRE(finding != NULL);
        CT_CHECK_EQ_U64(job.findings.count, 1);
        CT_CHECK_EQ_U64(finding->verdict, HARNESS_VERDICT_USAGE_UNORDERED);
        CT_CHECK_EQ_U64(harness_rank_set_has(&finding->culprits, 0), both == 1);
        CT_CHECK(harness_rank_set_has(&finding->culprits, 1));
        CT_CHECK_EQ_I64(finding->step, ORACLE_JOB_STEPS);
        CT_CHECK_EQ_I64(finding->op.bucket, 1);
        CT_CHECK_EQ_U64(finding->params.count, job.program.first.items[1].param_count);
        CT_CHECK(strncmp(finding->text, "bucket 1", 8) == 0);
        oracle_job_close(&job);
    }
}

/* With a hole in the record nothing is said: the wait may be what is missing. */
CT_TEST(oracle_order, lost_entries_prove_nothing)
{
    struct oracle_job job;

    CT_REQUIRE(open_and_run(&job));
    add_reduction(&job, 1, false);
    job.trace.lost_count = 1;
    CT_REQUIRE(oracle_job_check(&job));
    CT_CHECK_EQ_U64(job.findings.count, 0);
    oracle_job_close(&job);
}

/* A GPU's rank that reduced and recorded no device work at all was not observed. */
CT_TEST(oracle_order, a_silent_device_is_no_pass)
{
    for (int is_cuda = 0; is_cuda < 2; is_cuda++) {
        struct oracle_job job;

        CT_REQUIRE(open_and_run(&job));
        job.plan.job.device = is_cuda ? HARNESS_DEVICE_CUDA : HARNESS_DEVICE_CPU;
        CT_REQUIRE(oracle_job_check(&job));
        CT_CHECK_EQ_U64(job.findings.count, 0);
        CT_CHECK(job.findings.is_evidence_lost == (is_cuda == 1));
        CT_CHECK(!is_cuda || strstr(job.findings.lost_text, "recorded no access to it") != NULL);
        oracle_job_close(&job);
    }
}

/* Where collectives are recorded at all, a bucket that was reduced without a trace in memory is
 * missing evidence; so it is on NCCL even if none is recorded. */
CT_TEST(oracle_order, an_unseen_reduction_is_no_pass)
{
    for (int how = 0; how < 3; how++) {
        struct oracle_job job;
        struct ddp_event_entry *post;
        char text[128];

        CT_REQUIRE(open_and_run(&job));
        post = oracle_job_event(&job, 1, DDP_EVENT_COLL_POST, 0, 1);
        CT_REQUIRE(post != NULL);
        add(&job, 1, DDP_EVENT_DEVICE_NAME, DDP_RANGE_BUCKET, 1, BUCKET, 0, 64);
        add(&job, 1, DDP_EVENT_DEVICE_ACCESS, COMPUTE, BUCKET, 0, 64, DDP_ACCESS_WRITE);
        if (how == 1) {
            add(&job, 1, DDP_EVENT_DEVICE_ACCESS, COMM, BUCKET + 1, 0, 4, DDP_ACCESS_COLL_READ);
        } else if (how == 2) {
            job.plan.job.collective.engine = HARNESS_ENGINE_NCCL;
        }
        CT_REQUIRE(oracle_job_check(&job));
        CT_CHECK_EQ_U64(job.findings.count, 0);
        CT_CHECK_EQ_U64(job.findings.is_evidence_lost, how > 0);
        if (how > 0) {
            (void)snprintf(text, sizeof text,
                           "rank 1 reduced bucket 1 (seq %llu) and recorded no access to it",
                           (unsigned long long)post->arg[0]);
            CT_CHECK_STR(job.findings.lost_text, text);
        }
        oracle_job_close(&job);
    }
}
