/* What the schedule oracle takes from the trace: where a wrong schedule was used first, whether the
 * schedule that ran is that of the operation, and whether anybody completed it alone. */
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/oracle/oracle_job.h"

static const struct harness_finding *open_and_check(struct oracle_job *job,
                                                    void (*damage)(struct oracle_job *job))
{
    CT_CHECK(oracle_job_open(job, false));
    CT_CHECK(oracle_job_run(job));
    damage(job);
    CT_CHECK(oracle_job_check(job));
    return oracle_job_finding(job, HARNESS_ORACLE_SCHEDULE);
}

static void complete_too_early(struct oracle_job *job)
{
    oracle_job_event(job, 1, DDP_EVENT_COLL_DONE, 2, 1)->time_ns = 0;
}

static void complete_in_time(struct oracle_job *job)
{
    /* Of two ranks, 1 posted later. */
    const struct ddp_event_entry *post = oracle_job_event(job, 1, DDP_EVENT_COLL_POST, 2, 1);

    oracle_job_event(job, 1, DDP_EVENT_COLL_DONE, 2, 1)->time_ns = post->time_ns;
}

static void complete_never(struct oracle_job *job)
{
    struct ddp_event_entry *done = oracle_job_event(job, 1, DDP_EVENT_COLL_DONE, 2, 1);

    done->time_ns = 0;
    done->arg[3] = (uint64_t)DDP_E_REVOKED;
}

/* A rank that completes a bucket before the other one posted it is named, with the bucket. One that
 * completes it at the same time, or that was told to give up, is not. */
CT_TEST(oracle_schedule, nobody_completes_alone)
{
    struct oracle_job job;
    const struct harness_finding *finding = open_and_check(&job, complete_too_early);

    CT_REQUIRE(finding != NULL);
    CT_CHECK_EQ_I64(finding->verdict, HARNESS_VERDICT_VALUE_LOST);
    CT_CHECK(harness_rank_set_has(&finding->culprits, 1));
    CT_CHECK_EQ_U64(harness_rank_set_count(&finding->culprits), 1);
    CT_CHECK_EQ_I64(finding->step, 2);
    CT_CHECK_EQ_I64(finding->op.bucket, 1);
    CT_CHECK(strstr(finding->text, "before rank 0 had posted it") != NULL);
    oracle_job_close(&job);
    CT_CHECK(open_and_check(&job, complete_in_time) == NULL);
    oracle_job_close(&job);
    CT_CHECK(open_and_check(&job, complete_never) == NULL);
    oracle_job_close(&job);
}

static void lose_events(struct oracle_job *job)
{
    complete_too_early(job);
    job->trace.lost_count = 1;
}

/* With lost events a missing post proves nothing. */
CT_TEST(oracle_schedule, lost_events_prove_nothing)
{
    struct oracle_job job;

    CT_CHECK(open_and_check(&job, lose_events) == NULL);
    oracle_job_close(&job);
}
