/* The simulator with faults: how ranks end, and what the monitor reports. */
#include <signal.h>
#include <string.h>

#include "tests/ct.h"
#include "tests/unit/sim/sim_job.h"

/* The culprit set of the first finding is exactly this rank. */
static bool is_blamed(const struct sim_job *job, uint32_t rank)
{
    const struct harness_finding *finding = job->trace.diagnoses.items;

    return job->trace.diagnoses.count > 0 && harness_rank_set_has(&finding->culprits, rank) &&
           harness_rank_set_count(&finding->culprits) == 1;
}

static enum harness_verdict first_verdict(const struct sim_job *job)
{
    return job->trace.diagnoses.count == 0 ? HARNESS_VERDICT_NONE
                                           : job->trace.diagnoses.items[0].verdict;
}

/* A rank killed inside a bucket's all-reduce: it is named, and every survivor says PEER_DIED. */
CT_TEST(sim_fault, kill_in_all_reduce)
{
    struct sim_job job;
    struct harness_fault *fault;

    sim_job_init(&job, 4);
    fault = sim_job_fault(&job, 1, DDP_FAULT_POINT_COLLECTIVE_ENQUEUE, HARNESS_ACTION_KILL);
    fault->at.step = 2;
    fault->at.bucket = 1;
    CT_REQUIRE_OK(sim_job_run(&job));
    CT_CHECK(job.trace.ends[1].how == HARNESS_END_SIGNALED && job.trace.ends[1].code == SIGKILL);
    CT_CHECK_STATUS(sim_job_status(&job, 1), DDP_PENDING);
    for (uint32_t rank = 0; rank < 4; rank++) {
        if (rank != 1) {
            CT_CHECK_STATUS(sim_job_status(&job, rank), DDP_E_PEER_DIED);
            CT_CHECK(job.trace.ends[rank].how == HARNESS_END_EXITED);
        }
    }
    CT_CHECK_EQ_U64(sim_job_count(&job, 1, DDP_EVENT_FAULT_FIRED), 1);
    CT_CHECK_EQ_U64(job.trace.lost_count, 0);
    CT_CHECK_EQ_U64(job.stats.leaked_block_count, 0);
    CT_CHECK(first_verdict(&job) == HARNESS_VERDICT_CRASH_SIGNALED && is_blamed(&job, 1));
    sim_job_fini(&job);
}

/* Two ranks that die before they reach the store are both named. */
CT_TEST(sim_fault, two_dead_ranks_are_named)
{
    struct sim_job job;

    sim_job_init(&job, 4);
    (void)sim_job_fault(&job, 1, DDP_FAULT_POINT_LAUNCH_SPAWN, HARNESS_ACTION_KILL);
    (void)sim_job_fault(&job, 3, DDP_FAULT_POINT_LAUNCH_SPAWN, HARNESS_ACTION_KILL);
    CT_REQUIRE_OK(sim_job_run(&job));
    CT_CHECK(first_verdict(&job) == HARNESS_VERDICT_CRASH_SIGNALED);
    CT_REQUIRE(job.trace.diagnoses.count > 0);
    CT_CHECK(harness_rank_set_has(&job.trace.diagnoses.items[0].culprits, 1));
    CT_CHECK(harness_rank_set_has(&job.trace.diagnoses.items[0].culprits, 3));
    CT_CHECK_EQ_U64(harness_rank_set_count(&job.trace.diagnoses.items[0].culprits), 2);
    CT_CHECK_STATUS(sim_job_status(&job, 0), DDP_E_PEER_DIED);
    sim_job_fini(&job);
}

/* A rank that exits in the middle of a step is distinguished from one that was killed. */
CT_TEST(sim_fault, exit_in_forward)
{
    struct sim_job job;
    struct harness_fault *fault;

    sim_job_init(&job, 3);
    fault = sim_job_fault(&job, 2, DDP_FAULT_POINT_FORWARD_LAYER, HARNESS_ACTION_EXIT);
    fault->at.step = 1;
    fault->at.layer = 1;
    fault->action.exit_code = 3;
    CT_REQUIRE_OK(sim_job_run(&job));
    CT_CHECK(job.trace.ends[2].how == HARNESS_END_EXITED && job.trace.ends[2].code == 3);
    CT_CHECK_STATUS(sim_job_status(&job, 0), DDP_E_PEER_DIED);
    CT_CHECK_STATUS(sim_job_status(&job, 1), DDP_E_PEER_DIED);
    CT_CHECK(is_blamed(&job, 2));
    sim_job_fini(&job);
}

/* A rank stopped for ever is named, and is ended by the harness at last. */
CT_TEST(sim_fault, stopped_rank_is_reaped)
{
    struct sim_job job;
    struct harness_fault *fault;

    sim_job_init(&job, 3);
    fault = sim_job_fault(&job, 0, DDP_FAULT_POINT_BUCKET_LAUNCH, HARNESS_ACTION_STOP);
    fault->at.step = 1;
    CT_REQUIRE_OK(sim_job_run(&job));
    CT_CHECK(job.trace.ends[0].how == HARNESS_END_REAPED && job.trace.ends[0].is_stopped);
    CT_CHECK(first_verdict(&job) == HARNESS_VERDICT_HANG_STOPPED && is_blamed(&job, 0));
    sim_job_fini(&job);
}

/* A slow rank delays the others; no rank fails. */
CT_TEST(sim_fault, delayed_rank_goes_on)
{
    struct sim_job job;
    struct harness_fault *fault;

    sim_job_init(&job, 2);
    fault = sim_job_fault(&job, 0, DDP_FAULT_POINT_LOSS, HARNESS_ACTION_DELAY);
    fault->at.step = 1;
    fault->action.delay_ms = 30;
    CT_REQUIRE_OK(sim_job_run(&job));
    CT_CHECK_STATUS(sim_job_status(&job, 0), DDP_OK);
    CT_CHECK_STATUS(sim_job_status(&job, 1), DDP_OK);
    CT_CHECK(job.trace.end_ns >= 30 * DDP_NS_PER_MS);
    CT_CHECK_EQ_U64(sim_job_param_hash(&job, 0), sim_job_param_hash(&job, 1));
    sim_job_fini(&job);
}

/* A rank that is stopped and continued is called stopped, and ends well all the same. */
CT_TEST(sim_fault, continued_rank_goes_on)
{
    struct sim_job job;
    struct harness_fault *fault;

    sim_job_init(&job, 2);
    fault = sim_job_fault(&job, 0, DDP_FAULT_POINT_COLLECTIVE_WAIT, HARNESS_ACTION_STOP);
    fault->at.step = 1;
    fault->action.stop_ms = 40;
    CT_REQUIRE_OK(sim_job_run(&job));
    CT_CHECK_STATUS(sim_job_status(&job, 0), DDP_OK);
    CT_CHECK_STATUS(sim_job_status(&job, 1), DDP_OK);
    CT_CHECK(!job.trace.ends[0].is_stopped && job.trace.end_ns >= 40 * DDP_NS_PER_MS);
    sim_job_fini(&job);
}

/* A batch that a fault loses is replaced by the next one; nothing else changes course. */
CT_TEST(sim_fault, lost_batch_moves_the_rest_up)
{
    struct sim_job clean, lossy;
    struct harness_fault *fault;

    sim_job_init(&clean, 2);
    sim_job_init(&lossy, 2);
    fault = sim_job_fault(&lossy, 1, DDP_FAULT_POINT_DATA_NEXT, HARNESS_ACTION_SKIP);
    fault->at.step = 3;
    clean.plan.job.steps = 5;
    CT_REQUIRE_OK(sim_job_run(&clean));
    CT_REQUIRE_OK(sim_job_run(&lossy));
    CT_CHECK_STATUS(sim_job_status(&lossy, 1), DDP_OK);
    CT_CHECK_EQ_U64(sim_job_last(&lossy, 1, DDP_EVENT_DATA_BATCH, 1),
                    sim_job_last(&clean, 1, DDP_EVENT_DATA_BATCH, 1));
    CT_CHECK_EQ_U64(sim_job_count(&lossy, 1, DDP_EVENT_OP_SKIPPED), 1);
    sim_job_fini(&clean);
    sim_job_fini(&lossy);
}

/* A rank that skips its optimizer step drifts from the others. */
CT_TEST(sim_fault, skipped_update_diverges)
{
    struct sim_job job;
    struct harness_fault *fault;

    sim_job_init(&job, 2);
    fault = sim_job_fault(&job, 1, DDP_FAULT_POINT_OPTIMIZER_PRE, HARNESS_ACTION_SKIP);
    fault->at.step = 2;
    CT_REQUIRE_OK(sim_job_run(&job));
    CT_CHECK_STATUS(sim_job_status(&job, 0), DDP_OK);
    CT_CHECK(sim_job_param_hash(&job, 0) != sim_job_param_hash(&job, 1));
    sim_job_fini(&job);
}

/* Not looking for unused parameters is misuse: every rank says so in the same step. */
CT_TEST(sim_fault, unused_parameter_ends_all_ranks)
{
    struct sim_job job;

    sim_job_init(&job, 3);
    sim_job_use_branchy(&job);
    job.plan.job.branch = REF_BRANCH_RANK_SKIPS;
    job.plan.job.skip_rank = 2;
    CT_REQUIRE_OK(sim_job_run(&job));
    for (uint32_t rank = 0; rank < 3; rank++) {
        CT_CHECK_STATUS(sim_job_status(&job, rank), DDP_E_UNUSED_PARAMETER);
        CT_CHECK_EQ_U64(sim_job_count(&job, rank, DDP_EVENT_PARAM_UPDATED), 0);
    }
    CT_CHECK_EQ_U64(job.stats.leaked_block_count, 0);
    sim_job_fini(&job);
}

/* A rank that hangs in host code is found when its phase's budget ends, though no wait has a
 * limit. */
CT_TEST(sim_fault, hang_without_timeouts_is_found)
{
    struct sim_job job;
    struct harness_fault *fault;

    sim_job_init(&job, 2);
    job.plan.job.timeout_ns = 0;
    fault = sim_job_fault(&job, 1, DDP_FAULT_POINT_LOSS, HARNESS_ACTION_HANG);
    fault->at.step = 1;
    CT_REQUIRE_OK(sim_job_run(&job));
    CT_CHECK(job.trace.ends[0].how == HARNESS_END_REAPED &&
             job.trace.ends[1].how == HARNESS_END_REAPED);
    CT_CHECK(first_verdict(&job) != HARNESS_VERDICT_NONE && is_blamed(&job, 1));
    sim_job_fini(&job);
}

/* The monitor keeps the cut in which it named the culprit: the same bytes for the same seed, and
 * nothing of a job that it had nothing to say of. */
CT_TEST(sim_fault, culprits_are_pictured)
{
    struct sim_job a, b, healthy;

    sim_job_init(&a, 3);
    sim_job_init(&b, 3);
    sim_job_init(&healthy, 3);
    sim_job_fault(&a, 1, DDP_FAULT_POINT_LOSS, HARNESS_ACTION_HANG)->at.step = 1;
    sim_job_fault(&b, 1, DDP_FAULT_POINT_LOSS, HARNESS_ACTION_HANG)->at.step = 1;
    CT_REQUIRE_OK(sim_job_run(&a));
    CT_REQUIRE_OK(sim_job_run(&b));
    CT_REQUIRE_OK(sim_job_run(&healthy));
    CT_CHECK(strncmp(ddp_text_str(&a.trace.graph), "HANG.NOT_JOINED (budget) ", 25) == 0);
    CT_CHECK(strstr(ddp_text_str(&a.trace.graph), "\nr1 (culprit) running, in step 1, loss; ") !=
             NULL);
    CT_CHECK(strstr(ddp_text_str(&a.trace.graph), "\nr2 waits for r1: all_reduce seq ") != NULL);
    CT_CHECK_STR(ddp_text_str(&a.trace.graph), ddp_text_str(&b.trace.graph));
    CT_CHECK_STR(ddp_text_str(&healthy.trace.graph), "");
    sim_job_fini(&a);
    sim_job_fini(&b);
    sim_job_fini(&healthy);
}

/* A shorter count on one rank ends the job on all ranks before any optimizer step. */
CT_TEST(sim_fault, mismatched_count_ends_all_ranks)
{
    struct sim_job job;
    struct harness_fault *fault;

    sim_job_init(&job, 3);
    fault = sim_job_fault(&job, 1, DDP_FAULT_POINT_COLLECTIVE_PRE, HARNESS_ACTION_ARG);
    fault->at.step = 1;
    fault->at.bucket = 0;
    fault->action.arg = HARNESS_ARG_COUNT;
    fault->action.arg_value = 10;
    CT_REQUIRE_OK(sim_job_run(&job));
    for (uint32_t rank = 0; rank < 3; rank++) {
        CT_CHECK_STATUS(sim_job_status(&job, rank), DDP_E_MISMATCH);
        CT_CHECK_EQ_U64(sim_job_count(&job, rank, DDP_EVENT_PARAM_UPDATED), job.param_count);
    }
    CT_CHECK_EQ_U64(job.stats.leaked_block_count, 0);
    sim_job_fini(&job);
}

/* A corrupted local gradient changes all replicas alike: the all-reduce spreads it. */
CT_TEST(sim_fault, corrupt_gradient_spreads)
{
    struct sim_job clean, corrupt;
    struct harness_fault *fault;

    sim_job_init(&clean, 2);
    sim_job_init(&corrupt, 2);
    fault = sim_job_fault(&corrupt, 1, DDP_FAULT_POINT_BUCKET_FILL, HARNESS_ACTION_CORRUPT);
    fault->at.step = 1;
    fault->action.corrupt = HARNESS_CORRUPT_DOUBLE;
    CT_REQUIRE_OK(sim_job_run(&clean));
    CT_REQUIRE_OK(sim_job_run(&corrupt));
    CT_CHECK(sim_job_param_hash(&corrupt, 0) != sim_job_param_hash(&clean, 0));
    CT_CHECK_EQ_U64(sim_job_param_hash(&corrupt, 0), sim_job_param_hash(&corrupt, 1));
    sim_job_fini(&clean);
    sim_job_fini(&corrupt);
}

/* A rank with another model is refused at construction, by all ranks. */
CT_TEST(sim_fault, drifted_model_is_refused)
{
    struct harness_fault *fault;
    struct sim_job job;

    sim_job_init(&job, 3);
    fault = sim_job_fault(&job, 2, DDP_FAULT_POINT_MODEL_BUILD, HARNESS_ACTION_CORRUPT);
    fault->action.corrupt = HARNESS_CORRUPT_SET;
    fault->action.value = 17;
    CT_REQUIRE_OK(sim_job_run(&job));
    for (uint32_t rank = 0; rank < 3; rank++) {
        CT_CHECK_STATUS(sim_job_status(&job, rank), DDP_E_MODEL);
    }
    CT_CHECK_EQ_U64(sim_job_count(&job, 2, DDP_EVENT_FAULT_FIRED), 1);
    CT_CHECK_EQ_U64(job.stats.leaked_block_count, 0);
    sim_job_fini(&job);
}

/* No layer is as wide as a fault may ask for: the rank ends with an error of its own. */
CT_TEST(sim_fault, absurd_widths_are_refused)
{
    static const double widths[] = {1e12, -1};

    for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
        struct harness_fault *fault;
        struct sim_job job;

        sim_job_init(&job, 2);
        fault = sim_job_fault(&job, 1, DDP_FAULT_POINT_MODEL_BUILD, HARNESS_ACTION_CORRUPT);
        fault->action.corrupt = HARNESS_CORRUPT_SET;
        fault->action.value = widths[i];
        CT_REQUIRE_OK(sim_job_run(&job));
        CT_CHECK_STATUS(sim_job_status(&job, 1), DDP_E_INVALID);
        sim_job_fini(&job);
    }
}

/* Uneven shards without join: the rank that ran out posts another operation than its peers. */
CT_TEST(sim_fault, uneven_data_without_join_is_found)
{
    struct sim_job job;

    sim_job_init(&job, 3);
    job.plan.job.shard_sizes = job.shard;
    job.shard[2] = 16;
    CT_REQUIRE_OK(sim_job_run(&job));
    CT_CHECK(first_verdict(&job) != HARNESS_VERDICT_NONE && is_blamed(&job, 2));
    CT_CHECK_EQ_U64(sim_job_count(&job, 2, DDP_EVENT_LOSS), 2);
    CT_CHECK(sim_job_status(&job, 0) != DDP_OK);
    sim_job_fini(&job);
}

/* Faults at every point of a rank's life leave no memory behind and never hang the simulator. */
CT_TEST(sim_fault, every_point_can_kill_and_fail)
{
    static const enum harness_action_kind kinds[2] = {HARNESS_ACTION_KILL, HARNESS_ACTION_FAIL};

    for (int point = 0; point < DDP_FAULT_POINT_COUNT; point++) {
        for (size_t kind = 0; kind < 2; kind++) {
            struct sim_job job;

            sim_job_init(&job, 3);
            (void)sim_job_fault(&job, 1, (enum ddp_fault_point)point, kinds[kind]);
            CT_REQUIRE_OK(sim_job_run(&job));
            CT_CHECK_EQ_U64(job.stats.leaked_block_count, 0);
            CT_CHECK_EQ_U64(job.trace.lost_count, 0);
            if (sim_job_count(&job, 1, DDP_EVENT_FAULT_FIRED) > 0) {
                CT_CHECK(sim_job_status(&job, 1) != DDP_OK);
            }
            sim_job_fini(&job);
        }
    }
}
